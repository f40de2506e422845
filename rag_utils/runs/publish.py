"""Finished runs for readers: one table over a study, and the copies in `papermill_runs/published/` and `figures/`."""

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from rag_utils.provenance import _masked as masked
from rag_utils.runs.notebooks import map_text, read_notebook, without_noise
from rag_utils.runs.origins import changes, data_sets, is_built_in
from rag_utils.runs.planning import PlannedRun
from rag_utils.runs.studies import StudyError

_FIGURE = (".png", ".pdf", ".svg", ".csv")
_TABLE = (".csv", ".md", ".tex")


def collect(runs: Sequence[PlannedRun]) -> Path:
    """Write `collected.csv` and `collected.tex`: every result of the finished runs, over seeds.

    A row per notebook, swept parameters other than `seed`, system and metric: `mean`, `sd` (sample standard deviation
    over the seeds, empty for one) and `seeds`, their number.

    Returns:
        The path of the CSV, beside the runs' folders.
    """
    import pandas as pd

    swept = _swept(runs)
    keys = ["notebook", *swept, "system", "metric"]
    frames = [pd.DataFrame(columns=[*keys, "value"])]
    for run in runs:
        if run.finished and (run.folder / "results.csv").is_file():
            values = {name: _word(run.parameters[name]) if name in run.parameters else "" for name in swept}
            constant = {"notebook": run.notebook} | values
            frames.append(pd.read_csv(run.folder / "results.csv").assign(**constant))
    grouped = pd.concat(frames[1:] or frames).groupby(keys, sort=False)["value"]
    table = grouped.agg(mean="mean", sd="std", seeds="count").reset_index()
    path = runs[0].folder.parent / "collected.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, float_format="%.8g", lineterminator="\n")
    latex = table.to_latex(index=False, escape=True, float_format="%.3f", na_rep="")
    path.with_suffix(".tex").write_text(latex, encoding="utf-8")
    return path


def refuse_changes(root: Path) -> None:
    """Published results must come from a commit.

    Raises:
        StudyError: The tree differs from the last commit, naming the files; generated ones do not count.
    """
    changed = changes(root)
    if changed:
        raise StudyError(["--publish needs a clean tree; commit or stash first:", *changed[:10]])


def made_from_commit(run: PlannedRun) -> bool:
    """Whether a run is finished and was run from a clean tree, so that its commit says all about it."""
    return run.finished and not json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["git"]["dirty"]


def publish(runs: Iterable[PlannedRun]) -> list[Path]:
    """Copy the runs that the study publishes; equal runs give equal bytes.

    Over built-in corpora: `published/NN_name.ipynb`, `.run.json`, `.csv`, tables and `figures/NN_what.*`. Over other
    data sets, whose text is not ours to publish, results, tables and figures under names with the data set's.

    Raises:
        StudyError: Two runs would go to the same file, or a figure or table has another notebook's number.
    """
    copies: dict[Path, bytes] = {}
    for run in runs:
        if run.publish and run.finished:
            made = _copies(run)
            if copies.keys() & made.keys():
                remedy = "say in the study which one, as in `publish: {seed: 0}`"
                raise StudyError([f"{run.notebook}: several runs would be published as one: {remedy}"])
            copies |= made
    for path, content in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(copies)


def _copies(run: PlannedRun) -> dict[Path, bytes]:
    """Where each file of a run goes, and what it holds there."""
    published, figures = run.root / "papermill_runs" / "published", run.root / "figures"
    built_in = is_built_in(run.parameters)
    mark = "" if built_in else "." + "+".join(Path(name).name for name in data_sets(run.parameters))
    copies = {}
    for path in sorted(path for path in run.folder.iterdir() if path.is_file()):
        is_figure = path.with_suffix(".png").is_file()
        if path.name == "results.csv":
            copies[published / f"{run.notebook}{mark}.csv"] = path.read_bytes()
        elif path.suffix in (_FIGURE if is_figure else _TABLE):
            if path.name.split("_")[0] != run.notebook.split("_")[0] or path.stem == run.notebook:
                raise StudyError([f"{run.notebook}: {path.name} needs a name of its own after the notebook's number"])
            copies[(figures if is_figure else published) / f"{path.stem}{mark}{path.suffix}"] = path.read_bytes()
    if built_in:
        rewrite = partial(_impersonal, run.root)
        notebook = without_noise(read_notebook(run.folder / "notebook.ipynb"), rewrite)
        record = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
        copies[published / f"{run.notebook}.ipynb"] = _json(notebook)
        copies[published / f"{run.notebook}.run.json"] = _json(map_text(record, rewrite))
    return copies


def _impersonal(root: Path, text: str) -> str:
    """The text without this machine's paths and secrets."""
    places = {str(root): ".", sys.prefix: "<environment>", sys.base_prefix: "<python>", str(Path.home()): "~"}
    places |= {tempfile.gettempdir(): "<temporary>"}
    for place in sorted(places, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(place)}(?![\w-])", places[place], text)
    return masked(text)


def _json(content: object) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _swept(runs: Iterable[PlannedRun]) -> list[str]:
    """Parameters, other than the seed, that take more than one value within a notebook."""
    seen: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        for name, value in run.parameters.items():
            seen.setdefault((run.notebook, name), set()).add(_word(value))
    return list(dict.fromkeys(name for (_, name), values in seen.items() if len(values) > 1 and name != "seed"))


def _word(value: object) -> str:
    """A value as one cell of a table."""
    return value if isinstance(value, str) else json.dumps(value)
