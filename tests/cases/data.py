"""Cases of the area data, on folders written here in BEIR layout or in a data set's own."""

import codecs
import json
import time
from collections import Counter

import pytest

from rag_utils.chunking import whole
from rag_utils.corpora import Corpus, load_corpus
from rag_utils.schema import Document, Query


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def news_folder(folder, articles):
    write_lines(folder / "multihop_rag" / "corpus.jsonl", articles)
    write_lines(folder / "multihop_rag" / "MultiHopRAG.jsonl", [])
    return folder


def DAT_G01(tmp_path):
    """Dates in three forms are one day; missing ones stay missing."""
    values = ["2023-10-07T14:30:00+00:00", "October 7, 2023", "2023-10-07", None, ""]
    news_folder(tmp_path, [{"title": str(n), "body": "x", "published_at": day} for n, day in enumerate(values)])
    corpus = load_corpus("multihop_rag", data_dir=tmp_path)
    assert [d.metadata.get("published_at") for d in corpus.documents] == ["2023-10-07"] * 3 + [None] * 2


def DAT_G02(tmp_path):
    """A column whose first values are null."""
    write_lines(
        tmp_path / "corpus.jsonl",
        [{"_id": "1", "text": "x", "author": None}, {"_id": "2", "text": "y", "author": "Fen"}],
    )
    corpus = load_corpus(tmp_path)
    assert [document.metadata.get("author") for document in corpus.documents] == [None, "Fen"]


def DAT_G03(tmp_path):
    """Byte-order mark, blank line, and a last line cut in half."""
    lines = codecs.BOM_UTF8 + b'{"_id": "1", "text": "one"}\n\n{"_id": "2", "text": "two"}\n{"_id": "3", "te'
    (tmp_path / "corpus.jsonl").write_bytes(lines)
    corpus = load_corpus(tmp_path)
    assert [document.id for document in corpus.documents] == ["1", "2"]
    assert corpus.problems == (f"{tmp_path.name}/corpus.jsonl:4: not a JSON record",)
    assert corpus.dropped == {"not a JSON record": 1}


def DAT_G04(tmp_path, monkeypatch):
    """A loading script is neither run nor trusted; the error names the rule and the way out."""
    from dataclasses import replace

    from rag_utils.corpora._catalogue import data_sets

    marker = tmp_path / "script_was_run"
    repository = tmp_path / "scripted"
    repository.mkdir()
    (repository / "scripted.py").write_text(f"open({str(marker)!r}, 'w')\n", encoding="utf-8")
    boolq = data_sets()["boolq"]
    table = boolq.tables["labeled"]._replace(repository=str(repository))
    monkeypatch.setitem(data_sets(), "boolq", replace(boolq, tables={**boolq.tables, "labeled": table}))
    monkeypatch.delenv("RAG_DATA_DIR", raising=False)
    with pytest.raises(FileNotFoundError, match=r"no loading scripts(?s:.*)hf download"):
        load_corpus("boolq")
    assert not marker.exists()


def DAT_G05(monkeypatch):
    """Offline, a packaged corpus loads at once, and a data set that is not here fails at once with the remedy."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("RAG_DATA_DIR", raising=False)
    start = time.perf_counter()
    assert load_corpus("builtin_abstracts", split="all").queries
    with pytest.raises(FileNotFoundError, match=r"'squad'(?s:.*)squad/validation\*(?s:.*)hf download rajpurkar/squad"):
        load_corpus("squad")
    assert time.perf_counter() - start < 10


def DAT_G06(tmp_path):
    """A repeated id is reported, the first one stays; equal texts under two ids are two documents."""
    rows = [{"_id": "1", "text": "Same."}, {"_id": "2", "text": "Same."}, {"_id": "1", "text": "Other."}]
    write_lines(tmp_path / "corpus.jsonl", rows)
    corpus = load_corpus(tmp_path)
    assert [(document.id, document.text) for document in corpus.documents] == [("1", "Same."), ("2", "Same.")]
    assert corpus.problems == (f"{tmp_path.name}/corpus.jsonl:3: repeated document id (1)",)
    assert len({chunk.id for chunk in whole(corpus.documents)}) == 2


def DAT_G07(tmp_path):
    """Samples repeat, hold every type, and lie inside larger ones; a type without room is named."""
    sizes = {"inference": 60, "comparison": 30, "temporal": 9, "null": 1}
    rows = [
        {"_id": f"{name}-{n}", "text": f"{name} {n}?", "type": name}
        for name, size in sizes.items()
        for n in range(size)
    ]
    write_lines(tmp_path / "corpus.jsonl", [{"_id": "1", "text": "x"}])
    write_lines(tmp_path / "queries.jsonl", rows)

    def drawn(n, seed=1):
        return load_corpus(tmp_path, split="all", n_queries=n, seed=seed)

    twenty = drawn(20)
    assert twenty.queries == drawn(20).queries != drawn(20, seed=2).queries
    assert Counter(twenty.types.values()) == {"inference": 11, "comparison": 6, "temporal": 2, "null": 1}
    assert set(twenty.types) < set(drawn(40).types)
    assert "queries of type 'null' in the sample" in " ".join(
        missing for n in (1, 2, 3) for missing in drawn(n).missing
    )


def DAT_G08(tmp_path):
    """No title is fine, no body is reported, no id gets a stable one (or, in BEIR layout, is reported)."""
    news_folder(tmp_path, [{"url": "http://one.example", "body": "x"}, {"title": "t"}, {"body": "y"}])
    corpus = load_corpus("multihop_rag", data_dir=tmp_path)
    assert [(document.title, document.text) for document in corpus.documents] == [("", "x"), ("", "y")]
    assert corpus.problems == ("multihop_rag/corpus.jsonl:2: no body",)
    assert [d.id for d in corpus.documents] == [d.id for d in load_corpus("multihop_rag", data_dir=tmp_path).documents]
    write_lines(
        tmp_path / "own" / "corpus.jsonl", [{"_id": "1", "text": "x"}, {"_id": "2", "title": "t"}, {"text": "y"}]
    )
    assert load_corpus("own", data_dir=tmp_path).problems == (
        "own/corpus.jsonl:2: no text",
        "own/corpus.jsonl:3: no _id",
    )


def DAT_G09():
    """Questions whose gold document is not in the corpus."""
    corpus = Corpus(
        "small",
        documents=[Document(id=id_, text="x") for id_ in ("d1", "d2", "d3")],
        queries=[Query(id="q1", text="?"), Query(id="q2", text="?")],
        gold_documents={"q1": ("d1", "d2"), "q2": ("d9",)},
    )
    assert corpus.unanswerable() == ["q2"]
