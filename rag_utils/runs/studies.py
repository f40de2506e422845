"""A study file (YAML) becomes a list of runs; whatever is wrong with it is said at once, before anything runs."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from rag_utils.runs import origins
from rag_utils.runs.notebooks import Cell, cells_of, in_order, read_notebook
from rag_utils.runs.parameters import Parameter, read_parameters

_NAME = re.compile(r"\w[\w-]*")  # a file's stem that cannot leave its folder
_STUDY_KEYS = ("study", "defaults", "runs", "missing_models")
_ENTRY_KEYS = ("notebook", "matrix", "publish")
_SECRET = re.compile(r"api_?key|secret|password", re.IGNORECASE)


class StudyError(ValueError):
    """Everything that keeps a study from being run, one sentence each."""

    def __init__(self, problems: Iterable[str]):
        super().__init__("\n".join(dict.fromkeys(problems)))


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook's source with the parameters that it declares."""

    name: str
    cells: list[Cell]
    parameters: dict[str, Parameter]


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of `runs:`; `matrix` is swept, `publish` picks the combinations of it that readers get."""

    notebook: str
    matrix: Mapping[str, list[Any]]
    publish: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """A study file, checked in itself but not yet against its notebooks."""

    name: str
    defaults: Mapping[str, Any]
    entries: list[Entry]
    skip_missing_models: bool


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
    missing: str | None = None
    """A model that is neither here nor within reach, so that the run has to be left out."""

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


def plan(path: Path, *, root: Path, only: str | None = None, overrides: Mapping[str, Any] | None = None) -> list[PlannedRun]:
    """The runs of a study in the order of their notebooks; equal runs once.

    Args:
        path: The study file.
        root: The project's folder, with `notebooks/`.
        only: A notebook's number or full name; None = all.
        overrides: Values that beat notebook defaults, study defaults and matrix.

    Raises:
        StudyError: All problems of the file, its notebooks and the values, together.
    """
    study = read_study(path)
    entries = _chosen(study, only)
    notebooks = load_notebooks({entry.notebook for entry in study.entries}, root)
    chosen = [notebooks[entry.notebook] for entry in entries]
    problems = _unknown(overrides or {}, chosen, "--set") + _unknown(study.defaults, notebooks.values(), "defaults")
    package = origins.package_fingerprint()
    runs: dict[str, PlannedRun] = {}
    for entry in entries:
        notebook = notebooks[entry.notebook]
        problems += _unknown(entry.matrix, [notebook], "matrix") + _unselected(entry)
        for combination in product(*entry.matrix.values()):
            swept = dict(zip(entry.matrix, combination, strict=True))
            values = _fitted(notebook, {**study.defaults, **swept, **(overrides or {})}, problems)
            identity = origins.run_id(notebook.name, notebook.cells, values, root, package)
            published = identity in runs and runs[identity].publish
            runs[identity] = PlannedRun(
                study=study.name,
                notebook=notebook.name,
                run_id=identity,
                root=root,
                parameters=values,
                changed={name: v for name, v in values.items() if v != notebook.parameters[name].default},
                publish=published or all(swept[name] == wanted for name, wanted in entry.publish.items() if name in swept),
            )
    if problems:
        raise StudyError(problems)
    return _with_missing_models(runs.values(), study.skip_missing_models)


def read_study(path: Path) -> Study:
    """The study file, its form checked.

    Raises:
        StudyError: Not YAML, unknown keys, a `study:` that is not the file's stem, names that are no file names, ...
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StudyError([f"{path} cannot be read as YAML: {error}"]) from None
    problems = _wrong_keys(content, _STUDY_KEYS, path.name)
    if problems:
        raise StudyError(problems)
    runs, defaults = content.get("runs"), content.get("defaults") or {}
    missing = content.get("missing_models", "error")
    entries = runs if isinstance(runs, list) and runs else []
    wrong = {
        f"study: {content.get('study')!r} must be the file's name, {path.stem!r}": content.get("study") != path.stem,
        f"{path.name}: a study's name has letters, digits, _ and - only": not _NAME.fullmatch(path.stem),
        "runs: a list of entries such as `- notebook: 21_filtered_retrieval` is needed": not entries,
        "defaults: a mapping of names to values is needed": not isinstance(defaults, dict),
        f"missing_models: {missing!r} is neither skip nor error": missing not in ("skip", "error"),
    }
    problems = [sentence for sentence, holds in wrong.items() if holds]
    problems += [problem for position, entry in enumerate(entries, start=1) for problem in _wrong_entry(entry, position)]
    if problems:
        raise StudyError(problems)
    made = [Entry(entry["notebook"], entry.get("matrix") or {}, entry.get("publish") or {}) for entry in entries]
    order = in_order([entry.notebook for entry in made])
    return Study(path.stem, defaults, sorted(made, key=lambda e: order.index(e.notebook)), missing == "skip")


def load_notebooks(names: Iterable[str], root: Path) -> dict[str, Notebook]:
    """The notebooks by name, in order.

    Raises:
        StudyError: Notebooks that are missing or unreadable, and all that is wrong with their parameters.
    """
    there = {path.stem for path in (root / "notebooks").glob("*.ipynb")}
    found, problems = {}, []
    for name in in_order(list(names)):
        if name not in there:
            problems.append(f"there is no notebook {name!r} in {root / 'notebooks'}{_nearest(name, there)}")
            continue
        try:
            cells = cells_of(read_notebook(root / "notebooks" / f"{name}.ipynb"))
        except ValueError as error:
            problems.append(str(error))
            continue
        parameters, wrong = read_parameters(cells)
        wrong += [f"{p} looks like a secret: keys come from the environment only" for p in parameters if _SECRET.search(p)]
        problems += [f"{name}: parameters: {problem}" for problem in wrong]
        found[name] = Notebook(name, cells, parameters)
    if problems:
        raise StudyError(problems)
    return found


def _wrong_keys(mapping: Any, known: Collection[str], where: str) -> list[str]:
    if not isinstance(mapping, dict):
        return [f"{where}: a mapping with {', '.join(known)} is needed"]
    return [f"{where}: unknown key {key!r}{_nearest(str(key), known)}" for key in mapping if key not in known]


def _wrong_entry(entry: Any, position: int) -> list[str]:
    where = f"runs, entry {position}"
    problems = _wrong_keys(entry, _ENTRY_KEYS, where)
    if problems:
        return problems
    name, matrix, publish = entry.get("notebook"), entry.get("matrix") or {}, entry.get("publish") or {}
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problems.append(f"{where}: notebook: {name!r} is not a name such as 21_filtered_retrieval")
    if not isinstance(matrix, dict) or not all(isinstance(values, list) and values for values in matrix.values()):
        problems.append(f"{where}: matrix: each name needs a list of values, as in `seed: [0, 1, 2]`")
    if not isinstance(publish, dict):
        problems.append(f"{where}: publish: one value for each name is needed, as in `publish: {{seed: 0}}`")
    return problems


def _chosen(study: Study, only: str | None) -> list[Entry]:
    entries = [e for e in study.entries if only is None or only in (e.notebook, e.notebook.split("_")[0])]
    if not entries:
        names = ", ".join(dict.fromkeys(entry.notebook for entry in study.entries))
        raise StudyError([f"--only {only}: {study.name} has no such notebook; it has {names}"])
    return entries


def _unknown(given: Iterable[str], notebooks: Collection[Notebook], where: str) -> list[str]:
    """Names that none of the notebooks has among its parameters."""
    known = {name for notebook in notebooks for name in notebook.parameters}
    names = ", ".join(sorted({notebook.name for notebook in notebooks}))
    remedy = "" if known else ": no cell is tagged `parameters`"
    return [f"{where}: {name!r} is not among the parameters of {names}{_nearest(name, known) or remedy}" for name in given if name not in known]


def _unselected(entry: Entry) -> list[str]:
    """What `publish:` names that the matrix does not hold."""
    return [
        f"{entry.notebook}: publish: {name} = {value!r} is not in the matrix"
        for name, value in entry.publish.items()
        if value not in entry.matrix.get(name, [])
    ]


def _fitted(notebook: Notebook, given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """All parameters of the notebook with those given that it has; what does not fit is added to `problems`."""
    values = {name: parameter.default for name, parameter in notebook.parameters.items()}
    for name in values.keys() & given.keys():
        try:
            values[name] = notebook.parameters[name].fit(given[name])
        except TypeError as error:
            problems.append(f"{notebook.name}: {error}")
    return values


def _with_missing_models(runs: Iterable[PlannedRun], skip: bool) -> list[PlannedRun]:
    checked = [run if run.finished else replace(run, missing=origins.missing_model(run.parameters, run.root)) for run in runs]
    lacking = dict.fromkeys(run.missing for run in checked if run.missing)
    if lacking and not skip:
        remedy = "prepare it (README, models), go online, or write `missing_models: skip` into the study"
        raise StudyError(f"{model} is neither here nor within reach: {remedy}" for model in lacking)
    return checked


def _nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
