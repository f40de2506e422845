"""The dense index: exact ranks against a brute-force rival, the store's rules, what comes back from a folder."""

import gc
import socket
import sqlite3
import string
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rag_utils.filters import matches, to_chroma
from rag_utils.indexing import _chroma
from rag_utils.indexing._filtered import MetadataTable
from rag_utils.indexing.dense import DenseIndex, collection_name, similarity
from rag_utils.schema import Chunk


class Lookup:
    """A double of an encoder: the vector of a text is looked up, so that right answers can be computed by hand."""

    def __init__(self, vectors, name="lookup", revision="1"):
        self.vectors, self.name, self.revision = vectors, name, revision
        self.dimension = len(next(iter(vectors.values())))
        self.encoded: list[str] = []

    def __call__(self, texts):
        self.encoded += texts
        return np.array([self.vectors[text] for text in texts], dtype=np.float32).reshape(len(texts), -1)


def _chunk(id_, text=None, **metadata):
    return Chunk(id=id_, document_id="d", start=0, end=4, fields={"text": text or id_}, metadata=metadata)


def _random(n, dimension=16, seed=0):
    random = np.random.default_rng(seed)
    vectors = {f"c{i:04d}": random.standard_normal(dimension) for i in range(n)}
    vectors |= {f"q{i}": random.standard_normal(dimension) for i in range(20)}
    sources, days = ["Tin Post", "Bay Times", "Kite Daily"], ["2024-01-05", "2024-02-11", "2024-03-30"]
    chunks = [
        _chunk(f"c{i:04d}", source=random.choice(sources), published_at=random.choice(days), year=2020 + i % 5)
        for i in range(n)
    ]
    return Lookup(vectors), chunks


def _brute_force(embedder, chunks, query, k, where=None):
    """The rival: one pair at a time, in double precision."""

    def cosine(a, b):
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    left = [chunk for chunk in chunks if matches(where, chunk.metadata)]
    scored = [(round(cosine(embedder.vectors[query], embedder.vectors[chunk.id]), 5), chunk.id) for chunk in left]
    return [(id_, score) for score, id_ in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:k]]


FILTERS = [
    None,
    {},
    {"source": {"$in": ["Tin Post"]}},
    {"source": {"$in": ["Tin Post", "Kite Daily"]}, "published_at": {"$gte": "February 1, 2024"}},
    {"$or": [{"source": "Bay Times"}, {"year": {"$lt": 2022}}]},
    {"source": {"$nin": ["Tin Post"]}, "year": {"$gte": 2021, "$lt": 2024}},
    {"source": {"$in": []}},
    {"source": "No Such Outlet"},
]


@pytest.mark.parametrize("where", FILTERS, ids=str)
def test_search_equals_brute_force(where):
    embedder, chunks = _random(200)
    queries = [f"q{i}" for i in range(20)]
    found = DenseIndex(chunks, embedder).search(queries, 7, where)
    for query, hits in zip(queries, found, strict=True):
        expected = _brute_force(embedder, chunks, query, 7, where)
        assert [id_ for id_, _ in hits] == [id_ for id_, _ in expected]
        assert [score for _, score in hits] == pytest.approx([score for _, score in expected], abs=1.1e-5)


def test_filters_of_the_single_queries_equal_one_at_a_time():
    embedder, chunks = _random(200)
    index = DenseIndex(chunks, embedder)
    queries = [f"q{i}" for i in range(16)]
    filters = [FILTERS[i % 8] for i in range(16)]
    together = index.search(queries, 5, filters)
    assert together == [index.search([q], 5, where)[0] for q, where in zip(queries, filters, strict=True)]
    with pytest.raises(ValueError, match="2 filters for 16 questions"):
        index.search(queries, 5, [None, None])


@pytest.mark.parametrize("where", [{"$or": {"year": 1}}, {"$and": {"year": 1}}, {1: 2}], ids=str)
def test_a_filter_that_cannot_be_meant_is_refused(where):
    embedder, chunks = _random(5)
    with pytest.raises(ValueError, match=r"list of filters|no field"):
        DenseIndex(chunks, embedder).search(["q0"], 1, where)


def test_store_and_filter_agree_on_who_passes():
    embedder, chunks = _random(60)
    index = DenseIndex(chunks, embedder)
    with index.store.opened() as collection:
        for where in FILTERS[2:6]:
            there = set(collection.get(where=to_chroma(where), include=[])["ids"])
            assert there == {chunk.id for chunk in chunks if matches(where, chunk.metadata)} != set()


def test_scores_equal_search_and_follow_the_order_given():
    embedder, chunks = _random(50)
    index = DenseIndex(list(reversed(chunks)), embedder)
    scores = index.scores(["q0", "q1"])
    assert scores.shape == (2, 50) and scores.dtype == np.float64
    assert [chunk.id for chunk in index.chunks] == [chunk.id for chunk in reversed(chunks)]
    for row, hits in zip(scores, index.search(["q0", "q1"], 50), strict=True):
        by_id = {chunk.id: score for chunk, score in zip(index.chunks, row, strict=True)}
        assert dict(hits) == pytest.approx(by_id, abs=1.1e-5)
    assert index.scores([]).shape == (0, 50)


def test_ties_go_by_id_also_at_the_last_place():
    vectors = {id_: [1.0, 0.0] for id_ in "zyxwvab"} | {"q": [1.0, 0.0], "far": [0.0, 1.0]}
    index = DenseIndex([_chunk(id_) for id_ in ["far", *"zyxwvab"]], Lookup(vectors))
    assert index.search(["q"], 3) == [[("a", 1.0), ("b", 1.0), ("v", 1.0)]]


def test_blocks_of_queries_change_nothing(monkeypatch):
    embedder, chunks = _random(50)
    index = DenseIndex(chunks, embedder)
    queries = [f"q{i}" for i in range(20)]
    whole = index.search(queries, 5)
    monkeypatch.setattr("rag_utils.indexing.dense._SCORES_A_BLOCK", 150)  # three questions
    blocks = index.search(queries, 5)
    assert [[id_ for id_, _ in hits] for hits in blocks] == [[id_ for id_, _ in hits] for hits in whole]


def test_the_graph_answers_beyond_the_limit_and_its_recall_is_reported():
    embedder, chunks = _random(300)
    exact, graph = DenseIndex(chunks, embedder), DenseIndex(chunks, embedder, exact_up_to=10)
    queries = [f"q{i}" for i in range(20)]
    near, best = graph.search(queries, 5), exact.search(queries, 5)
    shared = np.mean([len(dict(a).keys() & dict(b).keys()) / 5 for a, b in zip(near, best, strict=True)])
    assert graph.recall(queries, 5) == pytest.approx(shared) and shared > 0.9
    for hits in near:
        assert hits == sorted(hits, key=lambda pair: (-pair[1], pair[0]))
    (all_of_them,) = graph.search(["q0"], 400)
    assert dict(all_of_them) == pytest.approx(dict(exact.search(["q0"], 400)[0]), abs=1.1e-5)
    where = {"source": "Tin Post"}
    assert graph.search(queries, 5, where) == exact.search(queries, 5, where)  # a filter is always exact
    with pytest.raises(ValueError, match="nothing to measure"):
        DenseIndex([], embedder).recall(queries, 5)


def test_empty_indexes_and_queries_give_empty_lists():
    embedder, chunks = _random(3)
    assert DenseIndex([], embedder).search(["q0", "q1"], 5) == [[], []]
    assert DenseIndex([], embedder).scores(["q0"]).shape == (1, 0)
    assert DenseIndex(chunks, embedder).search([], 5) == []
    with pytest.raises(TypeError, match="a list of questions"):
        DenseIndex(chunks, embedder).search("q0", 5)


def test_indexes_in_memory_share_nothing_and_are_freed():
    embedder, chunks = _random(10)
    first, second = DenseIndex(chunks[:4], embedder), DenseIndex(chunks[4:], embedder)
    assert {id_ for id_, _ in first.search(["q0"], 10)[0]} == {f"c000{i}" for i in range(4)}
    assert len(second) == 6
    client, name = first.store._client, first.store._name
    del first
    gc.collect()
    assert name not in [collection.name for collection in client.list_collections()]


def test_equal_chunks_are_skipped_and_changed_ones_replaced():
    embedder = Lookup({"old": [1.0, 0.0], "new": [0.0, 1.0], "other": [1.0, 1.0], "q": [0.0, 2.0]})
    index = DenseIndex([_chunk("a", "old"), _chunk("b", "other")], embedder)
    index.add([_chunk("a", "old"), _chunk("b", "other")])
    assert embedder.encoded == ["old", "other"]
    index.add([_chunk("c", "old"), _chunk("a", "new", source="Tin Post")])
    assert embedder.encoded == ["old", "other", "old", "new"]
    assert [chunk.id for chunk in index.chunks] == ["a", "b", "c"]
    assert index.search(["q"], 1) == [[("a", 1.0)]] == index.search(["q"], 1, {"source": "Tin Post"})
    with index.store.opened() as collection:
        assert collection.count() == 3
        assert collection.get("a")["metadatas"][0]["source"] == "Tin Post"


def test_a_chunk_with_other_metadata_has_changed():
    embedder = Lookup({"old": [1.0, 0.0]})
    index = DenseIndex([_chunk("a", "old", year=2023)], embedder)
    index.add([_chunk("a", "old", year=2024)])
    assert index.search(["old"], 1, {"year": 2024}) == [[("a", 1.0)]]


def test_bad_vectors_are_refused_by_name():
    embedder = Lookup({"fine": [1.0, 0.0], "hole": [np.nan, 0.0], "q": [np.inf, 0.0]})
    with pytest.raises(ValueError, match=r"'x7' is not finite"):
        DenseIndex([_chunk("x6", "fine"), _chunk("x7", "hole")], embedder)
    with pytest.raises(ValueError, match="'q' is not finite"):
        DenseIndex([_chunk("x6", "fine")], embedder).search(["q"], 1)
    with pytest.raises(ValueError, match=r"\(1, 3\).*\(1, 2\)"):
        DenseIndex([_chunk("x", "t")], type("E", (), {"dimension": 2, "__call__": lambda self, t: np.ones((1, 3))})())


def test_a_chunk_without_the_field_is_refused_by_name():
    with pytest.raises(ValueError, match="'a' has no field 'title'"):
        DenseIndex([_chunk("a")], Lookup({"a": [1.0]}), field="title")


def test_a_plain_function_serves_as_encoder():
    def counts(texts):
        return np.array([[text.count("x"), text.count("y")] for text in texts])

    index = DenseIndex([_chunk("a", "xx"), _chunk("b", "y")], counts)
    assert index.search(["x"], 1) == [[("a", 1.0)]]


# In a folder


def test_a_folder_gives_its_chunks_back(tmp_path):
    embedder, chunks = _random(30)
    chunks[3] = Chunk(
        id="c0003",
        document_id="doc ü",
        start=7,
        end=19,
        fields={"text": "c0003", "title": "Über\nBays"},
        metadata={"source": "Tin Post", "published_at": "2024-02-11", "score": 0.5, "n": 3},
    )
    built = DenseIndex(chunks, embedder, path=tmp_path / "my index")
    again = DenseIndex([], embedder, path=tmp_path / "my index")
    assert again.chunks == chunks and len(embedder.encoded) == 30
    (here,), (there,) = again.search(["q0"], 30), built.search(["q0"], 30)
    assert dict(here) == pytest.approx(dict(there), abs=1.1e-5)  # Chroma scales vectors once more
    DenseIndex(chunks, embedder, path=str(tmp_path / "my index"))
    assert embedder.encoded[30:] == ["q0", "q0"]  # no chunk was encoded again
    again.add([_chunk("c0000", source="New")])
    assert DenseIndex([], embedder, path=tmp_path / "my index").chunks[0].metadata == {"source": "New"}


def test_the_graph_of_a_folder_answers(tmp_path):
    embedder, chunks = _random(50)
    index = DenseIndex(chunks, embedder, path=tmp_path, exact_up_to=0)
    best = _brute_force(embedder, chunks, "q0", 3)
    assert [id_ for id_, _ in index.search(["q0"], 3)[0]] == [id_ for id_, _ in best]


def test_two_names_are_two_indexes_in_one_folder(tmp_path):
    embedder, chunks = _random(10)
    DenseIndex(chunks[:3], embedder, path=tmp_path, name="first part")
    DenseIndex(chunks[3:], embedder, path=tmp_path, name="second part")
    assert len(DenseIndex([], embedder, path=tmp_path, name="first part")) == 3


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Lookup({"a": [1.0, 0.0]}, name="another"), "lookup there, another here"),
        (Lookup({"a": [1.0, 0.0]}, revision="2"), "1 there, 2 here"),
        (Lookup({"a": [1.0, 0.0, 0.0]}), "2 there, 3 here"),
    ],
)
def test_an_index_of_another_encoder_is_refused_before_encoding(other, named, tmp_path):
    DenseIndex([_chunk("a")], Lookup({"a": [1.0, 0.0]}), path=tmp_path)
    with pytest.raises(ValueError, match=named):
        DenseIndex([_chunk("a")], other, path=tmp_path)
    assert other.encoded == []


def test_an_index_of_another_metric_is_refused(tmp_path):
    import chromadb

    client = chromadb.PersistentClient(str(tmp_path), settings=_chroma._settings())
    facts = {"encoder": "lookup", "revision": "1", "dimension": 2, "field": "text"}
    client.create_collection("chunks", embedding_function=None, metadata=facts)  # squared distance is the default
    client.close()
    with pytest.raises(ValueError, match="metric: l2 there, cosine here"):
        DenseIndex([_chunk("a")], Lookup({"a": [1.0, 0.0]}), path=tmp_path)


def test_a_folder_in_use_is_named(tmp_path, monkeypatch):
    embedder, chunks = _random(5)
    index = DenseIndex(chunks[:2], embedder, path=tmp_path)
    monkeypatch.setattr(_chroma, "_SECONDS_TO_WAIT", 0.1)
    holder = sqlite3.connect(tmp_path / "in_use.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(_chroma.FolderInUseError, match=str(tmp_path)):
        index.add(chunks)
    holder.close()
    index.add(chunks)
    assert len(index) == 5


_BUILD = """
import sys
import numpy as np
from rag_utils.indexing.dense import DenseIndex
from rag_utils.schema import Chunk

path, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
class Double:
    dimension, name, revision = 8, "double", ""
    def __call__(self, texts):
        return np.array([np.random.default_rng(int(text)).standard_normal(8) for text in texts])
def chunk(i):
    return Chunk(id=str(i), document_id="d", start=0, end=1, fields={"text": str(i)})
index = DenseIndex([], Double(), path=path)
for start in range(first, last, 100):
    index.add([chunk(i) for i in range(start, start + 100)])
again = DenseIndex([], Double(), path=path, exact_up_to=0)
assert all(again.search([str(i)], 1)[0][0] == (str(i), 1.0) for i in range(first, last, 17))
print(len(again))
"""


def test_processes_that_build_in_one_folder_both_end_right(tmp_path):
    arguments = [sys.executable, "-c", _BUILD, str(tmp_path)]
    parts = [("0", "300"), ("100", "400")]
    runs = [subprocess.Popen([*arguments, *part], stdout=subprocess.PIPE, text=True) for part in parts]
    assert [run.wait(120) for run in runs] == [0, 0]
    done = subprocess.run([*arguments, "0", "0"], capture_output=True, text=True, check=True)
    assert done.stdout == "400\n"


# On a server


def _wait_for(port):
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)


def test_a_server_keeps_an_index(tmp_path):
    command = Path(sys.executable).parent / "chroma"
    if not command.exists():
        pytest.skip("the chroma command is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, (embedder, chunks) = f"http://127.0.0.1:{port}", _random(20)
    with pytest.raises(ConnectionError, match=address):
        DenseIndex(chunks, embedder, path=address)
    server = subprocess.Popen(
        [command, "run", "--path", tmp_path, "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        _wait_for(port)
        built = DenseIndex(chunks, embedder, path=address)
        again = DenseIndex([], embedder, path=address)
        assert again.chunks == chunks
        assert [id_ for id_, _ in again.search(["q0"], 5)[0]] == [id_ for id_, _ in built.search(["q0"], 5)[0]]
        assert again.recall(["q0", "q1"], 5) == 1.0
    finally:
        server.terminate()
        server.wait(20)


# Small parts


def test_collection_names_are_valid_and_kept_when_they_are():
    assert collection_name("corpus_small") == "corpus_small"
    names = ["", "ab", "-ab-", "127.0.0.1", "a..b", "a.b", "日本", "日", "x" * 63, "x" * 64, "x" * 65, "My X", "my x"]
    made = [collection_name(name) for name in names]
    assert len(set(made)) == len(names)
    for name in made:
        assert 3 <= len(name) <= 63 and set(name) <= {*string.ascii_letters, *string.digits, "_", "-"}
        assert name[0].isalnum() and name[-1].isalnum()


def test_similarity_names_an_unknown_space():
    with pytest.raises(ValueError, match="'ip'"):
        similarity([0.1], "ip")


def test_chroma_sends_no_telemetry():
    assert DenseIndex([], Lookup({"a": [1.0]})).store._client.get_settings().anonymized_telemetry is False


def test_filters_tell_types_apart_and_take_what_is_missing():
    table = MetadataTable([{"n": 1}, {"n": True}, {"n": "1"}, {}, {"n": 2, "m": 2}])
    for where in ({"n": 1}, {"n": {"$ne": 1}}, {"n": {"$gte": 1}, "m": 2}, {"$or": [{"m": 2}, {"n": True}]}, {}):
        rows = sorted(table.rows(where).tolist())
        assert rows == [row for row, metadata in enumerate(table._metadata) if matches(where, metadata)]
    assert MetadataTable([]).rows({"n": 1}).tolist() == []
    with pytest.raises(ValueError, match=r"\$near"):
        table.rows({"n": {"$near": 1}})
