"""Runs carried out: each notebook by papermill in a kernel of this Python, ending in `run.json` or `failed.json`."""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rag_utils.provenance import _masked as masked
from rag_utils.provenance import machine
from rag_utils.runs.notebooks import Cell, cells_of, map_text, read_notebook
from rag_utils.runs.publish import commit
from rag_utils.runs.studies import MODEL_PARAMETERS, PlannedRun, StudyError

START_TIMEOUT, CONNECT_TIMEOUT = 120, 20
"""Seconds for a kernel to start (under one on a quiet machine), and for a Dask scheduler to answer."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_LLM_TOTALS = ("calls", "tokens_in", "tokens_out", "cache_hits", "invalid_replies")
_LONGEST_SOCKET_FOLDER = 80  # the system allows 104 characters for a socket's path


class CellError(RuntimeError):
    """A notebook that did not run to its end; `facts` go to `failed.json`."""

    def __init__(self, cell: Cell | None, error: str, message: str, trace: str = ""):
        number, line = (cell.number, cell.source.strip().partition("\n")[0]) if cell else (None, "")
        super().__init__(f"cell {number} (`{line}`): {error}: {message}" if cell else f"no cell was run: {message}")
        self.facts = {"cell": number, "line": line, "error": error, "message": message, "traceback": trace}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: "finished", "finished before", "failed" or "not run", with the reason of the last two."""

    run: PlannedRun
    state: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.run.run_id}  {self.state}{': ' if self.reason else ''}{self.reason}"


def run_all(
    runs: Sequence[PlannedRun],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    timeout: int | None = None,
    from_commit: bool = False,
) -> list[Outcome]:
    """Carry out the runs that are neither finished (`from_commit`: from a clean tree) nor without their model.

    Raises:
        StudyError: Before anything runs: a model is missing and the study does not say to skip it.
    """
    ended = {run.run_id: Outcome(run, "finished before") for run in runs if run.finished(from_commit=from_commit)}
    todo = [run for run in runs if run.run_id not in ended]
    available = cache(_is_available)
    for run in todo:
        named = [(parameter, run.parameters.get(parameter)) for parameter in MODEL_PARAMETERS]
        for parameter, model in named:
            if model and not available(model, run.root):
                ended[run.run_id] = Outcome(run, "not run", f"{parameter} {model} is neither here nor within reach")
                if not run.skip_missing_models:
                    remedy = "prepare it (README, models), go online, or write `missing_models: skip` into the study"
                    raise StudyError(f"{ended[run.run_id].reason}: {remedy}")
    todo = [run for run in todo if run.run_id not in ended]
    alone = scheduler is None and min(workers, len(todo)) < 2
    outcomes = (carry_out(run, timeout) for run in todo) if alone else _on_cluster(todo, workers, scheduler, timeout)
    with tqdm(total=len(todo), unit="run", disable=None) as bar:  # no bar where the output is no terminal
        for outcome in outcomes:
            ended[outcome.run.run_id] = outcome
            bar.update()
            bar.write(str(outcome))
    return [ended[run.run_id] for run in runs]


def _is_available(model: str, root: Path) -> bool:
    """Whether the model can be had; one that is fetched from the hub is fetched here, before anything runs."""
    from rag_utils.encoders import ModelError
    from rag_utils.encoders.folders import find_model

    try:
        return (root / model).is_dir() or bool(find_model(model))
    except ModelError:
        return False


def _on_cluster(
    runs: Sequence[PlannedRun], workers: int, scheduler: str | None, timeout: int | None
) -> Iterator[Outcome]:
    """Outcomes as they come; the local cluster lives on loopback, without a dashboard, and is closed at the end."""
    from distributed import Client, LocalCluster, as_completed

    settings = {
        "n_workers": min(workers, len(runs)),
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "memory_limit": 0,
        "silence_logs": logging.CRITICAL,
        "env": dict.fromkeys(_THREADS, max(1, (os.cpu_count() or 1) // workers)),  # or each would take all cores
    }
    try:
        with nullcontext(scheduler) if scheduler else LocalCluster(**settings) as cluster:
            with Client(cluster, timeout=CONNECT_TIMEOUT) as client:
                futures = {client.submit(carry_out, run, timeout, pure=False): run for run in runs}
                for future in as_completed(list(futures)):
                    lost = future.exception()
                    yield (
                        Outcome(futures[future], "failed", f"the worker was lost: {lost}") if lost else future.result()
                    )
    except OSError as error:
        raise StudyError(f"no Dask scheduler answers at {scheduler}: {error}") from None


def carry_out(run: PlannedRun, timeout: int | None = None) -> Outcome:
    """Execute a run into its folder, which is emptied first: without `run.json` it holds only a cut or failed run.

    A failure leaves the notebook up to the failing cell and `failed.json`, no results; it is an outcome, not raised.
    """
    shutil.rmtree(run.folder, ignore_errors=True)
    start = time.perf_counter()
    record = {"study": run.study, "notebook": run.notebook, "run_id": run.run_id, "parameters": run.parameters}
    head, changes = commit(run.root)
    record |= {"git": {"commit": head, "dirty": bool(changes)}, "data_fingerprint": run.data}
    source = run.root / "notebooks" / f"{run.notebook}.ipynb"
    told = {"RAG_RUN_FOLDER": str(run.folder)}
    try:
        execute(source, run.folder / "notebook.ipynb", run.changed, run.root, told, timeout)
        record |= {"seconds": round(time.perf_counter() - start, 3)} | machine() | _noted(run.folder)
        _write_last(record, run.folder / "run.json")
        return Outcome(run, "finished")
    except Exception as error:  # whatever it is, it must not stop the other runs
        for path in run.folder.iterdir():
            if path.name != "notebook.ipynb":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        unexpected = {"error": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
        _write_last(record | getattr(error, "facts", unexpected), run.folder / "failed.json")
        return Outcome(run, "failed", masked(str(error)))


def execute(
    source: Path,
    target: Path,
    parameters: Mapping[str, Any],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout: int | None = None,
) -> None:
    """Execute a notebook in a kernel of this Python and write the copy, saved after each cell; folders are made.

    Raises:
        ValueError: Source and target are the same file.
        CellError: A cell failed, took longer than `timeout` seconds, ended the notebook, or the kernel died in it.
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
                kernel_manager_class=_kernel(private, environment or {}),
                resources={"metadata": {"path": str(cwd)}},
                coalesce_streams=True,
                iopub_timeout=600,  # for a burst of output to be read
            )
        except Exception as error:
            raise _cell_error(target, error, timeout) from error
    for cell in cells_of(read_notebook(target)):
        if cell.is_code and cell.source.strip() and cell.raw["execution_count"] is None:
            raise CellError(cell, "SystemExit", "not run: a cell before it ended the notebook")


def _kernel(private: str, environment: Mapping[str, str]) -> type:
    """A kernel manager that starts this very Python, cut off from the user's IPython settings.

    It speaks over sockets in a private folder where the system has them, so kernels that start at once cannot clash.
    """
    import zmq
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    # equal orders of sets; no bars, which would put times into the notebook
    variables = {"IPYTHONDIR": private, "PYTHONHASHSEED": "0", "TQDM_DISABLE": "1", **environment}
    templates = {name: value.replace("$", "$$") for name, value in variables.items()}
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    class Kernel(AsyncKernelManager):
        kernel_spec = KernelSpec(argv=command, env=templates)

        def __init__(self, **keywords: Any):
            super().__init__(**keywords)
            if os.name == "posix" and len(private) < _LONGEST_SOCKET_FOLDER:
                self.transport, self.connection_file = "ipc", f"{private}/kernel.json"

        def client(self, **keywords: Any) -> Any:
            made = super().client(**keywords)
            made.context.setsockopt(zmq.RCVHWM, 0)  # no limit, or the end of a burst of output would be dropped
            return made

    return Kernel


def _cell_error(target: Path, error: Exception, timeout: int | None) -> CellError:
    """The error with the cell that papermill was in: the last one that has a starting time."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    cells = cells_of(read_notebook(target)) if target.is_file() else []
    cell = next((cell for cell in reversed(cells) if cell.raw["metadata"]["papermill"].get("start_time")), None)
    if isinstance(error, PapermillExecutionError):
        return CellError(cell, error.ename, error.evalue, re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)))
    message = str(error)
    if isinstance(error, DeadKernelError):
        message = "the kernel died, most often for want of memory"
    elif isinstance(error, CellTimeoutError) and "IOPub" not in message:
        message = f"the cell ran longer than {timeout} s (--timeout)"
    return CellError(cell, type(error).__name__, message)


def _noted(folder: Path) -> dict[str, Any]:
    """What the notebook's kernel noted (`provenance.note`, `provenance.stage`), by kind; the file is folded in."""
    path = folder / "provenance.jsonl"
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        fact = json.loads(line)
        kinds[fact.pop("kind")].append(fact)
    path.unlink(missing_ok=True)
    llm = kinds.pop("llm", [])
    record = {"llm": {total: sum(fact.get(total, 0) for fact in llm) for total in _LLM_TOTALS}}
    record |= {f"{kind}s": kinds.pop(kind, []) for kind in ("dataset", "model", "stage")}
    return record | {"notes": kinds}


def _write_last(record: Mapping[str, Any], path: Path) -> None:
    """All or nothing: a reader never sees half a file."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(map_text(record, masked), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(draft, path)
