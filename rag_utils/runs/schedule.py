"""Which runs are still to do, and doing them: here one by one, or several at once on a Dask cluster."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from tqdm import tqdm

from rag_utils.runs.execute import Outcome, carry_out
from rag_utils.runs.planning import PlannedRun
from rag_utils.runs.studies import StudyError

CONNECT_TIMEOUT = 20
"""Seconds for a Dask scheduler to answer."""


def run_all(
    runs: Sequence[PlannedRun],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    timeout: int | None = None,
    finished: Callable[[PlannedRun], bool] = lambda run: run.finished,
    show: bool = False,
) -> list[Outcome]:
    """Carry out the runs that are neither finished nor without their model; one outcome each, in order.

    `show` prints a line as each run ends, below a bar where the output is a terminal.

    Raises:
        StudyError: Before anything runs: a model is missing and the study does not say to skip it.
    """
    todo = [run for run in runs if not finished(run)]
    absent = {run.run_id: f"{run.missing} is neither here nor within reach" for run in todo if run.missing}
    if absent and not runs[0].skip_missing_models:
        remedy = "prepare it (README, models), go online, or write `missing_models: skip` into the study"
        raise StudyError([*absent.values(), remedy])
    ended = {run.run_id: Outcome(run, "finished before") for run in runs if run not in todo}
    ended |= {run.run_id: Outcome(run, "not run", absent[run.run_id]) for run in todo if run.run_id in absent}
    todo = [run for run in todo if run.run_id not in absent]
    if scheduler is not None or min(workers, len(todo)) > 1:
        outcomes = _on_cluster(todo, workers, scheduler, timeout)
    else:
        outcomes = (carry_out(run, timeout=timeout) for run in todo)
    with tqdm(total=len(todo), unit="run", disable=None if show else True) as bar:
        for outcome in outcomes:
            ended[outcome.run.run_id] = outcome
            bar.update()
            if show:
                bar.write(f"{outcome.run.run_id}  {outcome.state}, {outcome.seconds:.0f} s")
    return [ended[run.run_id] for run in runs]


def _on_cluster(
    runs: Sequence[PlannedRun], workers: int, scheduler: str | None, timeout: int | None
) -> Iterator[Outcome]:
    """Outcomes as they come; the local cluster lives on loopback, without a dashboard, and is closed at the end."""
    from distributed import Client, LocalCluster, as_completed

    settings: dict[str, Any] = {"timeout": timeout}
    with ExitStack() as stack:
        if scheduler is None:
            settings["threads"] = max(1, (os.cpu_count() or 1) // workers)  # or all kernels would take all cores
            local = LocalCluster(
                n_workers=min(workers, len(runs)),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            )
            cluster = stack.enter_context(local)
        else:
            cluster = scheduler
        try:
            client = stack.enter_context(Client(cluster, timeout=CONNECT_TIMEOUT))
        except OSError as error:
            raise StudyError([f"no Dask scheduler answers at {scheduler}: {error}"]) from None
        futures = {client.submit(carry_out, run, **settings, pure=False): run for run in runs}
        for future in as_completed(list(futures)):
            lost = future.exception()
            yield Outcome(futures[future], "failed", f"the worker was lost: {lost}") if lost else future.result()
