"""The built-in news corpus keeps the properties that the notebooks rely on."""

import json
import re
from collections import Counter, defaultdict
from datetime import datetime
from importlib.resources import files

import pytest
from rank_bm25 import BM25Okapi

from rag_utils.corpora import load_corpus

OUTLETS = {
    "Brinefield News - Culture",
    "Brinefield News - Politics",
    "Dunmarrow Evening Bell",
    "Halvane Public Radio",
    "Halvanescores.com",
    "Ombrel Post | Harbour Business Daily",
    "Shingle",
    "The Wherryman",
    "Wrackline: Shore Science",
}
CATEGORIES = {"business", "technology", "science", "sports", "culture", "politics"}
SHARES = {"inference": 0.32, "comparison": 0.33, "temporal": 0.23, "null": 0.12}  # those of MultiHop-RAG


def read(name):
    lines = (files("rag_utils") / "builtin" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def words(text):
    return re.findall(r"\w+", text.lower())


DOCUMENTS = read("news_documents.jsonl")
QUERIES = read("news_queries.jsonl")
ANSWERS = read("news_answers.jsonl")
BY_ID = {document["id"]: document for document in DOCUMENTS}
ANSWERABLE = [query for query in QUERIES if query["type"] != "null"]
QUERY_BY_ID = {query["id"]: query for query in ANSWERABLE}


def test_keys_and_ids():
    keys = {"id", "title", "text", "source", "published_at", "category", "author", "event"}
    assert all(set(document) == keys and all(document.values()) for document in DOCUMENTS)
    assert all(set(query) == {"id", "question", "type", "answer", "evidence"} for query in QUERIES)
    assert len(BY_ID) == len(DOCUMENTS) and len({query["id"] for query in QUERIES}) == len(QUERIES)
    assert len({query["question"] for query in QUERIES}) == len(QUERIES)


def test_counts_lengths_and_size():
    assert 52 <= len(DOCUMENTS) <= 56 and len(QUERIES) >= 92
    assert all(170 <= len(document["text"].split()) <= 330 for document in DOCUMENTS)
    folder = files("rag_utils") / "builtin"
    assert sum(len((folder / f"news_{part}.jsonl").read_bytes()) for part in ("documents", "queries")) < 230_000


def test_outlets_are_a_closed_list_with_awkward_names():
    counts = Counter(document["source"] for document in DOCUMENTS)
    assert set(counts) == OUTLETS and min(counts.values()) >= 2
    assert {document["category"] for document in DOCUMENTS} == CATEGORIES
    # "shingle" is a word of the articles and of a question as well: only the capital tells the outlet.
    assert any("shingle" in document["text"] for document in DOCUMENTS)
    assert any(" shingle" in query["question"] for query in QUERIES)


def test_dates_are_iso_times_over_about_four_months():
    times = [datetime.fromisoformat(document["published_at"]) for document in DOCUMENTS]
    assert all(time.utcoffset().total_seconds() == 0 for time in times)
    assert 100 <= (max(times) - min(times)).days <= 140


def test_events_are_told_by_several_outlets():
    told = defaultdict(list)
    for document in DOCUMENTS:
        told[document["event"]].append(document)
    wide = [event for event in told.values() if len(event) >= 3 and len({d["source"] for d in event}) >= 3]
    assert len(wide) >= 10
    assert all(len({d["published_at"][:10] for d in event}) == len(event) for event in wide)


@pytest.mark.parametrize(("kind", "share"), SHARES.items())
def test_type_shares_follow_the_paper(kind, share):
    found = sum(query["type"] == kind for query in QUERIES) / len(QUERIES)
    assert found == pytest.approx(share, abs=0.03)


def test_null_questions_have_no_evidence_and_the_fixed_answer():
    null = [query for query in QUERIES if query["type"] == "null"]
    assert len(null) >= 0.1 * len(QUERIES)
    assert all(query["evidence"] == [] and query["answer"] == "Insufficient information." for query in null)


@pytest.mark.parametrize("query", ANSWERABLE, ids=lambda query: query["id"])
def test_evidence_is_whole_sentences_of_different_articles(query):
    cited = [piece["document_id"] for piece in query["evidence"]]
    assert 2 <= len(cited) <= 4 and len(set(cited)) == len(cited)
    for piece in query["evidence"]:
        fact = piece["fact"]
        assert [d["id"] for d in DOCUMENTS if fact in d["text"]] == [piece["document_id"]]
        text = BY_ID[piece["document_id"]]["text"]
        before, after = text.split(fact)
        assert re.search(r'(^|[.!?]"?\s)$', before) and re.search(r'[.!?]"?$', fact) and re.match(r"\s|$", after)


def named_outlets(question):
    """Outlets that the question writes out, or shortens to the part before " | " or ": "."""
    return {outlet for outlet in OUTLETS if re.split(r" \| |: ", outlet)[0] in question}


def test_questions_name_outlets_in_full_in_part_or_not_at_all():
    kinds = Counter()
    for query in ANSWERABLE:
        named = named_outlets(query["question"])
        gold = {BY_ID[piece["document_id"]]["source"] for piece in query["evidence"]}
        kinds["none" if not named else "all" if named == gold else "part" if named < gold else "excluded"] += 1
    assert kinds["all"] > kinds["part"] > kinds["none"] > kinds["excluded"] >= 2
    assert 0.1 <= kinds["none"] / len(ANSWERABLE) <= 0.25


def test_some_questions_give_a_date():
    dated = sum(bool(re.search(r"(March|April|May|June) \d{1,2}, 2025", query["question"])) for query in QUERIES)
    assert 0.1 <= dated / len(QUERIES) <= 0.25


def hits_at_4(allowed=lambda query, document: True):
    """Share of answerable questions with an evidence article among BM25's first four."""
    index = BM25Okapi([words(f"{document['title']} {document['text']}") for document in DOCUMENTS])
    hits = []
    for query in ANSWERABLE:
        scores = index.get_scores(words(query["question"]))
        candidates = [i for i, document in enumerate(DOCUMENTS) if allowed(query, document)]
        first = sorted(candidates, key=lambda i: -scores[i])[:4]
        hits.append(bool({DOCUMENTS[i]["id"] for i in first} & {piece["document_id"] for piece in query["evidence"]}))
    return sum(hits) / len(hits)


def from_gold_outlet(query, document):
    return document["source"] in {BY_ID[piece["document_id"]]["source"] for piece in query["evidence"]}


def test_bm25_is_neither_hopeless_nor_perfect_and_the_outlet_helps():
    plain = hits_at_4()
    assert 0.6 < plain < 0.95
    assert hits_at_4(from_gold_outlet) > plain + 0.1


MARK = re.compile(r" \[(\d+(?:, \d+)*)\]")
LOWER_CASE = set(re.findall(r"\b[a-z]+\b", " ".join(document["text"] for document in DOCUMENTS))) | {"yes"}
TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
NUMBER = re.compile(
    rf"\d[\d.,]*\d|\d|\b(?:(?:{TENS})(?:-\w+)?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen"
    r"|hundred|thousand|million|half|third|quarter|double|twice)\b",
    re.IGNORECASE,
)
per_answer = pytest.mark.parametrize("row", ANSWERS, ids=lambda row: row["id"])


def claims(row):
    """Pieces of a long answer, each with the text, title, outlet and day of the articles that its mark cites."""
    *pieces, rest = MARK.split(row["answer"])
    assert rest == "."
    for piece, numbers in zip(pieces[::2], pieces[1::2], strict=True):
        cited = [BY_ID[row["documents"][int(number) - 1]] for number in numbers.split(", ")]
        days = [datetime.fromisoformat(document["published_at"]).strftime("%-d %B %Y") for document in cited]
        seen = [document[key] for document in cited for key in ("text", "title", "source")]
        yield piece.removeprefix("."), " ".join([*seen, *days])


def names(text):
    """Words with a capital, unless it is that of a sentence whose first word the articles have without one."""
    found = re.finditer(r"(^\W*|[.!?]\W+)?\b([A-Z]\w*)", text)
    return [match[2] for match in found if match[1] is None or match[2].lower() not in LOWER_CASE]


def test_long_answers_cover_all_events_and_types():
    kinds = Counter(QUERY_BY_ID[row["id"]]["type"] for row in ANSWERS)
    assert len({row["id"] for row in ANSWERS}) == len(ANSWERS) >= 48
    assert min(kinds["inference"], kinds["comparison"], kinds["temporal"]) >= 14
    assert {BY_ID[id_]["event"] for row in ANSWERS for id_ in row["documents"]} == {d["event"] for d in DOCUMENTS}


def test_corpus_hands_on_the_long_answers_of_its_queries():
    corpus = load_corpus("builtin_news", split="all")
    assert corpus.long_answers == {row["id"]: row["answer"] for row in ANSWERS}
    assert corpus.cited_documents == {row["id"]: tuple(row["documents"]) for row in ANSWERS}
    dev, test = (load_corpus("builtin_news", split=split) for split in ("dev", "test"))
    assert min(len(dev.long_answers), len(test.long_answers)) >= 15
    assert dev.long_answers | test.long_answers == corpus.long_answers and not corpus.dropped


@per_answer
def test_long_answer_has_the_short_one_and_a_human_length(row):
    plain, short = MARK.sub("", row["answer"]), QUERY_BY_ID[row["id"]]["answer"]
    assert set(row) == {"id", "answer", "documents"}
    assert 40 <= len(plain.split()) <= 110 and short.lower() in plain.lower()
    assert short not in ("Yes", "No") or plain.startswith(short)


@per_answer
def test_long_answer_cites_the_gold_articles_and_others_of_their_events_only(row):
    gold = {piece["document_id"] for piece in QUERY_BY_ID[row["id"]]["evidence"]}
    numbers = [int(number) for mark in MARK.findall(row["answer"]) for number in mark.split(", ")]
    assert list(dict.fromkeys(numbers)) == list(range(1, len(row["documents"]) + 1))
    assert gold <= set(row["documents"]) and len(set(row["documents"])) == len(row["documents"])
    assert {BY_ID[id_]["event"] for id_ in row["documents"]} == {BY_ID[id_]["event"] for id_ in gold}


@per_answer
def test_names_and_numbers_of_a_long_answer_are_in_the_articles_cited_beside_them(row):
    for claim, articles in claims(row):
        assert set(names(claim)) <= set(re.findall(r"\w+", articles))
        assert {n.lower() for n in NUMBER.findall(claim)} <= {n.lower() for n in NUMBER.findall(articles)}


@per_answer
def test_long_answer_is_not_copied(row, n=12):
    def runs(text):
        found = words(text)
        return {tuple(found[i : i + n]) for i in range(len(found) - n + 1)}

    assert not any(runs(MARK.sub("", row["answer"])) & runs(document["text"]) for document in DOCUMENTS)


SINGLE = load_corpus("builtin_news", split="all", questions="single")


def test_single_questions_stand_apart_from_the_main_ones():
    main = load_corpus("builtin_news", split="all")
    assert len(SINGLE.queries) == 16 and SINGLE.documents == main.documents
    assert not {query.id for query in SINGLE.queries} & {query.id for query in main.queries}
    abstracts = (load_corpus("builtin_abstracts", questions=kind) for kind in ("main", "single"))
    assert len({corpus.fingerprint for corpus in abstracts}) == 1  # one kind under both names
    with pytest.raises(ValueError, match="'double': choose 'main' or 'single'"):
        load_corpus("builtin_news", questions="double")


@pytest.mark.parametrize("query", SINGLE.queries, ids=lambda query: query.id)
def test_one_article_answers_a_single_question_or_none_does(query):
    (answer,) = SINGLE.answers[query.id]
    if SINGLE.types[query.id] == "null":
        assert answer == "Insufficient information." and query.id not in SINGLE.gold_documents
        return
    (document,), (fact,) = SINGLE.gold_documents[query.id], SINGLE.facts[query.id]
    text, title, long_answer = BY_ID[document]["text"], BY_ID[document]["title"], SINGLE.long_answers[query.id]
    assert fact in text and SINGLE.cited_documents[query.id] == (document,)
    names = re.findall(r"[A-Z]\w+", query.text.split(maxsplit=1)[1])  # the paper asks for a proper noun in each
    assert names and all(name in text + title for name in names)
    said = re.findall(r"[A-Z]\w+|\d+", long_answer.removesuffix("[1]").split(maxsplit=1)[1])
    assert set(said) <= set(re.findall(r"\w+", text + " " + query.text))
