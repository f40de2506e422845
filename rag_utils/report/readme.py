"""The README's table of notebooks, made from the notebooks, the published results and the figures.

A notebook names its headline number in its metadata; every key but `system` and `metric` may be left out:

    "rag_handbook": {"headline": {"system": "...", "metric": "...", "dataset": "squad",
                                  "paper": {"study": "...", "table": 1, "row": "..."}}}
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from rag_utils.report.papers import paper_table, reported
from rag_utils.report.tables import read_results, with_interval

BEGIN, END = "<!-- notebooks:begin -->", "<!-- notebooks:end -->"
SECTIONS = ("start here", "chunking", "filters", "enrichment", "retrieval", "QA plug-ins", "arena", "together", "costs")
"""By the tens digit of a notebook's number."""


def with_table(readme: str, root: Path) -> str:
    """The README's text with the table between its markers made anew, a line for each notebook of the project at root.

    Raises:
        ValueError: A marker is missing, or a headline names what is not in its results.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the README needs the two lines {BEGIN} and {END}; the table goes between them")
    head = ["section", "notebook", "paper", "figure", "ours [95 % interval]", "the paper's"]
    rows = [_row(path, root) for path in sorted((root / "notebooks").glob("[0-8][0-9]_*.ipynb"))]
    table = "".join("| " + " | ".join(row) + " |\n" for row in [head, ["---"] * len(head), *rows])
    return f"{before}{BEGIN}\n{table}{END}{after}"


def _row(path: Path, root: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    first = "".join(next((cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown"), ""))
    title = re.search(r"^#\s+(.+)$", first, re.MULTILINE)
    paper = re.search(r"^\W*Paper\W*:[\s*_]*(.+?)[\s*_.]*$", first, re.MULTILINE)
    read = f"papermill_runs/published/{path.name}"
    links = [f"[read]({read})"] * (root / read).is_file() + [f"[run](notebooks/{path.name})"]
    figures = sorted(name.stem for name in (root / "figures").glob(f"{path.name[:2]}_*.png") if "." not in name.stem)
    cells = [
        SECTIONS[int(path.name[0])],
        f"{title[1] if title else path.stem} ({', '.join(links)})",
        paper[1] if paper else "-",
        f"[{figures[0]}](figures/{figures[0]}.png)" if figures else "-",
        *_headline(path.stem, notebook["metadata"].get("rag_handbook", {}).get("headline", {}), root),
    ]
    return [cell.replace("|", r"\|") for cell in cells]


def _headline(stem: str, headline: Mapping[str, Any], root: Path) -> list[str]:
    """Our number and the paper's; "-" where nothing is named or published."""
    dataset = headline.get("dataset")
    results = root / "papermill_runs" / "published" / (f"{stem}.{dataset}.csv" if dataset else f"{stem}.csv")
    if not headline or not results.is_file():
        return ["-", "-"]
    metric, paper = headline["metric"], headline.get("paper")
    row = _only(read_results(results), "system", headline["system"], metric, results.name)
    ours = f"{metric} {with_interval(row['value'], row['low'], row['high'])}, {row['system']}"
    theirs = "-"
    if paper:
        table = paper_table(paper["study"], paper["table"])
        cell = _only(table, "row", paper["row"], metric, f"table {paper['table']} of {paper['study']}")
        theirs = " ".join([metric, *reported(cell).values()]).rstrip()
    return [f"{ours} on {dataset}" if dataset else ours, theirs]


def _only(table: pd.DataFrame, column: str, name: str, metric: str, where: str) -> dict[str, Any]:
    found = table[(table[column] == name) & (table["metric"] == metric)]
    if len(found) != 1:
        raise ValueError(f"{where} has {len(found)} rows ({name}, {metric}), which a headline names: must be 1")
    return dict(zip(table.columns, found.iloc[0], strict=True))
