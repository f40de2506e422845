"""Scores of answers: token F1 and its normalisation, abstention, the benchmark's rule, macro F1; overlap of n-grams."""

import pytest

from rag_utils.metrics import (
    ABSTENTIONS,
    bleu,
    exact_match,
    generation,
    is_abstention,
    macro_f1,
    meteor,
    meteor_label,
    rouge_n,
    token_f1,
    word_overlap_accuracy,
)


def _f1(*pairs):
    return [token_f1(prediction, gold) for prediction, gold in pairs]


def GM_G01():
    """Removing articles does not empty the answer 'A'."""
    assert _f1(("A", "A"), ("B", "A"), ("The Beatles", "beatles")) == [1.0, 0.0, 1.0]


def GM_G02():
    """Repeated words count once each."""
    expected = pytest.approx([0.571429, 0.8], abs=1e-6)
    assert _f1(("Vega Motors of Tin Bay", "Vega Motors"), ("red red kite", "red kite")) == expected


def GM_G03():
    """Two empty texts agree, one empty text does not."""
    assert _f1(("", ""), ("", "Vega"), ("Vega", "")) == [1.0, 0.0, 0.0]


def GM_G04():
    """An abstention is recognised in several wordings, which are listed."""
    predictions = ["insufficient information.", "There is insufficient information to say.", "Vega"]
    assert [is_abstention(text) for text in predictions] == [True, True, False]
    assert "insufficient information" in ABSTENTIONS


def GM_G05():
    """One shared 'the' is right by the benchmark's rule and wrong by exact match."""
    assert word_overlap_accuracy("The Verge", "The Age") == 1.0
    assert exact_match("The Verge", "The Age") == 0.0


def GM_G06():
    """Macro F1 is not accuracy."""
    gold, prediction = ["yes", "yes", "yes", "no"], ["yes", "yes", "no", "no"]
    assert macro_f1(gold, prediction, ["yes", "no"]) == pytest.approx(0.733333, abs=1e-6)


def GM_G07():
    """Two equal one-word answers score 1, with n-grams of up to four words too."""
    assert bleu("yes", "yes") == 1.0


def GM_G08():
    """An empty text on either side scores 0."""
    assert [bleu("", "Vega"), bleu("Vega", "")] == [0.0, 0.0]


def GM_G09(monkeypatch):
    """METEOR takes plain texts; without the word list it says so, and how to get it."""
    assert meteor("north gate open", "north gate open") == pytest.approx(1, abs=0.02)
    monkeypatch.setattr(generation, "_wordnet", lambda: None)
    assert meteor_label() == "meteor (no synonyms)"
    with pytest.raises(LookupError, match=r"WordNet.*python -m nltk\.downloader wordnet"):
        meteor("north gate open", "north gate open", synonyms=True)


def GM_G10():
    """Cyrillic and Thai texts score 1 with themselves."""
    assert [rouge_n(text, text).f1 for text in ("север ворота", "สวัสดี")] == [1.0, 1.0]


def GM_G11():
    """Precision is of the prediction, recall of the gold answer."""
    overlap = rouge_n("north gate", "north gate open now")
    assert overlap._asdict() == pytest.approx({"precision": 1.0, "recall": 0.5, "f1": 0.666667}, abs=1e-6)


def GM_G12():
    """'an' and 'the' are different answers."""
    assert _f1(("an", "the"), ("The A Train", "A Train")) == [0.0, 1.0]


def GM_G13():
    """Removing punctuation joins numbers; the third is a false match, which the documentation names."""
    assert _f1(("1,000", "1000"), ("U.S.", "US"), ("3.5%", "35")) == [1.0, 1.0, 1.0]
    assert "false match" in exact_match.__doc__
