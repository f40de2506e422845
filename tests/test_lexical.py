"""BM25: rank-bm25 and bm25s as oracles, a search by brute force beside both engines, values by hand."""

import gzip
import importlib.util
import json
import math
import os
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_utils.filters import matches
from rag_utils.indexing import LexicalIndex, _bm25, lexical, stems, words
from rag_utils.indexing._filtered import MetadataTable
from rag_utils.indexing._tokens import STOP_WORDS
from rag_utils.schema import Chunk

WITHOUT_NUMBA = pytest.mark.skipif(not importlib.util.find_spec("numba"), reason="needs numba")
ENGINES = [pytest.param(math.inf, id="numpy"), pytest.param(0, id="numba", marks=WITHOUT_NUMBA)]
"""From how much work on the compiled engine answers."""

LETTERS = st.text(alphabet="abcdefgh ", max_size=12)
TITLED = st.lists(st.tuples(LETTERS, LETTERS), max_size=12)


def _chunk(id_, metadata, **fields):
    return Chunk(id=id_, document_id="d", start=0, end=1, fields=fields, metadata=metadata)


def _chunks(texts, metadata=None):
    rows = zip(texts, metadata or [{}] * len(texts), strict=True)
    return [_chunk(f"c{i:04d}", own, text=text) for i, (text, own) in enumerate(rows)]


def _spaced(text):
    """Single letters as words, so that small alphabets give repeats, ties and frequent terms."""
    return [letter for letter in text if letter != " "]


def _zipf(n_texts, rng, n_words=400, length=30):
    """Texts in which a few words are in most texts and most words in few."""
    share = 1 / np.arange(1, n_words + 1)
    lengths = rng.integers(0, 2 * length, n_texts)
    drawn = rng.choice(n_words, lengths.sum(), p=share / share.sum())
    return [" ".join(f"w{i}" for i in part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def _brute_force(index, query, k, boosts, where, tie_breaker=0.3):
    """Best fields by their definition, over all chunks."""
    fields = [field for field, boost in boosts.items() if boost]
    scores = np.array([boosts[field] * index.scores([query], field)[0] for field in fields])
    tokens = set(index._tokenizer(query))
    hits = []
    for position, chunk in enumerate(index.chunks):
        found = set().union(*(index._tokenizer(chunk.fields.get(field, "")) for field in fields))
        if found & tokens and matches(where, chunk.metadata):
            own = sorted(scores[:, position])
            hits.append((chunk.id, round(own[-1] + tie_breaker * sum(own[:-1]), 5)))
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]


def _assert_same(found, expected):
    """Equal hits; a score may differ by the rounding of an exact half."""
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1.1e-5)
    if [score for _, score in found] == [score for _, score in expected]:
        assert [id_ for id_, _ in found] == [id_ for id_, _ in expected]


@settings(max_examples=60, deadline=None)
@given(st.lists(LETTERS, min_size=1, max_size=12), LETTERS, st.sampled_from([(1.5, 0.75), (0.9, 0.4), (2.0, 1.0)]))
def test_scores_are_those_of_rank_bm25(texts, query, parameters):
    k1, b = parameters
    tokens = [_spaced(text) for text in texts]
    if not any(tokens):
        return
    index = LexicalIndex(_chunks(texts), tokenizer=_spaced, k1=k1, b=b)
    with np.errstate(invalid="ignore"):  # b = 1 and an empty text: the library divides 0 by 0
        expected = np.nan_to_num(BM25Okapi(tokens, k1=k1, b=b).get_scores(_spaced(query)))
    assert index.scores([query])[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("compiled_from", ENGINES)
def test_scores_are_those_of_rank_bm25_where_words_are_frequent(compiled_from, monkeypatch):
    monkeypatch.setattr(lexical, "_COMPILED_FROM", compiled_from)
    texts = _zipf(300, np.random.default_rng(1))
    oracle = BM25Okapi([words(text) for text in texts])
    queries = ["w0 w1 w1 w7 w399", "w3 unknown w120 w0", ""]
    scores = LexicalIndex(_chunks(texts)).scores(queries)
    assert scores.shape == (3, 300) and scores.dtype == np.float64
    for query, row in zip(queries, scores, strict=True):
        assert row == pytest.approx(oracle.get_scores(words(query)), abs=1e-9)


def test_lucene_ranks_as_bm25s_does():
    bm25s = pytest.importorskip("bm25s")
    texts = _zipf(300, np.random.default_rng(2))
    rival = bm25s.BM25(method="lucene", k1=1.2, b=0.75, dtype="float64")
    rival.index([words(text) for text in texts], show_progress=False)
    ours = LexicalIndex(_chunks(texts), idf="lucene").scores(["w0 w5 w60"])[0]
    assert ours == pytest.approx((1.2 + 1) * rival.get_scores(["w0", "w5", "w60"]), abs=1e-9)


def test_lucene_by_hand():
    """Three texts of 2, 1 and 3 words: mean length 2; "kite" in two of three, once and twice."""
    ours = LexicalIndex(_chunks(["red kite", "boat", "kite kite sky"]), idf="lucene").scores(["kite"])[0]
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    once, twice = 1 * 2.2 / (1 + 1.2), 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert ours == pytest.approx([idf * once, 0, idf * twice], abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    documents=TITLED,
    queries=st.lists(LETTERS, max_size=3),
    k=st.integers(0, 14),
    title=st.sampled_from([0, 0.5, 1, 3]),
    idf=st.sampled_from(["okapi", "lucene"]),
    engine=st.sampled_from([math.inf, 0]),
)
def test_search_finds_what_brute_force_finds(documents, queries, k, title, idf, engine):
    chunks = [
        _chunk(f"{(7 * i) % 13:02d}", {"n": i}, text=text, title=title_) for i, (text, title_) in enumerate(documents)
    ]
    index = LexicalIndex(chunks, fields=("text", "title"), tokenizer=_spaced, idf=idf)
    where = {"n": {"$lt": 9}}
    with mock.patch.object(lexical, "_COMPILED_FROM", engine):
        found = index.search(queries, k, boosts={"title": title}, where=where)
    for query, hits in zip(queries, found, strict=True):
        _assert_same(hits, _brute_force(index, query, k, {"text": 1, "title": title}, where))


@pytest.mark.parametrize("idf", ["okapi", "lucene"])
@pytest.mark.parametrize("compiled_from", ENGINES)
def test_skipping_frequent_words_loses_nothing(compiled_from, idf, monkeypatch):
    monkeypatch.setattr(lexical, "_COMPILED_FROM", compiled_from)
    rng = np.random.default_rng(3)
    rows = enumerate(zip(_zipf(500, rng), _zipf(500, rng, length=3), strict=True))
    chunks = [_chunk(f"{i:03d}", {"half": i % 2}, text=text, title=title) for i, (text, title) in rows]
    index = LexicalIndex(chunks, fields=("text", "title"), idf=idf)
    queries = _zipf(40, rng, length=6)
    filters = [None if i % 3 else {"half": 1} for i in range(40)]
    for k in (1, 5, 100, 600):
        found = index.search(queries, k, boosts={"title": 2}, where=filters)
        for query, where, hits in zip(queries, filters, found, strict=True):
            _assert_same(hits, _brute_force(index, query, k, {"text": 1, "title": 2}, where))


@WITHOUT_NUMBA
def test_both_engines_give_the_same_hits(monkeypatch):
    rng = np.random.default_rng(4)
    index = LexicalIndex(_chunks(_zipf(400, rng)))
    queries = _zipf(100, rng, length=6)
    found = []
    for compiled_from in (0, math.inf):
        monkeypatch.setattr(lexical, "_COMPILED_FROM", compiled_from)
        found.append((index.search(queries, 10), index.scores(queries).tolist()))
    assert found[0] == found[1]


def test_without_numba_numpy_answers(monkeypatch):
    monkeypatch.setattr(lexical, "_COMPILED_FROM", 0)
    monkeypatch.setitem(sys.modules, "rag_utils.indexing._bm25_numba", None)
    monkeypatch.delattr("rag_utils.indexing._bm25_numba", raising=False)
    assert lexical._engine(10**9) is _bm25
    assert [id_ for id_, _ in LexicalIndex(_chunks(["kite", "boat"])).search(["kite"], 2)[0]] == ["c0000"]


@pytest.mark.parametrize("compiled_from", ENGINES)
def test_a_match_is_returned_whatever_the_sign_of_its_score(compiled_from, monkeypatch):
    """One text: Okapi's idf ln(0.5 / 1.5) is negative, and so is a quarter of its mean. Two texts: idf ln 1 = 0."""
    monkeypatch.setattr(lexical, "_COMPILED_FROM", compiled_from)
    (lone,) = LexicalIndex(_chunks(["kite"])).search(["kite"], 3)
    assert lone == [("c0000", pytest.approx(0.25 * math.log(0.5 / 1.5), abs=1e-5))]
    assert LexicalIndex(_chunks(["red kite", "blue boat"])).search(["kite"], 3) == [[("c0000", 0)]]


def test_best_fields_by_hand():
    """Text scores ln 2 in the first chunk, title in both (lucene, k1 irrelevant at mean length)."""
    fields = [{"text": "kite sky", "title": "red kite"}, {"text": "boat sea", "title": "blue kite"}, {"text": "a b"}]
    chunks = [_chunk(str(i), {}, **own) for i, own in enumerate(fields)]
    index = LexicalIndex(chunks[:2], fields=("text", "title"), idf="lucene")
    text, title = math.log(2), math.log(1 + 0.5 / 2.5)
    (hits,) = index.search(["kite"], 5)
    assert hits == [("0", pytest.approx(text + 0.3 * title, abs=1e-5)), ("1", pytest.approx(title, abs=1e-5))]
    (hits,) = index.search(["kite"], 5, boosts={"text": 0, "title": 10})
    assert hits == [("0", pytest.approx(10 * title, abs=1e-5)), ("1", pytest.approx(10 * title, abs=1e-5))]
    assert index.search(["kite"], 5, boosts={"text": 0, "title": 0}) == [[]]
    lacking = LexicalIndex(chunks, fields=("text", "title"))
    assert lacking.scores(["kite"], "title")[0, 2] == 0


def test_scores_of_a_search_are_rounded_and_those_of_scores_are_not():
    index = LexicalIndex(_chunks(["red kite", "blue boat sea", "green drum"]), idf="lucene")
    ((_, score),) = index.search(["kite"], 1)[0]
    exact = index.scores(["kite"])[0, 0]
    assert score == round(exact, 5) != exact


def test_filters_are_one_for_all_or_one_each_and_read_once_each(monkeypatch):
    metadata = [{"outlet": name} for name in ("Tin Post", "Bay News", "Tin Post")]
    index = LexicalIndex(_chunks(["kite one", "kite two", "kite three"], metadata), idf="lucene")
    asked = Counter()
    rows = MetadataTable.rows
    monkeypatch.setattr(MetadataTable, "rows", lambda self, where: asked.update([repr(where)]) or rows(self, where))
    post, news = {"outlet": "Tin Post"}, {"outlet": {"$in": ["Bay News"]}}
    found = index.search(["kite", "kite", "kite", "one"], 5, where=[post, news, None, post])
    ids = [[id_ for id_, _ in hits] for hits in found]
    assert ids == [["c0000", "c0002"], ["c0001"], ["c0000", "c0001", "c0002"], ["c0000"]]
    assert list(asked.values()) == [1, 1]
    assert [id_ for id_, _ in index.search(["kite"], 5, where=news)[0]] == ["c0001"]
    assert index.search(["kite"], 5, where={"outlet": "None"}) == [[]]
    with pytest.raises(ValueError, match="1 filters for 2 queries"):
        index.search(["kite", "one"], 5, where=[post])


@pytest.mark.parametrize("where", [{"$or": {"a": 1}}, {"$and": {"a": 1}}, {1: 2}], ids=str)
def test_a_filter_that_cannot_be_meant_is_refused(where):
    with pytest.raises(ValueError, match=r"list of filters|no field"):
        LexicalIndex(_chunks(["kite"])).search(["kite"], 5, where=where)


def test_odd_sizes():
    index = LexicalIndex(_chunks(["kite", "", "kite boat"]))
    assert index.search([], 5) == [] and index.scores([]).shape == (0, 3)
    assert index.search(["kite", ""], 0) == [[], []]
    assert [len(hits) for hits in index.search(["kite", ""], 99)] == [2, 0]
    assert LexicalIndex([]).search(["kite"], 5, where={"a": 1}) == [[]]


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"idf": "bm25+"}, 'choose "okapi" or "lucene"'),
        ({"k1": -1}, "k1 = -1"),
        ({"b": 1.5}, "b = 1.5"),
        ({"k1": math.inf}, "k1 = inf"),
        ({"epsilon": math.nan}, "epsilon = nan"),
        ({"fields": "text"}, "sequence of distinct names"),
        ({"fields": ()}, "sequence of distinct names"),
    ],
)
def test_settings_out_of_range_are_named(settings_, message):
    with pytest.raises(ValueError, match=message):
        LexicalIndex(_chunks(["kite"]), **settings_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": -1}, "k = -1"),
        ({"k": 1, "tie_breaker": 2}, "tie_breaker = 2"),
        ({"k": 1, "boosts": {"titel": 2}}, "'titel' is not indexed: choose among text, title"),
        ({"k": 1, "boosts": {"title": -2}}, "boosts = .*-2"),
        ({"k": 1, "boosts": {"title": 1e9}}, "from 0 to 1000"),
        ({"k": 1, "boosts": {"title": math.nan}}, "boosts = .*nan"),
    ],
)
def test_arguments_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        LexicalIndex(_chunks(["kite"]), fields=("text", "title")).search(["kite"], **arguments)


def test_a_bare_string_an_unknown_field_and_a_repeated_id_are_errors():
    index = LexicalIndex(_chunks(["kite"]))
    for call in (lambda: index.scores("kite"), lambda: index.search("kite", 1)):
        with pytest.raises(TypeError, match="'kite' is one text"):
            call()
    with pytest.raises(ValueError, match="'title' is not indexed: choose among text"):
        index.scores(["kite"], "title")
    with pytest.raises(ValueError, match="several chunks have the id 'c0000'"):
        LexicalIndex(_chunks(["kite"]) * 2)


def test_tokenizers_by_hand():
    assert words("The Kites' café, no_1!") == ["the", "kites", "café", "no_1"]
    assert stems("The kites were flying into these stormy skies") == ["kite", "were", "fli", "stormi", "sky"]
    assert len(STOP_WORDS) == 33
    assert stems(" ".join(STOP_WORDS)) == []


def _saved(folder, tokenizer=stems):
    chunks = _chunks(["red kites", "blue boats"], [{"outlet": "Tin Post", "year": 2023}, {"share": 0.5}])
    index = LexicalIndex(chunks, fields=("text", "title"), tokenizer=tokenizer, idf="lucene", k1=0.9)
    index.save(folder)
    return index


def test_a_saved_index_loads_back_equal(tmp_path):
    index = _saved(tmp_path / "index")
    loaded = LexicalIndex.load(tmp_path / "index")
    assert loaded.chunks == index.chunks
    assert (loaded.scores(["kite boats"]) == index.scores(["kite boats"])).all()
    where = [{"year": 2023}]
    assert loaded.search(["kite boats"], 5, where=where) == index.search(["kite boats"], 5, where=where) != [[]]
    LexicalIndex([]).save(tmp_path / "index")  # overwrites
    assert LexicalIndex.load(tmp_path / "index").search(["kite"], 5) == [[]]


def test_the_tokenizer_of_a_saved_index_has_to_be_the_same(tmp_path):
    _saved(tmp_path, tokenizer=_spaced)
    assert LexicalIndex.load(tmp_path, tokenizer=_spaced).search(["k"], 1) != [[]]
    for other in (None, words):
        with pytest.raises(ValueError, match="built with the tokenizer '_spaced'"):
            LexicalIndex.load(tmp_path, tokenizer=other)


@pytest.mark.parametrize("name", ["index.json", "postings.npz", "terms.json", "chunks.jsonl"])
@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_a_damaged_folder_is_named(tmp_path, name, damage):
    _saved(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    if damage == "changed":
        path.write_bytes(whole[:-1] + b"?")
    with pytest.raises(ValueError, match=r"holds no readable LexicalIndex .*: build the index"):
        LexicalIndex.load(tmp_path)


def _rows(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.skipif(not os.environ.get("RAG_DATA_DIR"), reason="needs RAG_DATA_DIR")
def test_squad_reaches_the_measured_quality():
    """Stemmed, Lucene's idf: the right paragraph among the first five for at least 91 of 100 questions."""
    folder = Path(os.environ["RAG_DATA_DIR"]) / "squad"
    contexts = _rows(folder / "contexts.jsonl.gz")
    questions = [row for path in sorted(folder.glob("validation*.jsonl.gz")) for row in _rows(path)]
    chunks = _chunks([row["context"] for row in contexts])
    gold = {chunk.fields["text"]: chunk.id for chunk in chunks}
    found = LexicalIndex(chunks, tokenizer=stems, idf="lucene").search([row["question"] for row in questions], 5)
    hits = [gold[row["context"]] in dict(own) for row, own in zip(questions, found, strict=True)]
    assert np.mean(hits) >= 0.91
