"""BLEU, ROUGE, METEOR and risk against hand counts, published vectors, sacrebleu and rouge_score; in `compare`."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from rag_utils.corpora import Corpus
from rag_utils.experiments import compare
from rag_utils.metrics import (
    answer_at_k,
    aurc,
    bleu,
    generation,
    meteor,
    meteor_label,
    risk_coverage,
    rouge_l,
    rouge_n,
)
from rag_utils.schema import Answer, Chunk, Document, Hit, Query

SCORES = (bleu, rouge_l, meteor)
WORDS = st.lists(st.sampled_from("the cat sat on a mat cats today".split()), max_size=9)
SEVEN, OTHER = "the cat sat on the mat today", "the dog ran on a hill today"


@pytest.mark.parametrize(
    ("prediction", "gold", "order", "value"),
    [
        (SEVEN, SEVEN, 1, 1.3333),
        (SEVEN, SEVEN, 4, 1.1167),
        (OTHER, SEVEN, 1, 0.6190),
        (OTHER, SEVEN, 4, 0.1191),
        ("a x y z", "a b c d", 1, 0.5),
        ("yes it is", "yes it is", 1, 1.0),
        ("yes", "yes", 4, 0.1925),
        ("dog", "cat", 1, 0.0),
    ],
)
def test_golden_vectors_of_the_papers_smoothing(prediction, gold, order, value):
    """PAPERS 6 and 3.6; plain words, so that all tokenizers agree."""
    assert bleu(prediction, gold, order=order, mode="paper") == pytest.approx(value, abs=5e-5)


@given(WORDS, WORDS)
def test_the_papers_bleu_1_by_its_formula(prediction, gold):
    """Brevity penalty x (2 p1 + 1 + p5) / 3 if a word is shared, else 0."""

    def precision(n):
        grams, wanted = ([tuple(text[i : i + n]) for i in range(len(text) - n + 1)] for text in (prediction, gold))
        return sum(min(grams.count(gram), wanted.count(gram)) for gram in set(grams)) / max(len(grams), 1)

    p1, brevity = precision(1), math.exp(min(0, 1 - len(gold) / max(len(prediction), 1)))
    expected = brevity * (2 * p1 + 1 + precision(5)) / 3 if p1 else 0.0
    assert bleu(" ".join(prediction), " ".join(gold), order=1, mode="paper") == pytest.approx(expected)


def test_sound_bleu_by_hand():
    assert bleu(OTHER, SEVEN, order=1) == pytest.approx(3 / 7)
    assert bleu(OTHER, SEVEN) == pytest.approx((3 / 7 * 0.1 / 6 * 0.1 / 5 * 0.1 / 4) ** (1 / 4))
    assert bleu("north gate", "the north gate open", order=2) == pytest.approx(math.exp(1 - 4 / 2))
    assert bleu("north gate is open", "north gate") == pytest.approx((2 / 4 * 1 / 3) ** (1 / 2))
    assert bleu("Yes.", "yes.", order=1) == pytest.approx(1 / 2)  # case counts, and the full stop is a word


@given(WORDS, WORDS.filter(lambda words: len(words) >= 4), st.sampled_from((1, 2, 4)))
def test_sound_bleu_is_sacrebleus_with_a_floor(prediction, gold, order):
    """The definitions meet where the reference has as many words as the order: sacrebleu leaves out orders that are
    longer than the prediction ("effective order") and knows method 1 as the floor 0.1."""
    from sacrebleu.metrics import BLEU

    peer = BLEU(tokenize="none", max_ngram_order=order, smooth_method="floor", smooth_value=0.1, effective_order=True)
    expected = peer.sentence_score(" ".join(prediction), [" ".join(gold)]).score / 100
    assert bleu(" ".join(prediction), " ".join(gold), order=order) == pytest.approx(expected)


@given(WORDS, WORDS)
def test_rouge_is_rouge_scores_on_latin_letters(prediction, gold):
    prediction, gold = " ".join(prediction), "It's " + ", ".join(gold) + "!"
    peer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True).score(gold, prediction)
    assert rouge_n(prediction, gold) == pytest.approx(tuple(peer["rouge1"]))
    assert rouge_n(prediction, gold, 2) == pytest.approx(tuple(peer["rouge2"]))
    assert rouge_l(prediction, gold) == pytest.approx(peer["rougeL"].fmeasure)


def test_rouge_by_hand():
    assert rouge_l("gates open north", "the north gate opens") == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert rouge_n("north gate", ["south", "the north gate"]) == pytest.approx((1.0, 2 / 3, 0.8))
    assert rouge_n("café", "cafe").f1 == 0.0  # rouge_score sees "caf" and "cafe"


@pytest.mark.parametrize("text", ["север ворота", "สวัสดี", "北門", "Straße 5²", "شمال", "+ -", "👍", "नमस्ते"])
def test_no_script_scores_0_with_itself(text):
    assert bleu(text, text) == rouge_l(text, text) == rouge_n(text, text).recall == 1.0
    assert meteor(text, text) >= 0.5


def test_marks_tell_words_apart():
    assert rouge_n("กัน", "กิน").f1 == 0.0


def test_meteor_by_hand():
    assert meteor("north gate open", "North gate open") == pytest.approx(1 - 0.5 / 3**3)
    assert meteor("open north gate", "north gate open", synonyms=False) == pytest.approx(1 - 0.5 * (2 / 3) ** 3)
    assert meteor("gates opened", "gate opens", synonyms=False) == pytest.approx(1 - 0.5 / 2**3)
    precision, recall = 2 / 2, 2 / 4
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    assert meteor("north gate", "the north gate open") == pytest.approx(mean * (1 - 0.5 / 2**3))


@pytest.fixture
def word_net(monkeypatch):
    """A stand-in that knows one pair of synonyms."""
    synset = SimpleNamespace(lemmas=lambda: [SimpleNamespace(name=lambda name=name: name) for name in ("car", "auto")])
    reader = SimpleNamespace(synsets=lambda word: [synset] if word in ("car", "auto") else [])
    monkeypatch.setattr(generation, "_wordnet", lambda: reader)


def test_meteor_with_synonyms(word_net):
    assert meteor_label() == "meteor"
    assert meteor("red car", "red auto") == meteor("red car", "red auto", synonyms=True) == 1 - 0.5 / 2**3
    assert meteor("red car", "red auto", synonyms=False) == pytest.approx(0.5 * (1 - 0.5))


def test_references_empty_texts_and_wrong_arguments():
    for score in SCORES:
        assert math.isnan(score("yes", []))
        assert score("", "yes") == score("yes", "") == score("", "") == 0.0
        assert score("north gate", ["south", "north gate"]) == score("north gate", "north gate")
        assert isinstance(score("north gate", ("south", "north")), float)
    assert all(math.isnan(value) for value in rouge_n("yes", []))
    assert bleu("", "yes", mode="paper") == bleu("yes", "", mode="paper") == 0.0
    with pytest.raises(ValueError, match="'method5'"):
        bleu("a", "a", mode="method5")
    with pytest.raises(ValueError, match="order = 0"):
        bleu("a", "a", order=0)


@settings(max_examples=60)
@given(st.text(max_size=40), st.text(max_size=40))
def test_shares_lie_between_0_and_1_for_any_text(first, second):
    for score in SCORES:
        assert 0.0 <= score(first, second) <= 1.0
    if first.strip():
        assert bleu(first, first) == pytest.approx(1.0) and rouge_l(first, first) == pytest.approx(1.0)


def test_an_answer_in_the_first_texts():
    texts = ["An Annual report.", "It was sold by Ann,\nof the Tin Bay."]
    assert answer_at_k(texts, "ann", 1) == 0.0
    assert answer_at_k(texts, "Ann", 2) == answer_at_k(texts, ["Bo", "Ann of Tin Bay"], 2) == 1.0
    assert answer_at_k([], "Ann", 2) == 0.0
    assert math.isnan(answer_at_k(texts, [], 2)) and math.isnan(answer_at_k(texts, " ", 2))
    with pytest.raises(TypeError, match="pass a list"):
        answer_at_k("Ann", "Ann", 1)
    with pytest.raises(ValueError, match="k is 0"):
        answer_at_k(texts, "Ann", 0)


def test_risk_and_coverage_by_hand():
    coverage, risk = risk_coverage([0.9, 0.2, 0.5, 0.5], [1, 1, 0, 1])
    assert coverage.tolist() == [0.25, 0.75, 1.0]  # the two of equal confidence enter together
    assert risk == pytest.approx([0, 1 / 3, 1 / 4])
    assert aurc(coverage, risk) == pytest.approx((0 + 2 * 1 / 3 + 1 / 4) / 4)
    assert risk_coverage([1, math.inf, -math.inf], [0.5, 1, 0])[1] == pytest.approx([0, 0.25, 0.5])


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=20))
def test_risk_at_any_threshold(answers):
    confidence, correct = zip(*answers, strict=True)
    coverage, risk = risk_coverage(confidence, correct)
    given_at = [[right for sure, right in answers if sure >= least] for least in sorted(set(confidence), reverse=True)]
    assert coverage == pytest.approx([len(given) / len(answers) for given in given_at])
    assert risk == pytest.approx([given.count(False) / len(given) for given in given_at])
    assert 0 <= aurc(coverage, risk) <= 1


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], "shape"),
        ([0.5], [1, 0], "shape"),
        ([[0.5]], [[1]], "shape"),
        ([math.nan], [1], "confidence is NaN"),
        ([0.5], [2], "outside 0 to 1"),
        ([0.5], [math.nan], "score is NaN"),
    ],
)
def test_risk_of_what_is_no_answer_is_refused(confidence, correct, message):
    with pytest.raises(ValueError, match=message):
        risk_coverage(confidence, correct)


CORPUS = Corpus(
    name="hand",
    documents=[Document(id="d", text="The north gate. It is open.")],
    queries=[Query(id=id_, text=id_) for id_ in ("gate", "state", "none")],
    answers={"gate": ("North Gate",), "state": ("open", "ajar")},
)


class Windows:
    """Texts without chunk ids to be judged on."""

    def retrieve(self, queries, k):
        texts = ("Fog came.", "It is the north gate.", "It is open.")
        chunks = [
            Chunk(id=str(i), document_id="d", start=0, end=1, fields={"text": text}) for i, text in enumerate(texts)
        ]
        return [[Hit(chunk, 0.0) for chunk in chunks][:k] for _ in queries]


class Says:
    def answer(self, queries):
        return [Answer(query_id=query.id, text="North Gate") for query in queries]


def test_answers_in_hits_are_compared_without_chunk_ids():
    table = compare({"windows": Windows()}, CORPUS, ["answer@1", "answer@2", "answer@3"]).set_index("metric")
    assert table["value"].tolist() == [0, 0.5, 1]
    assert (table["n"] == 2).all() and (table["dropped"] == 1).all()


def test_texts_are_compared_by_every_metric():
    metrics = "bleu_1 bleu_2 bleu_4 bleu_1_paper bleu_2_paper bleu_4_paper rouge_l meteor".split()
    table = compare({"says": Says()}, CORPUS, metrics).set_index("metric")
    two_words = bleu("x y", "x y", order=2, mode="paper")
    expected = [0.5] * 3 + [0.5, two_words / 2, bleu("x y", "x y", mode="paper") / 2] + [0.5, (1 - 0.5 / 2**3) / 2]
    assert table["value"].to_numpy() == pytest.approx(np.array(expected))
    assert table.index[-1] == meteor_label()


def test_meteor_is_named_by_what_it_could_match(monkeypatch, word_net):
    both = ["meteor", "meteor (no synonyms)"]
    assert compare({"says": Says()}, CORPUS, both)["metric"].tolist() == both
    monkeypatch.setattr(generation, "_wordnet", lambda: None)
    assert compare({"says": Says()}, CORPUS, ["meteor"])["metric"].tolist() == both[1:]
