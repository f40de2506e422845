"""Finished runs for readers: one table over a study, and the copies in `papermill_runs/published/` and `figures/`."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rag_utils.provenance import masked
from rag_utils.runs.notebooks import StudyError, map_text, read_notebook
from rag_utils.runs.studies import PlannedRun

_GENERATED = ("papermill_runs/published", "figures", "README.md")
_FIGURE, _TABLE = (".png", ".pdf", ".svg", ".csv"), (".csv", ".md", ".tex")


def commit(root: Path) -> tuple[str | None, list[str]]:
    """The last commit, None outside a repository, and what differs from it, files made from finished runs left out."""
    ask = partial(subprocess.run, cwd=root, capture_output=True, text=True, check=True)
    outside = [f":(exclude){path}" for path in _GENERATED]
    try:
        head = ask(["git", "rev-parse", "HEAD"]).stdout.strip()
        return head, ask(["git", "status", "--porcelain", "--", ".", *outside]).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None, ["not a git repository"]


def collect(runs: Sequence[PlannedRun]) -> Path:
    """Write `collected.csv` and `.tex` beside the runs' folders: every result of the finished runs, over seeds.

    A row per notebook, swept parameters other than `seed`, system and metric: `mean`, `sd` (sample standard deviation
    over the seeds, empty for one) and `seeds`, their number.
    """
    import pandas as pd

    from rag_utils.report.tables import read_results

    runs = [run for run in runs if run.finished() and (run.folder / "results.csv").is_file()]
    if not runs:
        raise StudyError("no run has results yet: run the study first, without --collect")
    rows = [{"notebook": run.notebook, **{name: str(v) for name, v in run.parameters.items()}} for run in runs]
    values = pd.DataFrame(rows).fillna("")
    varied = values.groupby("notebook").nunique().max()
    keys = ["notebook", *(name for name in varied.index if varied[name] > 1 and name != "seed")]
    rows = values[keys].to_dict("records")
    frames = [read_results(run.folder / "results.csv").assign(**row) for run, row in zip(runs, rows, strict=True)]
    grouped = pd.concat(frames).groupby([*keys, "system", "metric"], sort=False)["value"]
    table = grouped.agg(mean="mean", sd="std", seeds="count").reset_index()
    path = runs[0].folder.parent / "collected.csv"
    table.to_csv(path, index=False, float_format="%.8g", lineterminator="\n")
    latex = table.to_latex(index=False, escape=True, float_format="%.3f", na_rep="")
    path.with_suffix(".tex").write_text(latex, encoding="utf-8")
    return path


def publish(runs: Iterable[PlannedRun]) -> list[Path]:
    """Copy the runs that the study publishes; equal runs give equal bytes.

    Over built-in corpora: `published/NN_name.ipynb`, `.run.json`, `.csv`, tables and `figures/NN_what.*`. Over other
    data sets, whose text is not ours to publish, results, tables and figures under names with the data set's. A run of
    a later entry of the study also carries what parts it from the first: `NN_name.squad.dev_share=1.0.csv`.
    """
    copies: dict[Path, bytes] = {}
    first: dict[tuple[str, str], PlannedRun] = {}
    for run in [run for run in runs if run.publish and run.finished()]:
        mark = _mark(run)
        mark += _apart(run, first.setdefault((run.notebook, mark), run))
        for path, content in _copies(run, mark):
            if path in copies:
                remedy = "say in the study which run, as in `publish: {seed: 0}`"
                raise StudyError(f"{run.notebook}: several files would be published as {path.name}: {remedy}")
            copies[path] = content
    for path, content in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(copies)


def _mark(run: PlannedRun) -> str:
    """The data set's name, none if it is built in."""
    built_in = set(run.data.values()) <= {"package"}
    return "" if built_in else "." + "+".join(Path(name).name for name in run.data)


def _apart(run: PlannedRun, first: PlannedRun) -> str:
    """The parameters in which runs of two entries differ; those of one entry are to be told apart by `publish:`."""
    pairs = run.parameters.items() if run.entry != first.entry else ()
    return "".join(re.sub(r"[^\w.=+-]", "_", f".{n}={value}") for n, value in pairs if value != first.parameters[n])


def _copies(run: PlannedRun, mark: str) -> Iterator[tuple[Path, bytes]]:
    """Where each file of a run goes, and what it holds there."""
    published, figures = run.root / "papermill_runs" / "published", run.root / "figures"
    for path in sorted(run.folder.iterdir()):
        is_figure = path.with_suffix(".png").is_file()
        if path.name == "results.csv":
            yield published / f"{run.notebook}{mark}.csv", path.read_bytes()
        elif path.suffix in (_FIGURE if is_figure else _TABLE):
            yield (figures if is_figure else published) / f"{path.stem}{mark}{path.suffix}", path.read_bytes()
    if set(run.data.values()) <= {"package"}:
        notebook = without_noise(read_notebook(run.folder / "notebook.ipynb"))
        record = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
        for suffix, content in ((f"{mark}.ipynb", notebook), (f"{mark}.run.json", record)):
            shown = map_text(content, partial(_impersonal, run.root))
            text = json.dumps(shown, indent=1, ensure_ascii=False, sort_keys=True)
            yield published / f"{run.notebook}{suffix}", f"{text}\n".encode()


def without_noise(notebook: dict[str, Any]) -> dict[str, Any]:
    """An executed notebook without times, widths, random ids and widget states, so that equal runs give equal files."""
    cells = []
    for cell in notebook["cells"]:
        tags = cell["metadata"].get("tags", [])
        injected = {"id": "injected-parameters"} if "injected-parameters" in tags else {}
        cells.append(cell | {"metadata": {"tags": tags} if tags else {}} | injected)
    metadata = {name: value for name, value in notebook["metadata"].items() if name in ("kernelspec", "language_info")}
    return notebook | {"cells": cells, "metadata": metadata}


def _impersonal(root: Path, text: str) -> str:
    """The text without this machine's paths and secrets."""
    places = {str(root): ".", sys.prefix: "<environment>", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(place)}(?![\w-])", places[place], text)
    return masked(text)
