"""What a run is made from: its sources, data, models and commit, as fingerprints that name its folder."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rag_utils.runs.notebooks import Cell
from rag_utils.store import digest

PACKAGE = Path(__file__).resolve().parent.parent
MODEL_PARAMETERS = ("embedder", "reranker", "tokenizer", "llm")
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
        package: Fingerprint of the package's folder, taken once for a whole study.
    """
    source = json.dumps([(cell.is_code, cell.source, cell.metadata.get("tags")) for cell in cells])
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
    """Data set -> SHA-256 of the folder it is read from; "package" for the built-in ones, "hub" without a folder."""
    folders = {name: _data_folder(name, parameters.get("data_dir"), root) for name in data_sets(parameters)}
    return {
        name: "package" if name.startswith("builtin_") else folder_fingerprint(folder) if folder else "hub"
        for name, folder in folders.items()
    }


def folder_fingerprint(folder: Path) -> str:
    """SHA-256 over the names and contents of all files below."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest(*(f"{path.relative_to(folder).as_posix()} {_content(path, *_state(path))}" for path in files))


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
    """Whether the model can be had; one that is fetched from the hub is fetched here, before anything runs."""
    if parameter == "llm":
        from rag_utils.llm import is_available

        return is_available(name)
    from rag_utils.encoders import ModelError
    from rag_utils.encoders.folders import find_model

    try:
        find_model(name)
    except ModelError:
        return False
    return True


def _local_models(parameters: Mapping[str, Any], root: Path) -> list[Path]:
    named = [parameters.get(parameter) for parameter in MODEL_PARAMETERS]
    return [root / name for name in named if isinstance(name, str) and name and (root / name).is_dir()]


def _data_folder(name: str, data_dir: str | None, root: Path) -> Path | None:
    """Where a data set lies, as `load_corpus` looks for it; the whole data folder where it has no folder of its own."""
    from rag_utils.corpora import list_corpora

    known = list_corpora().get(name, {}).get("folder", name)
    places = [root / Path(place).expanduser() for place in (data_dir, os.environ.get("RAG_DATA_DIR")) if place]
    candidates = [root / Path(name).expanduser(), *(folder for place in places for folder in (place / known, place))]
    return next((folder for folder in candidates if folder.is_dir()), None)


def _state(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns


@cache
def _content(path: Path, size: int, modified: int) -> str:
    """SHA-256 of a file, read again only when its size or time has changed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git(root: Path, *arguments: str) -> str | None:
    """What git answers, or None where there is no git or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
