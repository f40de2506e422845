"""The README's table of notebooks, made from the notebooks, the published results and the figures.

A notebook names its headline number in its metadata; every key but `system` and `metric` may be left out:

    "rag_handbook": {"headline": {"system": "...", "metric": "...", "dataset": "squad", "figure": "40_forest",
                                  "paper": {"study": "...", "table": 1, "row": "...", "metric": "..."}}}
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from rag_utils.report.papers import paper_table, reported, reported_interval
from rag_utils.report.tables import with_interval

BEGIN, END = "<!-- notebooks:begin -->", "<!-- notebooks:end -->"
SECTIONS = {
    "0": "start here",
    "1": "chunking",
    "2": "metadata filters",
    "3": "enrichment and selection",
    "4": "hybrid retrieval",
    "5": "QA plug-ins",
    "6": "arena",
    "7": "all together",
    "8": "costs",
}
"""The tens digit of a notebook's number."""


def with_table(readme: str, root: Path) -> str:
    """The README's text with the table between its markers made anew.

    Args:
        readme: The text, with the two markers.
        root: The project's folder.

    Raises:
        ValueError: A marker is missing, or a headline names what is not in its results.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the README needs the two lines {BEGIN} and {END}; the table goes between them")
    return f"{before}{BEGIN}\n{notebook_table(root)}{END}{after}"


def notebook_table(root: Path) -> str:
    """The table in Markdown, one line a notebook in the order of their numbers."""
    head = ["section", "notebook", "paper", "figure", "ours [95 % interval]", "the paper's"]
    rows = [_row(path, root) for path in sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))]
    return "".join("| " + " | ".join(row) + " |\n" for row in [head, ["---"] * len(head), *rows])


def _row(path: Path, root: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    first = "".join(next((cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown"), ""))
    title = _found(r"^#\s+(.+)$", first) or path.stem
    paper = _found(r"^\W*Paper\W*:[\s*_]*(.+?)[\s*_.]*$", first) or "-"
    headline = notebook["metadata"].get("rag_handbook", {}).get("headline", {})
    ours, theirs = _headline(path.stem, headline, root)
    section, figure = SECTIONS.get(path.stem[0], "-"), _figure(path.stem, headline, root)
    cells = [section, f"{title} ({_links(path, root)})", paper, figure, ours, theirs]
    return [cell.replace("|", r"\|") for cell in cells]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, flags=re.MULTILINE)
    return match[1].strip() if match else ""


def _links(path: Path, root: Path) -> str:
    """Read = the executed copy, once published; run = the source."""
    read = f"papermill_runs/published/{path.name}"
    published = (root / read).is_file()
    return (f"[read]({read}), " if published else "") + f"[run](notebooks/{path.name})"


def _figure(stem: str, headline: Mapping[str, Any], root: Path) -> str:
    """The figure that the headline names, else the notebook's first on the built-in corpora."""
    pictures = [path.stem for path in sorted((root / "figures").glob(f"{stem[:2]}_*.png"))]
    wanted = headline.get("figure")
    chosen = wanted if wanted in pictures else next((name for name in pictures if "." not in name), None)
    return f"[{chosen}](figures/{chosen}.png)" if chosen else "-"


def _headline(stem: str, headline: Mapping[str, Any], root: Path) -> tuple[str, str]:
    """Our number and the paper's; "-" where nothing is named or published."""
    dataset = headline.get("dataset")
    results = root / "papermill_runs" / "published" / (f"{stem}.{dataset}.csv" if dataset else f"{stem}.csv")
    if not headline or not results.is_file():
        return "-", "-"
    table = pd.read_csv(results)
    system, metric = headline["system"], headline["metric"]
    row = table[(table["system"] == system) & (table["metric"] == metric)]
    if len(row) != 1:
        raise ValueError(f"{results.name} has {len(row)} rows ({system}, {metric}), the headline of {stem}: must be 1")
    number = with_interval(*row[["value", "low", "high"]].iloc[0])
    where = f" on {dataset}" if dataset else ""
    return f"{metric} {number}, {system}{where}", _theirs(headline.get("paper"), metric)


def _theirs(cell: Mapping[str, Any] | None, metric: str) -> str:
    if not cell:
        return "-"
    table = paper_table(cell["study"], cell["table"])
    metric = cell.get("metric", metric)
    found = table[(table["row"] == cell["row"]) & (table["metric"] == metric)]
    if len(found) != 1:
        raise ValueError(f"table {cell['table']} of {cell['study']} has no cell ({cell['row']}, {metric})")
    theirs = found.iloc[0].to_dict()
    return f"{metric} {reported(theirs)} {reported_interval(theirs)}".rstrip()
