"""Notebook files as data: reading them, their order, and what their saved outputs are worth.

Cells are counted from 1 over all cells of the source, as a reader counts them; papermill's own do not count.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INJECTED, ERROR_MARK = "injected-parameters", "papermill-error-cell-tag"
"""Tags of the cells that papermill adds."""

# What differs between two runs of the same code: durations, clock times, dates with times, memory addresses.
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?\S*|\b\d+:\d\d(:\d\d)?\b|0x[0-9a-fA-F]+"
    r"|\b\d+(\.\d+)?\s*(ns|[uµ]s|ms|s|sec|seconds?|min|minutes?|h|hours?)\b"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the source with its number, from 1, and all that the file says about it."""

    number: int
    raw: Mapping[str, Any]

    @property
    def is_code(self) -> bool:
        """Whether it holds code, blank or not."""
        return self.raw["cell_type"] == "code"

    @property
    def source(self) -> str:
        """Its text."""
        return "".join(self.raw["source"])

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Tags and what tools noted; empty where the file has none."""
        return self.raw.get("metadata", {})

    @property
    def first_line(self) -> str:
        """The first line that is not blank."""
        return next((line.strip() for line in self.source.splitlines() if line.strip()), "")


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook as plain data.

    Raises:
        ValueError: Not a notebook of format 4, naming the file.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if notebook["nbformat"] == 4 and isinstance(notebook["cells"], list):
            return notebook
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        pass
    raise ValueError(f"{path} is not a notebook of format 4: open it in JupyterLab and save it again")


def cells_of(notebook: Mapping[str, Any]) -> list[Cell]:
    """The cells that a reader wrote, in order."""
    added = {INJECTED, ERROR_MARK}
    own = [cell for cell in notebook["cells"] if not added & set(cell.get("metadata", {}).get("tags", ()))]
    return [Cell(number, cell) for number, cell in enumerate(own, start=1)]


def in_order(names: Sequence[str]) -> list[str]:
    """File names by their number, then by what follows it: `2_filters` before `02b_enrich` before `10_arena`."""

    def key(name: str) -> tuple[float, str]:
        number, rest = re.match(r"(\d*)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]  # always matches
        return (int(number) if number else float("inf"), rest)

    return sorted(names, key=key)


def execution_order(notebook: Mapping[str, Any]) -> str:
    """What the saved execution counts say about the run that they come from.

    Returns:
        "clean" (1, 2, 3, ... over all code cells that hold code), "not all run", "does not start at 1", "repeated",
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
    before, after = ([_text(cell) for cell in notebook["cells"]] for notebook in (saved, fresh))
    if len(before) != len(after):
        return [f"{len(before)} cells saved, {len(after)} run afresh"]
    return [f"cell {n} differs" for n, (a, b) in enumerate(zip(before, after, strict=True), start=1) if a != b]


def without_noise(notebook: Mapping[str, Any], rewrite: Callable[[str], str]) -> dict[str, Any]:
    """An executed notebook for readers: no times, widths, random ids or widget states; every text through `rewrite`."""
    cells = []
    for cell in notebook["cells"]:
        tags = cell.get("metadata", {}).get("tags", [])
        kept = {**cell, "metadata": {"tags": tags} if tags else {}}
        cells.append(kept | {"id": INJECTED} if INJECTED in tags else kept)
    metadata = {name: value for name, value in notebook["metadata"].items() if name in ("kernelspec", "language_info")}
    return map_text({**notebook, "cells": cells, "metadata": metadata}, rewrite)


def map_text(value: Any, rewrite: Callable[[str], str]) -> Any:
    """The same nested lists and mappings with every text (keys left alone) passed through `rewrite`."""
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, Mapping):
        return {key: map_text(item, rewrite) for key, item in value.items()}
    if isinstance(value, list):
        return [map_text(item, rewrite) for item in value]
    return value


def _text(cell: Mapping[str, Any]) -> str:
    """All text that the cell shows, with what may differ struck out."""
    shown = []
    for output in cell.get("outputs", ()):
        shown += [output.get("text", ""), output.get("data", {}).get("text/plain", ""), output.get("evalue", "")]
    return _VOLATILE.sub("*", "\n".join("".join(part) for part in shown))
