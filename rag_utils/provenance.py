"""What a run used and what it cost: the only module-level state of the package.

A fact is kept in memory and, under the runner (`RAG_RUN_FOLDER` is set), appended at once as a JSON line to
`provenance.jsonl` in the run's folder, so that it outlives a crash; the runner folds the lines into `run.json`.
"""

import importlib.metadata
import json
import math
import os
import platform
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_records: list[dict[str, Any]] = []
_lock = threading.Lock()

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_MASK = "***"
_SHORTEST_EMBEDDED_SECRET = 8  # a shorter one would be "found" inside innocent words


def project_root() -> Path:
    """The folder that holds `notebooks/` and `pyproject.toml`, at or above the working folder, else the package's.

    Without one (an installed copy, used from anywhere) it is the working folder.
    """
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "notebooks").is_dir() and (folder / "pyproject.toml").is_file():
                return folder
    return Path.cwd()


def cache_folder() -> Path:
    """Vectors, scores and prepared models: `RAG_CACHE_DIR`, else `.cache` in the project; made on demand."""
    given = os.environ.get("RAG_CACHE_DIR")
    return _made(Path(given).expanduser() if given else project_root() / ".cache")


def run_folder(notebook: str = "untitled") -> Path:
    """Where results go: the runner's `RAG_RUN_FOLDER`, else `scratch/interactive/<notebook>`; made on demand.

    Jupyter names the open notebook to its kernel, so that `notebook` is needed elsewhere only.
    """
    given = os.environ.get("RAG_RUN_FOLDER")
    if given:
        return _made(Path(given))
    opened = Path(os.environ.get("JPY_SESSION_NAME", "")).stem
    return _made(project_root() / "papermill_runs" / "scratch" / "interactive" / (opened or notebook))


def note(kind: str, **facts: Any) -> None:
    """Keep a fact of the run; an equal one is kept once.

    Args:
        kind: "dataset", "model", "llm", "truncation", "dropped", ...
        facts: plain values (text, numbers, None) or lists and mappings of them. The values of environment variables
            that look like secrets, and logins in addresses, are masked.

    Raises:
        TypeError: a value that JSON cannot hold.
    """
    _keep({"kind": kind, **{name: _plain(value, name) for name, value in facts.items()}})


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Keep the seconds and the peak memory of the block, also when it fails.

    `peak_memory_mb` is the largest resident size of this process (10^6 bytes), read every 50 ms: it holds what was
    loaded before the block as well, and shorter spikes may be missed.
    """
    with _PeakMemory() as memory:
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            memory.read()
            _keep({"kind": "stage", "name": name, "seconds": round(seconds, 4), "peak_memory_mb": memory.megabytes})


def recorded() -> list[dict[str, Any]]:
    """Everything kept by this process so far, oldest first: notes as given, stages with kind "stage"."""
    with _lock:
        return [dict(record) for record in _records]


def machine() -> dict[str, Any]:
    """The machine and the software: Python, platform, processor, cores, memory (GB), GPU, versions of dependencies."""
    import psutil

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "gpu": _gpu_model(),
        "packages": _package_versions(),
    }


class _PeakMemory:
    """Samples this process's resident size from a thread while the block runs."""

    def __enter__(self) -> "_PeakMemory":
        import psutil

        self._process = psutil.Process()
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return round(self._peak / 1e6, 1)

    def read(self) -> None:
        self._peak = max(self._peak, self._process.memory_info().rss)

    def _sample(self) -> None:
        while not self._done.wait(0.05):
            self.read()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _keep(record: dict[str, Any]) -> None:
    with _lock:
        if record in _records:
            return
        _records.append(record)
        if os.environ.get("RAG_RUN_FOLDER"):
            line = json.dumps(record, ensure_ascii=False, allow_nan=False)
            with open(run_folder() / "provenance.jsonl", "a", encoding="utf-8", newline="\n") as file:
                file.write(line + "\n")


def _plain(value: Any, name: str) -> Any:
    """The value as JSON can hold it, with secrets masked."""
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        value = value.tolist()
    if isinstance(value, str | os.PathLike):
        return _masked(os.fspath(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for nan and infinity
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {_masked(str(key)): _plain(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, name) for item in value]
    raise TypeError(f"note({name}=...) got a {type(value).__name__}: pass text, a number, None, or a list of these")


def _masked(text: str) -> str:
    text = _LOGIN_IN_URL.sub(_MASK, text)
    for variable, secret in os.environ.items():
        if secret and _SECRET_NAME.search(variable):
            if text == secret:
                return _MASK
            if len(secret) >= _SHORTEST_EMBEDDED_SECRET:
                text = text.replace(secret, _MASK)
    return text


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def _gpu_model() -> str:
    """Names as the NVIDIA driver gives them: asking torch would cost its import in every run."""
    program = shutil.which("nvidia-smi")
    if not program:
        return "none"
    query = [program, "--query-gpu=name", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    return ", ".join(answer.stdout.splitlines()) or "none"


def _package_versions() -> dict[str, str]:
    """Installed versions of this package and of what it asks for, development tools left out."""
    try:
        wanted = importlib.metadata.requires("rag-handbook") or []
    except importlib.metadata.PackageNotFoundError:
        return {"rag-handbook": "not installed: run `python -m pip install -e .`"}
    versions = {"rag-handbook": importlib.metadata.version("rag-handbook")}
    for requirement in wanted:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if 'extra == "dev"' not in requirement:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = "not installed"
    return versions
