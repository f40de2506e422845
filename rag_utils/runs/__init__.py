"""Studies: notebooks run with checked parameters, each run kept with what it was made from.

`python -m rag_utils.runs STUDY.yaml` from a shell, `run_study` from Python.
"""

from rag_utils.runs.command import main, run_study

__all__ = ["main", "run_study"]
