"""What a run used and what it cost: the only module-level state of the package.

A fact is kept in memory and, under the runner (`RAG_RUN_FOLDER` is set), appended at once as a JSON line to
`provenance.jsonl` in the run's folder, so that it outlives a crash; the runner folds the lines into `run.json`.
"""

import json
import math
import os
import platform
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

_records: list[dict[str, Any]] = []
_lock = threading.Lock()
_WORD = "(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PAT|CREDENTIAL|AUTH)S?"
_SECRET = re.compile(rf"(^|_){_WORD}(_|$)", re.IGNORECASE)
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_QUERY = re.compile(rf"([?&](?:[\w-]*[_-])?{_WORD}=)[^&#\s\"'<>`)]+", re.IGNORECASE)


def project_root() -> Path:
    """The folder with `notebooks/` and `pyproject.toml`, above the working folder or the package; else the former."""
    here = Path.cwd()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / "notebooks").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    return here


def cache_folder() -> Path:
    """Vectors, scores and prepared models: `RAG_CACHE_DIR`, else `.cache` in the project; made on demand."""
    given = os.environ.get("RAG_CACHE_DIR")
    folder = Path(given).expanduser() if given else project_root() / ".cache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_folder(notebook: str = "untitled") -> Path:
    """Where results go: the runner's `RAG_RUN_FOLDER`, else `scratch/interactive/<notebook>`; made on demand.

    Jupyter names the open notebook to its kernel, so that `notebook` is needed elsewhere only.
    """
    given = os.environ.get("RAG_RUN_FOLDER")
    opened = Path(os.environ.get("JPY_SESSION_NAME", "")).stem or notebook
    folder = Path(given) if given else project_root() / "papermill_runs" / "scratch" / "interactive" / opened
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def note(kind: str, **facts: Any) -> None:
    """Keep a fact of the run, of a kind like "dataset", "model", "truncation" or "dropped"; an equal one is kept once.

    Values are text, numbers, None, or lists and mappings of these, else TypeError. Logins and keys in addresses, and
    the values of environment variables that look like secrets, are masked.
    """
    _keep({"kind": kind, **{name: _plain(value, name) for name, value in facts.items()}})


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Keep the seconds and the peak memory of the block, also when it fails.

    `peak_memory_mb` is the largest resident size of this process (10^6 bytes), read every 50 ms: it holds what was
    loaded before the block as well, and shorter spikes may be missed.
    """
    import psutil

    process, done = psutil.Process(), threading.Event()
    peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
        peak = max(peak, process.memory_info().rss)
        _keep({"kind": "stage", "name": name, "seconds": round(seconds, 4), "peak_memory_mb": round(peak / 1e6, 1)})


def recorded() -> list[dict[str, Any]]:
    """Everything kept by this process so far, oldest first: notes as given, stages with kind "stage"."""
    with _lock:
        return [dict(record) for record in _records]


def machine() -> dict[str, Any]:
    """The machine and the software: Python, platform, processor, cores, memory (GB), GPU, versions of dependencies."""
    import psutil

    cpuinfo = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text(errors="replace") if cpuinfo.is_file() else "")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": named[1] if named else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "gpu": _gpus(),
        "packages": _versions(),
    }


def _gpus() -> str:
    """Names as the NVIDIA driver gives them: asking torch would cost its import in every run."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):  # no driver, or one that hangs or fails
        return ", ".join(subprocess.check_output(query, text=True, timeout=20).splitlines())
    return "none"


def _versions() -> dict[str, str]:
    """Installed versions of this package and of what it asks for, development tools left out."""
    versions = {}
    with suppress(PackageNotFoundError):
        wanted = [line for line in requires("rag-handbook") or [] if 'extra == "dev"' not in line]
        for name in ("rag-handbook", *(re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in wanted)):
            versions[name] = "not installed"
            with suppress(PackageNotFoundError):
                versions[name] = version(name)
    return versions


def _keep(record: dict[str, Any]) -> None:
    with _lock:
        if record in _records:
            return
        _records.append(record)
        if os.environ.get("RAG_RUN_FOLDER"):
            with open(run_folder() / "provenance.jsonl", "a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any, name: str) -> Any:
    """The value as JSON can hold it, with secrets masked."""
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        value = value.tolist()
    if isinstance(value, str | os.PathLike):
        return masked(os.fspath(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for nan and infinity
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {masked(str(key)): _plain(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, name) for item in value]
    raise TypeError(f"note({name}=...) got a {type(value).__name__}: pass text, a number, None, or a list of these")


def masked(text: str) -> str:
    """The text without logins and keys in addresses and without the secrets of the environment."""
    text = _QUERY.sub(r"\1***", _LOGIN.sub("***", text))
    for secret in [value for name, value in os.environ.items() if value and _SECRET.search(name)]:
        if text == secret or len(secret) >= 8:  # a shorter one would be "found" inside innocent words
            text = text.replace(secret, "***")
    return text
