"""Reranking: cases from public bug reports (the ids name them)."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from rag_utils.encoders import backends, load_embedder, load_reranker, to_unit_interval
from rag_utils.report import show
from rag_utils.retrieval import Reranked
from rag_utils.schema import Chunk, Hit, Query


class _First:
    """A double of a first stage: gives the hits it was given."""

    def __init__(self, texts):
        self.hits = [
            Hit(Chunk(id=id_, document_id=id_, start=0, end=1, fields={"text": text}), 1 / rank)
            for rank, (id_, text) in enumerate(texts.items(), start=1)
        ]

    def retrieve(self, queries, k):
        return [self.hits[:k] for _ in queries]


def _order(texts, scores):
    """Ids after reranking by a double whose scores are known by text."""
    reranked = Reranked(_First(texts), lambda query, passages: [scores[passage] for passage in passages])
    return [hit.chunk.id for hit in reranked.retrieve([Query(id="q", text="q")], 10)[0]]


def _double(monkeypatch, score):
    """Put a double in place of the model; everything around it (sorting, batches, order) is real."""

    def load(model, device, half_precision):
        return lambda batch: np.array([[score(text)] for _, text in batch], dtype=np.float32)

    monkeypatch.setitem(backends.RERANKERS, "cross-encoder", load)
    return load_reranker(cache=False, batch_size=1)


def RER_G01():
    """Logits become numbers in 0..1 one by one; the order stays."""
    values = to_unit_interval([-8.154392, 6.182112, 0.0])
    assert values == pytest.approx([0.000287, 0.997938, 0.5], abs=1e-6)
    assert np.argsort(values).tolist() == [0, 2, 1]


def RER_G02():
    """A lone good result stays good."""
    assert to_unit_interval([4.0]) == pytest.approx([0.982014], abs=1e-6)


def RER_G03():
    """Logits that saturate are ordered as they are."""
    assert _order({"a": "a", "b": "b", "c": "c"}, {"a": 13.0, "b": 40.0, "c": 55.0}) == ["c", "b", "a"]
    assert to_unit_interval([40.0]) == to_unit_interval([55.0])  # what ordering by the logistic value would see


def RER_G04():
    """Scores in 0..1 are ordered and reported as they are, not squeezed once more."""
    scores = {"a": 0.0029, "b": 0.0003, "c": 0.0}
    reranked = Reranked(_First({"a": "a", "b": "b", "c": "c"}), lambda query, texts: [scores[text] for text in texts])
    hits = reranked.retrieve([Query(id="q", text="q")], 3)[0]
    assert [(hit.chunk.id, hit.score) for hit in hits] == list(scores.items())


def RER_G05(monkeypatch):
    """One pair gives a list of one number."""
    assert _double(monkeypatch, lambda text: 0.447)("q", ["only"]) == [0.447]


def RER_G06():
    """No candidates: nothing, and no model is loaded."""
    code = (
        "import sys; from rag_utils.encoders import load_reranker\n"
        "print(load_reranker()('q', []), load_reranker(cache=False).score_pairs([]), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] [] False\n"
    assert Reranked(_First({}), load_reranker()).retrieve([Query(id="q", text="q")], 5) == [[]]


def RER_G07(monkeypatch):
    """Pairs are sorted by length inside; scores come back in the order of the candidates."""
    texts = {"long": "a very long passage about boats and bays", "short": "kite"}
    reranker = _double(monkeypatch, lambda text: 0.9 if text == "kite" else 0.1)
    assert reranker("q", list(texts.values())) == [0.1, 0.9]
    assert reranker("q", list(texts.values())[::-1]) == [0.9, 0.1]
    hits = Reranked(_First(texts), reranker).retrieve([Query(id="q", text="q")], 2)[0]
    assert [hit.chunk.id for hit in hits] == ["short", "long"]


def RER_G08():
    """Equal scores keep the order of the first stage."""
    assert _order({"c": "c", "a": "a", "b": "b"}, {"c": 0.5, "a": 0.7, "b": 0.5}) == ["a", "c", "b"]


def RER_G09():
    """Half precision asked for without a GPU: full precision, said once for both models."""
    code = (
        "from rag_utils.encoders import load_embedder, load_reranker\n"
        "embedder = load_embedder(half_precision=True, device='cpu', cache=False)\n"
        "reranker = load_reranker(half_precision=True, device='cpu', cache=False)\n"
        "print(embedder(['a boat']).tolist(), reranker('a boat', ['a kite']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("UserWarning: half precision") == 1
    full = load_embedder(device="cpu", cache=False)(["a boat"]).tolist()
    assert done.stdout == f"{full} {load_reranker(device='cpu', cache=False)('a boat', ['a kite'])}\n"


def RER_G10():
    """Tiny scores are shown in fixed notation."""
    table = pd.DataFrame({"passage": ["a", "b"], "score": [1.6314540139585704e-05, 0.99]})
    assert show(table)["score"].tolist() == ["0.000", "0.990"]
