"""QA-RAG's retriever families by hand: fused ranks, merged windows, fallbacks, and what the authors' code does."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_utils.chunking import by_sentences, gold_chunks, load_pipeline
from rag_utils.corpora import Corpus
from rag_utils.enrichment import NounPhraseEnricher
from rag_utils.filters import matches
from rag_utils.retrieval import (
    KeywordFusionRetriever,
    MetadataRetriever,
    QueryFusionRetriever,
    SentenceWindowRetriever,
    duplicated_by_index,
)
from rag_utils.schema import Chunk, Document, Enricher, Hit, Query


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAG_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def chunk(id_, text="", **metadata):
    return Chunk(id=id_, document_id=id_, start=0, end=len(text), fields={"text": text}, metadata=metadata)


class Ranked:
    """A stand-in that knows the ranking of each question's text, and what it was asked."""

    def __init__(self, chunks, rankings):
        self.chunks, self.asked = chunks, []
        self._chunks, self._rankings = {c.id: c for c in chunks}, rankings

    def retrieve(self, queries, k):
        self.asked.append(([query.text for query in queries], k))
        found = [[(self._chunks[id_], score) for id_, score in self._rankings[query.text].items()] for query in queries]
        pairs = zip(queries, found, strict=True)
        return [[Hit(c, score) for c, score in row if matches(query.where, c.metadata)][:k] for query, row in pairs]


class Known:
    """A stand-in that knows the phrases of each text."""

    field = "known"

    def __init__(self, phrases):
        self._phrases, self.seen = phrases, []

    def __call__(self, texts):
        self.seen += texts
        return [tuple(self._phrases.get(text, ())) for text in texts]


def ids(rows):
    return [[hit.chunk.id for hit in row] for row in rows]


# The bug that all of the authors' scripts share


def test_equal_similarities_give_the_same_chunk_again():
    assert duplicated_by_index([0.5, 0.9, 0.9, 0.1], 3) == [1, 1, 0]
    assert duplicated_by_index([0.5, 0.9, 0.7], 2) == [1, 2]  # as it should be, where none are equal
    assert duplicated_by_index([0.0, 0.0], 3) == [0, 0]
    assert duplicated_by_index([], 3) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda **mode: QueryFusionRetriever(Ranked([], {}), None, **mode),
        lambda **mode: KeywordFusionRetriever(Ranked([], {}), None, **mode),
        lambda **mode: SentenceWindowRetriever(Ranked([], {}), **mode),
        lambda **mode: MetadataRetriever(Ranked([], {}), Known({}), **mode),
    ],
)
def test_an_unknown_mode_is_named(make):
    with pytest.raises(ValueError, match="mode = 'papers'"):
        make(mode="papers")


# Query fusion

WORDINGS = {"q": {"x": 0.9, "y": 0.8, "z": 0.7}, "other": {"y": 0.9, "w": 0.8}, "third": {"w": 0.6}}


def reworded(questions):
    return [("other",) if question == "q" else () for question in questions]


def test_reciprocal_ranks_of_all_wordings_add_up():
    inner = Ranked([*map(chunk, "wxyz")], WORDINGS)
    retriever = QueryFusionRetriever(inner, reworded, depth=3)
    q, third = retriever.retrieve([Query(id="1", text="q"), Query(id="2", text="third")], 3)
    assert [(h.chunk.id, h.score) for h in q] == [
        ("y", pytest.approx(1 / 62 + 1 / 61)),
        ("x", pytest.approx(1 / 61)),
        ("w", pytest.approx(1 / 62)),
    ]
    assert ids([third]) == [["w"]]
    assert inner.asked == [(["q", "other", "third"], 3)]  # one call


def test_a_question_without_other_wordings_keeps_its_ranking():
    inner = Ranked([*map(chunk, "wxyz")], WORDINGS)
    for rewrite in (lambda texts: [()], lambda texts: [("q", "q")]):
        assert ids(QueryFusionRetriever(inner, rewrite).retrieve([Query(id="1", text="q")], 5)) == [["x", "y", "z"]]
    twice = QueryFusionRetriever(inner, lambda texts: [("other", "other")]).retrieve([Query(id="1", text="q")], 5)
    assert twice == QueryFusionRetriever(inner, reworded).retrieve([Query(id="1", text="q")], 5)


def test_every_wording_keeps_the_filter():
    chunks = [chunk(id_, source="s1" if id_ in "wz" else "s2") for id_ in "wxyz"]
    query = Query(id="1", text="q", where={"source": "s1"})
    for mode, expected in {"sound": ["w", "z"], "paper": ["z", "w"]}.items():
        retriever = QueryFusionRetriever(Ranked(chunks, WORDINGS), reworded, mode=mode)
        assert ids(retriever.retrieve([query], 4)) == [expected]


def test_paper_query_fusion_joins_two_contexts():
    rewrite = {"q": ("other", "third"), "third": (), "tied": ("other",)}
    inner = Ranked([*map(chunk, "wxyz")], WORDINGS | {"tied": {"x": 0.9, "y": 0.9, "z": 0.5}})
    retriever = QueryFusionRetriever(inner, lambda texts: [rewrite[text] for text in texts], mode="paper")
    queries = [Query(id=text, text=text) for text in rewrite]
    assert ids(retriever.retrieve(queries, 2)) == [["x", "y", "y", "w"], ["w"], ["x", "x", "y", "w"]]
    assert inner.asked == [(["q", "other", "third", "tied", "other"], 2)]


# Keyword fusion

TEXTS = {
    "a": "the salt mill",
    "b": "mill by the sea",
    "c": "grains of snow",
    "d": "salt mill hill",
    "e": "a ferry",
    "f": "a lamp",
}
PHRASES = {TEXTS["b"]: ["mill"], TEXTS["c"]: ["white salt", "mill"], TEXTS["e"]: ["ferry"], TEXTS["f"]: ["lamp"]}


def test_keyword_fusion_by_hand():
    """Cosine a, b, c; of the phrases c's hold both words of the question and b's one; d has them in its text only."""
    dense = Ranked([chunk(id_, text) for id_, text in TEXTS.items()], {"salt mill": {"a": 0.9, "b": 0.8, "c": 0.7}})
    retriever = KeywordFusionRetriever(dense, Known(PHRASES))
    (hits,) = retriever.retrieve([Query(id="q", text="salt mill")], 5)
    assert [(h.chunk.id, h.score) for h in hits] == [
        ("c", pytest.approx((1 / 63 + 1 / 61) / 2)),
        ("b", pytest.approx((1 / 62 + 1 / 62) / 2)),
        ("a", pytest.approx((1 / 61) / 2)),
    ]
    assert retriever.chunks == dense.chunks


def test_paper_keyword_fusion_by_hand():
    """Jaccard with "salt mill", by white space: a 2/3, d 2/3, b 1/5, others 0; of equals the first comes again."""
    chunks = [chunk(id_, text, source=id_) for id_, text in TEXTS.items()]
    dense = Ranked(chunks, {"salt mill": {"b": 0.9, "a": 0.8, "c": 0.7}, "Salt, mill": {"f": 0.5}, "": {}})
    retriever = KeywordFusionRetriever(dense, Known(PHRASES), mode="paper")
    hits = retriever.retrieve([Query(id="q", text="salt mill")], 3)
    assert ids(hits) == [["b", "a", "c", "a", "a", "b"]]
    assert [h.score for h in hits[0]] == pytest.approx([0.9, 0.8, 0.7, 2 / 3, 2 / 3, 1 / 5])
    # "Salt," is another token and "mill" stands in a, b and d: 1/4, 1/5, 1/4
    assert ids(retriever.retrieve([Query(id="q", text="Salt, mill")], 3)) == [["f", "a", "a", "b"]]
    filtered = Query(id="q", text="salt mill", where={"source": {"$in": ["b", "d"]}})
    assert ids(retriever.retrieve([filtered], 3)) == [["b", "d", "b"]]
    assert ids(retriever.retrieve([Query(id="q", text="")], 2)) == [["a", "a"]]


# Sentence windows

STORY = Document(
    id="d",
    text="Ash fell. Bees hum. Cows low.\nDogs bark. Eels swim. Foxes run.",
    title="Six",
    metadata={"source": "s"},
)
# sentences start at 0, 10, 20, 30, 41 and 52; windows of w = 1 are 0-19, 0-29, 10-40, 20-51, 30-62 and 41-62


def windows(order, k, documents=(STORY,), where=None, **options):
    """The windows when the sentences rank in this order, with scores 9, 8, ..."""
    sentences = by_sentences(documents, window=1, **options)
    ranking = {sentences[place].id: 9.0 - rank for rank, place in enumerate(order)}
    retriever = SentenceWindowRetriever(Ranked(sentences, {"q": ranking}))
    return retriever.retrieve([Query(id="q", text="q", where=where)], k)[0]


@pytest.mark.parametrize(
    ("order", "k", "expected"),
    [
        ([0], 3, {(0, 19): 9}),
        ([0, 5], 3, {(0, 19): 9, (41, 62): 8}),
        ([0, 2, 5], 2, {(0, 40): 9, (41, 62): 7}),  # overlap; white space parts the other two
        ([5, 0, 2], 2, {(41, 62): 9, (0, 19): 8}),  # two stand, so the third is not read
        ([5, 0, 2], 3, {(41, 62): 9, (0, 40): 8}),
        ([0, 5, 3], 3, {(0, 19): 9, (20, 62): 8}),
        ([0, 4, 2], 3, {(0, 62): 9}),  # the third joins the two
        ([3, 2, 4], 1, {(20, 51): 9}),
        ([0, 5], 0, {}),
    ],
)
def test_windows_merge_by_hand(order, k, expected):
    hits = windows(order, k)
    assert {(h.chunk.start, h.chunk.end): h.score for h in hits} == expected
    assert [h.score for h in hits] == sorted(expected.values(), reverse=True)
    for hit in hits:
        assert hit.chunk.fields == {"text": STORY.text[hit.chunk.start : hit.chunk.end], "title": "Six"}
        assert hit.chunk.metadata == {"source": "s"}
        assert (hit.chunk.id, hit.chunk.document_id) == (f"d@{hit.chunk.start}-{hit.chunk.end}", "d")


def test_windows_that_touch_merge_and_those_of_other_documents_do_not():
    def halves(text):
        return [(0, 2), (2, 4), (4, 6), (6, 8)]

    documents = [Document(id=id_, text="abcdefgh") for id_ in "de"]
    hits = windows([0, 3, 4], 5, documents, sentences=halves)
    assert [(h.chunk.id, h.chunk.fields["text"]) for h in hits] == [("d@0-8", "abcdefgh"), ("e@0-4", "abcd")]


def test_two_sentences_a_chunk_and_the_filter_of_the_sentences():
    other = Document(id="e", text=STORY.text, metadata={"source": "t"})
    hits = windows([0, 3, 1], 5, [STORY, other], where={"source": "t"}, size=2)  # three chunks a document
    assert [(h.chunk.id, h.score) for h in hits] == [("e@0-29", 8.0)]  # sentences 0 and 1, and 2 around them


def test_hits_can_be_judged_by_where_they_lie():
    corpus = Corpus(
        name="six",
        documents=[STORY],
        queries=[Query(id="q", text="q")],
        gold_documents={"q": ("d",)},
        facts={"q": ("Bees hum. Cows low.",)},
    )
    found = gold_chunks(corpus, [hit.chunk for hit in windows([0, 2, 5], 2)])
    assert found == {"q": {"d@0-40": 1}}


def test_more_sentences_are_asked_for_until_the_windows_stand():
    long = Document(id="a", text=" ".join(["Sheep."] * 10))
    sentences = by_sentences([long, STORY], window=1)
    ranking = {c.id: 0.5 for c in sentences}
    inner = Ranked(sentences, {"q": ranking, "short": {"d#0000": 1.0}})
    queries = [Query(id="1", text="q"), Query(id="2", text="short")]
    retriever = SentenceWindowRetriever(inner)
    batch = retriever.retrieve(queries, 2)
    assert ids(batch) == [["a@0-69", "d@0-19"], ["d@0-19"]]
    assert inner.asked == [(["q", "short"], 4), (["q"], 8), (["q"], 16)]
    assert batch == [retriever.retrieve([query], 2)[0] for query in queries]


@st.composite
def rankings(draw):
    """Sentence spans with and without white space between them, their ranking, w and k."""
    lengths = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), min_size=1, max_size=14))
    spans, place = [], 0
    for length, gap in lengths:
        spans.append((place, place + length))
        place += length + gap
    order = draw(st.permutations(range(len(spans))))
    return spans, order[: draw(st.integers(0, len(order)))], draw(st.integers(1, 3)), draw(st.integers(0, 5))


@given(rankings())
def test_windows_are_the_runs_of_characters_covered(case):
    """Oracle: mark the characters under the windows of the first n sentences, for the least n with k runs of them."""
    spans, order, w, k = case
    text = "".join(chr(0x4E00 + i) for i in range(spans[-1][1]))
    sentences = by_sentences([Document(id="d", text=text)], window=w, sentences=lambda text: spans)
    scores = {sentences[i].id: float(-rank) for rank, i in enumerate(order)}
    retriever = SentenceWindowRetriever(Ranked(sentences, {"q": scores}))
    (hits,) = retriever.retrieve([Query(id="q", text="q")], k)

    def runs(n):
        around = [spans[max(i - w, 0) : i + w + 1] for i in order[:n]]
        covered = {at for own in around for at in range(own[0][0], own[-1][1])}
        found = [
            [at for _, at in run] for _, run in groupby(enumerate(sorted(covered)), lambda pair: pair[1] - pair[0])
        ]
        return {(run[0], run[-1] + 1) for run in found}

    read = next((n for n in range(len(order) + 1) if len(runs(n)) == k), len(order))
    assert {(h.chunk.start, h.chunk.end) for h in hits} == runs(read)
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    for hit in hits:
        assert hit.chunk.fields["text"] == text[hit.chunk.start : hit.chunk.end]
        inside = [-rank for rank, i in enumerate(order[:read]) if hit.chunk.start <= spans[i][0] < hit.chunk.end]
        assert hit.score == max(inside)


def test_sentences_without_windows_are_refused_and_served_as_in_the_paper():
    sentences = by_sentences([STORY])
    inner = Ranked(sentences, {"q": {"d#0001": 0.9, "d#0002": 0.9, "d#0004": 0.3}})
    with pytest.raises(ValueError, match=r"'d#000\d' has no window.*window=1"):
        SentenceWindowRetriever(inner).retrieve([Query(id="q", text="q")], 3)
    paper = SentenceWindowRetriever(inner, mode="paper").retrieve([Query(id="q", text="q")], 3)
    assert ids(paper) == [["d#0001", "d#0001", "d#0004"]]
    assert paper[0][0].chunk == sentences[1]


# Shared phrases and filters

HITS = {"x": 0.9, "y": 0.8, "z": 0.7}
NAMED = {
    "x": ["Ada", "harbour"],
    "y": ["ada", "Steam Mill"],
    "z": ["steam mill", "ferry"],
    "who is ADA": ["ADA"],
    "ADA's mill": ["ADA", "Steam mill"],
    "lone": ["zeppelin"],
    "dumb": [],
}


def sharing(inner=None, **options):
    inner = inner or Ranked([chunk(id_, id_) for id_ in HITS], dict.fromkeys(NAMED, HITS))
    return MetadataRetriever(inner, Known(NAMED), **options)


def test_hits_that_share_a_phrase_are_kept_and_fallbacks_told():
    retriever = sharing()
    queries = [Query(id=text, text=text) for text in ("who is ADA", "ADA's mill", "lone", "dumb")]
    assert ids(retriever.retrieve(queries, 2)) == [["x", "y"], ["x", "y"], ["x", "y"], ["x", "y"]]
    assert ids(retriever.retrieve(queries, 3)) == [["x", "y"], ["x", "y", "z"], ["x", "y", "z"], ["x", "y", "z"]]
    assert retriever.fallbacks == {"lone": "none shared", "dumb": "no phrases in the question"}


def test_more_phrases_can_be_asked_for_and_hits_come_from_the_depth():
    query = [Query(id="q", text="ADA's mill")]
    retriever = sharing(least=2)
    assert ids(retriever.retrieve(query, 1)) == [["y"]] and retriever.fallbacks == {}
    shallow = sharing(least=2, depth=1)
    assert ids(shallow.retrieve(query, 1)) == [["x"]] and shallow.fallbacks == {"q": "none shared"}
    assert ids(shallow.retrieve(query, 2)) == [["y"]] and shallow.fallbacks == {}  # asked anew, told anew


def test_phrases_of_a_text_are_found_once():
    retriever = sharing(Ranked([chunk("1", "x"), chunk("2", "x")], {"who is ADA": {"1": 1.0, "2": 0.5}}))
    phrases = retriever._by
    for _ in range(2):
        assert ids(retriever.retrieve([Query(id="q", text="who is ADA")], 2)) == [["1", "2"]]
    assert phrases.seen == ["who is ADA", "x", "who is ADA"]


def test_nothing_retrieved_is_no_fallback():
    retriever = sharing(Ranked([], {"lone": {}}))
    assert retriever.retrieve([Query(id="q", text="lone")], 3) == [[]] and retriever.fallbacks == {}


def test_filters_in_place_of_phrases():
    chunks = [chunk("x", source="Tin Post"), chunk("y", source="Shingle"), chunk("z", source="Tin Post")]
    filters = {
        "asked": {"source": "Tin Post"},
        "dated": {"source": "Tin Post", "published_at": "March 9, 2024"},
        "unknown": {"source": "The Nowhere"},
    }
    queries = [Query(id=id_, text="q") for id_ in (*filters, "none")]
    for sources in (None, ["Tin Post", "Shingle"]):
        retriever = MetadataRetriever(Ranked(chunks, {"q": HITS}), filters=filters, sources=sources)
        assert ids(retriever.retrieve(queries, 3)) == [["x", "z"], ["x", "z"], ["x", "y", "z"], ["x", "y", "z"]]
        assert retriever.fallbacks == {"dated": "without dates", "unknown": "no filter"}


def test_paper_phrases_by_hand():
    """Of the question "" (two short words) and "steam engine" are left; "lamp" is too short to be a phrase."""
    named = {
        "q": ["my big cat", "the old steam engine", "lamp"],
        "x": ["one steam engine", "lamp", "harbour"],
        "y": ["a steam engine", "the dog"],
        "z": ["Steam engine", "the dog"],
        "none": ["harbour"],
    }
    inner = Ranked([chunk(id_, id_) for id_ in "xyz"], {"q": {"x": 0.9, "y": 0.8, "z": 0.7}, "none": HITS})
    retriever = MetadataRetriever(inner, Known(named), mode="paper")
    queries = [Query(id="q", text="q"), Query(id="none", text="none")]
    assert ids(retriever.retrieve(queries, 3)) == [["y"], []]
    assert ids(retriever.retrieve(queries, 1)) == [[], []] and retriever.fallbacks == {}
    tied = Ranked([chunk(id_, id_) for id_ in "yz"], {"q": {"y": 0.9, "z": 0.9}})
    assert ids(MetadataRetriever(tied, Known(named), mode="paper").retrieve(queries[:1], 2)) == [["y", "y"]]


@pytest.mark.parametrize(
    "wrong",
    [{}, {"phrases": Known({}), "filters": {}}, {"filters": {}, "mode": "paper"}],
    ids=["none", "both", "paper"],
)
def test_phrases_or_filters(wrong):
    with pytest.raises(ValueError, match="either phrases or filters"):
        MetadataRetriever(Ranked([], {}), **wrong)


def test_noun_phrases_by_hand():
    enricher = NounPhraseEnricher(load_pipeline())
    assert isinstance(enricher, Enricher)
    found = enricher(["The old mill stood by a quiet river. She saw it, and the old\n mill.", "", "Run!"])
    assert found == [("old mill", "quiet river"), (), ()]
