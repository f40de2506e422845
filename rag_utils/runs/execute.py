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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from filelock import FileLock
from tqdm import tqdm

from rag_utils.provenance import machine, masked
from rag_utils.runs.notebooks import StudyError, cells_of, map_text, read_notebook
from rag_utils.runs.publish import commit
from rag_utils.runs.studies import MODEL_PARAMETERS, PlannedRun
from rag_utils.schema import MAY_PASS

_KERNEL = """
from ipykernel.kernelapp import IPKernelApp

class Unlimited(IPKernelApp):
    def init_iopub(self, context):
        context.sndhwm = 0  # no limit, or a burst of output would lose lines, its end among them
        super().init_iopub(context)
        # every shutdown interrupts first, which may reach the kernel between two cells: no error
        self.log.addFilter(lambda record: "KeyboardInterrupt caught" not in record.getMessage())

Unlimited.launch_instance()
"""
_LLM_TOTALS = ("calls", "tokens_in", "tokens_out", "cache_hits", "invalid_replies")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, with the reason of the last three.

    "finished", "finished before", "incomplete" (there are results, but a server failed to reply: the next time it runs
    again, and only what failed is asked), "failed" or "not run".
    """

    run: PlannedRun
    state: str
    reason: str = ""


def run_all(
    runs: Sequence[PlannedRun], workers: int, scheduler: str | None, timeout: int | None, *, from_commit: bool = False
) -> list[Outcome]:
    """Carry out the runs that are neither finished (`from_commit`: from a clean tree) nor without their model."""
    ended = {run.run_id: Outcome(run, "finished before") for run in runs if run.finished(from_commit=from_commit)}
    available = cache(_is_available)
    for run in runs:
        named = {} if run.run_id in ended else {name: run.parameters.get(name) for name in MODEL_PARAMETERS}
        absent = [f"{name} {model}" for name, model in named.items() if model and not available(name, model, run.root)]
        if absent:
            reason = f"{', '.join(absent)}: neither here nor within reach"
            if not run.skip_missing_models:
                remedy = "prepare it (README, models), go online, or write `missing_models: skip` into the study"
                raise StudyError(f"{reason}; {remedy}")
            ended[run.run_id] = Outcome(run, "not run", reason)
    todo = [run for run in runs if run.run_id not in ended]
    task = partial(carry_out, timeout=timeout, from_commit=from_commit)
    alone = scheduler is None and min(workers, len(todo)) < 2
    outcomes = map(task, todo) if alone else _on_cluster(task, todo, workers, scheduler)
    ended |= {outcome.run.run_id: outcome for outcome in tqdm(outcomes, total=len(todo), unit="run", disable=not todo)}
    return [ended[run.run_id] for run in runs]


def _is_available(parameter: str, model: str, root: Path) -> bool:
    """Whether the model can be had; an encoder that is fetched from the hub is fetched here, before anything runs."""
    if parameter == "llm":
        from rag_utils.llm import is_available

        return is_available(model)
    from rag_utils.encoders import ModelError
    from rag_utils.encoders.folders import find_model

    try:
        return (root / model).is_dir() or bool(find_model(model))
    except ModelError:
        return False


def _on_cluster(
    task: Callable[[PlannedRun], Outcome], runs: Sequence[PlannedRun], workers: int, scheduler: str | None
) -> Iterator[Outcome]:
    """Outcomes as they come. Local workers are processes on loopback; Dask gives each, so its kernel, one thread."""
    from distributed import Client, LocalCluster, as_completed

    local: dict[str, Any] = {"n_workers": min(workers, len(runs)), "threads_per_worker": 1, "memory_limit": 0}
    local |= {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    place = nullcontext(scheduler) if scheduler else LocalCluster(**local)
    try:
        with place as cluster, Client(cluster) as client:
            futures = {client.submit(task, run, pure=False): run for run in runs}
            for future in as_completed(list(futures)):
                lost = future.exception()
                yield Outcome(futures[future], "failed", f"the worker was lost: {lost}") if lost else future.result()
    except OSError as error:
        raise StudyError(f"no Dask scheduler answers at {scheduler}: {error}") from None


def carry_out(run: PlannedRun, timeout: int | None, from_commit: bool = False) -> Outcome:
    """Execute a run unless another runner, which is waited for, has finished it meanwhile.

    The lock ends with the process that holds it, however that ends.
    """
    locks = run.folder.parent.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / f"{run.study}.{run.run_id}"):
        done = run.finished(from_commit=from_commit)
        return Outcome(run, "finished before") if done else _carried_out(run, timeout)


def _carried_out(run: PlannedRun, timeout: int | None) -> Outcome:
    """Execute a run into its folder, which is emptied first: what lies there is cut, failed or not to be kept.

    A failure leaves the notebook up to the failing cell and `failed.json`, no results; it is an outcome, not raised.
    """
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    start = time.perf_counter()
    source, copy = run.root / "notebooks" / f"{run.notebook}.ipynb", run.folder / "notebook.ipynb"
    head, changes = commit(run.root)
    record: dict[str, Any] = {
        "study": run.study,
        "notebook": run.notebook,
        "run_id": run.run_id,
        "parameters": run.parameters,
    }
    record |= {"git": {"commit": head, "dirty": bool(changes)}, "data_fingerprint": run.data}
    try:
        execute(source, copy, run.changed, run.root, {"RAG_RUN_FOLDER": str(run.folder)}, timeout)
        record |= {"seconds": round(time.perf_counter() - start, 3)} | machine() | _noted(run.folder)
        failures = record["llm"]["errors"]
        missing = ", ".join(f"{number} x {error}" for error, number in failures.items() if error in MAY_PASS)
        _write_last(record | {"incomplete": missing}, run.folder / "run.json")
        reason = f"replies that failed: {missing}; the same command asks for them again"
        return Outcome(run, "incomplete", reason) if missing else Outcome(run, "finished")
    except Exception as error:  # whatever it is, it must not stop the other runs
        for path in run.folder.iterdir():
            if path != copy:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        failure = _failure(error, copy)
        _write_last(record | failure, run.folder / "failed.json")
        return Outcome(run, "failed", masked("cell {cell} (`{line}`): {error}: {message}".format(**failure)))


def execute(
    source: Path, target: Path, parameters: dict[str, Any], cwd: Path, variables: dict[str, str], timeout: int | None
) -> None:
    """Execute a notebook in a kernel of this Python, the copy saved after each cell; missing folders are made."""
    import papermill

    if source.resolve() == target.resolve():
        raise ValueError(f"source and target are the same file, {source}: give the executed copy another name")
    target.parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    # papermill fills in what stands in braces, also in a path
    paths = [str(path.resolve()).replace("{", "{{").replace("}", "}}") for path in (source, target)]
    with tempfile.TemporaryDirectory(prefix="rag-", ignore_cleanup_errors=True) as private:
        papermill.execute_notebook(
            *paths,
            parameters=parameters,
            kernel_name="python3",
            language="python",
            progress_bar=False,
            start_timeout=120,
            execution_timeout=timeout,
            kernel_manager_class=_kernel(private, variables),
            resources={"metadata": {"path": str(cwd)}},
            coalesce_streams=True,
            iopub_timeout=600,  # for a burst of output to be read
        )
    code = [cell for cell in cells_of(read_notebook(target)) if cell.is_code and cell.source.strip()]
    if any(cell.raw["execution_count"] is None for cell in code):
        raise RuntimeError("the cell ended the notebook before its last cell")


def _kernel(private: str, variables: dict[str, str]) -> type:
    """A kernel manager that starts this very Python, cut off from the user's IPython settings.

    It speaks over sockets in a private folder where the system has them, so kernels that start at once cannot clash.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    # equal orders of sets; no bars, which would put times into the notebook
    variables = {"IPYTHONDIR": private, "PYTHONHASHSEED": "0", "TQDM_DISABLE": "1", **variables}
    templates = {name: value.replace("$", "$$") for name, value in variables.items()}
    command = [sys.executable, "-c", _KERNEL, "-f", "{connection_file}"]

    class Kernel(AsyncKernelManager):
        kernel_spec = KernelSpec(argv=command, env=templates)

        def __init__(self, **keywords: Any):
            super().__init__(**keywords)
            if os.name == "posix" and len(private) < 80:  # a socket's path may have 104 characters
                self.transport, self.connection_file = "ipc", f"{private}/kernel.json"

        def client(self, **keywords: Any) -> Any:
            made = super().client(**keywords)
            made.context.rcvhwm = 0  # as in _KERNEL
            return made

    return Kernel


def _failure(error: Exception, copy: Path) -> dict[str, Any]:
    """What went wrong, in the cell that papermill was in: the last one that has a starting time."""
    cells = cells_of(read_notebook(copy)) if copy.is_file() else []
    started = [cell for cell in cells if cell.raw["metadata"].get("papermill", {}).get("start_time")]
    return {
        "cell": started[-1].number if started else None,
        "line": started[-1].source.strip().partition("\n")[0] if started else "none was run",
        "error": getattr(error, "ename", type(error).__name__),  # papermill's errors hold those of the cell
        "message": getattr(error, "evalue", str(error).partition("\n")[0]),
        "traceback": re.sub(r"\x1b\[[0-9;]*m", "", "".join(traceback.format_exception(error))),
    }


def _noted(folder: Path) -> dict[str, Any]:
    """What the notebook's kernel noted (`provenance.note`, `provenance.stage`), by kind; the file is folded in."""
    path = folder / "provenance.jsonl"
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        fact = json.loads(line)
        kinds[fact.pop("kind")].append(fact)
    path.unlink(missing_ok=True)
    llm = kinds.pop("llm", [])
    totals: dict[str, Any] = {total: sum(fact.get(total, 0) for fact in llm) for total in _LLM_TOTALS}
    totals["errors"] = dict(sum((Counter(fact.get("errors", {})) for fact in llm), Counter()))
    known = {f"{kind}s": kinds.pop(kind, []) for kind in ("dataset", "model", "stage")}
    return {**known, "llm": totals, "notes": kinds}


def _write_last(record: Mapping[str, Any], path: Path) -> None:
    """All or nothing: a reader never sees half a file."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(map_text(record, masked), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(draft, path)
