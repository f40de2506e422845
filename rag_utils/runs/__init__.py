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
from rag_utils.runs.notebooks import differing_outputs, execution_order
from rag_utils.runs.parameters import Typed
from rag_utils.runs.publish import collect, commit, publish
from rag_utils.runs.studies import PlannedRun, StudyError, plan

__all__ = ["differing_outputs", "execution_order", "main", "run_study"]


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
        StudyError: Before anything runs: what is wrong with the study, its notebooks or a value.
    """
    runs = plan(Path(path), root=root or project_root(), only=only, overrides=overrides)
    return run_all(runs, workers=workers, scheduler=scheduler, timeout=timeout)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 = all went well, 1 = a run failed, 2 = something is wrong and nothing was done."""
    given = _parser().parse_args(arguments)
    root = project_root()
    try:
        changes = commit(root)[1] if given.publish else []
        if changes:
            raise StudyError("\n".join(["--publish needs a clean tree; commit or stash first:", *changes[:10]]))
        runs = plan(given.study, root=root, only=given.only, overrides=dict(given.set))
        if given.list or given.dry_run:
            (_list if given.list else _dry_run)(runs)
        elif given.collect:
            print(f"{collect(runs)} and .tex, over {sum(run.finished() for run in runs)} of {len(runs)} runs")
        else:
            how = {"workers": given.workers, "scheduler": given.scheduler, "timeout": given.timeout}
            return _conclude(run_all(runs, **how, from_commit=given.publish), root, given.publish)
        return 0
    except StudyError as error:
        print(f"{given.study}: nothing was done:\n{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rag_utils.runs", description="Run a study's notebooks.")
    add = parser.add_argument
    add("study", type=Path, metavar="STUDY.yaml")
    add("--only", metavar="21", help="one notebook, by number or full name")
    add("--set", action="append", default=[], type=_assignment, metavar="name=value", help="beats every other value")
    add("--timeout", type=_positive, metavar="SECONDS", help="that a cell may take; none by default")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=_positive, default=1, metavar="N", help="runs at a time, on this machine")
    where.add_argument("--scheduler", metavar="tcp://...", help="a running Dask cluster that sees this folder")
    action = parser.add_mutually_exclusive_group()
    for name, text in {
        "list": "show each notebook's parameters",
        "dry-run": "show the runs",
        "collect": "one table over the finished runs, mean and spread over seeds",
        "publish": "run, then copy results to papermill_runs/published and figures",
    }.items():
        action.add_argument(f"--{name}", action="store_true", help=text)
    return parser


def _assignment(text: str) -> tuple[str, Typed]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, Typed(value)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _list(runs: Sequence[PlannedRun]) -> None:
    for notebook, declared in {run.notebook: run.declared for run in runs}.items():
        print(notebook)
        for parameter in declared.values():
            comment = f"  # {parameter.comment}" if parameter.comment else ""
            print(f"  {parameter.name}: {parameter.kind} = {parameter.default!r}{comment}")


def _dry_run(runs: Sequence[PlannedRun]) -> None:
    for run in runs:
        changed = " ".join(f"{name}={value!r}" for name, value in run.changed.items())
        print(f"{run.run_id}  {'finished' if run.finished() else 'to run'}  {changed}".rstrip())


def _conclude(outcomes: Sequence[Outcome], root: Path, publishing: bool) -> int:
    """Print what each run gave and where; publish if all went well."""
    for outcome in outcomes:
        print(outcome)
        if outcome.run.folder.is_dir():
            names = sorted(path.name for path in outcome.run.folder.iterdir())
            print(f"    {outcome.run.folder.relative_to(root)}: {', '.join(names)}")
    counts = Counter(outcome.state for outcome in outcomes)
    print(", ".join(f"{number} {state}" for state, number in counts.items()))
    print(f"executed notebooks, tables and figures: {outcomes[0].run.folder.parent.relative_to(root)}")
    if counts["failed"]:
        return 1
    if publishing:
        written = publish([outcome.run for outcome in outcomes])
        print(*(f"published {path.relative_to(root)}" for path in written), sep="\n")
    return 0
