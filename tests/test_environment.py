"""The set-up: one dependency list in two forms, a lock that obeys it, and a check that names what is missing."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from rag_utils import environment

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
LOCK = dict(
    line.split("==")
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    if "==" in line and line[0] != "#"
)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _listed() -> list[str]:
    return PYPROJECT["project"]["dependencies"] + PYPROJECT["project"]["optional-dependencies"]["fast"]


def test_conda_and_pip_lists_are_equal():
    (pip_part,) = (entry["pip"] for entry in CONDA if isinstance(entry, dict))
    assert pip_part == _listed()


def test_conda_reads_every_line_and_finds_no_build_string():
    rattler = pytest.importorskip("rattler")
    for line in (entry for entry in CONDA if isinstance(entry, str)):
        spec = rattler.MatchSpec(line)
        assert spec.build is None, line


def test_every_dependency_has_its_reason_beside_it():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for line in re.findall(r'^  "[^"]+",.*$', text, re.MULTILINE):
        if "rag-handbook[" not in line:
            assert re.search(r"#\s+\S+", line), line


def test_the_lock_obeys_the_bounds():
    developers = [r for r in PYPROJECT["project"]["optional-dependencies"]["dev"] if "rag-handbook[" not in r]
    for text in _listed() + developers:
        requirement = Requirement(text)
        assert requirement.specifier.contains(LOCK[_canonical(requirement.name)]), text


def test_every_package_of_the_list_is_used():
    """Named in the package, a notebook or the Makefile; what only another library needs has no place in the list."""
    used_by_name = {"jupyterlab", "ipykernel", "ipywidgets"}  # opened by a reader, not imported
    code = "".join(
        p.read_text(encoding="utf-8")
        for folder in ("rag_utils", "notebooks")
        for p in (ROOT / folder).rglob("*.*")
        if p.suffix in (".py", ".ipynb")
    )
    imports = {
        "pyyaml": "yaml",
        "scikit-learn": "sklearn",
        "python-dateutil": "dateutil",
        "flagembedding": "FlagEmbedding",
        "pyarrow": "parquet",
        "beautifulsoup4": "bs4",
        "markdown-it-py": "markdown_it",
    }
    for text in _listed():
        name = _canonical(Requirement(text).name)
        if name not in used_by_name:
            module = imports.get(name, name.replace("-", "_"))
            assert re.search(rf"\b{module}\b", code), f"{name} is not used"


def test_the_check_finds_nothing_missing_here():
    assert environment.missing() == []


def test_the_check_names_a_wrong_version(monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1" if name == "chromadb" else real(name))
    problems = environment.missing()
    assert len(problems) == 1 and "chromadb is 0.0.1" in problems[0] and "make setup" in problems[0]


def test_the_check_names_little_disk_and_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "DISK_GB", 10**9)
    monkeypatch.setattr(environment, "MEMORY_GB", 10**9)
    disk, memory = environment.missing(installed=False)
    assert "GB of disk are free" in disk and "GB of memory" in memory
