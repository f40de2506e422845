"""QASPER as the hub has it, in both layouts of its tables, and in L-Eval's form under the same name."""

import json
import os
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_utils.chunking import by_tokens, gold_chunks
from rag_utils.corpora import load_corpus
from rag_utils.corpora._catalogue import data_sets
from rag_utils.metrics import is_abstention

SALT, ROAD = "Salt came by mule.\nIt was grey.", "The road was paved in 1701."


def answer(*, evidence=(), spans=(), free="", yes_no=None, unanswerable=False):
    """An annotator's answer with the columns of the hub."""
    return {
        "unanswerable": unanswerable,
        "extractive_spans": list(spans),
        "yes_no": yes_no,
        "free_form_answer": free,
        "evidence": list(evidence),
        "highlighted_evidence": [],
    }


def paper(id_, **questions):
    return {
        "id": id_,
        "title": f"Paper {id_}",
        "abstract": "On salt.",
        "full_text": {"section_name": ["Intro", "Roads ::: Old"], "paragraphs": [[SALT, "Fog."], [ROAD]]},
        "qas": {
            "question": [f"What of {name}?" for name in questions],
            "question_id": [f"{id_}-{name}" for name in questions],
            "nlp_background": ["two"] * len(questions),
            "answers": [
                {"answer": answers, "annotation_id": ["a"] * len(answers), "worker_id": ["w"] * len(answers)}
                for answers in questions.values()
            ],
        },
    }


PAPERS = [
    paper(
        "1901.1",
        free=[answer(free="By mule", evidence=[SALT, "FLOAT SELECTED: Table 1: Salt."])],
        spans=[answer(spans=["salt", "the road"], evidence=[SALT, ROAD]), answer(free="Both", evidence=[ROAD])],
        paved=[answer(yes_no=True, evidence=["Not the paper's."]), answer(yes_no=True), answer(free="In 1701")],
        never=[answer(yes_no=False)],
    ),
    paper("1901.2", none=[answer(unanswerable=True), answer(unanswerable=True)], empty=[answer()]),
]


def as_records(row):
    """The same row with lists of records, as the original release has it."""

    def listed(table):
        return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]

    questions = [{**question, "answers": listed(question["answers"])} for question in listed(row["qas"])]
    return {**row, "full_text": listed(row["full_text"]), "qas": questions}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "qasper" / "qasper" / "train" / "0000.parquet", PAPERS[:1])  # as `hf download` leaves it
    write(tmp_path / "qasper" / "qasper" / "test" / "0000.parquet", PAPERS[1:])
    return load_corpus("qasper", data_dir=tmp_path, split="all")


def test_a_paper_is_one_text(corpus):
    assert sorted(document.id for document in corpus.documents) == ["1901.1", "1901.2"]
    (first,) = (document for document in corpus.documents if document.id == "1901.1")
    assert first.title == "Paper 1901.1"
    assert first.text == f"Paper 1901.1\nOn salt.\nIntro\n{SALT}\nFog.\nRoads ::: Old\n{ROAD}"
    assert (corpus.name, corpus.where, corpus.missing, corpus.dropped) == ("qasper", "folder qasper", (), {})


def test_answers_evidence_and_types_by_hand(corpus):
    assert corpus.answers == {
        "1901.1-free": ("By mule",),
        "1901.1-spans": ("salt, the road", "Both"),
        "1901.1-paved": ("Yes", "In 1701"),
        "1901.1-never": ("No",),
        "1901.2-none": ("I do not know",),
    }
    assert is_abstention(corpus.answers["1901.2-none"][0])
    assert corpus.facts == {"1901.1-free": (SALT,), "1901.1-spans": (SALT, ROAD)}
    kinds = {"free": "abstractive", "spans": "extractive", "paved": "boolean", "never": "boolean"}
    assert corpus.types == {f"1901.1-{name}": kind for name, kind in kinds.items()} | {"1901.2-none": "unanswerable"}
    assert corpus.gold_documents == {f"1901.1-{name}": ("1901.1",) for name in kinds}
    assert {query.id: query.text for query in corpus.queries}["1901.2-empty"] == "What of empty?"


def test_what_is_left_out_is_counted_by_place(corpus):
    assert corpus.quirks == {
        "evidence is a figure or table": 1,
        "evidence is not in the text": 1,
        "an answer without content": 1,
    }
    assert "qasper/qasper/train/0000.parquet:1: evidence is a figure or table" in corpus.problems


def test_evidence_finds_its_chunks(corpus):
    gold = gold_chunks(corpus, by_tokens(corpus.documents, header=False))
    assert set(gold["1901.1-free"].values()) == {1}


def test_both_layouts_are_one_corpus(tmp_path, corpus):
    write(tmp_path / "b" / "train-00000-of-00001.jsonl", [as_records(row) for row in PAPERS])
    single = as_records(PAPERS[1])
    for question in single["qas"]:
        for one in question["answers"]:
            one["answer"] = [one["answer"]]
    write(tmp_path / "c" / "qasper" / "validation.jsonl", [PAPERS[0], single])
    for folder in ("b", "c"):
        again = load_corpus("qasper", data_dir=tmp_path / folder, split="all")
        assert (again.fingerprint, again.quirks) == (corpus.fingerprint, corpus.quirks)


def test_the_hub_is_read_by_datasets(tmp_path, monkeypatch, corpus):
    """A folder that `datasets` loads stands for the hub, which no test may reach."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("rag_utils.corpora._sources._why_away", lambda: "not reachable")
    table = data_sets()["qasper"].tables["papers"]
    for part, rows in (("train", PAPERS[:1]), ("test", PAPERS[1:])):
        write(tmp_path / "hub" / f"{part}-00000-of-00001.parquet", rows)
    here = table._replace(repository=str(tmp_path / "hub"), split="train+test", revision=None)
    monkeypatch.setitem(data_sets()["qasper"].tables, "papers", here)
    monkeypatch.delenv("RAG_DATA_DIR", raising=False)
    assert load_corpus("qasper", split="all").fingerprint == corpus.fingerprint


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"qas": "none"}, "qas is no table"),
        ({"qas": [1]}, "qas is no table"),
        ({"full_text": None}, "full_text is no table"),
        ({"qas": {"question": ["Why?"], "answers": []}}, "qas has columns of unequal length"),
        ({"qas": {"question": "Why?"}}, "qas has columns of unequal length"),
        ({"qas": [{"question": "Why?"}]}, "answers is no table"),
        ({"id": None}, "no id"),
    ],
)
def test_a_malformed_paper_is_left_out_and_counted(tmp_path, change, reason):
    write(tmp_path / "qasper" / "test.jsonl", [{**PAPERS[0], **change}, PAPERS[1]])
    corpus = load_corpus("qasper", data_dir=tmp_path, split="all")
    assert [document.id for document in corpus.documents] == ["1901.2"]
    assert corpus.dropped == {reason: 1} and corpus.problems[0] == f"qasper/test.jsonl:1: {reason}"


def test_a_question_may_lack_its_wording_or_id(tmp_path):
    questions = [
        {"question": " ", "question_id": "x", "answers": []},
        {"question": "Why?", "answers": [{"answer": answer(free="Fog")}]},
    ]
    write(tmp_path / "qasper" / "test.jsonl", [{**PAPERS[0], "qas": questions}, {**PAPERS[1], "qas": []}])
    corpus = load_corpus("qasper", data_dir=tmp_path, split="all")
    assert list(corpus.answers.values()) == [("Fog",)] and len(corpus.documents) == 2
    assert corpus.quirks == {"a question without a wording": 1}


LEVAL = {"input": "A paper.", "instructions": ["Which data?"], "outputs": ["Salt"]}


def test_l_evals_form_stands_in_where_it_is_all_there_is(tmp_path):
    write(tmp_path / "qasper_leval" / "scientific_qa.jsonl", [LEVAL])
    stand_in, own = (load_corpus(name, data_dir=tmp_path, split="all") for name in ("qasper", "qasper_leval"))
    assert stand_in.name == "qasper_leval" and stand_in.where == "folder qasper_leval"
    assert stand_in.fingerprint == own.fingerprint
    write(tmp_path / "qasper" / "test.jsonl", PAPERS)
    assert load_corpus("qasper", data_dir=tmp_path, split="all").where == "folder qasper"
    assert load_corpus("qasper_leval", data_dir=tmp_path, split="all").fingerprint == own.fingerprint


def test_what_is_not_there_is_named_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("rag_utils.corpora._sources._hub_tables", unreachable)
    command = r"hf download allenai/qasper --repo-type dataset --revision refs/convert/parquet"
    with pytest.raises(FileNotFoundError, match=command):
        load_corpus("qasper", data_dir=tmp_path)


def unreachable(dataset):
    raise ConnectionError("not reachable")


@pytest.mark.skipif(not os.environ.get("RAG_DATA_DIR"), reason="needs RAG_DATA_DIR")
def test_the_papers_at_hand_load_by_the_old_name():
    corpus = load_corpus("qasper", split="all")
    assert len(corpus.documents) >= 16 and Counter(map(bool, corpus.answers.values())) == {True: len(corpus.queries)}
