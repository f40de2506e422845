"""A study's notebooks, parameters and runs, checked together before anything runs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_utils.runs import origins
from rag_utils.runs.notebooks import Cell, cells_of, in_order, read_notebook
from rag_utils.runs.parameters import Parameter, read_parameters
from rag_utils.runs.studies import Entry, Study, StudyError, nearest, read_study

_SECRET = re.compile(r"api_?key|secret|password", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook's source with the parameters that it declares."""

    name: str
    cells: list[Cell]
    parameters: dict[str, Parameter]

    def fitted(self, given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
        """All parameters, with those given that the notebook has; what does not fit is added to `problems`."""
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        for name in values.keys() & given.keys():
            try:
                values[name] = self.parameters[name].fit(given[name])
            except TypeError as error:
                problems.append(f"{self.name}: {error}")
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One execution of one notebook; `changed` are the parameters that differ from the notebook's defaults."""

    study: str
    notebook: str
    run_id: str
    root: Path
    parameters: Mapping[str, Any]
    changed: Mapping[str, Any]
    publish: bool
    skip_missing_models: bool

    @property
    def source(self) -> Path:
        """The notebook."""
        return self.root / "notebooks" / f"{self.notebook}.ipynb"

    @property
    def folder(self) -> Path:
        """Where the run writes."""
        return self.root / "papermill_runs" / "scratch" / self.study / self.run_id

    @property
    def finished(self) -> bool:
        """Whether it has run to its end; `run.json` is written last."""
        return (self.folder / "run.json").is_file()

    @property
    def missing(self) -> str | None:
        """A model that is neither here nor within reach."""
        return origins.missing_model(self.parameters, self.root)


def plan(
    path: Path, *, root: Path, only: str | None = None, overrides: Mapping[str, Any] | None = None
) -> list[PlannedRun]:
    """The runs of a study in the order of their notebooks; equal runs once.

    Args:
        path: The study file.
        root: The project's folder, with `notebooks/`.
        only: A notebook's number or full name; None = all.
        overrides: Values that beat notebook defaults, study defaults and matrix.

    Raises:
        StudyError: All problems of the file, its notebooks and the values, together.
    """
    study, forced = read_study(path), dict(overrides or {})
    entries = _chosen(study, only)
    notebooks = load_notebooks({entry.notebook for entry in study.entries}, root)
    problems = _unknown("--set", forced, [notebooks[entry.notebook] for entry in entries])
    problems += _unknown("defaults", study.defaults, notebooks.values())
    package = origins.folder_fingerprint(origins.PACKAGE)
    runs: dict[str, PlannedRun] = {}
    for entry in entries:
        notebook = notebooks[entry.notebook]
        problems += _unknown("matrix", entry.matrix, [notebook]) + _unselected(entry)
        for swept, published in entry.combinations():
            values = notebook.fitted({**study.defaults, **swept, **forced}, problems)
            identity = origins.run_id(notebook.name, notebook.cells, values, root, package)
            runs[identity] = PlannedRun(
                study=study.name,
                notebook=notebook.name,
                run_id=identity,
                root=root,
                parameters=values,
                changed={name: v for name, v in values.items() if v != notebook.parameters[name].default},
                publish=published or (identity in runs and runs[identity].publish),
                skip_missing_models=study.skip_missing_models,
            )
    if problems:
        raise StudyError(problems)
    return list(runs.values())


def load_notebooks(names: Iterable[str], root: Path) -> dict[str, Notebook]:
    """The notebooks by name, in order.

    Raises:
        StudyError: Notebooks that are missing or unreadable, and all that is wrong with their parameters.
    """
    there = {path.stem for path in (root / "notebooks").glob("*.ipynb")}
    found, problems = {}, []
    for name in in_order(list(names)):
        if name not in there:
            problems.append(f"there is no notebook {name!r} in {root / 'notebooks'}{nearest(name, there)}")
            continue
        try:
            cells = cells_of(read_notebook(root / "notebooks" / f"{name}.ipynb"))
            parameters, wrong = read_parameters(cells)
        except ValueError as error:
            problems.append(str(error))
            continue
        secrets = filter(_SECRET.search, parameters)
        wrong += [f"{secret} looks like a secret: keys come from the environment only" for secret in secrets]
        problems += [f"{name}: parameters: {problem}" for problem in wrong]
        found[name] = Notebook(name, cells, parameters)
    if problems:
        raise StudyError(problems)
    return found


def _chosen(study: Study, only: str | None) -> list[Entry]:
    entries = [e for e in study.entries if only is None or only in (e.notebook, e.notebook.split("_")[0])]
    if not entries:
        names = ", ".join(dict.fromkeys(entry.notebook for entry in study.entries))
        raise StudyError([f"--only {only}: {study.name} has no such notebook; it has {names}"])
    return entries


def _unknown(where: str, given: Iterable[str], notebooks: Iterable[Notebook]) -> list[str]:
    """Names that none of the notebooks has among its parameters."""
    known = {parameter for notebook in notebooks for parameter in notebook.parameters}
    remedy = "" if known else ": no cell is tagged `parameters`"
    return [
        f"{where}: {name!r} is not among the parameters of the notebooks{remedy}{nearest(name, known)}"
        for name in given
        if name not in known
    ]


def _unselected(entry: Entry) -> list[str]:
    """What `publish:` names that the matrix does not hold."""
    return [
        f"{entry.notebook}: publish: {name} = {value!r} is not in the matrix"
        for name, value in entry.publish.items()
        if value not in entry.matrix.get(name, [])
    ]
