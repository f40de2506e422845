"""The boosted query by parts: against the index's own best fields, the fusion, and counting by hand."""

from itertools import combinations

import numpy as np
import pytest

from rag_utils.indexing import DenseIndex, LexicalIndex, words
from rag_utils.retrieval import BoostedFields, coordinate_search, expected_hits, fuse
from rag_utils.schema import Chunk, Query

FIELDS = {
    "c": {"text": "a ferry to the island and back", "title": "ferry"},
    "a": {"text": "the bridge beside the ferry", "title": "bridge"},
    "b": {"text": "an orchard", "title": "ferry bridge orchard"},
    "d": {"text": "nothing else", "title": ""},
}
CHUNKS = [Chunk(id=id_, document_id=f"doc {id_}", start=0, end=1, fields=fields) for id_, fields in FIELDS.items()]
QUERIES = [Query(id=text, text=text) for text in ("ferry island", "bridge orchard", "unknown")]
BOOSTS = {"text": 4.0, "title": 2.0}


class Letters:
    """Counts of three letters, as unit vectors."""

    dimension = 3
    revision = "letters"

    def __call__(self, texts):
        counts = np.array([[1.0 + text.count(letter) for letter in "aei"] for text in texts])
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

    encode_queries = __call__


@pytest.fixture
def lexical():
    return LexicalIndex(CHUNKS, fields=("text", "title"), tokenizer=words, idf="lucene")


@pytest.fixture
def dense():
    return DenseIndex(CHUNKS[::-1], Letters())


@pytest.fixture
def parts(lexical, dense):
    return BoostedFields(lexical, dense, QUERIES, ("text", "title"))


def test_fields_add_up_to_best_fields(parts, lexical):
    added = parts.parts(BOOSTS, knn_boost=0)
    total = added["text"] + added["title"]
    for row, found in zip(total, lexical.search([q.text for q in QUERIES], 4, boosts=BOOSTS), strict=True):
        ours = {chunk.id: score for chunk, score in zip(CHUNKS, row, strict=True) if score > 0}
        assert ours == pytest.approx(dict(found), abs=1e-4)


def test_vectors_reach_the_nearest_only(parts, dense):
    near = parts.parts(BOOSTS, knn_boost=10, knn_k=1)["vectors"]
    best = [row[0][0] for row in dense.search([q.text for q in QUERIES], 1)]
    cosines = dense.scores([q.text for q in QUERIES]).max(axis=1)
    for row, id_, cosine in zip(near, best, cosines, strict=True):
        assert [chunk.id for chunk, score in zip(CHUNKS, row, strict=True) if score] == [id_]
        assert row.max() == pytest.approx(10 * (1 + cosine) / 2, abs=1e-5)


def test_a_weight_gives_the_order_of_min_max_fusion(parts, lexical, dense):
    texts = [q.text for q in QUERIES[:2]]
    scores = np.sum(list(parts.parts(BOOSTS, weight=0.3, rows=slice(0, 2)).values()), axis=0)
    for row, found, near in zip(scores, lexical.search(texts, 4, boosts=BOOSTS), dense.scores(texts), strict=True):
        bm25 = dict.fromkeys(FIELDS, 0.0) | dict(found)
        cosines = dict(zip((chunk.id for chunk in dense.chunks), near.tolist(), strict=True))
        expected = fuse([bm25, cosines], "minmax", weights=[0.3, 0.7])
        ours = dict(zip(FIELDS, row.tolist(), strict=True))
        assert ours == pytest.approx(expected, abs=1e-4)


def test_ranks_of_the_best_gold_document(parts):
    ranks = parts.ranks([("doc a", "doc c"), ("doc d",), ("doc a",)], {"text": 1.0}, knn_boost=0)
    assert ranks.tolist() == [1, np.inf, np.inf]  # no word in common = not found
    tied = parts.ranks([("doc b",), ("doc b",), ("doc c",)], {"text": 0.0}, weight=1.0)
    assert np.isinf(tied).all()


def test_coordinates_climb_to_the_planted_boosts_and_stay_on_ties():
    planted = {"text": 4, "title": 8}
    found = coordinate_search(lambda b: -sum(abs(b[f] - planted[f]) for f in b), {"text": 1, "title": 1}, (1, 2, 4, 8))
    assert found == planted
    assert coordinate_search(lambda b: 0.5, {"text": 2}, (1, 2, 4)) == {"text": 2}


@pytest.mark.parametrize("k", [1, 2])
def test_expected_hits_are_those_of_all_subsets(k):
    others, ahead = range(6), {0, 1}  # gold has rank 3 of 7
    for n in range(7):
        subsets = list(combinations(others, n))
        share = np.mean([len(ahead & set(subset)) < k for subset in subsets])
        assert expected_hits(np.array([3.0]), 6, n, k)[0] == pytest.approx(share)
    assert expected_hits(np.array([np.inf]), 6, 1, k)[0] == 0


def test_gold_that_no_chunk_holds_is_not_found(parts):
    assert np.isinf(parts.ranks([("doc x",), (), ("doc x",)], {"text": 1.0})).all()
