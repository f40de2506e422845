"""Enrichment: phrases of chunks, and how they survive being kept and read."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from rag_utils.corpora import load_corpus
from rag_utils.enrichment import EntityEnricher, KeyBERTEnricher, YakeEnricher, extract_phrases, read_values
from rag_utils.indexing.dense import DenseIndex
from rag_utils.retrieval import fuse
from rag_utils.schema import Chunk


def _embedder(texts):
    """Stands for a model: letters counted, as a vector of length 1."""
    counts = np.array([[text.lower().count(letter) + 0.1 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])
    return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


def _chunk(text, metadata=None):
    return Chunk(id=text, document_id="d", start=0, end=len(text), fields={"text": text}, metadata=metadata or {})


def _pipeline(*names):
    """A spaCy pipeline that finds these names, without a trained model."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": name} for name in names])
    return nlp


def _yake(monkeypatch, pairs, **options):
    """What YakeEnricher makes of what the library is made to return."""
    monkeypatch.setattr("yake.KeywordExtractor.extract_keywords", lambda self, text: pairs)
    (found,) = YakeEnricher(**options)(["any"])
    return list(found)


def ENR_G01():
    """Texts with nothing to extract give nothing and stop nobody."""
    assert KeyBERTEnricher(_embedder, top=5)(["", "the of and to", "!!! ???"]) == [(), (), ()]


def ENR_G02():
    """More is asked for than there is: what there is, once."""
    (found,) = KeyBERTEnricher(_embedder, ngrams=(1, 1), top=20, diversity=0.5)(["red kite blue boat"])
    assert sorted(found) == ["blue", "boat", "kite", "red"]


def ENR_G03():
    """The diversity holds for a list of one as for each of many."""
    text = "Vega Motors opened a plant near the harbour. The harbour plant makes small boats for the bay."
    diverse, plain = (KeyBERTEnricher(_embedder, ngrams=(1, 1), top=3, diversity=d) for d in (0.7, None))
    (alone,) = diverse([text])
    assert diverse(["Quill Labs closed.", text, text])[1:] == [alone, alone]
    assert len(alone) == 3
    assert alone != plain([text])[0]


def ENR_G04(monkeypatch):
    """YAKE's score is better when lower."""
    pairs = [("harbour bridge", 0.083), ("zephyr works", 0.036), ("works", 0.125)]
    assert _yake(monkeypatch, pairs, top=2) == ["zephyr works", "harbour bridge"]


def ENR_G05(monkeypatch):
    """Pairs may come as (text, score) or (score, text)."""
    assert _yake(monkeypatch, [("tide", 0.1), (0.2, "gull")], top=2) == ["tide", "gull"]


def ENR_G06():
    """Line ends within entities, and blank ones, make no entities of their own."""
    nlp = _pipeline("Alice\n", "Alice", "  Alice ", "\n")
    assert EntityEnricher(nlp)(["Alice\nmet Alice and   Alice  again. \n"]) == [("Alice",)]


def ENR_G07():
    """A text above the pipeline's limit is read in parts; the others are not stopped."""
    nlp = _pipeline("Orchid")
    long = " " * 999_990 + " the Orchid"
    assert len(long) == 1_000_001 > nlp.max_length
    assert EntityEnricher(nlp)(["Orchid", long]) == [("Orchid",), ("Orchid",)]


def ENR_G08(tmp_path):
    """What the store cannot hold is made text or number when a corpus is read, and comes back equal from the store."""
    record = {"keywords": ["kite", "boat"], "author": None, "extra": {"k": 1}, "n": np.int64(3)}
    day = {"day": datetime(2024, 3, 3)}
    pd.DataFrame([{"_id": "d1", "text": "A kite over a boat.", **record, **day}]).to_parquet(
        tmp_path / "corpus.parquet"
    )
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "Which kite?"}')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    (document,) = load_corpus(str(tmp_path), split="all").documents
    DenseIndex([_chunk(document.text, document.metadata)], _embedder, path=tmp_path / "index")
    (back,) = DenseIndex([], _embedder, path=tmp_path / "index").chunks
    assert back.metadata == {"keywords": "kite; boat", "extra.k": 1, "day": "2024-03-03", "n": 3}
    assert back.metadata["keywords"].split("; ") == ["kite", "boat"]


def ENR_G09(tmp_path, monkeypatch):
    """A phrase may hold what phrases are joined with: lists are kept as lists."""
    monkeypatch.setenv("RAG_CACHE_DIR", str(tmp_path))
    phrases = ("rock, paper", "tide; ebb", "a|b")

    class Known:
        field, settings, calls = "known", "1", 0

        def __call__(self, texts):
            self.calls += 1
            return [phrases for _ in texts]

    enricher = Known()
    for _ in range(2):
        assert extract_phrases([_chunk("any")], [enricher], progress=False) == {"known": [phrases]}
    assert enricher.calls == 1  # the second was read back from disk


def ENR_G10():
    """A text where a list was asked for is no list of letters; what differs is reported."""
    reply = '{"keywords": "kite, boat", "topic": null, "mood": "calm"}'
    values, slips = read_values(reply, {"keywords": list, "topic": str})
    assert values == {"keywords": ["kite", "boat"], "topic": ""}
    assert sorted(slips) == ["keywords was text", "mood unknown", "topic missing"]


def ENR_G11():
    """An empty result in the middle does not shift the others."""
    texts = ["Vega Motors opened a plant.", "a an the", "Quill Labs closed."]
    found = KeyBERTEnricher(_embedder, ngrams=(1, 1), top=9)(texts)
    assert [sorted(own) for own in found] == [["motors", "opened", "plant", "vega"], [], ["closed", "labs", "quill"]]


def ENR_G12(monkeypatch):
    """Rankings are merged by place, whichever way the scores run."""
    higher = [name for name, _ in sorted([("kite", 0.9), ("boat", 0.4), ("drum", 0.1)], key=lambda pair: -pair[1])]
    lower = _yake(monkeypatch, [("drum", 0.3), ("boat", 0.1), ("kite", 0.02)], top=3)
    assert list(fuse([higher, lower], "rrf"))[:2] == ["kite", "boat"]
