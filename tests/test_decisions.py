"""Decisions read from replies, by the paper's cleaner and by words, and made without a model."""

import pytest

from rag_utils.answering import DecisionClassifier, cleaned_decision, read_decision
from rag_utils.chunking import whole
from rag_utils.corpora import load_corpus
from rag_utils.indexing import LexicalIndex, stems
from rag_utils.retrieval import LexicalRetriever


@pytest.mark.parametrize(
    ("reply", "cleaned", "read"),
    [
        ("Yes.", "yes", "yes"),
        ("maybe", "maybe", "maybe"),
        ("unknown", "no", None),  # "no" as a part of the word
        ("cannot tell", "no", None),
        ("not sure", "no", None),
        ("uncertain", None, None),
        ("", None, None),
        ("No. Yes.", "no", "no"),
        ("yes or no", "yes", None),
        ("The answer is NO", "no", "no"),
        ("Yesterday", "yes", None),
    ],
)
def test_replies(reply, cleaned, read):
    assert (cleaned_decision(reply), read_decision(reply)) == (cleaned, read)


def test_the_classifier_learns_from_dev_rows_only():
    dev, test = (load_corpus("builtin_abstracts", split=split) for split in ("dev", "test"))
    bm25 = LexicalRetriever(LexicalIndex(whole(dev.documents), tokenizer=stems, idf="lucene"))
    answers = DecisionClassifier(bm25).fit(dev).answer(test.queries)
    assert {answer.text for answer in answers} <= {"yes", "no", "maybe"}
    assert [answer.query_id for answer in answers] == [query.id for query in test.queries]
    with pytest.raises(ValueError, match="no dev rows"):
        DecisionClassifier(bm25).fit(test)
