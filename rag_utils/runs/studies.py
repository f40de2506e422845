"""A study file (YAML), its form checked; whatever is wrong with it is said at once."""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from rag_utils.runs.notebooks import in_order

_NAME = re.compile(r"\w[\w-]*")  # a file's stem that cannot leave its folder
_STUDY_KEYS = ("study", "defaults", "runs", "missing_models")
_ENTRY_KEYS = ("notebook", "matrix", "publish")


class StudyError(ValueError):
    """Everything that keeps a study from being run, one sentence each."""

    def __init__(self, problems: Iterable[str]):
        super().__init__("\n".join(dict.fromkeys(problems)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of `runs:`; `matrix` is swept, `publish` picks the combinations of it that readers get."""

    notebook: str
    matrix: Mapping[str, list[Any]]
    publish: Mapping[str, Any]

    def combinations(self) -> Iterator[tuple[dict[str, Any], bool]]:
        """Every combination of the matrix, and whether it is published."""
        for values in product(*self.matrix.values()):
            swept = dict(zip(self.matrix, values, strict=True))
            yield swept, all(swept.get(name) == value for name, value in self.publish.items())


@dataclass(frozen=True, slots=True)
class Study:
    """A study file, checked in itself but not yet against its notebooks."""

    name: str
    defaults: Mapping[str, Any]
    entries: list[Entry]
    skip_missing_models: bool


def read_study(path: Path) -> Study:
    """The study file, its form checked.

    Raises:
        StudyError: Not YAML, unknown keys, a `study:` that is not the file's stem, names that are no file names, ...
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StudyError([f"{path} cannot be read as YAML: {error}"]) from None
    _refuse(_wrong_keys(content, _STUDY_KEYS, path.name))
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
    for position, entry in enumerate(entries, start=1):
        problems += _wrong_entry(entry, f"runs, entry {position}")
    _refuse(problems)
    made = [Entry(entry["notebook"], entry.get("matrix") or {}, entry.get("publish") or {}) for entry in entries]
    order = in_order([entry.notebook for entry in made])
    return Study(path.stem, defaults, sorted(made, key=lambda e: order.index(e.notebook)), missing == "skip")


def _refuse(problems: Collection[str]) -> None:
    if problems:
        raise StudyError(problems)


def _wrong_keys(mapping: Any, known: Collection[str], where: str) -> list[str]:
    if not isinstance(mapping, dict):
        return [f"{where}: a mapping with {', '.join(known)} is needed"]
    return [f"{where}: unknown key {key!r}{nearest(str(key), known)}" for key in mapping if key not in known]


def _wrong_entry(entry: Any, where: str) -> list[str]:
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


def nearest(name: str, names: Iterable[str]) -> str:
    """A question that names the closest of the names, or nothing where none is close."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
