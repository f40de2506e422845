"""QA-RAG's response controls: form, validation, second response, refusal, and the log of it all."""

import json

import pytest

from rag_utils.answering import (
    REFUSAL,
    ContextPlugin,
    Control,
    PluginAnswerer,
    QueryPlugin,
    captured_json,
    false_reject_rate,
    first,
    validated,
)
from rag_utils.llm import load_prompt
from rag_utils.schema import Answerer, Query
from tests.test_plugins import QUERIES, StandInLLM, StandInRetriever, hits, pairs_reply

LENA, OMAR = '{"Response": "Lena"}', '{"Response": "Omar"}'


def verdict(valid, reason="because", numbers=(1,)):
    return json.dumps({"valid": valid, "reason": reason, "supported_by": list(numbers)})


def controlled(queries=QUERIES[:1], found=("one",), control="validator", **replies):
    """Texts, logs and the stand-in, for an answerer without plug-ins."""
    llm = StandInLLM(**replies)
    system = validated(PluginAnswerer(StandInRetriever(hits(*found)), llm), control=control)
    return system.answer(queries), system.log, llm


def test_a_valid_response_is_kept():
    (answer,), log, llm = controlled(answer_context=LENA, validator=verdict(True, "fits", [1, 2]))
    assert answer.text == "Lena" and answer.reply.error is None
    assert log == {
        "q1": Control(first="Lena", verdicts=(True,), reasons=("fits",), supported_by=((1, 2),), final="kept")
    }
    assert llm.shown("validator") == [
        load_prompt(
            "qa_rag_validator", query="Who led Acme?", subqueries="Who led Acme?", pair=["one"], response="Lena"
        ).messages[0][1]
    ], "the hits' texts stand in for the pairs"


def test_an_invalid_response_is_written_again_with_the_reason():
    replies = {"answer_context": OMAR, "validator": [verdict(False, "Omar is not named"), verdict(True)]}
    (answer,), log, llm = controlled(**replies, answer_again=LENA)
    assert answer.text == "Lena" and log["q1"].final == "second" and log["q1"].first == "Omar"
    assert log["q1"].verdicts == (False, True) and log["q1"].reasons == ("Omar is not named", "because")
    assert llm.asked == [["answer_context"], ["validator"], ["answer_again"], ["validator"]]
    assert "<response>\nOmar\n</response>" in llm.shown("answer_again")[0]
    assert "Omar is not named" in llm.shown("answer_again")[0]


def test_a_second_invalid_response_is_refused():
    (answer,), log, _ = controlled(answer_context=OMAR, validator=verdict(False), answer_again=OMAR)
    assert answer.text == REFUSAL and log["q1"].final == "refused" and log["q1"].verdicts == (False, False)


@pytest.mark.parametrize("reply", ["sounds right", '{"valid": "yes", "reason": "", "supported_by": []}'])
def test_a_response_stands_where_the_verdict_cannot_be_read(reply):
    (answer,), log, llm = controlled(answer_context=LENA, validator=reply)
    assert answer.text == "Lena" and not answer.reply.missing
    assert (log["q1"].final, log["q1"].verdicts) == ("unjudged", (None,)) and log["q1"].reasons[0]
    assert len(llm.rounds) == 2


def test_a_missing_verdict_makes_a_row_to_drop():
    (answer,), log, _ = controlled(answer_context=LENA, validator="not recorded")
    assert answer.reply.missing and log["q1"].reasons == ("not recorded",) and log["q1"].final == "unjudged"


@pytest.mark.parametrize(
    ("refined", "asks", "text", "error"),
    [([LENA], 1, "Lena", None), (["Well", LENA], 2, "Lena", None), (["Well", "Oh"], 2, REFUSAL, "unparsable")],
)
def test_json_control_asks_at_most_twice_more(refined, asks, text, error):
    (answer,), log, llm = controlled(answer_context="It was Lena", json_refiner=refined, control="json")
    assert (answer.text, answer.reply.error) == (text, error)
    assert log["q1"].re_asks == asks and llm.asked == [["answer_context"], *[["json_refiner"]] * asks]
    assert log["q1"].final == ("failed" if error else "kept")
    assert log["q1"].first == ("It was Lena" if error else "Lena")
    prompt = load_prompt("qa_rag_answer_context", query="Who led Acme?", context="one").messages[0][1]
    form = '{"Response": "your response"}'
    assert llm.rounds[1][0] == load_prompt("qa_rag_json_refiner", prompt=prompt, reply="It was Lena", form=form)


def test_what_has_no_form_is_not_validated():
    (answer,), log, llm = controlled(answer_context="?", json_refiner="?")
    assert answer.text == REFUSAL and log["q1"].final == "failed" and log["q1"].verdicts == ()
    assert "validator" not in [name for names in llm.asked for name in names]


def test_the_second_response_is_held_to_its_form_too():
    replies = {"answer_context": OMAR, "validator": verdict(False), "answer_again": "Lena!"}
    (answer,), log, llm = controlled(**replies, json_refiner="?")
    assert answer.text == REFUSAL and log["q1"].final == "failed" and log["q1"].re_asks == 2
    assert "Omar is not" not in llm.shown("json_refiner")[0] and "found_wrong_because" in llm.shown("json_refiner")[0]


def test_a_missing_reply_is_neither_asked_again_nor_refused():
    (answer,), log, llm = controlled(answer_context="not recorded")
    assert answer.text == "" and answer.reply.missing and log["q1"].final == "failed" and len(llm.rounds) == 1


def test_without_context_nothing_is_asked():
    (answer,), log, llm = controlled(found=())
    assert answer.text == REFUSAL and log["q1"] == Control(first=REFUSAL, final="no context") and llm.rounds == []


def test_a_failed_step_stays_failed():
    system = validated(PluginAnswerer(StandInRetriever(hits("one")), StandInLLM(), steps=[first("two")]))
    (answer,) = system.answer(QUERIES[:1])
    assert answer.text == "" and answer.reply.error.startswith("step first(two): TypeError")
    assert system.log["q1"].final == "failed"


def test_each_round_is_one_call_and_answers_keep_their_order():
    queries = [Query(id=f"q{n}", text=f"Who is {n}?") for n in range(4)]
    answers, log, llm = controlled(
        queries,
        answer_context=[LENA, "bad", OMAR, LENA],
        json_refiner='{"Response": "Ida"}',
        validator=[verdict(True), verdict(True), verdict(False), verdict(True), verdict(True)],
        answer_again='{"Response": "Ada"}',
    )
    assert [answer.text for answer in answers] == ["Lena", "Ida", "Ada", "Lena"]
    assert [answer.query_id for answer in answers] == list(log) == ["q0", "q1", "q2", "q3"]
    assert [len(prompts) for prompts in llm.rounds] == [4, 1, 4, 1, 1]


def test_type2_asks_type1s_prompts_first_and_a_validator_of_its_own():
    llm = StandInLLM(
        sub_questions='{"Decomposed Queries": ["a?", "b?"]}',
        qa_pairs=pairs_reply(("Who?", "Lena")),
        answer_pairs=LENA,
    )
    judge = StandInLLM(validator=verdict(True))
    type1 = PluginAnswerer(StandInRetriever(hits("one")), llm, queries=QueryPlugin(llm), context=ContextPlugin(llm))
    type2 = validated(type1, judge)
    assert isinstance(type2, Answerer)
    type1.answer(QUERIES)
    asked = llm.rounds.copy()
    type2.answer(QUERIES)
    assert llm.rounds == asked * 2 and judge.asked == [["validator"] * 2]
    assert "a?\nb?" in judge.shown("validator")[0] and "<pair1>\nWho? Lena\n</pair>" in judge.shown("validator")[0]


def test_an_unknown_control_is_named():
    with pytest.raises(ValueError, match="'both'"):
        validated(PluginAnswerer(StandInRetriever([]), StandInLLM()), control="both")


@pytest.mark.parametrize(
    ("text", "captured"),
    [
        ('{"a": {"b": 1}}', '{"a": }'),
        ('{"a": 1', '{"a": 1}'),
        ('Sure: {"a": 1} and {"b": 2}', '{"a": 1}'),
        ("none", None),
        ("", None),
        ("{", "{}"),
    ],
)
def test_json_as_the_authors_capture_it(text, captured):
    assert captured_json(text) == captured


def test_right_responses_that_were_rejected():
    log = {
        "a": Control(verdicts=(False, True)),  # right and rejected
        "b": Control(verdicts=(True,)),  # right and kept
        "c": Control(verdicts=(False,)),  # wrong
        "d": Control(verdicts=(None,)),  # right, verdict unread
        "e": Control(final="no context"),
    }
    assert false_reject_rate(log, {"a": True, "b": True, "c": False, "d": True, "e": True}) == (1, 2)
    assert false_reject_rate({}, {}) == (0, 0)
