"""Metrics against hand-computed values, pytrec_eval, scikit-learn and independent re-implementations."""

import math
import random
import subprocess
import sys
from itertools import pairwise

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from rag_utils import metrics
from rag_utils.metrics import (
    average_precision_at_k,
    exact_match,
    fact_scores,
    hits_at_k,
    is_abstention,
    macro_f1,
    mean_defined,
    multihop_rag_scores,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank_at_k,
    substring_accuracy,
    token_f1,
    token_precision,
    token_recall,
    trec_qrels,
    trec_run,
    word_overlap_accuracy,
)

ON_IDS = (hits_at_k, recall_at_k, reciprocal_rank_at_k, average_precision_at_k, ndcg_at_k)
IDS = st.lists(st.sampled_from("abcdefghij"), max_size=12)


# Ranked ids


def test_hand_computed_scores_of_one_query():
    ranked, relevant = ["n", "x", "m", "y"], ["x", "y", "z"]
    assert hits_at_k(ranked, relevant, 1) == 0.0
    assert hits_at_k(ranked, relevant, 2) == 1.0
    assert recall_at_k(ranked, relevant, 4) == 2 / 3
    assert reciprocal_rank_at_k(ranked, relevant, 4) == 1 / 2
    assert reciprocal_rank_at_k(ranked, relevant, 1) == 0.0
    assert average_precision_at_k(ranked, relevant, 4) == pytest.approx((1 / 2 + 2 / 4) / 3)
    assert average_precision_at_k(ranked, relevant, 2) == pytest.approx((1 / 2) / 2)
    best = 1 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg_at_k(ranked, relevant, 4) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)


def test_grades_are_gains_and_a_grade_of_zero_is_not_relevant():
    grades = {"a": 0, "b": 2, "c": 1}
    assert hits_at_k(["a"], grades, 1) == 0.0
    assert recall_at_k(["a", "b"], grades, 2) == 1 / 2
    assert ndcg_at_k(["c", "b"], grades, 2) == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)))


@pytest.mark.parametrize("metric", ON_IDS)
def test_nothing_relevant_is_undefined_and_nothing_retrieved_is_zero(metric):
    assert math.isnan(metric(["a"], [], 3))
    assert math.isnan(metric(["a"], {"a": 0}, 3))
    assert metric([], ["a"], 3) == 0.0


@pytest.mark.parametrize("metric", ON_IDS)
def test_inputs_that_would_score_silently_wrong_are_refused(metric):
    with pytest.raises(TypeError, match=r"'1'.*3.*str\(\)"):
        metric(["7", "1"], [3], 2)
    with pytest.raises(TypeError, match="pass a list"):
        metric(["d", "o", "c"], "doc", 2)
    with pytest.raises(ValueError, match="k is 0"):
        metric(["a"], ["a"], 0)


@pytest.mark.parametrize("metric", ON_IDS)
@given(ranked=IDS, relevant=st.sets(st.sampled_from("abcdefghij"), min_size=1), k=st.integers(1, 12))
def test_scores_lie_between_0_and_1_and_repeats_never_help(metric, ranked, relevant, k):
    score = metric(ranked, relevant, k)
    assert 0.0 <= score <= 1.0 + 1e-12
    assert metric(list(dict.fromkeys(ranked)), relevant, k) >= score - 1e-12
    assert metric(sorted(relevant), relevant, k) == pytest.approx(
        min(1.0, k / len(relevant)) if metric is recall_at_k else 1
    )


@given(ranked=IDS, relevant=st.sets(st.sampled_from("abcdefghij"), min_size=1))
def test_hits_recall_and_reciprocal_rank_only_grow_with_k(ranked, relevant):
    for metric in (hits_at_k, recall_at_k, reciprocal_rank_at_k):
        scores = [metric(ranked, relevant, k) for k in range(1, 13)]
        assert all(lower <= higher for lower, higher in pairwise(scores))


def random_run(rng):
    documents = [f"d{i}" for i in range(30)]
    run, qrels = {}, {}
    for query in (f"q{i}" for i in range(200)):
        retrieved = rng.sample(documents, rng.randint(1, 20))
        run[query] = dict(zip(retrieved, rng.sample(range(1000), len(retrieved)), strict=True))  # no ties
        qrels[query] = {document: rng.randint(0, 3) for document in rng.sample(documents, 10)}
        qrels[query][rng.choice(documents)] = 1
    return {query: {item: float(score) for item, score in hits.items()} for query, hits in run.items()}, qrels


def test_standard_metrics_agree_with_pytrec_eval():
    run, qrels = random_run(random.Random(5))
    peer = pytrec_eval.RelevanceEvaluator(
        qrels, {"success_5", "recall_5", "recall_10", "recip_rank", "map_cut_10", "ndcg_cut_5", "ndcg_cut_10"}
    ).evaluate(run)
    for query, expected in peer.items():
        ranked = sorted(run[query], key=run[query].get, reverse=True)
        relevant = qrels[query]
        assert hits_at_k(ranked, relevant, 5) == expected["success_5"]
        assert recall_at_k(ranked, relevant, 5) == pytest.approx(expected["recall_5"], abs=1e-9)
        assert recall_at_k(ranked, relevant, 10) == pytest.approx(expected["recall_10"], abs=1e-9)
        assert reciprocal_rank_at_k(ranked, relevant, 20) == pytest.approx(expected["recip_rank"], abs=1e-9)
        assert ndcg_at_k(ranked, relevant, 5) == pytest.approx(expected["ndcg_cut_5"], abs=1e-9)
        assert ndcg_at_k(ranked, relevant, 10) == pytest.approx(expected["ndcg_cut_10"], abs=1e-9)
        if sum(grade > 0 for grade in relevant.values()) <= 10:
            assert average_precision_at_k(ranked, relevant, 10) == pytest.approx(expected["map_cut_10"], abs=1e-9)


def test_average_precision_with_more_relevant_than_k_can_still_be_1():
    assert average_precision_at_k(["a", "b"], ["a", "b", "c", "d"], 2) == 1.0


# Means


def test_mean_defined_says_over_how_many():
    mean = mean_defined([1.0, math.nan, 0.5])
    assert mean == (0.75, 2, 1)
    assert str(mean) == "0.7500 over 2 of 3 queries"
    nothing = mean_defined([math.nan, math.nan])
    assert math.isnan(nothing.value)
    assert nothing[1:] == (0, 2)
    assert str(nothing) == "- over 0 of 2 queries"


# Facts in texts

FACTS = ["Fact one.", "Fact two.", "Fact three."]
PAD = ["nothing here"] * 11


def ranked_texts(**at):
    """Eleven texts, with the given ones at their ranks: `r2="..."`."""
    texts = list(PAD)
    for rank, text in at.items():
        texts[int(rank[1:]) - 1] = f"before {text} after"
    return texts


GOLDEN = {
    "A": (ranked_texts(r1=FACTS[0], r2=FACTS[1]), FACTS[:2], (1, 1, 0.75, 1)),
    "B": (ranked_texts(r1=FACTS[0] + " " + FACTS[1]), FACTS[:2], (1, 1, 1.0, 1)),
    "C": (ranked_texts(r5=FACTS[0]), FACTS[:2], (1, 0, 0.1, 0.2)),
    "D": (ranked_texts(r11=FACTS[0]), FACTS[:1], (0, 0, 0, 0)),
    "E": (ranked_texts(r1=FACTS[0], r2=FACTS[0]), FACTS[:2], (1, 1, 0.5, 1)),
    "F": (ranked_texts(r1=FACTS[0]), [FACTS[0], FACTS[0]], (1, 1, 0.5, 1)),
    "G": (["alpha\n  one"], ["alpha one"], (1, 1, 1.0, 1)),
    "H": (["alpha\tone"], ["alpha one"], (0, 0, 0, 0)),
    "I": ([], ["alpha one"], (0, 0, 0, 0)),
    "J": (ranked_texts(r2=FACTS[0], r4=FACTS[1], r9=FACTS[2]), FACTS, (1, 1, (1 / 2 + 1 / 4 + 1 / 9) / 3, 0.5)),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_vectors_of_the_public_script(case):
    retrieved, gold, (hits10, hits4, average_precision, reciprocal_rank) = GOLDEN[case]
    scores = multihop_rag_scores(retrieved, gold)
    assert scores == {"hits@10": hits10, "hits@4": hits4, "map@10": average_precision, "mrr@10": reciprocal_rank}
    assert all(type(value) is float for value in scores.values())


def script_walk(retrieved, gold):
    """The rules of the public script, walked rank by rank."""

    def squeeze(text):
        return "".join(letter for letter in text if letter not in " \n")

    wanted, seen = [squeeze(fact) for fact in gold], []
    first, total = 0, 0.0
    for rank in range(1, 11):
        if rank > len(retrieved):
            break
        chunk, new = squeeze(retrieved[rank - 1]), 0
        for fact in wanted:
            if fact in chunk:
                first = first or rank
                if fact not in seen:
                    seen.append(fact)
                    new += 1
        total += new / rank
    return {
        "hits@10": float(first > 0),
        "hits@4": float(0 < first <= 4),
        "map@10": total / min(len(gold), 10),
        "mrr@10": 1 / first if first else 0.0,
    }


def random_texts(rng):
    sentences = [" ".join(rng.choices(["ab", "a b", "b\n", "c", "\tc", "B"], k=rng.randint(1, 3))) for _ in range(8)]
    retrieved = [" ".join(rng.choices(sentences, k=rng.randint(0, 3))) for _ in range(rng.randint(0, 14))]
    return retrieved, rng.choices(sentences, k=rng.choice([1, 2, 3, 4, 12]))


def test_500_random_cases_against_an_independent_walk():
    rng = random.Random(11)
    for _ in range(500):
        retrieved, gold = random_texts(rng)
        assert multihop_rag_scores(retrieved, gold) == script_walk(retrieved, gold), (retrieved, gold)


def test_perfect_retrieval_with_one_fact_a_rank_scores_less_and_less_by_the_script():
    facts = ["one.", "two.", "three.", "four."]
    by_script = [multihop_rag_scores(facts[:n], facts[:n])["map@10"] for n in range(1, 5)]
    assert by_script == pytest.approx([1.0, 0.75, 11 / 18, 25 / 48])
    assert [fact_scores(facts[:n], facts[:n])["map@10_standard"] for n in range(1, 5)] == [1.0] * 4


def test_standard_fact_scores_by_hand():
    texts = ranked_texts(r2=FACTS[0], r4=FACTS[1])
    assert fact_scores(texts, FACTS) == {
        "map@10_standard": pytest.approx((1 / 2 + 2 / 4) / 3),
        "facts@10": 2 / 3,
        "all_facts@10": 0.0,
    }
    both_at_2 = ranked_texts(r2=FACTS[0] + FACTS[1])
    assert fact_scores(both_at_2, FACTS[:2])["map@10_standard"] == (2 / 2) / 2
    assert fact_scores(both_at_2, FACTS[:2])["all_facts@10"] == 1.0


def test_standard_fact_scores_count_a_repeated_fact_once():
    assert fact_scores([FACTS[0]], [FACTS[0], "Fact\none."]) == dict.fromkeys(
        ("map@10_standard", "facts@10", "all_facts@10"), 1.0
    )


def test_standard_fact_scores_equal_the_id_metrics_when_each_text_holds_one_fact():
    rng = random.Random(2)
    for _ in range(100):
        facts = [f"<{i}>" for i in range(rng.randint(1, 6))]
        texts = [f"text {rng.choice([*facts, 'none'])}" for _ in range(rng.randint(0, 14))]
        scores = fact_scores(texts, facts)
        ids = [text.removeprefix("text ") for text in texts]
        assert scores["map@10_standard"] == pytest.approx(average_precision_at_k(ids, facts, 10), abs=1e-12)
        assert scores["facts@10"] == pytest.approx(recall_at_k(ids, facts, 10), abs=1e-12)


def test_many_facts_in_one_text_never_push_the_standard_score_above_1():
    assert fact_scores(["one. two.", "three."], ["one.", "two.", "three."])["map@10_standard"] == 1.0


def test_a_question_without_facts_has_no_scores():
    for scores in (multihop_rag_scores(["text"], []), fact_scores(["text"], [])):
        assert all(math.isnan(value) for value in scores.values())
    with pytest.raises(TypeError, match="gold_facts is the single text"):
        multihop_rag_scores(["text"], "a fact")


# Answers


@pytest.mark.parametrize(
    ("prediction", "gold", "right"),
    [
        ("Yes", "Yes", 1),
        ("Yes.", "Yes", 0),
        ("The answer is no", "No", 1),
        ("Insufficient information", "Insufficient information.", 1),
        ("SBF", "Sam Bankman-Fried", 0),
        ("the Verge", "The Guardian", 1),
        ("Sam Altman", "Sam Bankman-Fried", 1),
        ("", "Yes", 0),
        ("no\n", ["maybe", "No"], 1),
    ],
)
def test_word_overlap_rule(prediction, gold, right):
    assert word_overlap_accuracy(prediction, gold) == right


@pytest.mark.parametrize(
    ("prediction", "gold", "right"),
    [
        ("Yes.", "yes", 1),
        ("It is no, I think", "No", 1),
        ("", "Yes", 1),
        ("SBF", "Sam Bankman-Fried", 0),
        ("Sam", "Sam A", 1),
    ],
)
def test_older_substring_rule(prediction, gold, right):
    assert substring_accuracy(prediction, gold) == right


def test_rules_are_undefined_without_a_gold_answer():
    for rule in (word_overlap_accuracy, substring_accuracy):
        assert math.isnan(rule("Yes", ""))
    for rule in (word_overlap_accuracy, substring_accuracy, exact_match, token_f1):
        assert math.isnan(rule("Yes", []))


def test_exact_match_takes_the_best_reference():
    assert exact_match("The  U.S. Senate!", ["Congress", "us senate"]) == 1.0
    assert exact_match("senate", ["Congress", "US senate"]) == 0.0


def test_no_step_of_the_normalisation_empties_an_answer():
    assert exact_match("the", "a") == 0.0
    assert exact_match("+", "-") == 0.0
    assert exact_match("+.", "+.") == 1.0


def test_token_precision_and_recall_by_hand():
    # "the", "a" are no words here: cat sat on | cat sat down here; the best reference may differ
    assert token_precision("the cat sat on", "a cat sat down here") == pytest.approx(2 / 3)
    assert token_recall("the cat sat on", "a cat sat down here") == pytest.approx(2 / 4)
    assert token_precision("blue", ["red", "blue sky"]) == 1.0 and token_recall("blue sky", ["blue", "red sea"]) == 1.0
    for rule in (token_precision, token_recall):
        assert (rule("", ""), rule("", "blue"), rule("blue", "")) == (1.0, 0.0, 0.0)
        assert math.isnan(rule("blue", []))


def test_token_f1_by_hand():
    assert token_f1("the cat sat on", "a cat sat down here") == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert token_f1("red red", "red red blue") == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))
    assert token_f1("blue", ["red", "blue sky"]) == pytest.approx(2 / 3)


@given(st.text(alphabet="aAbt .,'\n the", max_size=30), st.text(alphabet="aAbt .,'\n the", max_size=30))
def test_token_f1_is_symmetric_and_1_for_exact_matches(first, second):
    assert token_f1(first, second) == token_f1(second, first)
    assert 0.0 <= token_f1(first, second) <= 1.0
    assert exact_match(first, first) == token_f1(first, first) == 1.0
    assert exact_match(first, second) <= token_f1(first, second)


@pytest.mark.parametrize("wording", metrics.ABSTENTIONS)
def test_each_listed_wording_is_an_abstention(wording):
    assert is_abstention(f"Sorry:\n {wording.upper().replace(' ', '  ')}.")


def test_other_answers_are_no_abstention():
    assert is_abstention("I couldn’t find an answer.") and is_abstention("Sorry, I don't know")
    assert not is_abstention("")
    assert not is_abstention("No")
    assert not is_abstention("The information was sufficient.")


def test_macro_f1_agrees_with_scikit_learn():
    rng = random.Random(3)
    for labels in (["yes", "no"], ["yes", "no", "maybe"]):
        gold, predicted = (rng.choices(labels, k=60) for _ in range(2))
        assert macro_f1(gold, predicted) == pytest.approx(f1_score(gold, predicted, average="macro"))
        assert macro_f1(gold, predicted, labels[:1]) == pytest.approx(
            f1_score(gold, predicted, average="macro", labels=labels[:1])
        )


def test_macro_f1_counts_unreadable_predictions_as_wrong():
    assert macro_f1(["yes", "no"], [None, "no"]) == (0 + 1) / 2
    assert macro_f1(["yes"], ["yes"], ["yes", "maybe"]) == 1.0
    assert math.isnan(macro_f1([], []))
    with pytest.raises(ValueError, match="2 gold labels against 1"):
        macro_f1(["yes", "no"], ["yes"])


# Files of the field


def test_trec_texts_give_the_same_scores_through_pytrec_eval():
    run, qrels = random_run(random.Random(8))
    read_run = pytrec_eval.parse_run(trec_run(run, "bm25").splitlines())
    read_qrels = pytrec_eval.parse_qrel(trec_qrels(qrels).splitlines())
    assert read_run == run
    assert read_qrels == qrels


def test_trec_lines_are_ordered_by_score_then_id():
    assert trec_run({"q": {"b": 0.5, "c": 2, "a": 0.5}}, "x") == "q Q0 c 1 2.0 x\nq Q0 a 2 0.5 x\nq Q0 b 3 0.5 x\n"
    assert trec_qrels({"q": {"a": 1, "b": 0}}) == "q 0 a 1\nq 0 b 0\n"


def test_trec_texts_refuse_what_would_not_be_read_back():
    for run, tag in (
        ({"q 1": {"a": 1.0}}, "x"),
        ({"q": {"a\tb": 1.0}}, "x"),
        ({"q": {"": 1.0}}, "x"),
        ({"q": {"a": 1.0}}, "my run"),
    ):
        with pytest.raises(ValueError, match="white space"):
            trec_run(run, tag)
    with pytest.raises(ValueError, match="white space"):
        trec_qrels({"q": {" a": 1}})
    with pytest.raises(ValueError, match="'q' is NaN"):
        trec_run({"q": {"a": math.nan}}, "x")


def test_import_loads_no_array_or_model_library():
    heavy = "{'numpy', 'scipy', 'pandas', 'nltk', 'sklearn', 'torch'}"
    code = f"import sys, rag_utils.metrics; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
