"""Retrieval metrics: average precision by two rules, reciprocal rank, hits; repeats, empty lists, kinds of ids."""

import math

import pytest

from rag_utils.chunking import reachable_facts
from rag_utils.corpora import Corpus
from rag_utils.metrics import (
    average_precision_at_k,
    fact_scores,
    hits_at_k,
    mean_defined,
    multihop_rag_scores,
    reciprocal_rank_at_k,
)
from rag_utils.schema import Chunk, Document, Query


def _scores(ranked, relevant):
    return (
        average_precision_at_k(ranked, relevant, 4),
        reciprocal_rank_at_k(ranked, relevant, 4),
        hits_at_k(ranked, relevant, 4),
    )


def RM_G01():
    """MAP, MRR and hit of one query."""
    assert _scores(["a", "b", "c", "d"], ["a", "c"]) == pytest.approx((0.833333, 1.0, 1.0), abs=1e-6)


def RM_G02():
    """The relevant one that was never found counts in the denominator."""
    assert average_precision_at_k(["a", "q", "r"], ["a", "b"], 10) == pytest.approx(0.5, abs=1e-6)


def RM_G03():
    """A result listed three times counts once."""
    assert average_precision_at_k(["a", "a", "a"], ["a"], 10) == 1.0


def RM_G04():
    """A repeat in the ground truth counts once."""
    assert average_precision_at_k(["a", "b"], ["a", "a", "b"], 3) == 1.0


def RM_G05():
    """A question without ground truth is left out, and the mean says so."""
    ranked, relevant = [["a"], ["x"], ["y"]], [["a"], [], ["b"]]
    mean = mean_defined(average_precision_at_k(found, gold, 10) for found, gold in zip(ranked, relevant, strict=True))
    assert mean.value == pytest.approx(0.5, abs=1e-6)
    assert "over 2 of 3 queries" in str(mean)


def RM_G06():
    """A query that found nothing scores 0 and is not skipped."""
    both = zip(_scores(["a"], ["a"]), _scores([], ["b"]), strict=True)
    assert [mean_defined(pair) for pair in both] == [(0.5, 2, 0)] * 3


def RM_G07():
    """Fewer results than k: neither padding nor an error."""
    assert average_precision_at_k(["a", "b", "c"], ["b"], 10) == pytest.approx(0.5, abs=1e-6)


def RM_G08():
    """Average precision and the benchmark's rule differ, and their names say which is which."""
    facts = ["The plant opened in May.", "Vega sold the yard."]
    chunks = ["x The plant opened\nin May. y", "z Vega sold the yard. z"]
    assert fact_scores(chunks, facts)["map@10_standard"] == pytest.approx(1.0, abs=1e-6)
    assert multihop_rag_scores(chunks, facts)["map@10"] == pytest.approx(0.75, abs=1e-6)


def RM_G09():
    """Spaces and line ends do not hide a fact."""
    assert multihop_rag_scores(["In May Vega sold the yard. Later"], ["Vega sold\nthe  yard."])["hits@10"] == 1.0


def RM_G10():
    """A fact that a chunk border cuts is reported as unreachable."""
    document = Document(id="d", text="x a b c d y")
    spans = (document.text.index("x a b"), 5), (document.text.index("b c d y"), 11)
    chunks = [
        Chunk(id=f"d#{i}", document_id="d", start=start, end=end, fields={"text": document.text[start:end]})
        for i, (start, end) in enumerate(spans)
    ]
    corpus = Corpus(
        name="cut",
        documents=[document],
        queries=[Query(id="q", text="?")],
        gold_documents={"q": ("d",)},
        facts={"q": ("a b c d",)},
    )
    assert reachable_facts(corpus, chunks) == {"q": [False]}


def RM_G11():
    """Standard values when the first result is wrong and one relevant is missing."""
    assert _scores(["n", "x", "n2", "y"], ["x", "y", "z"]) == pytest.approx((0.333333, 0.5, 1.0), abs=1e-6)


def RM_G12():
    """No query with ground truth: not a number, shown as '-' with its note, never 0."""
    for metric in (average_precision_at_k, reciprocal_rank_at_k, hits_at_k):
        mean = mean_defined([metric(["a"], [], 4), metric(["b"], [], 4)])
        assert math.isnan(mean.value)
        assert str(mean) == "- over 0 of 2 queries"


def RM_G13():
    """The benchmark's rule counts only facts that are new at a rank."""
    scores = multihop_rag_scores(["none", "aa bb. and cc dd.", "none", "ee ff. aa bb."], ["aa bb.", "cc dd.", "ee ff."])
    assert scores == pytest.approx({"map@10": 0.416667, "mrr@10": 0.5, "hits@4": 1.0, "hits@10": 1.0}, abs=1e-6)


def RM_G14():
    """Numbers against texts are an error, since 3 never equals '3'."""
    with pytest.raises(TypeError, match="ids mix text"):
        hits_at_k(["7", "1"], [3, 7], 2)
