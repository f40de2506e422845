"""Asking a model: what is kept of an answer, what is paid twice and what never, what it costs, what needs no key."""

import pytest

from rag_utils.llm import LLMError, Usage, cached, estimate, load_llm
from tests.llm_server import LLMServer, completion, question


def _connected(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("RAG_LLM_RETRIES", "0")
    return load_llm


def GEN_G01(monkeypatch):
    """A prompt that comes back before the answer is taken off; an answer that only begins alike is left alone."""
    prompt = "Question: Who won?\nAnswer:"
    with LLMServer(lambda request: f"{prompt} Vega") as server:
        (reply,) = _connected(server, monkeypatch)("openai:m")([prompt])
        (other,) = load_llm("openai:m")(["Question: Who won?\nAnswer in full:"])
    assert reply.text == "Vega"
    assert other.text == "Question: Who won?\nAnswer: Vega"


def GEN_G02(monkeypatch):
    """An answer cut by the output limit is kept, marked and counted."""
    with LLMServer(lambda request: completion("The plant was sold to", "length")) as server:
        replies = _connected(server, monkeypatch)("openai:m")(["Who bought the plant?"])
    assert [(reply.text, reply.error) for reply in replies] == [("The plant was sold to", "truncated")]
    assert Usage.of(replies).invalid_replies == 1


def GEN_G03(monkeypatch, tmp_path):
    """Temperatures are part of the cache's key."""
    with LLMServer(lambda request: f"at {request['temperature']}") as server:
        load = _connected(server, monkeypatch)
        for _ in range(2):
            llms = [cached(load("openai:m", temperature=heat), tmp_path / "c.sqlite") for heat in (0.0, 0.7)]
            assert [llm(["q"])[0].text for llm in llms] == ["at 0.0", "at 0.7"]
    assert len(server.requests) == 2


def GEN_G04(monkeypatch, tmp_path):
    """A failed call is asked again later, and then kept."""
    said = [(429, {}, b"{}"), "Vega"]
    with LLMServer(lambda request: said.pop(0)) as server:
        llm = cached(_connected(server, monkeypatch)("openai:m"), tmp_path / "c.sqlite")
        with pytest.warns(UserWarning, match="rate limit"):
            assert llm(["Who won?"])[0].error == "rate limit"
        assert [llm(["Who won?"])[0].text for _ in range(2)] == ["Vega", "Vega"]
    assert len(server.requests) == 2


def GEN_G05(monkeypatch, tmp_path):
    """Of 100 questions, 37 were answered before the stop; the next run makes 63 requests."""
    asked = [f"question {i}" for i in range(100)]
    with LLMServer(question) as server:
        llm = cached(_connected(server, monkeypatch)("openai:m"), tmp_path / "c.sqlite")
        llm(asked[:37])
        server.requests.clear()
        assert cached(load_llm("openai:m"), tmp_path / "c.sqlite")(asked)[99].text == "QUESTION 99"
        assert len(server.requests) == 63


def GEN_G06(monkeypatch):
    """200 x (1,800 x 0.15 + 60 x 0.60) / 10^6 dollars, before a request is made."""
    with LLMServer() as server:
        llm = _connected(server, monkeypatch)("openai:gpt-4o-mini")
        usage = estimate(["word " * 1800] * 200, llm, tokens_out=60, count_tokens=lambda text: len(text.split()))
        assert (usage.calls, usage.tokens_in, usage.tokens_out) == (200, 360_000, 12_000)
        assert usage.dollars == pytest.approx(0.0612, abs=0.0001)
        assert server.requests == []


def GEN_G07(monkeypatch):
    """Recorded replies need neither key nor network; a live model asked for by name names the missing key."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("socket.socket", None)
    assert load_llm("replay")(["a question nobody recorded"])[0].error == "not recorded"
    with pytest.raises(LLMError, match="OPENAI_API_KEY"):
        load_llm("openai:m")
