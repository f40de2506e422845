"""One contract over all retrievers, fusion by hand and against a rival, reranking."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_utils.filters import matches
from rag_utils.indexing import DenseIndex, LexicalIndex
from rag_utils.raptor import ExtractiveSummariser, RaptorRetriever
from rag_utils.retrieval import (
    FUSIONS,
    DenseRetriever,
    Filtered,
    HybridRetriever,
    KeywordFusionRetriever,
    LexicalRetriever,
    MetadataRetriever,
    QueryFusionRetriever,
    Remembered,
    Reranked,
    SentenceWindowRetriever,
    fuse,
    fuse_hits,
)
from rag_utils.schema import Chunk, Hit, Query, Retriever

WORDS = ["kite", "boat", "bay", "fog", "drum", "gate", "mill", "tide"]


class LetterEmbedder:
    """A stand-in that needs no model, since retrievers do not care where vectors come from: counts of letters."""

    name, revision, dimension, max_tokens = "letters", "1", 26, 10**6

    def __call__(self, texts):
        counts = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
        return counts.reshape(-1, 26) / np.maximum(np.linalg.norm(counts.reshape(-1, 26), axis=1, keepdims=True), 1e-9)

    encode_queries = __call__

    def count_tokens(self, text):
        return len(text.split())


class OverlapReranker:
    """A stand-in for a cross-encoder: words shared by query and text."""

    def __call__(self, query, texts):
        return [float(len(set(query.split()) & set(text.split()))) for text in texts]


class WordEnricher:
    """A stand-in for key phrases: every word."""

    field = "words"

    def __call__(self, texts):
        return [tuple(text.split()) for text in texts]


def _chunks(n: int) -> list[Chunk]:
    rng = np.random.default_rng(3)
    return [
        Chunk(
            id=f"c{i:03d}",
            document_id=f"d{i}",
            start=0,
            end=1,
            fields={"text": " ".join(rng.choice(WORDS, 6))},
            metadata={"source": f"s{i % 4}", "year": 2000 + i % 7},
        )
        for i in range(n)
    ]


def _lexical(chunks):
    return LexicalRetriever(LexicalIndex(chunks))


def _dense(chunks):
    return DenseRetriever(DenseIndex(chunks, LetterEmbedder()))


def _windows(chunks):
    """Each text is its own window."""
    spans = [{"window_start": 0, "window_end": len(chunk.fields["text"])} for chunk in chunks]
    sentences = [
        replace(c, fields={**c.fields, "window": c.fields["text"]}, metadata={**c.metadata, **span})
        for c, span in zip(chunks, spans, strict=True)
    ]
    return SentenceWindowRetriever(_dense(sentences))


def _raptor(chunks, **settings):
    return RaptorRetriever(chunks, LetterEmbedder(), ExtractiveSummariser(LetterEmbedder(), 12), **settings)


def _reworded(texts):
    return [(f"{text} mill", f"{text} tide") if text else () for text in texts]


MAKERS = {
    "lexical": _lexical,
    "lucene": lambda chunks: LexicalRetriever(LexicalIndex(chunks, idf="lucene"), boosts={"text": 2}),
    "dense": _dense,
    **{
        f"hybrid {name}": lambda chunks, name=name: HybridRetriever(_lexical(chunks), _dense(chunks), fusion=name)
        for name in FUSIONS
    },
    "filtered": lambda chunks: Filtered(_dense(chunks), {}),
    "remembered": lambda chunks: Remembered(_dense(chunks)),
    "reranked": lambda chunks: Reranked(_dense(chunks), OverlapReranker(), depth=20),
    "query fusion": lambda chunks: QueryFusionRetriever(_dense(chunks), _reworded),
    "keyword fusion": lambda chunks: KeywordFusionRetriever(_dense(chunks), WordEnricher()),
    "sentence windows": _windows,
    "shared phrases": lambda chunks: MetadataRetriever(_dense(chunks), WordEnricher()),
    "raptor": _raptor,
    "raptor traversal": lambda chunks: _raptor(chunks, mode="traversal"),
}
QUERIES = [
    Query(id="plain", text="kite bay"),
    Query(id="filtered", text="fog boat", where={"source": {"$in": ["s1", "s2"]}, "year": {"$gte": 2003}}),
    Query(id="nothing", text="tide", where={"source": {"$in": ["nowhere"]}}),
    Query(id="unknown", text="zeppelin"),
    Query(id="blank", text=""),
]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_contract(make):
    retriever = make(_chunks(40))
    assert isinstance(retriever, Retriever)
    for k in (0, 1, 7, 100):
        results = retriever.retrieve(QUERIES, k)
        assert len(results) == len(QUERIES)
        for query, hits in zip(QUERIES, results, strict=True):
            ids, scores = [h.chunk.id for h in hits], [h.score for h in hits]
            assert len(ids) <= k and len(ids) == len(set(ids))
            assert all(math.isfinite(s) for s in scores) and scores == sorted(scores, reverse=True)
            assert all(matches(query.where, h.chunk.metadata) for h in hits)
            assert query.id != "nothing" or hits == []
    assert len(retriever.retrieve(QUERIES[:1], 3)[0]) == 3


def test_contract_on_an_empty_corpus(make):
    assert make([]).retrieve(QUERIES, 5) == [[] for _ in QUERIES]


def test_contract_refuses_a_negative_k(make):
    with pytest.raises(ValueError, match="k"):
        make(_chunks(5)).retrieve(QUERIES, -1)


def test_contract_batch_equals_one_by_one(make):
    retriever = make(_chunks(25))
    assert retriever.retrieve(QUERIES, 6) == [retriever.retrieve([query], 6)[0] for query in QUERIES]


def test_ties_go_by_id(make):
    same = [Chunk(id=id_, document_id=id_, start=0, end=1, fields={"text": "kite bay"}) for id_ in "dbca"]
    hits = make([*same, Chunk(id="z", document_id="z", start=0, end=1, fields={"text": "drum"})]).retrieve(
        [Query(id="q", text="kite bay")], 4
    )[0]
    assert [h.chunk.document_id for h in hits] == ["a", "b", "c", "d"]


def test_zscore_by_hand():
    # standard deviations 1 and 2; a misses the second list and gets its lowest value there
    fused = fuse([{"a": 3.0, "b": 1.0}, {"b": 8.0, "c": 4.0}], "zscore", weights=(1, 1))
    assert fused == pytest.approx({"a": 1 - 1, "b": -1 + 1, "c": -1 - 1})
    assert list(fused) == ["a", "b", "c"]


def test_combmnz_by_hand():
    # min-max halves: a .5, b 0 + .5, c 0; b stands in both lists
    fused = fuse([{"a": 3.0, "b": 1.0}, {"b": 8.0, "c": 4.0}], "combmnz")
    assert fused == pytest.approx({"a": 0.5, "b": 1.0, "c": 0.0})


def test_borda_by_hand():
    fused = fuse([["a", "b", "c", "d"], ["d", "a"]], "borda", weights=(1, 1))
    assert fused == pytest.approx({"a": 1 + 0.5, "b": 0.75, "c": 0.5, "d": 0.25 + 1})


def test_es_sum_adds_raw_scores_and_scales_the_cosine():
    chunk = {id_: Chunk(id=id_, document_id=id_, start=0, end=1, fields={"text": id_}) for id_ in "ab"}

    class Fixed:
        def __init__(self, scores):
            self.scores, self.chunks = scores, list(chunk.values())

        def retrieve(self, queries, k):
            return [[Hit(chunk[i], s) for i, s in self.scores.items()][:k] for _ in queries]

    hybrid = HybridRetriever(Fixed({"a": 12.0, "b": 3.0}), Fixed({"b": 0.5}), fusion="es_sum", boost=10)
    (hits,) = hybrid.retrieve([Query(id="q", text="")], 2)
    assert {h.chunk.id: h.score for h in hits} == pytest.approx({"a": 12.0, "b": 3 + 10 * 0.75})


def test_fuse_hits_equals_fuse():
    chunks = {c.id: c for c in _chunks(6)}
    first, second = {"c000": 2.0, "c003": 1.0}, {"c003": 0.4, "c005": 0.3}
    lists = [[Hit(chunks[i], s) for i, s in ranking.items()] for ranking in (first, second)]
    assert {h.chunk.id: h.score for h in fuse_hits(lists)} == fuse([first, second])


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-50, 50), max_size=8), max_size=4),
    st.sampled_from(sorted(FUSIONS)),
)
def test_fusion_keeps_every_document_once_sorted_and_finite(lists, method):
    fused = fuse(lists, method)
    assert set(fused) == set().union(*lists)
    assert all(math.isfinite(score) for score in fused.values())
    assert list(fused) == sorted(fused, key=lambda id_: (-fused[id_], id_))


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-50, 50), min_size=1),
    st.integers(1, 9),
    st.integers(-5, 5),
)
def test_minmax_and_zscore_do_not_see_a_change_of_scale(scores, factor, shift):
    other = {"a": 1.0, "b": 0.5}
    moved = {id_: factor * score + shift for id_, score in scores.items()}
    for method in ("minmax", "zscore"):
        assert fuse([moved, other], method) == pytest.approx(fuse([scores, other], method))


@pytest.mark.parametrize("wrong", [{"fusion": "sum"}, {"weight": 1.5}, {"depth": 0}, {"boost": math.nan}])
def test_hybrid_names_a_wrong_setting(wrong):
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        HybridRetriever(_lexical(_chunks(2)), _dense(_chunks(2)), **wrong)


def test_reranking_keeps_and_orders():
    retriever = Reranked(_lexical(_chunks(40)), OverlapReranker(), depth=10, keep=4)
    first = _lexical(_chunks(40)).retrieve([QUERIES[0]], 10)[0]
    hits = retriever.retrieve([QUERIES[0]], 10)[0]
    assert len(hits) == 4
    best = sorted(first, key=lambda h: -OverlapReranker()("kite bay", [h.chunk.fields["text"]])[0])
    assert [h.chunk.id for h in hits] == [h.chunk.id for h in best[:4]]


def test_a_remembered_question_is_asked_once():
    class Counting:
        chunks, asked = _chunks(10), []

        def retrieve(self, queries, k):
            self.asked.append((len(queries), k))
            return _lexical(self.chunks).retrieve(queries, k)

    counting = Counting()
    remembered = Remembered(counting)
    first = remembered.retrieve(QUERIES, 5)
    assert remembered.retrieve(QUERIES[:2], 3) == [hits[:3] for hits in first[:2]]
    remembered.retrieve([QUERIES[0], Query(id="new", text="mill tide")], 8)
    assert counting.asked == [(5, 5), (0, 3), (2, 8)]


def test_zscore_of_equal_scores_is_zero():
    assert fuse([{"a": 0.1, "b": 0.1, "c": 0.1}], "zscore", weights=[1]) == {"a": 0, "b": 0, "c": 0}


@pytest.mark.parametrize("wrong", [{"weights": [1, math.nan]}, {"weights": [1]}, {"k": -1}])
def test_fuse_names_a_wrong_number(wrong):
    with pytest.raises(ValueError, match=r"weights|k = -1"):
        fuse([{"a": 1.0}, {"b": 2.0}], "rrf", **wrong)


def test_reranking_refuses_what_has_no_order():
    class Broken:
        def score_pairs(self, pairs):
            return [math.nan] * len(pairs)

    with pytest.raises(ValueError, match="not finite"):
        Reranked(_lexical(_chunks(5)), Broken()).retrieve(QUERIES[:1], 3)
    with pytest.raises(ValueError, match="keep = -1"):
        Reranked(_lexical(_chunks(5)), Broken(), keep=-1)


def test_a_filter_that_finds_nothing_is_relaxed_rung_by_rung():
    """By hand: two outlets, one day; each question ends on the first rung that lets a chunk through."""
    chunks = [
        Chunk(id=name, document_id=name, start=0, end=5, fields={"text": "ferry"}, metadata=metadata)
        for name, metadata in {
            "a": {"source": "Tin Post", "published_at": "2024-03-03"},
            "b": {"source": "Shingle", "published_at": "2024-03-04"},
        }.items()
    ]
    filters = {
        "asked": {"source": {"$in": ["Tin Post"]}},
        "dated": {"source": {"$in": ["Tin Post"]}, "published_at": {"$in": ["March 9, 2024"]}},
        "unknown": {"source": {"$in": ["The Nowhere"]}, "published_at": {"$in": ["March 9, 2024"]}},
        "none": None,
    }
    queries = [Query(id=name, text="ferry") for name in filters]
    plain = LexicalRetriever(LexicalIndex(chunks))
    relaxed = Filtered(plain, filters, sources=["Tin Post", "Shingle"])
    found = [sorted(hit.chunk.id for hit in hits) for hits in relaxed.retrieve(queries, 5)]
    assert found == [["a"], ["a"], ["a", "b"], ["a", "b"]]
    assert relaxed.rungs == {
        "asked": "as asked",
        "dated": "without dates",
        "unknown": "no filter",
        "none": "no filter",
    }
    assert [len(hits) for hits in Filtered(plain, filters).retrieve(queries, 5)] == [1, 0, 0, 2]
