"""Folders in the hub's form and in the project's own, malformed rows, splits and samples, and the real data."""

import gzip
import json
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from hashlib import sha256

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_utils.corpora import Corpus, is_dev, list_corpora, load_corpus
from rag_utils.corpora._catalogue import data_sets
from rag_utils.corpora.dates import iso_day, published
from rag_utils.provenance import recorded
from rag_utils.schema import Document, Query

needs_data = pytest.mark.skipif(not os.environ.get("RAG_DATA_DIR"), reason="needs RAG_DATA_DIR")


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def write_parquet(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def short_id(*parts):
    return sha256("".join(parts).encode()).hexdigest()[:16]


PARAGRAPHS = [
    {"title": "Salt_road", "context": "Salt came by mule. The road was steep."},
    {"title": "Salt_road", "context": "In 1701 the road was paved."},
    {"title": "Bell", "context": "The bell weighs two tons."},
]
SQUAD = [
    {
        "id": f"s{n}",
        **PARAGRAPHS[p],
        "question": question,
        "answers": {"text": answers, "answer_start": [0] * len(answers)},
    }
    for n, (p, question, answers) in enumerate(
        [
            (0, "How did salt come?", ["by mule", "mule", "by mule"]),
            (1, "When was it paved?", ["1701"]),
            (2, "Weight?", ["two tons"]),
        ]
    )
]
PUBMEDQA = [
    {
        "pubid": pubid,
        "question": f"Does {pubid} help?",
        "context": {"contexts": ["Aim.", "Result."], "labels": ["AIM", "RESULTS"], "meshes": meshes},
        "long_answer": "It does.",
        "final_decision": decision,
    }
    for pubid, decision, meshes in ((11, "yes", ["Adult", "Humans"]), (12, "maybe", ["Child"]))
]
ARTIFICIAL = [{**PUBMEDQA[0], "pubid": 99, "context": {"contexts": ["Other."], "labels": [], "meshes": []}}]


def squad_folder(root):
    """The project's form: all paragraphs apart, questions in two files."""
    write_lines(root / "squad" / "contexts.jsonl.gz", PARAGRAPHS)
    write_lines(root / "squad" / "validation.dev.jsonl.gz", SQUAD[:2])
    write_lines(root / "squad" / "validation.kept.jsonl", SQUAD[2:])
    return root


def squad_download(root):
    """The hub's form, as `hf download` leaves it."""
    write_parquet(root / "squad" / "plain_text" / "validation-00000-of-00001.parquet", SQUAD)
    return root


def test_squad_by_hand(tmp_path):
    corpus = load_corpus("squad", data_dir=squad_folder(tmp_path), split="all")
    assert [document.id for document in corpus.documents] == ["Salt_road-000", "Salt_road-001", "Bell-000"]
    first = corpus.documents[0]
    assert (first.title, first.metadata, first.text) == ("Salt road", {"title": "Salt road"}, PARAGRAPHS[0]["context"])
    assert [query.id for query in corpus.queries] == ["s0", "s1", "s2"]
    assert corpus.answers["s0"] == ("by mule", "mule")
    assert corpus.gold_documents == {"s0": ("Salt_road-000",), "s1": ("Salt_road-001",), "s2": ("Bell-000",)}
    assert (corpus.facts, corpus.types, corpus.labels, corpus.dropped) == ({}, {}, {}, {})
    assert corpus.where == "folder squad" and str(tmp_path) not in str(corpus)


def test_the_hubs_form_and_the_folders_are_one_corpus(tmp_path):
    here = load_corpus("squad", data_dir=squad_folder(tmp_path / "a"), split="all")
    there = load_corpus("squad", data_dir=squad_download(tmp_path / "b"), split="all")
    assert (there.documents, there.queries, there.answers) == (here.documents, here.queries, here.answers)
    assert there.fingerprint == here.fingerprint
    assert there.missing == ("contexts",)


def test_the_hub_is_read_by_datasets(tmp_path, monkeypatch):
    """A folder that `datasets` loads stands for the hub, which no test may reach."""
    datasets = pytest.importorskip("datasets")
    before = datasets.config.HF_HUB_OFFLINE
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("rag_utils.corpora._sources._why_away", lambda: "not reachable")
    monkeypatch.delenv("RAG_DATA_DIR", raising=False)
    repository = squad_download(tmp_path) / "squad"
    squad = data_sets()["squad"]
    table = squad.tables["validation"]._replace(repository=str(repository))
    monkeypatch.setitem(data_sets(), "squad", replace(squad, tables={**squad.tables, "validation": table}))
    corpus = load_corpus("squad", split="all")
    assert corpus.where == f"hub {repository}"
    assert corpus.fingerprint == load_corpus("squad", data_dir=tmp_path, split="all").fingerprint
    assert datasets.config.HF_HUB_OFFLINE is before


def test_fingerprint_is_of_the_content(tmp_path):
    one, two, three = (squad_folder(tmp_path / name) for name in "abc")
    write_lines(two / "squad" / "validation.dev.jsonl.gz", SQUAD[1::-1])
    write_lines(three / "squad" / "validation.dev.jsonl.gz", [SQUAD[0], {**SQUAD[1], "question": "When?"}])
    first, reordered, changed = (
        load_corpus("squad", data_dir=root, split="all").fingerprint for root in (one, two, three)
    )
    assert first == reordered != changed
    assert first != load_corpus("squad", data_dir=one, split="all", n_queries=2).fingerprint


def test_pubmedqa_in_both_forms(tmp_path):
    unlabelled = {key: value for key, value in PUBMEDQA[1].items() if key in ("pubid", "context")}
    write_lines(tmp_path / "a" / "pubmedqa" / "corpus.jsonl.gz", [unlabelled, {**unlabelled, "pubid": "13"}])
    write_lines(tmp_path / "a" / "pubmedqa" / "pqa_labeled.dev.jsonl.gz", PUBMEDQA)
    write_parquet(tmp_path / "a" / "pubmedqa" / "pqa_artificial.part.parquet", ARTIFICIAL)
    years = [{"pubid": 12, "year": "2003"}, {"pubid": 13, "year": None}, {"pubid": 77, "year": "1999"}]
    write_lines(tmp_path / "a" / "pubmedqa" / "years.jsonl.gz", [*years, {"pubid": 11, "year": "c. 2004"}])
    corpus = load_corpus("pubmedqa", data_dir=tmp_path / "a", split="all")
    assert [document.id for document in corpus.documents] == ["12", "13", "11", "99"]
    assert corpus.documents[0].text == "Aim.\nResult."
    assert corpus.documents[0].metadata == {"headings": "Child", "sections": "AIM; RESULTS", "year": 2003}
    assert (corpus.documents[0].title, dict(corpus.documents[3].metadata)) == ("", {})
    assert corpus.labels == {"11": "yes", "12": "maybe"} and corpus.answers == {"11": ("yes",), "12": ("maybe",)}
    assert corpus.problems == (
        "pubmedqa/years.jsonl.gz:3: document is not among the documents (77)",
        "pubmedqa/years.jsonl.gz:4: year is not a number (c. 2004)",
    )
    without = load_corpus("pubmedqa", data_dir=tmp_path / "a", split="all", distractors=False)
    assert [document.id for document in without.documents] == ["12", "13", "11"]
    write_parquet(tmp_path / "b" / "pubmedqa" / "pqa_labeled" / "train-00000-of-00001.parquet", PUBMEDQA)
    hub = load_corpus("pubmedqa", data_dir=tmp_path / "b", split="all")
    assert (hub.queries, hub.labels, hub.gold_documents) == (corpus.queries, corpus.labels, corpus.gold_documents)
    assert hub.missing == ("corpus", "artificial", "years")


ARTICLES = [
    {
        "title": "Quake&#039;s toll",
        "author": None,
        "source": "Tin Post",
        "category": "news",
        "url": None,
        "body": "Ten died.",
    },
    {
        "title": "Rates",
        "author": "Fen",
        "source": "Daily Gull",
        "category": None,
        "url": "http://r.example",
        "body": "Up 1 %.",
    },
]
EVIDENCE = [
    {"title": "Quake&#039;s toll", "url": "http://q.example", "source": "Tin Post", "fact": "Ten died."},
    {"title": "Rates (updated)", "url": "http://r.example", "source": "Daily Gull", "fact": "Up 1 %."},
]
MULTIHOP = [
    {"query": "Who?", "answer": "Yes", "question_type": "comparison_query", "evidence_list": EVIDENCE},
    {"query": "What?", "answer": "Insufficient information.", "question_type": "null_query", "evidence_list": []},
]


def test_multihop_rag_in_both_forms(tmp_path):
    folder, download = tmp_path / "a" / "multihop_rag", tmp_path / "b" / "multihop_rag"
    timed = [{**article, "published_at": "2023-10-07T15:37:43+00:00"} for article in ARTICLES]
    write_lines(folder / "corpus.partial.jsonl.gz", timed)
    write_lines(folder / "corpus_provenance.jsonl.gz", [{"title": "Rates", "facts": 1}])
    write_lines(folder / "MultiHopRAG.dev.jsonl.gz", MULTIHOP)
    corpus = load_corpus("multihop_rag", data_dir=tmp_path / "a", split="all")
    quake, rates = (document.id for document in corpus.documents)
    assert quake == short_id("Quake&#039;s toll")
    assert corpus.documents[0].metadata == {
        **{"source": "Tin Post", "published_at": "2023-10-07", "published_time": "2023-10-07T15:37:43+00:00"},
        **{"category": "news"},
    }
    who, what = (query.id for query in corpus.queries)
    assert (who, what) == (short_id("Who?"), short_id("What?"))
    assert corpus.gold_documents == {who: (quake, rates)}
    assert corpus.facts == {who: ("Ten died.", "Up 1 %.")}
    assert corpus.types == {who: "comparison", what: "null"}
    assert corpus.dropped == {} and corpus.unanswerable() == []
    download.mkdir(parents=True)
    (download / "MultiHopRAG.json").write_text(json.dumps(MULTIHOP, indent=1), encoding="utf-8")
    moment = datetime(2023, 10, 7, 15, 37, 43)  # what `datasets` makes of the text
    write_parquet(download / "corpus.parquet", [{**article, "published_at": moment} for article in ARTICLES])
    assert load_corpus("multihop_rag", data_dir=tmp_path / "b", split="all").fingerprint == corpus.fingerprint


def test_narrativeqa_joins_a_question_asked_twice(tmp_path):
    summary = {"text": "Ann sails. Bo stays.", "title": "The Sea", "url": "", "tokens": []}
    story = {"id": "d1", "kind": "gutenberg", "summary": summary, "text": ""}
    rows = [
        {
            "document": story,
            "question": {"text": question, "tokens": []},
            "answers": [{"text": a, "tokens": []} for a in answers],
        }
        for question, answers in (
            ("Who sails?", ["Ann", "Ann."]),
            ("Who stays?", ["Bo"]),
            ("Who sails?", ["Ann", "She"]),
        )
    ]
    write_lines(tmp_path / "narrativeqa" / "test.part.dev.jsonl.gz", rows)
    corpus = load_corpus("narrativeqa", data_dir=tmp_path, split="all")
    sails = short_id("d1", "Who sails?")
    assert [query.id for query in corpus.queries] == [sails, short_id("d1", "Who stays?")]
    assert corpus.answers[sails] == ("Ann", "Ann.", "She")
    assert corpus.documents == [
        Document(id="d1", text=summary["text"], title="The Sea", metadata={"title": "The Sea", "kind": "gutenberg"})
    ]
    assert corpus.dropped == {"same question again, answers joined": 1}
    assert corpus.problems[0].startswith("narrativeqa/test.part.dev.jsonl.gz:3: same question again")
    load_corpus("narrativeqa", data_dir=tmp_path, split="all", strict=True)  # nothing is malformed
    write_parquet(tmp_path / "b" / "narrativeqa" / "data" / "test-00000-of-00008.parquet", rows)
    assert load_corpus("narrativeqa", data_dir=tmp_path / "b", split="all").fingerprint == corpus.fingerprint
    kept = {"document_id": "d1", "kind": "gutenberg", "title": "The Sea", "summary": summary["text"]}
    write_lines(tmp_path / "narrativeqa" / "summaries.jsonl.gz", [kept])
    assert load_corpus("narrativeqa", data_dir=tmp_path, split="all").fingerprint == corpus.fingerprint


def test_qasper_keeps_equal_questions_on_two_papers_apart(tmp_path):
    papers = [{"input": f"Paper {n}.", "instructions": ["Which data?"], "outputs": [f"Data {n}"]} for n in (1, 2)]
    write_lines(tmp_path / "qasper_leval" / "scientific_qa.dev.jsonl.gz", [*papers, {**papers[0], "outputs": []}])
    corpus = load_corpus("qasper", data_dir=tmp_path, split="all")
    ids = [short_id(short_id(f"Paper {n}."), "Which data?") for n in (1, 2)]
    assert corpus.answers == {ids[0]: ("Data 1",), ids[1]: ("Data 2",)}
    assert list(corpus.dropped) == ["questions and answers differ in number"]


def test_boolq_with_and_without_titles(tmp_path):
    passage = "Salt road -- Salt came by mule -- and by cart."
    rows = [
        {"question": "was it steep", "answer": True, "passage": passage},
        {"question": "is it", "answer": False, "passage": "No title."},
    ]
    write_lines(tmp_path / "boolq" / "labeled.jsonl.gz", rows)
    write_lines(
        tmp_path / "boolq" / "unlabeled_passages.jsonl.gz", [{"passage": passage}, {"passage": "Bell -- It rings."}]
    )
    corpus = load_corpus("boolq", data_dir=tmp_path, split="all")
    found = [(document.title, document.text) for document in corpus.documents]
    assert found == [("Salt road", "Salt came by mule -- and by cart."), ("", "No title."), ("Bell", "It rings.")]
    assert list(corpus.labels.values()) == ["yes", "no"]
    assert len(load_corpus("boolq", data_dir=tmp_path, split="all", distractors=False).documents) == 2


NQ_CORPUS = [
    {"_id": "doc0", "title": "Physics", "text": "The prize."},
    {"_id": "doc1", "title": "", "text": "The sea."},
]
NQ_QUERIES = [{"_id": "test0", "title": "", "text": "who won"}, {"_id": "test1", "title": "", "text": "how deep"}]
NQ_QRELS = [
    {"query-id": "test0", "corpus-id": "doc0", "score": 1},
    {"query-id": "test0", "corpus-id": "doc1", "score": 0},
]


def test_natural_questions_in_both_forms(tmp_path):
    write_lines(tmp_path / "nq" / "corpus.jsonl.gz", NQ_CORPUS)
    write_lines(tmp_path / "nq" / "queries.dev.jsonl.gz", NQ_QUERIES)
    write_lines(tmp_path / "nq" / "qrels.dev.jsonl.gz", NQ_QRELS)
    corpus = load_corpus("natural_questions", data_dir=tmp_path, split="all")
    assert corpus.gold_documents == {"test0": ("doc0",)}
    assert corpus.documents[0].metadata == {"title": "Physics"}
    write_parquet(tmp_path / "b" / "nq" / "corpus" / "nq-00000-of-00001.parquet", NQ_CORPUS)
    write_parquet(tmp_path / "b" / "nq" / "queries" / "nq-00000-of-00001.parquet", NQ_QUERIES)
    tsv = tmp_path / "b" / "nq" / "qrels" / "test.tsv"
    tsv.parent.mkdir()
    tsv.write_text("query-id\tcorpus-id\tscore\ntest0\tdoc0\t1\ntest0\tdoc1\t0\n", encoding="utf-8")
    assert load_corpus("natural_questions", data_dir=tmp_path / "b", split="all").fingerprint == corpus.fingerprint
    write_lines(
        tmp_path / "nq" / "answers.dev.jsonl.gz", [{"_id": "test0", "answer": ["Röntgen"], "long_answer": "..."}]
    )
    assert load_corpus("natural_questions", data_dir=tmp_path, split="all").answers == {"test0": ("Röntgen",)}


def own_folder(folder):
    extra = {"author": "Fen", "pages": 3, "open": True, "tags": ["a", "b"], "seen": "March 3, 2024", "note": None}
    nested = {
        "metadata": {"lang": "en"},
        "venue": {"name": "Gull", "year": 2024},
        "published_at": "2024-03-03T10:00:00Z",
    }
    write_lines(folder / "corpus.jsonl", [{"_id": 1, "title": "One", "text": "Salt came by mule.", **extra, **nested}])
    known = {"answers": ["by mule"], "facts": ["Salt came by mule."], "type": "inference", "label": "yes"}
    write_lines(
        folder / "queries.jsonl",
        [{"_id": "q1", "text": "How?", **known}, {"_id": "q2", "text": "Who?", "type": "null"}],
    )
    for split, lines in {"train": "q1\t1\t2\n", "test": "q9\t1\t1\nq1\t1\tmany\n"}.items():
        (folder / "qrels").mkdir(exist_ok=True)
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}", encoding="utf-8")


def test_a_folder_of_ones_own(tmp_path, monkeypatch):
    own_folder(tmp_path / "mine")
    corpus = load_corpus(tmp_path / "mine", split="all")
    assert corpus.name == "mine"
    assert corpus.documents[0] == Document(
        id="1",
        title="One",
        text="Salt came by mule.",
        metadata={
            **{"title": "One", "author": "Fen", "pages": 3, "open": "true", "tags": "a; b", "seen": "2024-03-03"},
            **{"lang": "en", "venue.name": "Gull", "venue.year": 2024},
            **{"published_at": "2024-03-03", "published_time": "2024-03-03T10:00:00Z"},
        },
    )
    assert corpus.gold_documents == {"q1": ("1",)} and corpus.types == {"q1": "inference", "q2": "null"}
    assert (corpus.answers, corpus.facts) == ({"q1": ("by mule",)}, {"q1": ("Salt came by mule.",)})
    assert corpus.labels == {"q1": "yes"}
    assert corpus.problems == (
        "mine/qrels/test.tsv:2: query is not among the queries (q9)",
        "mine/qrels/test.tsv:3: score is not a number (many)",
    )
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path))
    for again in (load_corpus("mine", split="all"), load_corpus("mine", data_dir=tmp_path, split="all")):
        assert again.fingerprint == corpus.fingerprint


def test_malformed_rows_are_named_counted_and_left_out(tmp_path):
    folder = squad_folder(tmp_path) / "squad"
    path = folder / "validation.more.jsonl"
    lines = [
        json.dumps(SQUAD[0]),
        "[1, 2]",
        json.dumps({**SQUAD[1], "id": "s7", "question": " "}),
        json.dumps({**SQUAD[1], "id": "s8", "answers": {"text": "1701"}}),
        json.dumps({**SQUAD[1], "id": 9.5}),
        json.dumps({**SQUAD[1], "id": "s10", "answers": {"text": [None]}}),
        json.dumps({**SQUAD[1], "id": "s11"}),
    ]
    path.write_bytes(b"\n".join([line.encode() for line in lines] + [b'{"id": "\xff"}']))
    corpus = load_corpus("squad", data_dir=tmp_path, split="all")
    assert [query.id for query in corpus.queries] == ["s0", "s1", "s2", "s11"]
    assert {problem.split("more.jsonl:")[1] for problem in corpus.problems} == {
        *("2: not a JSON record", "3: no question", "4: no answers.text[]", "5: id is of type float"),
        *("6: no answers.text[]", "8: not a JSON record", "1: repeated query id (s0)"),
    }
    assert corpus.dropped["not a JSON record"] == 2 and sum(corpus.dropped.values()) == 7
    with pytest.raises(ValueError, match=r"squad/validation\.\w+\.jsonl:\d: .*strict"):
        load_corpus("squad", data_dir=tmp_path, split="all", strict=True)


def test_json_that_no_encoder_takes_or_that_has_no_end_is_reported(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("[" * 100_000 + '\n{"_id": "d1", "text": "x"}\n', encoding="utf-8")
    rows = [{"_id": "q\ud800", "text": "x"}, {"_id": "q2", "text": "x\udfff"}, {"_id": "q3", "text": "\U0001f40b"}]
    write_lines(tmp_path / "queries.jsonl", rows)
    write_lines(tmp_path / "qrels" / "test.tsv", [])
    corpus = load_corpus(tmp_path, split="all")
    assert [d.id for d in corpus.documents] == ["d1"] and [q.id for q in corpus.queries] == ["q3"]
    places = ["corpus.jsonl:1", "queries.jsonl:1", "queries.jsonl:2"]
    assert [problem.split("/")[1].split(": ")[0] for problem in corpus.problems] == places
    assert corpus.dropped["half a character"] == 2
    with pytest.raises(ValueError, match=r"queries.jsonl:1: half a character .*ud800"):
        (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "x"}', encoding="utf-8")
        load_corpus(tmp_path, strict=True)


def test_a_row_that_can_be_read_but_not_taken_apart_is_reported(tmp_path):
    """Near the interpreter's limit, some depths are parsed and yet too deep for what comes after."""
    lines = [f'{{"_id": {n}, "text": "x", "a": ' + '{"a": ' * n + "1" + "}" * n + "}" for n in range(800, 1001)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    corpus = load_corpus(tmp_path)
    assert len(corpus.documents) + sum(corpus.dropped.values()) == len(lines)


@pytest.mark.parametrize("before", ["\n  ", "\ufeff", "\ufeff \n"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_array_may_begin_with_blank_space_or_a_mark(tmp_path, before, compress):
    array = before + json.dumps([{"_id": "d1", "text": "x"}, {"_id": "d2", "text": "y"}], indent=1)
    suffix = "" if compress is bytes else ".gz"
    (tmp_path / f"corpus.json{suffix}").write_bytes(compress(array.encode()))
    corpus = load_corpus(tmp_path)
    assert ([d.id for d in corpus.documents], corpus.problems) == (["d1", "d2"], ())


@pytest.mark.parametrize(
    ("lines", "gold", "lost"),
    [
        ("q1\td1\t1\nq2\td2\t1\n", {"q1": ("d1",), "q2": ("d2",)}, []),
        ("query\tdocument\tgrade\nq2\td2\t1\n", {"q2": ("d2",)}, ["1: score is not a number (grade)"]),
        ("q1\t0\td1\t1\nq2\t0\td2\t1\n", {}, ["1: no query-id", "2: no query-id"]),
    ],
)
def test_qrels_without_a_header_lose_no_row_unseen(tmp_path, lines, gold, lost):
    write_lines(tmp_path / "corpus.jsonl", [{"_id": "d1", "text": "x"}, {"_id": "d2", "text": "y"}])
    write_lines(tmp_path / "queries.jsonl", [{"_id": "q1", "text": "x"}, {"_id": "q2", "text": "y"}])
    (tmp_path / "qrels.tsv").write_text(lines, encoding="utf-8")
    corpus = load_corpus(tmp_path, split="all")
    assert corpus.gold_documents == gold
    assert [problem.split("qrels.tsv:")[1] for problem in corpus.problems] == lost


def test_a_cut_archive_keeps_what_came_before(tmp_path):
    path = squad_folder(tmp_path) / "squad" / "contexts.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])
    corpus = load_corpus("squad", data_dir=tmp_path, split="all")
    assert any("contexts.jsonl.gz" in problem and "unreadable from here on" in problem for problem in corpus.problems)
    assert len(corpus.documents) == 3  # the questions' rows hold their paragraphs


def test_an_unreadable_date_is_reported_not_guessed(tmp_path):
    write_lines(tmp_path / "corpus.jsonl", [{"_id": "1", "text": "x", "published_at": "03/04/2024"}])
    corpus = load_corpus(tmp_path)
    assert "published_at" not in corpus.documents[0].metadata
    assert corpus.dropped == {"unreadable date": 1} and "write YYYY-MM-DD" in corpus.problems[0]


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2023-10-07", "2023-10-07"),
        ("2023-1-7", "2023-01-07"),
        ("2023/10/07", "2023-10-07"),
        ("2023-10-07T23:30:00-08:00", "2023-10-07"),
        *((f"2023-10-07{time}", "2023-10-07") for time in ("T23:30Z", " 23:30:00.5 +0100", " 9:30 PM EST")),
        *((f"2023-10-07{tail}", None) for tail in (" meeting cancelled", "Tgarbage", "T nonsense", " 10:00 meet")),
        ("October 7, 2023", "2023-10-07"),
        ("October 07, 2023", "2023-10-07"),
        ("7 Oct 2023", "2023-10-07"),
        ("Sat, 07 Oct 2023 15:37:43 GMT", "2023-10-07"),
        (date(2023, 10, 7), "2023-10-07"),
        (datetime(2023, 10, 7, 23, 59, tzinfo=UTC), "2023-10-07"),
        (pd.Timestamp("2023-10-07T01:00"), "2023-10-07"),
        *((nothing, None) for nothing in (None, "", " ", "October 2023", "October 7", "2023", 2023, "03/04/2024")),
        *((nothing, None) for nothing in ("last week", "2023-13-01", "October 32, 2023", "May", pd.NaT, float("nan"))),
    ],
)
def test_iso_day(value, day):
    assert iso_day(value) == day


def test_published_time_is_kept_where_there_is_one():
    raw = "2023-09-28T12:00:00+00:00"
    assert published(raw) == {"published_at": "2023-09-28", "published_time": raw}
    assert published(datetime(2023, 9, 28, 12)) == {"published_at": "2023-09-28", "published_time": raw}
    assert published("September 28, 2023") == {"published_at": "2023-09-28"}
    assert published(pd.NaT) == published(None) == published("") == {}


def test_is_dev_by_hand():
    """SHA-256 of "a" begins ca978112 (mod 100: 10), that of "b" 3e23e816 (mod 100: 66)."""
    assert is_dev("a") and not is_dev("b")
    assert is_dev("a", 0.11) and not is_dev("a", 0.10)
    assert is_dev("b", 0.67) and not is_dev("b", 0.66)
    assert not is_dev("a", 0) and is_dev("b", 1)


def test_splits_part_the_queries(tmp_path):
    write_lines(tmp_path / "corpus.jsonl", [{"_id": "1", "text": "x"}])
    write_lines(tmp_path / "queries.jsonl", [{"_id": f"q{n}", "text": "?"} for n in range(300)])
    ids = {split: [q.id for q in load_corpus(tmp_path, split=split).queries] for split in ("dev", "test", "all")}
    assert sorted(ids["dev"] + ids["test"]) == sorted(ids["all"]) and len(ids["all"]) == 300
    assert 90 <= len(ids["dev"]) <= 150
    half = load_corpus(tmp_path, split="dev", dev_share=0.5)
    assert set(ids["dev"]) < {query.id for query in half.queries}
    assert (half.split, half.dev_share) == ("dev", 0.5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"split": "train"}, "split = 'train'"),
        ({"dev_share": 40}, "dev_share = 40"),
        ({"n_queries": 0}, "n_queries = 0"),
    ],
)
def test_arguments_out_of_range(arguments, said):
    with pytest.raises(ValueError, match=said):
        load_corpus("builtin_news", **arguments)


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match=r"'sqaud' is not known.*squad"):
        load_corpus("sqaud")
    with pytest.raises(FileNotFoundError, match="BEIR layout"):
        load_corpus(tmp_path)


def test_what_was_used_is_noted(tmp_path):
    corpus = load_corpus("squad", data_dir=squad_folder(tmp_path), dev_share=0.123)
    noted = [record for record in recorded() if record["kind"] == "dataset" and record["dev_share"] == 0.123]
    assert [record["fingerprint"] for record in noted] == [corpus.fingerprint]
    assert (noted[0]["n_documents"], noted[0]["split"], noted[0]["where"]) == (3, "test", "folder squad")


def test_catalogue():
    names = "squad natural_questions pubmedqa multihop_rag narrativeqa qasper boolq builtin_news builtin_abstracts"
    names += " lfrqa qasper_leval"
    assert list_corpora()["lfrqa"]["hub"] == "https://github.com/awslabs/rag-qa-arena"
    assert set(list_corpora()) == set(names.split())
    assert list_corpora()["qasper"]["folder"] == "qasper qasper_leval"
    assert list_corpora()["natural_questions"]["hub"] == "BeIR/nq and BeIR/nq-qrels"
    assert all(facts["licence"] for facts in list_corpora().values())


LFRQA = {
    "qid": 7,
    "question": "Is it wet?",
    "answer": "Yes, it is. Very [sic].",
    "citation_numbers": [[1], [2, 3]],
    "faithful_answer_w_citation": "Yes, it is. [1]\nVery [sic] [2, 3].\n",
    "gold_doc_ids": [30, 10, 20],
}


def test_lfrqa_by_hand(tmp_path):
    """A domain a file; the answer without its marks, other brackets kept, and the gold documents."""
    write_lines(tmp_path / "lfrqa" / "annotations_fiqa_with_citation.jsonl", [LFRQA])
    write_lines(tmp_path / "lfrqa" / "annotations_writing_with_citation.jsonl.gz", [{**LFRQA, "qid": "writing-test-1"}])
    corpus = load_corpus("lfrqa", data_dir=tmp_path, split="all")
    assert [query.id for query in corpus.queries] == ["fiqa-7", "writing-writing-test-1"]
    assert corpus.types == {"fiqa-7": "fiqa", "writing-writing-test-1": "writing"}
    assert corpus.answers["fiqa-7"] == ("Yes, it is.\nVery [sic].",)
    assert corpus.long_answers["fiqa-7"] == LFRQA["faithful_answer_w_citation"]
    assert corpus.gold_documents["fiqa-7"] == corpus.cited_documents["fiqa-7"] == ("30", "10", "20")
    assert (corpus.documents, corpus.dropped, corpus.quirks) == ([], {}, {})
    assert corpus.missing == ("lifestyle", "recreation", "science", "technology")
    with pytest.raises(FileNotFoundError, match=r"annotations_fiqa\*(.|\n)*github\.com/awslabs/rag-qa-arena"):
        load_corpus("lfrqa", data_dir=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("changes", "quirk"),
    [
        ({"answer": ""}, "the column `answer` is empty"),
        ({"answer": "No."}, "the column `answer` is not the cited answer without its marks"),
        ({"citation_numbers": [[1], [4]]}, "a citation beyond the gold documents"),
        ({"gold_doc_ids": []}, "a citation beyond the gold documents"),
        ({"gold_doc_ids": [30, 10, 30]}, "a gold document named twice"),
        ({"answer": "Yes", "faithful_answer_w_citation": "Yes"}, "no citation mark"),
    ],
)
def test_quirks_of_lfrqa_are_named_and_counted(tmp_path, changes, quirk):
    write_lines(tmp_path / "lfrqa" / "annotations_fiqa.jsonl", [LFRQA, {**LFRQA, "qid": 8, **changes}])
    corpus = load_corpus("lfrqa", data_dir=tmp_path, split="all")
    assert (len(corpus.queries), corpus.dropped, corpus.quirks) == (2, {}, {quirk: 1})
    assert corpus.problems == (f"lfrqa/annotations_fiqa.jsonl:2: {quirk}",) and f"1 x {quirk}" in str(corpus)


@pytest.mark.parametrize("name", ["builtin_news", "builtin_abstracts"])
def test_builtin_corpora_are_whole(name):
    corpus = load_corpus(name, split="all", strict=True)
    texts = {document.id: document.text for document in corpus.documents}
    assert corpus.missing == () and corpus.unanswerable() == []
    for query in corpus.queries:
        gold = " ".join(texts[id_] for id_ in corpus.gold_documents.get(query.id, ()))
        assert all(fact in gold for fact in corpus.facts.get(query.id, ()))


def test_a_summary_of_a_corpus_made_by_hand():
    corpus = Corpus("small", [Document(id="1", text="x")], [Query(id="q", text="?")], dropped={"no text": 2})
    assert "1 documents, 1 queries" in str(corpus) and "2 x no text" in str(corpus) and "from memory" in str(corpus)


@needs_data
@pytest.mark.parametrize(
    ("name", "documents", "columns"),
    [
        ("squad", 2067, {"title"}),
        ("natural_questions", 2600, {"title"}),
        ("pubmedqa", 1500, {"headings", "sections", "year"}),
        ("multihop_rag", 350, {"source", "published_at", "published_time", "category", "author"}),
        ("narrativeqa", 101, {"title", "kind"}),
        ("qasper", 16, set()),
        ("boolq", 12271, {"title"}),
    ],
)
def test_real_data(name, documents, columns):
    """Document counts of the data's own description (qasper: more papers where kept-back ones are present)."""
    corpus = load_corpus(name, split="all")
    assert len(corpus.documents) == documents or (name == "qasper" and len(corpus.documents) > documents)
    assert set().union(*(document.metadata for document in corpus.documents)) == columns
    assert set(corpus.dropped) <= {"same question again, answers joined"}
    assert corpus.unanswerable() == []
    assert len(corpus.queries) == len({query.id for query in corpus.queries})


@needs_data
def test_real_data_by_the_numbers_published_of_it():
    squad = load_corpus("squad", split="all")
    test = [query for query in squad.queries if not is_dev(query.id)]
    assert len(squad.queries) != 8007 or len(test) == 4840
    assert load_corpus("squad").queries == test
    news = load_corpus("multihop_rag", split="all")
    counts = Counter(news.types.values())
    assert len(news.queries) != 351 or counts == {"inference": 113, "comparison": 108, "temporal": 80, "null": 50}
    assert {len(facts) for facts in news.facts.values()} == {2, 3, 4}
    assert len(news.facts) == len(news.queries) - counts["null"]


@needs_data
def test_lfrqa_by_the_numbers_published_of_it():
    """About 65 % of the answers draw on two documents and more, 4.9 % on ten and more (paper, section 3)."""
    corpus = load_corpus("lfrqa", split="all")
    assert set(corpus.types.values()) == set("fiqa lifestyle recreation science technology writing".split())
    assert corpus.missing == () and corpus.dropped == {}
    sizes = [len(corpus.gold_documents[query.id]) for query in corpus.queries]
    assert abs(sum(size >= 2 for size in sizes) / len(sizes) - 0.65) < 0.01
    assert abs(sum(size >= 10 for size in sizes) / len(sizes) - 0.049) < 0.005
    assert corpus.quirks["a citation beyond the gold documents"] == 6 or len(sizes) != 9815
