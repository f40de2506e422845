"""What a run costs beyond its cells: a notebook that needs no model, through plain papermill and through the runner.

Run: python tests/benchmarks/papermill.py   (make bench NAME=papermill)

The notebook computes a metric with its interval. Both execute it in kernels of this Python, interleaved; the outputs
must be equal. The import of `rag_utils.metrics` is timed in processes of its own. Exit status 1 below a goal.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path[0] = str(Path(__file__).resolve().parents[2])  # or `import papermill` would find this file

import papermill  # noqa: E402

from rag_utils.runs import run_study  # noqa: E402
from tests.notebook_project import Project, printed  # noqa: E402

ROUNDS = 7
SECONDS_OF_A_RUN = 1.5
SECONDS_OF_THE_IMPORT = 0.2
IMPORT = "import time; start = time.perf_counter(); import rag_utils.metrics; print(time.perf_counter() - start)"
CELLS = (
    "# parameters\nk = 4\nseed = 0",
    "from rag_utils.metrics import hits_at_k\nfrom rag_utils.statistics import wilson_interval",
    "hits = sum(hits_at_k(['a', 'b', 'c'], {gold: 1}, k) for gold in 'abcdef')",
    "print(seed, hits, wilson_interval(hits, 6))",
)


def timed(function, *arguments, **settings):
    """Seconds and what the function returns."""
    start = time.perf_counter()
    returned = function(*arguments, **settings)
    return time.perf_counter() - start, returned


def bench_runs(project: Project) -> bool:
    source, study = project.notebook("10_a", *CELLS), project.study("10_a")
    peer, ours, equal = [], [], True
    for seed in range(-1, ROUNDS):  # the first warms the file cache and is left out
        copy = project.root / f"peer{seed}" / "notebook.ipynb"
        copy.parent.mkdir()
        settings = {"parameters": {"seed": seed}, "progress_bar": False, "kernel_name": "python3"}
        seconds, _ = timed(papermill.execute_notebook, str(source), str(copy), **settings)
        peer.append(seconds)
        seconds, (outcome,) = timed(run_study, study, overrides={"seed": seed}, root=project.root)
        ours.append(seconds)
        equal &= printed(outcome.run.folder) == printed(copy.parent) != []
    ratio = median(a / b for a, b in zip(peer[1:], ours[1:], strict=True))
    print(f"a run: {median(ours[1:]):.2f} s, goal <= {SECONDS_OF_A_RUN}; papermill alone {median(peer[1:]):.2f} s")
    print(f"papermill / ours {ratio:.2f}, median of {ROUNDS} rounds; outputs equal: {equal}")
    return equal and median(ours[1:]) <= SECONDS_OF_A_RUN


def bench_import() -> bool:
    times = [
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]
    print(f"import rag_utils.metrics: {median(times):.3f} s, goal < {SECONDS_OF_THE_IMPORT}")
    return median(times) < SECONDS_OF_THE_IMPORT


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        held = bench_runs(Project(Path(folder) / "project")), bench_import()
    sys.exit(not all(held))
