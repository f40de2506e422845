"""Notebook files as data: their cells and order, and what their saved outputs are worth.

Cells are counted from 1 over all cells of the source, as a reader counts them; papermill's own do not count.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ADDED = {"injected-parameters", "papermill-error-cell-tag"}  # tags of the cells that papermill adds
# What differs between two runs of the same code: durations, clock times, dates with times, memory addresses.
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?\S*|\b\d+:\d\d(:\d\d)?\b|0x[0-9a-fA-F]+"
    r"|\b\d+(\.\d+)?\s*(ns|[uµ]s|ms|s|sec|seconds?|min|minutes?|h|hours?)\b"
)


class StudyError(ValueError):
    """What keeps a study from being run, with its remedy."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the source with its number, from 1; `raw` is all that the file says about it."""

    number: int
    is_code: bool
    source: str
    tags: list[str]
    raw: Mapping[str, Any]


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook as plain data."""
    with suppress(ValueError):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(notebook, dict) and notebook.get("nbformat") == 4:
            return notebook
    raise StudyError(f"{path} is not a notebook of format 4: open it in JupyterLab and save it again")


def cells_of(notebook: Mapping[str, Any]) -> list[Cell]:
    """The cells that a reader wrote, in order."""
    cells: list[Cell] = []
    for raw in notebook["cells"]:
        tags = raw.get("metadata", {}).get("tags", [])
        if not _ADDED & set(tags):
            cells.append(Cell(len(cells) + 1, raw["cell_type"] == "code", "".join(raw["source"]), tags, raw))
    return cells


def map_text(value: Any, rewrite: Callable[[str], str]) -> Any:
    """The same nested lists and mappings with every text (keys left alone) passed through `rewrite`."""
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, Mapping):
        return {key: map_text(item, rewrite) for key, item in value.items()}
    return [map_text(item, rewrite) for item in value] if isinstance(value, list) else value


def by_number(name: str) -> tuple[float, str]:
    """The key that sorts names by number, then by what follows: `2_filters` before `02b_enrich` before `10_arena`."""
    rest = name.lstrip("0123456789")
    digits = name.removesuffix(rest)
    return (int(digits) if digits else float("inf"), rest)


def execution_order(notebook: Mapping[str, Any]) -> str:
    """What the saved execution counts say about the run that they come from.

    Returns:
        "clean" (1, 2, 3, ... over all code cells that hold code), "not all run", "repeated", "does not start at 1",
        "out of order" or "skips a number".
    """
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]
    counts = [cell.get("execution_count") for cell in code]
    verdicts = {
        "not all run": None in counts,
        "repeated": len(set(counts)) < len(counts),
        "does not start at 1": counts[:1] != [1],
        "out of order": None not in counts and counts != sorted(counts),
        "skips a number": counts != list(range(1, len(counts) + 1)),
    }
    return next((verdict for verdict, holds in verdicts.items() if holds and counts), "clean")


def differing_outputs(saved: Mapping[str, Any], fresh: Mapping[str, Any]) -> list[str]:
    """Cells whose saved text outputs are not those of a fresh run; durations, times and memory addresses may differ."""
    before, after = ([_shown(cell) for cell in notebook["cells"]] for notebook in (saved, fresh))
    if len(before) != len(after):
        return [f"{len(before)} cells saved, {len(after)} run afresh"]
    return [f"cell {n} differs" for n, (a, b) in enumerate(zip(before, after, strict=True), start=1) if a != b]


def _shown(cell: Mapping[str, Any]) -> str:
    """All text that the cell shows, with what may differ struck out."""
    parts = []
    for output in cell.get("outputs", ()):
        parts += [output.get("text", ""), output.get("data", {}).get("text/plain", ""), output.get("evalue", "")]
    return _VOLATILE.sub("*", "\n".join("".join(part) for part in parts))
