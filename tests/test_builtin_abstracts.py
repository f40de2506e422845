"""The built-in abstracts: shape, labels, acronyms, and a difficulty that leaves room for better retrieval than BM25."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from rank_bm25 import BM25Okapi

FOLDER = Path(__file__).parents[1] / "rag_utils" / "builtin"
FILES = {kind: FOLDER / f"abstracts_{kind}.jsonl" for kind in ("documents", "queries")}

# Statistical short forms (CI, SD) and units are left out on purpose: nobody asks for them by their long form.
LONG_FORMS = {
    "AF": ["atrial fibrillation"],
    "AIS": ["ischemic stroke", "ischaemic stroke"],
    "AKI": ["kidney injury"],
    "BPD": ["bronchopulmonary dysplasia"],
    "CABG": ["coronary artery bypass"],
    "CBT": ["cognitive behavioural", "cognitive behavioral"],
    "CGRP": ["calcitonin gene-related peptide"],
    "CKD": ["chronic kidney disease"],
    "COC": ["combined oral contraceptive"],
    "COPD": ["chronic obstructive pulmonary disease"],
    "CPAP": ["continuous positive airway pressure"],
    "CXR": ["chest radiograph", "chest x-ray"],
    "DHA": ["docosahexaenoic"],
    "DM": ["diabetes mellitus"],
    "DOAC": ["direct oral anticoagulant"],
    "DOT": ["directly observed"],
    "ED": ["emergency department"],
    "ESRD": ["end-stage renal disease"],
    "FICB": ["fascia iliaca"],
    "GDM": ["gestational diabetes"],
    "HF": ["heart failure"],
    "IBD": ["inflammatory bowel disease"],
    "ICS": ["inhaled corticosteroid", "inhaled steroid"],
    "MOH": ["medication overuse headache"],
    "NEC": ["necrotizing enterocolitis", "necrotising enterocolitis"],
    "NICU": ["neonatal intensive care"],
    "NSAID": ["nonsteroidal anti-inflammatory", "non-steroidal anti-inflammatory"],
    "OA": ["osteoarthritis"],
    "OSA": ["obstructive sleep apnea", "obstructive sleep apnoea"],
    "PND": ["postnatal depression", "postpartum depression"],
    "PPH": ["postpartum hemorrhage", "postpartum haemorrhage"],
    "RA": ["rheumatoid arthritis"],
    "SAP": ["stroke-associated pneumonia"],
    "SSRI": ["selective serotonin reuptake inhibitor"],
    "TB": ["tuberculosis"],
    "TKA": ["knee arthroplasty", "knee replacement"],
    "TXA": ["tranexamic acid"],
    "VLBW": ["very-low-birth-weight", "very low birth weight"],
}


def rows(kind: str) -> list[dict]:
    return [json.loads(line) for line in FILES[kind].read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def documents() -> list[dict]:
    return rows("documents")


@pytest.fixture(scope="module")
def queries() -> list[dict]:
    return rows("queries")


@pytest.fixture(scope="module")
def pairs(documents, queries) -> list[tuple[str, str]]:
    """Question and text of the abstract that answers it."""
    texts = {document["id"]: document["text"] for document in documents}
    return [(query["question"], texts[query["document_id"]]) for query in queries]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def acronyms(text: str) -> set[str]:
    """Runs of 2-6 capitals, also in the plural, that stand for a term of the mapping."""
    return set(re.findall(r"\b([A-Z]{2,6})s?\b", text)) & LONG_FORMS.keys()


def spells_out(text: str, acronym: str) -> bool:
    return any(form in text.lower() for form in LONG_FORMS[acronym])


def share_first(texts: list[str], queries: list[dict]) -> float:
    """Share of questions whose own abstract, in file order, scores above all others."""
    index = BM25Okapi([words(text) for text in texts])
    first = 0
    for row, query in enumerate(queries):
        scores = index.get_scores(words(query["question"]))
        first += all(scores[row] > score for other, score in enumerate(scores) if other != row)
    return first / len(queries)


def test_every_abstract_has_one_question_and_ids_are_unique(documents, queries):
    assert len(documents) >= 48
    assert len({document["id"] for document in documents}) == len(documents)
    assert len({query["id"] for query in queries}) == len(queries)
    assert [query["document_id"] for query in queries] == [document["id"] for document in documents]


def test_rows_have_the_stated_keys(documents, queries):
    for document in documents:
        assert set(document) == {"id", "title", "text", "sections", "headings", "year", "condition"}
        assert document["title"] == ""
        assert 2012 <= document["year"] <= 2024
    for query in queries:
        assert set(query) == {"id", "question", "document_id", "label", "answer"}
        assert query["question"].endswith("?")
        assert query["answer"].endswith(".")


def test_text_is_its_sections_joined(documents):
    for document in documents:
        assert document["text"] == " ".join(section["text"] for section in document["sections"])
        assert document["sections"][-1]["label"] == "RESULTS"


def test_lengths_are_those_of_abstracts(documents):
    assert all(110 <= len(document["text"].split()) <= 240 for document in documents)


def test_headings_are_few_distinct_and_shared(documents):
    for document in documents:
        assert 5 <= len(set(document["headings"])) == len(document["headings"]) <= 12
    counts = Counter(heading for document in documents for heading in document["headings"])
    assert sum(count >= 2 for count in counts.values()) >= 40


def test_labels_are_mixed_as_in_pubmedqa(queries):
    counts = Counter(query["label"] for query in queries)
    shares = {label: count / len(queries) for label, count in counts.items()}
    assert set(shares) == {"yes", "no", "maybe"}
    assert 0.50 <= shares["yes"] <= 0.60
    assert 0.28 <= shares["no"] <= 0.38
    assert 0.08 <= shares["maybe"] <= 0.16


def test_no_majority_class_is_tied_to_a_condition(documents, queries):
    labels = {}
    for document, query in zip(documents, queries, strict=True):
        labels.setdefault(document["condition"], set()).add(query["label"])
    assert sum(len(found) >= 2 for found in labels.values()) >= 0.9 * len(labels)


def test_ten_conditions_have_at_least_three_abstracts(documents):
    counts = Counter(document["condition"] for document in documents)
    assert sum(count >= 3 for count in counts.values()) >= 10


def test_a_third_of_the_abstracts_never_spell_out_an_acronym(documents):
    unexplained = [
        document["id"]
        for document in documents
        if any(not spells_out(document["text"], acronym) for acronym in acronyms(document["text"]))
    ]
    assert len(unexplained) >= max(15, len(documents) / 3)


def test_questions_spell_out_what_texts_abbreviate_and_the_other_way_round(pairs):
    spelled_out = sum(
        any(spells_out(question, acronym) and not spells_out(text, acronym) for acronym in acronyms(text))
        for question, text in pairs
    )
    abbreviated = sum(
        any(spells_out(text, acronym) and acronym not in acronyms(text) for acronym in acronyms(question))
        for question, text in pairs
    )
    assert spelled_out >= 20
    assert abbreviated >= 10


def test_neither_question_nor_conclusion_is_in_a_text(documents, queries):
    texts = [" ".join(words(document["text"])) for document in documents]
    for query in queries:
        for field in ("question", "answer"):
            assert not any(" ".join(words(query[field])) in text for text in texts), query["id"]


def test_the_corpus_is_small():
    assert sum(path.stat().st_size for path in FILES.values()) < 150_000


def test_bm25_leaves_room_and_headings_help(documents, queries):
    texts = [document["text"] for document in documents]
    with_headings = [" ".join([document["text"], *document["headings"]]) for document in documents]
    plain = share_first(texts, queries)
    assert 0.6 <= plain < 0.95
    assert share_first(with_headings, queries) > plain
