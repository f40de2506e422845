"""Notebook 20 with a live model: a real one behind a real server, then one that fails in every way and recovers."""

import json
import time
from pathlib import Path

import pandas as pd
import pytest

from rag_utils.runs import run_study
from tests.llm_server import LLMServer, completion, question
from tests.test_llm import needs_model, small_model

STUDY = Path(__file__).parent.parent / "papermill_runs" / "quick.yaml"
OUTLETS = ["Tin Post", "Harbour Gazette", "Northern Ledger"]
FILTER = '{"source": {"$in": ["Tin Post"]}}'
SICK = {
    "rate limit": (429, {"Retry-After": "0"}, b"{}"),
    "server": (500, {}, b"oops"),
    "server (garbage)": (200, {"Content-Type": "text/html"}, b"<html>garbage"),
    "server (half an answer)": None,
    "refused": (401, {}, b"{}"),
}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """A run of notebook 20 on six questions of a small corpus, by the model behind an address; and the corpus."""
    folder = tmp_path / "corpus"
    (folder / "qrels").mkdir(parents=True)
    texts = {f"q{i}": f"What did the {OUTLETS[i % 3]} write about ferry number {i}?" for i in range(6)}
    documents = [
        {"_id": f"d{i}", "title": f"Ferry {i}", "text": f"Ferry number {i} was late.", "source": OUTLETS[i % 3]}
        for i in range(6)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(json.dumps({"_id": i, "text": t}) for i, t in texts.items()))
    pairs = ["query-id\tcorpus-id\tscore", *(f"q{i}\td{i}\t1" for i in range(6))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(pairs))
    monkeypatch.setenv("RAG_CACHE_DIR", str(tmp_path / "cache"))

    def run(address: str):
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        chosen = {"dataset": str(folder), "llm": "openai:small", "malformed_sample": 1}
        (outcome,) = run_study(STUDY, only="20", overrides=chosen)
        record = json.loads((outcome.run.folder / "run.json").read_text(encoding="utf-8"))["llm"]
        return outcome, record, pd.read_csv(outcome.run.folder / "results.csv").set_index(["system", "metric"])

    return run, texts


@needs_model
def test_a_real_model_behind_a_real_server(ask):
    """llama.cpp's own server; the second run asks for nothing."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.verbosity = str(small_model()), 2048, 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    run, _ = ask
    outcome, record, table = run(f"{server.listening_address}/v1")
    assert outcome.state == "finished" and not set(record["errors"]) - {"truncated"}
    assert record["calls"] >= 7 and record["tokens_in"] > 7 * 200
    assert table.loc[("small", "exact_set"), "n"] == 6


def test_a_sick_server_is_named_and_counted_and_the_run_goes_on_when_it_is_well(ask, monkeypatch):
    run, texts = ask
    kinds = dict(zip(texts.values(), [*SICK, "timeout"], strict=True))
    sick = True

    def say(request):
        kind = next(kind for text, kind in kinds.items() if text.upper() in question(request))
        if sick and kind == "timeout":
            time.sleep(1.5)
        return SICK[kind] if sick and kind in SICK else completion(FILTER)

    monkeypatch.setenv("RAG_LLM_RETRIES", "0")
    monkeypatch.setenv("RAG_LLM_TIMEOUT", "0.5")
    with LLMServer(say, lifetime=300) as server:
        outcome, record, table = run(server.url)
        assert outcome.state == "incomplete" and "1 x timeout" in outcome.reason
        assert {"rate limit", "server", "refused", "timeout"} <= set(record["errors"])
        assert ("small", "exact_set") not in table.index  # nothing was had, so there is no row, and no zero
        sick = False
        outcome, record, table = run(server.url)
        assert outcome.state == "finished" and not set(record["errors"]) - {"truncated"}  # of the recorded example
        assert table.loc[("small", "exact_set"), "n"] == 6 and table.loc[("small", "exact_set"), "dropped"] == 0
        assert run(server.url)[0].state == "finished before"
