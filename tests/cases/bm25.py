"""Keyword search by BM25: degenerate corpora, small corpora, queries, ties, fields."""

import pytest

from rag_utils.indexing import LexicalIndex
from rag_utils.schema import Chunk

LUCENE = {"idf": "lucene", "k1": 1.5}
LN2 = 0.693147


def _chunk(id_, text, **fields):
    return Chunk(id=id_, document_id=id_, start=0, end=len(text), fields={"text": text, **fields})


def _index(*texts, **settings):
    return LexicalIndex([_chunk(str(i), text) for i, text in enumerate(texts)], **settings)


def _ids(index, query, k):
    (hits,) = index.search([query], k)
    return [id_ for id_, _ in hits]


def BM_G01():
    """No documents: no hits, and no division by zero."""
    assert _ids(_index(), "kite", 5) == []
    assert _index().scores(["kite"]).shape == (1, 0)


def BM_G02():
    """Documents without words: no hits."""
    index = _index("", "  ", "...")
    assert _ids(index, "kite", 5) == []
    assert index.scores(["kite"]).tolist() == [[0, 0, 0]]


def BM_G03():
    """A word in half of the documents: Lucene's idf is ln 2, not 0."""
    index = _index("red kite", "blue kite", "green boat", "grey boat", **LUCENE)
    assert index.scores(["kite"])[0] == pytest.approx([LN2, LN2, 0, 0], abs=1e-6)


def BM_G04():
    """A word in every document: Lucene's idf stays above zero."""
    index = _index("red kite", "blue kite", "kite boat", **LUCENE)
    assert index.scores(["kite"])[0] == pytest.approx([0.133531] * 3, abs=1e-6)


def BM_G05():
    """A query given as text is split into words, not into letters; a bare string for the list is an error."""
    index = _index("red kite", "blue boat", "green drum", tokenizer=str.split)
    (hits,) = index.search(["kite"], 3)
    assert hits[0][0] == "0" and hits[0][1] > 0
    with pytest.raises(TypeError, match=r"give a list of texts, as \['kite'\]"):
        index.search("kite", 3)


def BM_G06():
    """A repeated word counts each time, as in the library (and as `scores` says)."""
    once, twice = _index("red kite", "blue boat", "green drum").scores(["kite", "kite kite"])
    assert once[0] > 0
    assert twice == pytest.approx(2 * once)


def BM_G07():
    """Nothing matches: no hits, not the last documents."""
    assert _ids(_index("red kite", "blue boat", "green drum"), "zeppelin", 2) == []


def BM_G08():
    """Case and punctuation do not hide a word."""
    assert _ids(_index("Kite, red.", "blue boat", "green drum"), "kite", 3) == ["0"]


def BM_G09():
    """Equal scores stand in order of id."""
    texts = {"d": "kite", "b": "kite", "c": "boat", "a": "kite"}
    index = LexicalIndex([_chunk(id_, text) for id_, text in texts.items()], idf="lucene")
    assert _ids(index, "kite", 4) == ["a", "b", "d"]


def BM_G10():
    """Title twice, body once: each field has its own lengths and frequencies."""
    chunks = [_chunk("0", "calm water", title="bay fog"), _chunk("1", "fog fog", title="sea")]
    index = LexicalIndex(chunks, fields=("title", "text"), **LUCENE)
    (hits,) = index.search(["fog"], 2, boosts={"title": 2, "text": 1}, tie_breaker=1)
    assert [id_ for id_, _ in hits] == ["0", "1"]
    assert [score for _, score in hits] == pytest.approx([1.205473, 0.99021], abs=1e-5)
    summed = 2 * index.scores(["fog"], "title") + index.scores(["fog"])
    assert summed[0] == pytest.approx([1.205473, 0.99021], abs=1e-6)


def BM_G11():
    """One of two documents: the library gives both 0, Lucene's idf ln 2 to the one."""
    index = _index("red kite", "blue boat", **LUCENE)
    assert index.scores(["kite"])[0] == pytest.approx([LN2, 0], abs=1e-6)
    assert _ids(_index("red kite", "blue boat"), "kite", 2) == ["0"]


def BM_G12():
    """More asked than there are: each once."""
    assert sorted(_ids(_index("red kite", "kite", idf="lucene"), "kite", 10)) == ["0", "1"]
