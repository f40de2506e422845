"""Dense search: cases from public bug reports (the ids name them)."""

import re
import subprocess
import sys

import numpy as np
import pytest

from rag_utils.encoders import backends, bundled, load_embedder
from rag_utils.encoders.folders import find_model
from rag_utils.indexing.dense import DenseIndex, collection_name, similarity
from rag_utils.schema import Chunk


class _Lookup:
    """A double of an encoder: a text's vector is looked up."""

    def __init__(self, vectors):
        self.vectors = vectors
        self.dimension = len(next(iter(vectors.values())))
        self.encoded = []

    def __call__(self, texts):
        self.encoded += texts
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def _chunks(texts, **metadata):
    return [
        Chunk(id=text, document_id="d", start=0, end=len(text), fields={"text": text}, metadata=metadata)
        for text in texts
    ]


def DEN_G01():
    """Nearest by cosine, not by squared distance."""
    index = DenseIndex(_chunks("pq"), _Lookup({"p": [10, 1], "q": [0.6, 0.8], "query": [1, 0]}))
    assert index.search(["query"], 1)[0][0][0] == "p"


def DEN_G02():
    """A cosine distance becomes a similarity, higher is better."""
    assert similarity([0.0, 0.2, 1.0, 1.6]) == pytest.approx([1.0, 0.8, 0.0, -0.6], abs=1e-6)


def DEN_G03():
    """Top 10 of 3 records are 3."""
    index = DenseIndex(_chunks("abc"), _Lookup({"a": [1, 0], "b": [0, 1], "c": [1, 1], "query": [1, 0]}))
    assert len(index.search(["query"], 10)[0]) == 3
    index.exact_up_to = 0  # the store's own search
    assert len(index.search(["query"], 10)[0]) == 3


def DEN_G04():
    """An id twice in one call is an error that names it, before any work."""
    embedder = _Lookup({"z": [1, 0]})
    with pytest.raises(ValueError, match="'z'"):
        DenseIndex(_chunks("zz"), embedder)
    assert embedder.encoded == []


def DEN_G05():
    """12,000 texts in one call are all stored, though the store takes 5,461 at once."""
    random = np.random.default_rng(0)
    texts = [f"text {i}" for i in range(12_000)]
    index = DenseIndex(_chunks(texts), _Lookup(dict(zip(texts, random.standard_normal((12_000, 2)), strict=True))))
    with index.store.opened() as collection:
        assert collection.count() == 12_000
    assert len(index) == 12_000


def DEN_G06():
    """Batch sizes 1 and 32 give the same vectors, in the order of the texts, and the same top 10."""
    words = ["kite", "boat", "bay", "pier", "storm", "market", "river"]
    texts = [" ".join(words[(i * k) % 7] for k in range(1, 2 + i % 9)) + f" {i}" for i in range(100)]
    one, many = (load_embedder(batch_size=size, cache=False)(texts) for size in (1, 32))
    assert np.abs(one - many).max() < 1e-5
    assert (one @ many.T).argmax(axis=1).tolist() == list(range(100))
    tops = [
        DenseIndex(_chunks(texts), _Lookup({**dict(zip(texts, vectors, strict=True)), "query": vectors[7]}))
        for vectors in (one, many)
    ]
    first, second = ([id_ for id_, _ in index.search(["query"], 10)[0]] for index in tops)
    assert first == second and first[0] == texts[7]


def DEN_G07(tmp_path):
    """Before encoding: of 256 tokens a model of 128 reads 126 and loses 130; encoding warns with both numbers."""
    source, folder = find_model(bundled.MINILM).path, tmp_path / "short"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        (folder / name).symlink_to(source / name)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    embedder = load_embedder(str(folder), cache=False)
    text = "boat " * 256
    assert embedder.count_tokens(text) == 256
    assert embedder.truncation([text]) == (126, 130)
    with pytest.warns(UserWarning) as caught:
        embedder([text])
    message = str(caught[0].message)
    assert "126 tokens" in message and "130" in message


def DEN_G08(monkeypatch):
    """The instruction goes before questions and not before passages."""
    sent = []

    def double(model, device, half_precision):
        return lambda batch: (sent.extend(text for (text,) in batch), np.eye(len(batch), model.dimension))[1]

    monkeypatch.setitem(backends.EMBEDDERS, "sentence-transformers", double)
    index = DenseIndex(_chunks(["Vega won."]), load_embedder(query_instruction="query: ", cache=False))
    index.search(["Who won?"], 1)
    assert sent == ["Vega won.", "query: Who won?"]


def DEN_G09():
    """The cosine with a zero vector is 0, not NaN."""
    index = DenseIndex(_chunks("z"), _Lookup({"z": [0, 0], "one": [1, 0], "zero": [0, 0]}))
    assert index.scores(["one", "zero"]).tolist() == [[0.0], [0.0]]
    assert index.search(["one", "zero"], 1) == [[("z", 0.0)], [("z", 0.0)]]


def DEN_G10(tmp_path):
    """An index of 384 numbers is refused by an encoder of 768, before anything is encoded."""
    DenseIndex(_chunks("a"), _Lookup({"a": [1.0] * 384}), path=tmp_path, name="corpus_small")
    larger = _Lookup({"a": [1.0] * 768})
    with pytest.raises(ValueError, match=r"corpus_small.*384.*768"):
        DenseIndex(_chunks("a"), larger, path=tmp_path, name="corpus_small")
    assert larger.encoded == []


def DEN_G11():
    """Any text gives a valid collection name of its own, the same one each time."""
    texts = ["BAAI/bge-small-en-v1.5", "ab", "My Corpus", "x" * 70]
    names = [collection_name(text) for text in texts]
    assert all(re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,61}[a-zA-Z0-9]", name) for name in names)
    assert len(set(names)) == 4 and names == [collection_name(text) for text in texts]


_BUILD = """
import sys
import numpy as np
from rag_utils.indexing.dense import DenseIndex
from rag_utils.schema import Chunk

class Double:
    dimension = 4
    def __call__(self, texts):
        return np.array([np.random.default_rng(int(text)).standard_normal(4) for text in texts])

chunks = [Chunk(id=str(i), document_id="d", start=0, end=1, fields={"text": str(i)}) for i in range(200)]
index = DenseIndex(chunks, Double(), path=sys.argv[1])
print(len(DenseIndex([], Double(), path=sys.argv[1], exact_up_to=0)), index.search(["7"], 1))
"""


def DEN_G12(tmp_path):
    """Two runs build in one folder at once: both end right."""
    command = [sys.executable, "-c", _BUILD, str(tmp_path / "index")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [run.communicate(timeout=120)[0] for run in runs] == ["200 [[('7', 1.0)]]\n"] * 2


def DEN_G13():
    """A vector along the query wins although it is farther away."""
    index = DenseIndex(_chunks("pq"), _Lookup({"p": [3, 4], "q": [0.8, 0.6], "query": [0.6, 0.8]}))
    assert index.search(["query"], 2) == [[("p", 1.0), ("q", 0.96)]]


def DEN_G14():
    """A squared distance of unit vectors becomes a cosine."""
    assert similarity([0.0, 0.4, 2.0, 4.0], "l2") == pytest.approx([1.0, 0.8, 0.0, -1.0], abs=1e-6)


def DEN_G15():
    """Top 10 where the filter leaves 2 of 50 are these 2."""
    texts = [str(i) for i in range(50)]
    chunks = [*_chunks(texts[:48], source="Tin Post"), *_chunks(texts[48:], source="Bay Times")]
    index = DenseIndex(chunks, _Lookup({text: [1.0, int(text)] for text in texts}))
    assert {id_ for id_, _ in index.search(["3"], 10, {"source": {"$in": ["Bay Times"]}})[0]} == {"48", "49"}


def DEN_G16():
    """Top 0 is empty, top -1 an error that names k."""
    index = DenseIndex(_chunks("a"), _Lookup({"a": [1, 0]}))
    assert index.search(["a"], 0) == [[]]
    with pytest.raises(ValueError, match="k = -1"):
        index.search(["a"], -1)
