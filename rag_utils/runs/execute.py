"""One run: a notebook executed by papermill in a kernel of this Python, ending in `run.json` or `failed.json`."""

import json
import logging
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_utils.provenance import _masked as masked
from rag_utils.provenance import machine
from rag_utils.runs.notebooks import cells_of, map_text, read_notebook
from rag_utils.runs.origins import commit, data_fingerprint
from rag_utils.runs.planning import PlannedRun

START_TIMEOUT = 120
"""Seconds for a kernel to start; under a second on a quiet machine."""
_LONGEST_SOCKET_FOLDER = 80  # the system allows 104 characters for a socket's path
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LLM_TOTALS = ("calls", "tokens_in", "tokens_out", "cache_hits", "invalid_replies")


class CellError(RuntimeError):
    """A notebook that did not run to its end; `facts` go to `failed.json`."""

    def __init__(self, facts: Mapping[str, Any]):
        super().__init__(f"cell {facts['cell']} (`{facts['line']}`): {facts['error']}: {facts['message']}")
        self.facts = dict(facts)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: "finished", "finished before", "failed" or "not run", with the reason of the last two."""

    run: PlannedRun
    state: str
    reason: str = ""
    seconds: float = 0.0


def carry_out(run: PlannedRun, *, timeout: int | None = None, threads: int | None = None) -> Outcome:
    """Execute a run into its folder, which is emptied first: without `run.json` it holds only a cut or failed run.

    A failure leaves the notebook up to the failing cell and `failed.json`, no results; it is an outcome, not raised.
    """
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    identity = {"study": run.study, "notebook": run.notebook, "run_id": run.run_id, "parameters": run.parameters}
    identity |= {"git": commit(run.root)}
    environment = {"RAG_RUN_FOLDER": str(run.folder)} | ({name: str(threads) for name in _THREADS} if threads else {})
    try:
        target = run.folder / "notebook.ipynb"
        execute(run.source, target, run.changed, cwd=run.root, environment=environment, timeout=timeout)
        seconds = round(time.perf_counter() - start, 3)
        _write_last(identity | {"seconds": seconds} | machine() | _noted(run), run.folder / "run.json")
        return Outcome(run, "finished", seconds=seconds)
    except Exception as error:  # whatever it is, it must not stop the other runs
        unexpected = {"error": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
        for path in run.folder.iterdir():
            if path.name != "notebook.ipynb":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        _write_last(
            identity | (error.facts if isinstance(error, CellError) else unexpected), run.folder / "failed.json"
        )
        return Outcome(run, "failed", masked(str(error)), round(time.perf_counter() - start, 3))


def execute(
    source: Path,
    target: Path,
    parameters: Mapping[str, Any],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: int | None = None,
) -> None:
    """Execute a notebook and write the executed copy, saved after each cell; missing folders are made.

    Args:
        source: The notebook; the kernel is this Python, whatever kernel it names.
        target: The executed copy.
        parameters: Values put in after the parameters cell; checked by `planning.plan`, not here.
        cwd: The kernel's working folder.
        environment: Added to the kernel's environment.
        timeout: Seconds that a cell may take; None = no limit.

    Raises:
        ValueError: Source and target are the same file.
        CellError: A cell failed, took too long, ended the notebook early, or the kernel died in it.
    """
    import papermill

    if source.resolve() == target.resolve():
        raise ValueError(f"source and target are the same file, {source}: give the executed copy another name")
    target.parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    # papermill fills in what stands in braces, also in a path
    paths = [str(path.resolve()).replace("{", "{{").replace("}", "}}") for path in (source, target)]
    with tempfile.TemporaryDirectory(prefix="rag-", ignore_cleanup_errors=True) as private:
        try:
            papermill.execute_notebook(
                *paths,
                parameters=dict(parameters),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                start_timeout=START_TIMEOUT,
                execution_timeout=timeout,
                kernel_manager_class=_kernel(Path(private), environment or {}),
                resources={"metadata": {"path": str(cwd)}},
                coalesce_streams=True,
                iopub_timeout=600,  # for a burst of output to be read
            )
        except Exception as error:
            raise _cell_error(target, error, timeout) from error
    _refuse_early_end(target)


def _kernel(private: Path, environment: Mapping[str, str]) -> type:
    """A kernel manager that starts this very Python, cut off from the user's IPython settings.

    It speaks over sockets in a private folder where the system has them, so kernels that start at once cannot clash.
    """
    import zmq
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    settings = {
        "IPYTHONDIR": str(private),
        "PYTHONHASHSEED": "0",  # sets and dicts in one order
        "TQDM_DISABLE": "1",  # nobody watches, and bars would put times into the notebook
    }

    class Kernel(AsyncKernelManager):
        kernel_spec = KernelSpec(argv=command, display_name="Python 3", language="python")

        def __init__(self, **keywords: Any):
            super().__init__(**keywords)
            if os.name == "posix" and len(str(private)) < _LONGEST_SOCKET_FOLDER:
                self.transport, self.connection_file = "ipc", str(private / "kernel.json")

        def client(self, **keywords: Any) -> Any:
            made = super().client(**keywords)
            made.context.setsockopt(zmq.RCVHWM, 0)  # no limit, or the end of a burst of output would be dropped
            return made

        async def start_kernel(self, **keywords: Any) -> None:  # type: ignore[override]  # its base is typed unlike it is
            await super().start_kernel(env={**os.environ, **settings, **environment}, **keywords)

    return Kernel


def _cell_error(target: Path, error: Exception, timeout: int | None) -> CellError:
    """The error with the cell that papermill was in: the last one that has a starting time."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    cells = cells_of(read_notebook(target)) if target.is_file() else []
    started = [cell for cell in cells if cell.metadata["papermill"].get("start_time")]
    facts: dict[str, Any] = {"cell": None, "line": "the kernel did not start"}
    if started:
        facts = {"cell": started[-1].number, "line": started[-1].first_line}
    facts |= {"error": type(error).__name__, "message": str(error), "traceback": ""}
    if isinstance(error, PapermillExecutionError):
        facts |= {"error": error.ename, "message": error.evalue, "traceback": "\n".join(error.traceback)}
    elif isinstance(error, DeadKernelError):
        facts["message"] = "the kernel died, most often for want of memory"
    elif isinstance(error, CellTimeoutError) and "IOPub" not in str(error):
        facts["message"] = f"the cell ran longer than {timeout} s (--timeout)"
    return CellError({name: _ANSI.sub("", v) if isinstance(v, str) else v for name, v in facts.items()})


def _refuse_early_end(target: Path) -> None:
    """A notebook that leaves by `sys.exit(0)` is a finished one to papermill, not here."""
    for cell in cells_of(read_notebook(target)):
        if cell.is_code and cell.source.strip() and cell.raw["execution_count"] is None:
            message = "not run: a cell before it ended the notebook"
            raise CellError({"cell": cell.number, "line": cell.first_line, "error": "SystemExit", "message": message})


def _noted(run: PlannedRun) -> dict[str, Any]:
    """What the notebook's kernel noted (`provenance.note`, `provenance.stage`), by kind; the file is folded in."""
    path = run.folder / "provenance.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        fact = json.loads(line)
        kinds[fact.pop("kind")].append(fact)
    path.unlink(missing_ok=True)
    llm = kinds.pop("llm", [])
    return {
        "datasets": kinds.pop("dataset", []),
        "data_fingerprint": data_fingerprint(run.parameters, run.root),
        "models": kinds.pop("model", []),
        "llm": {total: sum(fact.get(total, 0) for fact in llm) for total in _LLM_TOTALS},
        "stages": kinds.pop("stage", []),
        "notes": dict(kinds),
    }


def _write_last(record: Mapping[str, Any], path: Path) -> None:
    """All or nothing: a reader never sees half a file."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(map_text(record, masked), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(draft, path)
