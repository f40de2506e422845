"""Studies: notebooks run with checked parameters, each run kept with what it was made from.

`python -m rag_utils.runs STUDY.yaml` from a shell, `run_study` from Python.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_utils.provenance import project_root
from rag_utils.runs.execute import Outcome, run_all
from rag_utils.runs.notebooks import StudyError, differing_outputs, execution_order
from rag_utils.runs.parameters import Typed
from rag_utils.runs.publish import collect, commit, publish
from rag_utils.runs.studies import PlannedRun, plan

__all__ = ["StudyError", "differing_outputs", "execution_order", "main", "run_study"]


def run_study(
    path: str | Path,
    *,
    only: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    timeout: int | None = None,
    root: Path | None = None,
) -> list[Outcome]:
    """Run what a study has not finished yet.

    Args:
        path: The study file.
        only: A notebook's number or full name; None = all.
        overrides: Parameter values that beat notebook defaults, study defaults and matrix.
        workers: Runs at a time; more than one through a Dask cluster of processes on this machine.
        scheduler: Address of a running Dask scheduler whose workers see this folder; `workers` is then ignored.
        timeout: Seconds that a cell may take; None = no limit.
        root: The project, by default the one around the working folder.

    Returns:
        One outcome a run, in the order of the study; a failed run does not stop the others.

    Raises:
        StudyError: Before anything runs: something is wrong with the study, a notebook or a value.
    """
    runs = plan(Path(path), root=root or project_root(), only=only, overrides=overrides)
    return run_all(runs, workers, scheduler, timeout)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 = all went well, 1 = not all runs are whole, 2 = something is wrong, nothing done."""
    given = _parser().parse_args(arguments)
    try:
        runs = plan(given.study, root=project_root(), only=given.only, overrides=dict(given.set))
        return given.action(runs, given)
    except StudyError as error:
        print(f"{given.study}: nothing was done:\n{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rag_utils.runs", description=_run.__doc__)
    add = parser.add_argument
    add("study", type=Path, metavar="STUDY.yaml")
    add("--only", metavar="21", help="one notebook, by number or full name")
    add("--set", action="append", default=[], type=_assignment, metavar="name=value", help="beats every other value")
    add("--timeout", type=_positive, metavar="SECONDS", help="that a cell may take; none by default")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=_positive, default=1, metavar="N", help="runs at a time, on this machine")
    where.add_argument("--scheduler", metavar="tcp://...", help="a running Dask cluster that sees this folder")
    instead = parser.add_mutually_exclusive_group()
    for name, action in {"list": _list, "dry-run": _dry_run, "collect": _collect, "publish": _publish}.items():
        instead.add_argument(
            f"--{name}", dest="action", action="store_const", const=action, default=_run, help=action.__doc__
        )
    return parser


def _assignment(text: str) -> tuple[str, Typed]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, Typed(value)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _list(runs: Sequence[PlannedRun], _: argparse.Namespace) -> int:
    """Show each notebook's parameters."""
    for notebook, declared in {run.notebook: run.declared for run in runs}.items():
        print(notebook)
        for parameter in declared.values():
            print(f"  {parameter.name}: {parameter.kind} = {parameter.default!r}  # {parameter.comment}")
    return 0


def _dry_run(runs: Sequence[PlannedRun], _: argparse.Namespace) -> int:
    """Show the runs."""
    for run in runs:
        changed = " ".join(f"{name}={value!r}" for name, value in run.changed.items())
        print(f"{run.run_id}  {'finished' if run.finished() else 'to run'}  {changed}".rstrip())
    return 0


def _collect(runs: Sequence[PlannedRun], _: argparse.Namespace) -> int:
    """Write one table over the finished runs, mean and spread over seeds."""
    print(f"{sum(run.finished() for run in runs)} of {len(runs)} runs are finished; {collect(runs)} and .tex")
    return 0


def _publish(runs: Sequence[PlannedRun], given: argparse.Namespace) -> int:
    """Run, then copy what the study publishes to papermill_runs/published and figures."""
    changes = commit(runs[0].root)[1]
    if changes:
        raise StudyError("\n".join(["--publish needs a clean tree; commit or stash first:", *changes[:10]]))
    failed = _run(runs, given, from_commit=True)
    if not failed:
        print(*(f"published {path.relative_to(runs[0].root)}" for path in publish(runs)), sep="\n")
    return failed


def _run(runs: Sequence[PlannedRun], given: argparse.Namespace, *, from_commit: bool = False) -> int:
    """Run a study's notebooks; finished runs are kept."""
    outcomes = run_all(runs, given.workers, given.scheduler, given.timeout, from_commit=from_commit)
    for outcome in outcomes:
        place = outcome.run.folder.relative_to(outcome.run.root)
        print(f"{place}  {outcome.state}{': ' if outcome.reason else ''}{outcome.reason}")
    counts = Counter(outcome.state for outcome in outcomes)
    numbers = ", ".join(f"{number} {state}" for state, number in counts.items())
    print(f"{numbers}; executed notebooks, tables and figures lie in these folders")
    return int(counts["failed"] + counts["incomplete"] > 0)
