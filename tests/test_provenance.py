"""What a run notes of itself: facts once, stages with their cost, never a secret."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from rag_utils import provenance
from rag_utils.provenance import cache_folder, machine, note, project_root, recorded, run_folder, stage


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Each test begins with an empty record, outside a run."""
    monkeypatch.setattr(provenance, "_records", [])
    for name in ("RAG_RUN_FOLDER", "RAG_CACHE_DIR", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


def test_root_is_found_from_below(project):
    assert project_root() == project


def test_root_is_the_packages_when_the_working_folder_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert project_root() == Path(provenance.__file__).resolve().parents[1]


def test_folders_are_made_where_they_belong(project, tmp_path, monkeypatch):
    assert cache_folder() == project / ".cache" and cache_folder().is_dir()
    interactive = project / "papermill_runs" / "scratch" / "interactive"
    assert run_folder("21_filtered_retrieval") == interactive / "21_filtered_retrieval"
    assert run_folder() == interactive / "untitled" and run_folder().is_dir()
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/40_hybrid_retrieval.ipynb")
    assert run_folder() == interactive / "40_hybrid_retrieval"
    monkeypatch.setenv("RAG_RUN_FOLDER", str(tmp_path / "a run"))
    monkeypatch.setenv("RAG_CACHE_DIR", str(tmp_path / "a cache"))
    assert run_folder("21_filtered_retrieval") == tmp_path / "a run" and (tmp_path / "a run").is_dir()
    assert cache_folder() == tmp_path / "a cache" and (tmp_path / "a cache").is_dir()


def test_equal_notes_are_kept_once():
    note("dataset", name="squad", n=np.int64(3), split=("test",))
    note("dataset", name="squad", n=3, split=["test"])
    note("dataset", name="squad", n=4, split=["test"])
    assert recorded() == [
        {"kind": "dataset", "name": "squad", "n": 3, "split": ["test"]},
        {"kind": "dataset", "name": "squad", "n": 4, "split": ["test"]},
    ]


def test_values_become_json(tmp_path):
    note("dropped", none=None, yes=np.bool_(True), nan=float("nan"), path=tmp_path, reasons={"no gold": 2})
    assert recorded() == [
        {"kind": "dropped", "none": None, "yes": True, "nan": "nan", "path": str(tmp_path), "reasons": {"no gold": 2}}
    ]
    with pytest.raises(TypeError, match=r"note\(thing=...\) got a object"):
        note("model", thing=object())


def test_secrets_are_masked(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    monkeypatch.setenv("DB_PASSWORD", "short")
    note("llm", key="sk-0123456789", inside="Bearer sk-0123456789", word="short", innocent="a short text")
    note("llm", server="https://user:pw@host.example/v1", nested=[{"sk-0123456789": "short"}])
    assert recorded() == [
        {"kind": "llm", "key": "***", "inside": "Bearer ***", "word": "***", "innocent": "a short text"},
        {"kind": "llm", "server": "https://***@host.example/v1", "nested": [{"***": "***"}]},
    ]


def test_under_the_runner_each_record_is_a_line_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_RUN_FOLDER", str(tmp_path))
    note("model", name="bge-small")
    note("model", name="bge-small")
    with pytest.raises(ZeroDivisionError), stage("breaks"):
        1 / 0  # noqa: B018
    lines = [json.loads(line) for line in (tmp_path / "provenance.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == recorded()
    assert [line["kind"] for line in lines] == ["model", "stage"] and lines[1]["name"] == "breaks"


def test_a_stage_measures_time_and_the_peak_not_the_end():
    with stage("before"):
        pass
    with stage("peak"):
        block = np.ones(50_000_000)  # 400 MB
        time.sleep(0.2)
        del block
    before, peak = recorded()
    assert 0.2 <= peak["seconds"] < 5
    assert peak["peak_memory_mb"] - before["peak_memory_mb"] > 300


def test_machine_says_what_the_run_depends_on():
    facts = machine()
    assert {"python", "platform", "cpu", "cores", "memory_gb", "gpu", "packages"} == set(facts)
    assert facts["packages"]["numpy"] == np.__version__
    assert "pytest" not in facts["packages"]
    json.dumps(facts)


SECRETS = "OPENAI_API_KEY HF_TOKEN MY_SECRET DB_PASSWORD APIKEY TOKEN DB_PASSWD KEY_PASSPHRASE DB_PASS GITHUB_PAT"


@pytest.mark.parametrize("name", [*SECRETS.split(), "CREDENTIAL", "AWS_CREDENTIALS", "NPM_AUTH"])
def test_a_secret_is_known_by_the_name_of_its_variable(monkeypatch, name):
    monkeypatch.setenv(name, "planted-value-1")
    assert provenance.masked("header planted-value-1 end") == "header *** end"


def test_keys_in_addresses_are_masked():
    address = "see https://host.example/v1?api_key=abc123&page=2&access_token=x-y#top, and monkey=3&max=4?turnkey=5"
    assert provenance.masked(address) == address.replace("abc123", "***").replace("x-y", "***")


def test_a_setting_about_tokenizers_is_no_secret(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    assert provenance.masked("false") == "false"
