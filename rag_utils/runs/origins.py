"""What a run is made from: its sources, data, models and commit, as fingerprints that name its folder."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rag_utils.provenance import cache_folder
from rag_utils.runs.notebooks import Cell
from rag_utils.store import Store, digest

PACKAGE = Path(__file__).resolve().parent.parent
MODEL_PARAMETERS = ("embedder", "reranker", "llm")
"""Parameters that name a model: a hub id, a local folder, or one of the forms that `load_llm` takes."""
GENERATED = ("papermill_runs/published", "figures", "README.md")
"""Written from finished runs, so a change in them says nothing against a run."""


def run_id(name: str, cells: Iterable[Cell], parameters: Mapping[str, Any], root: Path, package: str) -> str:
    """`<notebook>-<8 hex digits>`: equal for equal source, package, parameters, data, lock file and local models.

    Args:
        name: Of the notebook, without its ending.
        cells: Its source; saved outputs do not count.
        parameters: All of them, defaults included.
        root: The project.
        package: `package_fingerprint()`, taken once for a whole study.
    """
    source = json.dumps([(cell.kind, cell.source, cell.tags) for cell in cells])
    values = json.dumps(parameters, sort_keys=True)
    data = json.dumps(data_fingerprint(parameters, root), sort_keys=True)
    models = [folder_fingerprint(folder) for folder in _local_models(parameters, root)]
    lock = root / "requirements.lock"
    locked = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    return f"{name}-{digest(source, values, data, locked, package, *models)[:8]}"


def data_sets(parameters: Mapping[str, Any]) -> list[str]:
    """The names in the parameter `dataset`, one or a list of them; none for a notebook without it."""
    named = parameters.get("dataset") or []
    return [named] if isinstance(named, str) else list(named)


def is_built_in(parameters: Mapping[str, Any]) -> bool:
    """Whether the run reads only the corpora that come with the package (their text may be published)."""
    return all(name.startswith("builtin_") for name in data_sets(parameters))


def data_fingerprint(parameters: Mapping[str, Any], root: Path) -> dict[str, str]:
    """Data set -> what it was read from.

    The built-in corpora are part of the package. A folder of the user's own has its fingerprint; a named set has that
    of the whole data folder, since a corpus may take its distractors from another set; without a folder, "hub".
    """
    found = {}
    for name in data_sets(parameters):
        data_dir = parameters.get("data_dir") or os.environ.get("RAG_DATA_DIR")
        if name.startswith("builtin_"):
            found[name] = "package"
        elif (root / name).is_dir():
            found[name] = folder_fingerprint(root / name)
        else:
            found[name] = folder_fingerprint(root / data_dir) if data_dir else "hub"
    return found


def folder_fingerprint(folder: Path) -> str:
    """SHA-256 over the names and contents of all files below; contents are read again only when size or time changed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    states = {path: path.stat() for path in files}
    keys = {path: f"{path.resolve()} {state.st_size} {state.st_mtime_ns}" for path, state in states.items()}
    store = Store(cache_folder() / "fingerprints.sqlite")
    known = store.get_many(list(keys.values()))
    fresh = {keys[path]: _content(path).encode() for path in files if keys[path] not in known}
    store.put_many(fresh)
    known |= fresh
    return digest(*(f"{path.relative_to(folder).as_posix()} {known[keys[path]].decode()}" for path in files))


def package_fingerprint() -> str:
    """SHA-256 over all of the package: its code, prompts, recorded replies, paper tables and built-in corpora."""
    files = sorted(path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest(*(f"{path.relative_to(PACKAGE).as_posix()} {_content(path)}" for path in files))


def commit(root: Path) -> dict[str, Any]:
    """The commit and whether anything that is not generated differs from it; commit None outside a repository."""
    head = _git(root, "rev-parse", "HEAD")
    return {"commit": head.strip() if head else None, "dirty": bool(changes(root))}


def changes(root: Path) -> list[str]:
    """Files that differ from the last commit, generated ones left out; "not a git repository" where there is none."""
    status = _git(root, "status", "--porcelain", "--", ".", *(f":(exclude){path}" for path in GENERATED))
    return ["not a git repository"] if status is None else status.splitlines()


def missing_model(parameters: Mapping[str, Any], root: Path) -> str | None:
    """The first model named that is neither here nor within reach, as "embedder NAME"; None if all are."""
    for parameter in MODEL_PARAMETERS:
        name = parameters.get(parameter)
        if isinstance(name, str) and name and not (root / name).is_dir() and not _is_available(parameter, name):
            return f"{parameter} {name}"
    return None


@cache
def _is_available(parameter: str, name: str) -> bool:
    if parameter == "llm":
        from rag_utils.llm import is_available
    else:
        from rag_utils.encoders import is_available
    return is_available(name)


def _local_models(parameters: Mapping[str, Any], root: Path) -> list[Path]:
    named = [parameters.get(parameter) for parameter in MODEL_PARAMETERS]
    return [root / name for name in named if isinstance(name, str) and name and (root / name).is_dir()]


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git(root: Path, *arguments: str) -> str | None:
    """What git answers, or None where there is no git or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
