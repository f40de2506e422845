"""The tree of summaries on planted clusters, its limits, and that it is the same tree each time."""

from itertools import pairwise

import numpy as np
import pytest

from rag_utils.corpora import load_corpus
from rag_utils.filters import matches
from rag_utils.raptor import ExtractiveSummariser, LLMSummariser, RaptorRetriever
from rag_utils.raptor.clustering import SoftClusters
from rag_utils.schema import Chunk, Query, Reply
from tests.test_retrieval import LetterEmbedder


class WordEmbedder:
    """A stand-in whose vectors are planted: a text's vector is the sum of those of its words."""

    name, revision = "planted", "1"

    def __init__(self, vectors, noise=0.0):
        rng = np.random.default_rng(11)
        self.dimension = len(next(iter(vectors.values())))
        self.vectors = {word: v + rng.uniform(-noise, noise, self.dimension) for word, v in vectors.items()}

    def __call__(self, texts):
        sums = np.array([sum(self.vectors[word] for word in text.split()) for text in texts])
        return (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)


def _joined(clusters):
    """A stand-in for summaries that loses nothing, so that a node's vector is that of all below it."""
    return [" ".join(texts) for texts in clusters]


def _first_words(clusters):
    return [" ".join(text.split()[0] for text in texts) for texts in clusters]


def _must_not_summarise(clusters):
    raise AssertionError("nothing to summarise")


def _planted(groups=3, size=14, seed=0):
    """Names and vectors of groups around three axes, spread along two others; a name begins with its group's letter."""
    rng = np.random.default_rng(seed)
    return {
        f"{'abc'[group]}{i:02d}": np.concatenate([np.eye(3)[group], rng.normal(0, 0.02, 2)])
        for group in range(groups)
        for i in range(size)
    }


def _leaves(texts, **metadata):
    return [
        Chunk(id=f"c{i:03d}", document_id=f"d{i}", start=0, end=1, fields={"text": text}, metadata=metadata)
        for i, text in enumerate(texts)
    ]


def _news(n):
    texts = [document.text for document in load_corpus("builtin_news", split="all").documents]
    return _leaves([text[start : start + 300] for text in texts for start in (0, 300)][:n])


def _tree(retriever):
    return [
        [(node.id, node.fields["text"]) for node in layer] for layer in retriever.tree.layers
    ], retriever.tree.children


@pytest.mark.parametrize("seed", range(2))
def test_planted_clusters_are_found(seed):
    vectors = _planted(seed=seed)
    tree = RaptorRetriever(_leaves(vectors), WordEmbedder(vectors), _joined).tree
    ids = [f"c{i:03d}" for i in range(42)]
    assert tree.children == {f"summary-1-00{group}": tuple(ids[14 * group : 14 * group + 14]) for group in range(3)}
    assert [len(layer) for layer in tree.layers] == [42, 3]
    assert tree.layers[1][2].fields["text"] == " ".join([*vectors][28:])


@pytest.mark.parametrize("seed", range(2))
def test_a_node_between_two_clusters_stands_in_both(seed):
    """The second cluster mirrors the first, and the node lies on the mirror."""
    first = np.random.default_rng(seed).normal([1, 0, 0], 0.2, (50, 3))
    left, right = SoftClusters()(np.concatenate([first, first[:, [1, 0, 2]], [[0.5, 0.5, 0]]]), [1] * 101)
    assert left == (*range(50), 100) and right == (*range(50, 100), 100)


def test_long_clusters_are_clustered_again_and_halved_where_they_do_not_come_apart():
    one, three = (np.array([*_planted(groups=groups).values()]) for groups in (1, 3))
    assert SoftClusters()(one, [10] * 14) == [tuple(range(14))]
    assert SoftClusters(tokens=70)(one, [10] * 14) == [tuple(range(7)), tuple(range(7, 14))]
    assert SoftClusters(tokens=139)(three, [10] * 42) == [tuple(range(i, i + 7)) for i in range(0, 42, 7)]
    assert SoftClusters(tokens=5)(np.eye(4), [10] * 4) == [(0, 1, 2, 3)]  # fewer than five stay together


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 12, 30])
@pytest.mark.parametrize("tokens", [3, 3_500])
def test_few_and_equal_nodes_do_not_crash(n, tokens, recwarn):
    different = np.random.default_rng(n).normal(size=(n, 8))
    for vectors in (different, np.ones((n, 8)), np.zeros((n, 8)), np.repeat(different, 2, axis=0)[:n]):
        clusters = SoftClusters(tokens=tokens)(vectors, [1] * n)
        assert {row for cluster in clusters for row in cluster} == set(range(n))
        assert n >= 5 or len(clusters) == 1
    assert not [str(warning.message) for warning in recwarn]


def test_up_to_eleven_chunks_have_no_tree():
    vectors = _planted(size=4)
    retriever = RaptorRetriever(_leaves([*vectors][:11]), WordEmbedder(vectors), _must_not_summarise)
    assert [len(layer) for layer in retriever.tree.layers] == [11] and retriever.tree.children == {}
    assert len(RaptorRetriever(_leaves(vectors), WordEmbedder(vectors), _joined).tree.layers) == 2
    small = RaptorRetriever(_leaves([*vectors][:4]), WordEmbedder(vectors), _joined, dimensions=2)
    assert small.tree.children == {"summary-1-000": ("c000", "c001", "c002", "c003")}


def test_layers_are_limited():
    chunks = _news(40)
    for layers in (0, 1):
        tree = RaptorRetriever(chunks, LetterEmbedder(), _first_words, dimensions=2, layers=layers).tree
        assert len(tree.layers) == layers + 1


def test_equal_texts_share_their_clusters():
    vectors = _planted()
    texts = [*vectors, "a00", "a00"]
    children = RaptorRetriever(_leaves(texts), WordEmbedder(vectors), _joined).tree.children
    with_first = [set(ids) for ids in children.values() if "c000" in ids]
    assert with_first and all({"c000", "c042", "c043"} <= ids for ids in with_first)


def test_two_builds_are_one_tree():
    """On letters of news, which have no clear clusters, so that much could differ."""
    chunks = _news(40)
    builds = [RaptorRetriever(chunks, LetterEmbedder(), ExtractiveSummariser(LetterEmbedder(), 40)) for _ in range(2)]
    assert len(builds[0].tree.layers) > 1
    assert _tree(builds[0]) == _tree(builds[1])


def test_noise_of_another_processor_makes_no_other_tree():
    class Noisy(LetterEmbedder):
        def __call__(self, texts):
            noise = np.random.default_rng(5).uniform(-1e-6, 1e-6, (len(texts), 26))
            return (super().__call__(texts) + noise).astype(np.float32)

    vectors, chunks = _planted(), _news(40)
    planted = [RaptorRetriever(_leaves(vectors), WordEmbedder(vectors, noise), _joined) for noise in (0, 1e-6)]
    news = [RaptorRetriever(chunks, embedder, _first_words) for embedder in (LetterEmbedder(), Noisy())]
    assert _tree(planted[0]) == _tree(planted[1])
    assert _tree(news[0]) == _tree(news[1])


@pytest.fixture(scope="module")
def deep():
    """A tree of several layers, walked two nodes a layer; small clusters by a small limit."""
    summarise = ExtractiveSummariser(LetterEmbedder(), 30)
    return RaptorRetriever(
        _news(40), LetterEmbedder(), summarise, mode="traversal", dimensions=3, tokens=150, per_layer=2
    )


def test_every_chunk_can_be_reached_from_the_top(deep):
    assert len(deep.tree.layers) > 3
    reached = {node.id for node in deep.tree.layers[-1]}
    for layer in reversed(deep.tree.layers[:-1]):
        reached = {child for id_ in reached for child in deep.tree.children[id_]}
        assert reached == {node.id for node in layer}


def test_a_summary_claims_what_all_below_it_agree_on():
    vectors = _planted()
    chunks = [
        Chunk(
            id=f"c{i:03d}",
            document_id="all of a" if text[0] == "a" else f"d{i}",
            start=0,
            end=1,
            fields={"text": text, "title": "left behind"},
            metadata={"group": text[0], "place": i, **({"rare": 1} if i % 2 else {})},
        )
        for i, text in enumerate(vectors)
    ]
    retriever = RaptorRetriever(chunks, WordEmbedder(vectors), _joined)
    summaries = retriever.tree.layers[1]
    assert [node.metadata for node in summaries] == [{"group": "a"}, {"group": "b"}, {"group": "c"}]
    assert [node.document_id for node in summaries] == ["all of a", "", ""]
    assert {(node.start, node.end, *node.fields) for node in summaries} == {(0, 0, "text")}
    assert retriever.chunks == [*chunks, *summaries]


@pytest.mark.parametrize("mode", ["collapsed", "traversal"])
def test_no_hit_stands_over_a_chunk_that_the_filter_excludes(mode):
    """A summary of a0 .. a9 has no `place`, so it would pass the filter "place is not 3" by itself."""
    vectors = _planted()
    chunks = [
        Chunk(id=text, document_id=text, start=0, end=1, fields={"text": text}, metadata={"g": text[0], "place": i})
        for i, text in enumerate(vectors)
    ]
    retriever = RaptorRetriever(chunks, WordEmbedder(vectors), _joined, mode=mode, per_layer=200)
    query = Query(id="q", text="a00", where={"place": {"$ne": 3}})
    found = {hit.chunk.id for hit in retriever.retrieve([query], 200)[0]}
    assert matches(query.where, retriever.tree.layers[1][0].metadata)
    assert found == {*vectors, "summary-1-001", "summary-1-002"} - {"a03"}
    query = Query(id="q", text="a00", where={"place": 33})  # no summary agrees, and it lies far from the question
    assert [hit.chunk.id for hit in retriever.retrieve([query], 5)[0]] == ["c05"]


def test_collapsed_stops_at_the_first_node_that_overflows():
    """By hand: the nearest has 2 words and the next 3, over the limit of 4; the third would fit, and is not taken.

    The nearest is a hit even where it alone is too long: else one long chunk would hide all others.
    """
    vectors = {"x": np.array([1.0, 0.0]), "y": np.array([0.0, 1.0])}
    chunks = _leaves(["x x", "x x y", "y"])
    query = Query(id="q", text="x")
    for tokens, found in ((1, ["c000"]), (4, ["c000"]), (5, ["c000", "c001"]), (6, ["c000", "c001", "c002"])):
        (hits,) = RaptorRetriever(chunks, WordEmbedder(vectors), _joined, tokens=tokens).retrieve([query], 3)
        assert [hit.chunk.id for hit in hits] == found
    assert [hit.score for hit in hits] == pytest.approx([1, 2 / 5**0.5, 0], abs=1e-5)


def test_collapsed_ranks_summaries_among_the_chunks():
    vectors = _planted()
    retriever = RaptorRetriever(_leaves(vectors), WordEmbedder(vectors), _joined)
    (hits,) = retriever.retrieve([Query(id="q", text=" ".join([*vectors][14:28]))], 1)
    assert [(hit.chunk.id, hit.score) for hit in hits] == [("summary-1-001", 1.0)]


def test_traversal_goes_from_chosen_nodes_to_their_children(deep):
    layers, children = deep.tree.layers, deep.tree.children
    queries = [Query(id=text, text=text) for text in ("harbour", "ferry and storm", "zzz")]
    for hits in deep.retrieve(queries, 100):
        found = {hit.chunk.id for hit in hits}
        chosen = [found & {node.id for node in layer} for layer in layers]
        assert [len(own) for own in chosen] == [2] * len(layers)
        for below, own in pairwise(chosen):
            assert below <= {child for id_ in own for child in children[id_]}


def test_traversal_by_hand():
    """One node a layer: the summary of the question's group, then the chunk that is the question."""
    vectors = _planted()
    retriever = RaptorRetriever(_leaves(vectors), WordEmbedder(vectors), _joined, mode="traversal", per_layer=1)
    (hits,) = retriever.retrieve([Query(id="q", text="a05")], 10)
    assert [hit.chunk.id for hit in hits] == ["c005", "summary-1-000"]


def test_the_papers_form_has_no_tree():
    vectors = _planted()
    retriever = RaptorRetriever(_leaves(vectors), WordEmbedder(vectors), _must_not_summarise, mode="paper", tokens=1)
    (hits,) = retriever.retrieve([Query(id="q", text="b03")], 3)
    assert len(retriever.chunks) == 42 and retriever.tree.children == {}
    assert hits[0].chunk.fields["text"] == "b03" and len(hits) == 3


def test_extractive_summary_by_hand():
    """The mean is (0.7, 0.447): the third is nearest but has 8 words and marks; the next three have 2 each."""
    at = {
        "One.": [0.6, 0.8],
        "Two.": [1, 0],
        "Three is far, far too long.": [0.9, 0.4358899],
        "Four.": [1, 0],
        "Five.": [0, 1],
    }

    def embedder(texts):
        return np.array([at[text] for text in texts], np.float32)

    summarise = ExtractiveSummariser(embedder, tokens=6)
    assert summarise([["One. Two.", "Two. Three is far, far too long. Four. Five."], [""], ["Five."]]) == [
        "One. Two. Four.",
        "",
        "Five.",
    ]
    assert ExtractiveSummariser(embedder, tokens=2)([["Four. Two."]]) == ["Four."]  # equally near: the first
    assert ExtractiveSummariser(embedder, tokens=1)([["Five."]]) == ["Five."]
    assert summarise([]) == []


def test_a_failed_reply_gets_the_fallback_and_is_counted():
    replies = {"fine": Reply(text=" A summary. ", model="m"), "blank": Reply(text=" ", model="m")}
    replies["gone"] = Reply(text="", model="m", error="not recorded")
    replies["cut"] = Reply(text="A long", model="m", error="truncated")
    asked = []

    def llm(prompts):
        asked.append(len(prompts))
        return [next(r for word, r in replies.items() if word in p.messages[-1][1]) for p in prompts]

    summarise = LLMSummariser(llm, _joined)
    clusters = [["one fine", "day"], ["a blank", "page"], ["gone", "away"], ["cut", "short"]]
    assert summarise(clusters) == ["A summary.", "a blank page", "gone away", "A long"]
    assert summarise.failures == {"a blank\n\npage": "empty", "gone\n\naway": "not recorded"}
    assert asked == [4]


@pytest.mark.parametrize(
    "wrong", [{"mode": "flat"}, {"dimensions": 0}, {"tokens": 0}, {"per_layer": 0}, {"layers": -1}, {"threshold": 1}]
)
def test_a_wrong_setting_is_named(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name} = '?{value}"):
        RaptorRetriever([], LetterEmbedder(), _joined, **wrong)


def test_ids_and_counts_that_cannot_be():
    vectors = _planted()
    summary = Chunk(id="summary-1-000", document_id="", start=0, end=0, fields={"text": "a00"})
    with pytest.raises(ValueError, match="summary-1-000"):
        RaptorRetriever([summary], WordEmbedder(vectors), _joined)
    with pytest.raises(ValueError, match="shorter"):
        RaptorRetriever(_leaves(vectors), WordEmbedder(vectors), lambda clusters: ["one"])


def test_halves_of_characters_reach_neither_model_nor_index():
    asked = []

    def answer(prompts):
        asked.extend(prompt.messages[-1][1] for prompt in prompts)
        return [Reply(text="so \ud800 it is", model="m") for _ in prompts]

    assert LLMSummariser(answer, _joined)([["a \ud800 b", "\0"]]) == ["so ? it is"]
    assert "a ? b\n\n?" in asked[0]
    with pytest.raises(ValueError, match="chunk 'c000' holds half a character"):
        RaptorRetriever(_leaves(["a \ud800"]), WordEmbedder({"a": np.array([1.0, 0.0])}), _joined)
