"""A study (YAML) becomes runs: its form, its notebooks and their parameters are checked before anything runs."""

import difflib
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from rag_utils.runs.notebooks import Cell, StudyError, by_number, cells_of, read_notebook
from rag_utils.runs.parameters import Parameter, fit, read_parameters
from rag_utils.store import digest

PACKAGE = Path(__file__).resolve().parent.parent
MODEL_PARAMETERS = ("embedder", "reranker", "tokenizer", "llm")
"""Parameters that name a model: a hub id, a local folder, or one of the forms that `load_llm` takes."""
_STUDY = {"study": "", "defaults": {}, "runs": [], "missing_models": "error"}
_ENTRY = {"notebook": "", "matrix": {}, "publish": {}}
_SECRET = re.compile(r"api_?key|secret|password", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One execution of one notebook; `declared` is its parameters cell, `data` the fingerprint of each data set.

    `entry` is its place among the study's entries; of equal runs, the last one's.
    """

    study: str
    entry: int
    notebook: str
    run_id: str
    root: Path
    declared: Mapping[str, Parameter]
    parameters: Mapping[str, Any]
    data: Mapping[str, str]
    publish: bool
    skip_missing_models: bool

    @property
    def folder(self) -> Path:
        """Where the run writes."""
        return self.root / "papermill_runs" / "scratch" / self.study / self.run_id

    @property
    def changed(self) -> dict[str, Any]:
        """Parameters that differ from the notebook's defaults."""
        return {name: value for name, value in self.parameters.items() if value != self.declared[name].default}

    def finished(self, *, from_commit: bool = False) -> bool:
        """Whether it has run to its end with all replies; `from_commit`: from a clean tree, whose commit says all."""
        path = self.folder / "run.json"  # written last
        if not path.is_file():
            return False
        record = json.loads(path.read_text("utf-8"))
        return not record["incomplete"] and not (from_commit and record["git"]["dirty"])


def plan(
    path: Path, *, root: Path, only: str | None = None, overrides: Mapping[str, Any] | None = None
) -> list[PlannedRun]:
    """The runs of a study in the order of their notebooks, equal runs once; the first thing that is wrong is raised."""
    study, forced = _read_study(path), dict(overrides or {})
    sources = {entry["notebook"]: _read_source(entry["notebook"], root) for entry in study["runs"]}
    chosen = [entry for entry in study["runs"] if only in (None, entry["notebook"], entry["notebook"].split("_")[0])]
    if not chosen:
        raise StudyError(f"{path.name}: no notebook {only or ''} among those under runs: {', '.join(sources)}")
    named = [entry["notebook"] for entry in chosen]
    for where, given, notebooks in (("defaults", study["defaults"], sources), ("--set", forced, named)):
        _check(where, given, dict.fromkeys(name for n in notebooks for name in sources[n][1]), "parameters")
    _fingerprint.cache_clear()  # files may have changed since the last plan
    runs: dict[str, PlannedRun] = {}
    for number, (entry, name) in enumerate(zip(chosen, named, strict=True)):
        cells, declared = sources[name]
        for swept, published in _combinations(entry, declared):
            given = {**{n: p.default for n, p in declared.items()}, **study["defaults"], **swept, **forced}
            values = {n: fit(f"{name}: {n}", given[n], p.kind) for n, p in declared.items()}
            data = _data(values, root)
            run_id = f"{name}-{_identity(cells, values, data, root)[:8]}"
            runs[run_id] = PlannedRun(
                study=path.stem,
                entry=number,
                notebook=name,
                run_id=run_id,
                root=root,
                declared=declared,
                parameters=values,
                data=data,
                publish=published or (run_id in runs and runs[run_id].publish),
                skip_missing_models=study["missing_models"] == "skip",
            )
    return list(runs.values())


def _read_study(path: Path) -> dict[str, Any]:
    """The study with all its keys, its entries in the order of their notebooks."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StudyError(f"{path} cannot be read as YAML: {error}") from None
    study = _completed(content, _STUDY, path.name)
    if study["study"] != path.stem or not re.fullmatch(r"[\w-]+", path.stem):  # a folder is named after it
        name = f"must be the file's name, {path.stem!r}, of letters, digits, - and _ only"
        raise StudyError(f"study: {study['study']!r} {name}")
    entries = [_completed(entry, _ENTRY, f"runs, entry {n}") for n, entry in enumerate(study["runs"], start=1)]
    return study | {"runs": sorted(entries, key=lambda entry: by_number(entry["notebook"]))}


def _completed(mapping: Any, form: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The mapping with all keys of the form; values must be of the form's types."""
    if not isinstance(mapping, dict):
        raise StudyError(f"{where}: a mapping with {', '.join(form)} is needed")
    _check(where, mapping, form, "keys")
    for key, value in mapping.items():
        if not isinstance(value, type(form[key])):
            raise StudyError(f"{where}: {key}: {value!r} is not a {type(form[key]).__name__}")
    return {**form, **mapping}


def _read_source(name: str, root: Path) -> tuple[list[Cell], dict[str, Parameter]]:
    """A notebook's cells and what it declares."""
    there = {path.stem: path for path in (root / "notebooks").glob("*.ipynb")}
    _check("runs", [name], there, "notebooks")
    try:
        cells = cells_of(read_notebook(there[name]))
        declared = read_parameters(cells)
    except (StudyError, SyntaxError) as error:
        raise StudyError(f"{name}: {error}") from None
    for parameter in filter(_SECRET.search, declared):
        raise StudyError(f"{name}: {parameter} looks like a secret: keys come from the environment only")
    return cells, declared


def _check(where: str, names: Iterable[Any], known: Collection[str], kind: str) -> None:
    """Refuse a name that is not known."""
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise StudyError(f"{where}: {name!r} is not among the {kind}: {', '.join(known) or 'there are none'}{hint}")


def _combinations(entry: Mapping[str, Any], declared: Collection[str]) -> list[tuple[dict[str, Any], bool]]:
    """Every combination of the matrix, and whether it is published; the notebook must declare what is swept."""
    matrix, chosen = entry["matrix"], entry["publish"].items()
    _check(f"{entry['notebook']}: matrix", matrix, declared, "parameters")
    for name, values in matrix.items():
        if not isinstance(values, list) or not values:
            raise StudyError(f"{entry['notebook']}: matrix: {name} needs a list of values, as in `seed: [0, 1, 2]`")
    swept = [dict(zip(matrix, values, strict=True)) for values in product(*matrix.values())]
    if not any(chosen <= values.items() for values in swept):
        raise StudyError(f"{entry['notebook']}: publish: {entry['publish']} is not in the matrix")
    return [(values, chosen <= values.items()) for values in swept]


def _data(values: Mapping[str, Any], root: Path) -> dict[str, str]:
    """Data set -> fingerprint of the folder that `load_corpus` reads; "package" if built in, "hub" without a folder."""
    from rag_utils.corpora import list_corpora

    named, known, data = values.get("dataset") or [], list_corpora(), {}
    given = values.get("data_dir") or os.environ.get("RAG_DATA_DIR")
    bases = [root / Path(given).expanduser()] if given else []
    for name in [named] if isinstance(named, str) else named:
        if name in known:
            folders = [base / folder for base in bases for folder in known[name]["folder"].split()]
            folders += bases if values.get("data_dir") else []
        else:
            folders = [root / Path(name).expanduser(), *(base / name for base in bases)]
        found = next(filter(Path.is_dir, folders), None)
        built_in = name in known and known[name]["hub"] == "built in"
        data[name] = "package" if built_in else _fingerprint(found) if found else "hub"
    return data


def _identity(cells: Iterable[Cell], values: Mapping[str, Any], data: Mapping[str, str], root: Path) -> str:
    """Equal for equal source, parameters, data, lock file, package and local models; saved outputs do not count."""
    source = [(cell.is_code, cell.source, cell.tags) for cell in cells]
    lock = root / "requirements.lock"
    locked = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    models = [root / name for name in map(values.get, MODEL_PARAMETERS) if isinstance(name, str) and name]
    folders = [PACKAGE, *filter(Path.is_dir, models)]
    return digest(json.dumps([source, values, data, locked], sort_keys=True), *map(_fingerprint, folders))


@cache
def _fingerprint(folder: Path) -> str:
    """SHA-256 over the names and contents of all files below."""
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            with path.open("rb") as file:
                parts += [path.relative_to(folder).as_posix(), hashlib.file_digest(file, "sha256").hexdigest()]
    return digest(*parts)
