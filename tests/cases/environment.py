"""Set-up: lists that any platform reads, missing parts named with their remedy, no usage reports, nothing left over."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rag_utils.chunking import load_pipeline
from rag_utils.runs.studies import plan
from tests.notebook_project import Project

ROOT = Path(__file__).parent.parent.parent


def ENV_G01():
    """Build strings are found as conda itself reads a line, and ours has none."""
    rattler = pytest.importorskip("rattler")

    def with_build_string(lines):
        return [line for line in lines if rattler.MatchSpec(line).build is not None]

    lines = ["mkl_fft=1.2.0=py38h45dec08_0", "numpy>=1.26,<3", "python=3.11"]
    assert with_build_string(lines) == ["mkl_fft=1.2.0=py38h45dec08_0"]
    own = re.findall(r"^  - ([^\s#:]+)", (ROOT / "environment.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert with_build_string(own) == []
    assert "pip" in [re.match(r"[\w-]+", line)[0] for line in own]


ABSENT = """
import sys, time
start = time.perf_counter()
for package in ("FlagEmbedding", "keybert", "yake", "spacy"):
    sys.modules[package] = None  # `import` raises ModuleNotFoundError, as where it is not installed
import rag_utils.chunking, rag_utils.encoders, rag_utils.indexing, rag_utils.retrieval
print("seconds", time.perf_counter() - start)
rag_utils.encoders.load_reranker(backend="flag")("a question", ["a text"])
"""


def ENV_G03():
    """Without the heavy packages the import takes under 2 s; using one names it and the command that installs it."""
    done = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True, timeout=120)
    assert float(done.stdout.split()[1]) < 2
    assert done.returncode != 0
    message = done.stderr.strip().splitlines()[-1]
    assert "FlagEmbedding" in message
    assert "pip install" in message


WATCHED = """
import sys
reached = []
def watch(event, arguments):
    if event == "socket.getaddrinfo":
        reached.append(str(arguments[0]))
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        reached.append(str(arguments[1][0]))
sys.addaudithook(watch)
import numpy as np
from rag_utils.indexing import DenseIndex
from rag_utils.schema import Chunk
def embedder(texts):
    vectors = np.random.default_rng(0).normal(size=(len(texts), 8)).astype("float32")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
embedder.name, embedder.revision, embedder.dimension, embedder.encode_queries = "random", "0", 8, embedder
chunks = [Chunk(id=f"c{n}", document_id="d", start=0, end=1, fields={"text": "x"}, metadata={"n": n}) for n in range(3)]
found = DenseIndex(chunks, embedder, path=sys.argv[1]).search(["a question"], 2)
assert len(found[0]) == 2
import time
time.sleep(1)  # reports are sent from a thread
print(*reached)
"""


def ENV_G04(tmp_path):
    """Building and searching an index reaches no other machine, also where the environment allows telemetry."""
    environment = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
    command = [sys.executable, "-c", WATCHED, str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert [host for host in done.stdout.split() if host not in ("127.0.0.1", "::1", "localhost")] == []
    assert "telemetry" not in (done.stdout + done.stderr).lower()


def ENV_G05():
    """One command sets up and runs the small path; README names its time, disk and memory; it needs no outside data."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^handbook: setup.*\n\t.*rag_utils\.runs papermill_runs/quick\.yaml", makefile, re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make handbook" in readme
    assert re.search(r"\| *time *\| *disk *\| *memory *\|", readme)
    assert re.search(r"make handbook.*\| *about \d+ (minutes|seconds).*MB.*GB", readme)
    runs = plan(ROOT / "papermill_runs" / "quick.yaml", root=ROOT)
    assert {run.notebook for run in runs} == {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert all(set(run.data.values()) == {"package"} for run in runs)


def ENV_G06(tmp_path):
    """Encoding in two worker processes, one batch fails: the run ends with the error and no worker is left.

    The package starts worker processes in one place, the runner; notebooks encode in their own process.
    """
    project = Project(tmp_path / "p")
    encode = "for batch in range(3):\n    if batch == bad: raise RuntimeError('this batch')"
    project.notebook("10_a", "# parameters\nbad = -1", encode)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    study = project.study({"notebook": "10_a", "matrix": {"bad": [-1, 1]}})
    outcomes = project.run(study, workers=2)
    assert [outcome.state for outcome in outcomes] == ["finished", "failed"]
    assert "RuntimeError: this batch" in outcomes[1].reason
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert [child for child in left if "resource_tracker" not in " ".join(child.cmdline())] == []


def ENV_G02(monkeypatch):
    """A missing spaCy pipeline is named with the command that gets it, before any work is done."""
    monkeypatch.setattr("spacy.util.is_package", lambda name: False)
    with pytest.raises(OSError, match=r"en_core_web_sm is not installed.*download en_core_web_sm"):
        load_pipeline("en_core_web_sm")
