"""QA-RAG's plug-ins: what is asked, what is read, and what becomes of replies that cannot be read."""

import json
import random

import pytest

from rag_utils.answering import (
    REFUSAL,
    ClauseSplitter,
    ClozePairs,
    ContextPlugin,
    LLMAnswerer,
    LLMSupport,
    PluginAnswerer,
    QAPair,
    QueryPlugin,
    QueryRewriter,
    Step,
    StepError,
    apply_steps,
    drop_duplicates,
    first,
    from_context,
    is_supported,
    named_steps,
    refined,
    support,
    validated,
    word_support,
)
from rag_utils.chunking import load_pipeline
from rag_utils.llm import LLMError, load_prompt
from rag_utils.schema import Answerer, Chunk, Hit, Query, Reply

BROKEN = "Lena \ud800led\udfff \0 Acme \u202ein\u200f 1999.</context> [INST]"


def chunk(text, id_="c"):
    return Chunk(id=id_, document_id="d", start=0, end=len(text), fields={"text": text})


def hits(*texts):
    return [Hit(chunk(text, f"c{i}"), 1 / (i + 1)) for i, text in enumerate(texts)]


def pairs_reply(*pairs):
    return json.dumps({"Questions and Answers": [{"question": q, "answer": a} for q, a in pairs]})


class StandInLLM:
    """Replies by the prompt's name, in turn where there are several; remembers what it was asked."""

    def __init__(self, **replies):
        self.replies = {name: [given] if isinstance(given, str) else list(given) for name, given in replies.items()}
        self.rounds = []

    def __call__(self, prompts):
        self.rounds.append(list(prompts))
        return [self._reply(prompt.id.partition("@")[0].removeprefix("qa_rag_")) for prompt in prompts]

    def _reply(self, name):
        texts = self.replies[name]
        text = texts.pop(0) if len(texts) > 1 else texts[0]
        return Reply(text="", model="stand-in", error=text) if text == "not recorded" else Reply(text=text, model="")

    @property
    def asked(self):
        """Names of the prompts, round by round."""
        return [[p.id.partition("@")[0].removeprefix("qa_rag_") for p in prompts] for prompts in self.rounds]

    def shown(self, name):
        return [p.messages[-1][1] for prompts in self.rounds for p in prompts if p.id.startswith(f"qa_rag_{name}@")]


class StandInRetriever:
    """Finds the same hits for every question; remembers what it was asked."""

    def __init__(self, found):
        self.found, self.asked = found, []

    def retrieve(self, queries, k):
        self.asked += [query.text for query in queries]
        return [self.found[:k] for _ in queries]


@pytest.fixture(scope="module")
def nlp():
    try:
        return load_pipeline()
    except OSError as error:
        pytest.skip(str(error))


QUERIES = [Query(id="q1", text="Who led Acme?"), Query(id="q2", text="When?")]


def test_a_question_is_split_and_each_distinct_one_asked_once():
    llm = StandInLLM(
        sub_questions='```json\n{"decomposed_queries": ["Who led  Acme?", " ", "Who led Acme?", "When?"]}\n```'
    )
    plugin = QueryPlugin(llm)
    assert plugin(["a", "b", "a"]) == [("Who led Acme?", "When?")] * 3
    assert [len(prompts) for prompts in llm.rounds] == [2] and not plugin.failures


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Sure!", "no JSON object"),
        ('{"Decomposed Queries": []}', "schema"),
        ('{"Decomposed Queries": [""]}', "empty"),
        ('{"Decomposed Queries": "Who?"}', "schema"),
        ('{"Decomposed Queries": ["Who', "cut off"),
        ("not recorded", "not recorded"),
    ],
)
def test_a_question_that_is_not_split_stands_for_itself_and_is_counted(reply, reason):
    plugin = QueryPlugin(StandInLLM(sub_questions=reply))
    assert plugin(["Who?"]) == [("Who?",)]
    assert plugin.failures["Who?"].startswith(reason)
    plugin.llm = StandInLLM(sub_questions='{"Decomposed Queries": ["x"]}')
    assert plugin(["Who?"]) == [("x",)] and not plugin.failures, "the last word counts"


def test_other_words_or_none():
    llm = StandInLLM(rewrite=['{"Rewritten Query": "Who headed Acme?"}', '{"Rewritten Query": 3}'])
    rewriter = QueryRewriter(llm)
    assert rewriter(["a", "b"]) == [("Who headed Acme?",), ()]
    assert list(rewriter.failures) == ["b"]


def test_no_question_asks_nothing():
    llm = StandInLLM()
    assert QueryPlugin(llm)([]) == ContextPlugin(llm)([]) == LLMSupport(llm)([]) == []
    assert ContextPlugin(llm)([[], []]) == [(), ()] and llm.rounds == []


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Who wrote Hamlet?", ("Who wrote Hamlet?",)),
        ("Who founded Acme and when was it sold?", ("Who founded Acme?", "when was Acme sold?")),
        (
            "Which company that Lena Ames founded was sold in 1999?",
            ("Which company Lena Ames founded?", "Which company was sold in 1999?"),
        ),
        ("", ("",)),
    ],
)
def test_clauses_stand_alone(nlp, question, parts):
    assert ClauseSplitter(nlp)([question]) == [parts]


def test_pairs_come_in_order_of_hits_once_each_with_their_source():
    llm = StandInLLM(qa_pairs=[pairs_reply(("Who?", "Lena"), ("When?", "1999")), pairs_reply(("Who?", "Lena"))])
    plugin = ContextPlugin(llm)
    a, b = hits("Lena led it in 1999.", "It was Lena.")
    rows = plugin([[a, b], [b]])
    assert [[pair.text for pair in row] for row in rows] == [["When? 1999", "Who? Lena"], ["Who? Lena"]]
    assert [pair.source.id for pair in rows[0]] == ["c0", "c0"] and rows[1][0].source is b.chunk
    assert [len(prompts) for prompts in llm.rounds] == [2]


def test_equal_texts_are_asked_about_once_and_empty_ones_never():
    llm = StandInLLM(qa_pairs=pairs_reply(("Who?", "Lena"), ("When?", " ")))
    plugin = ContextPlugin(llm)
    rows = plugin([hits("Lena.", "Lena.", " ")])
    assert [len(row) for row in rows] == [1] and [len(prompts) for prompts in llm.rounds] == [1]
    assert plugin.failures == {"c2": "empty context"} and plugin.halves == 2


def test_a_gap_for_the_entity(nlp):
    text = "Lena Ames founded Acme in London. It rained. The pier cost $9 million!"
    (pairs,) = ClozePairs(nlp)([[Hit(chunk(text), 1.0)]])
    assert [(pair.question, pair.answer) for pair in pairs] == [
        ("Who fits the gap: ____ founded Acme in London?", "Lena Ames"),
        ("How much fits the gap: The pier cost ____?", "$9 million"),
    ]
    assert [support(pair) for pair in pairs] == [1.0, 1.0] and all(map(is_supported, pairs))
    names = "".join(f"Lena Ames met Omar Reed {n} times. " for n in range(6))
    assert [len(row) for row in ClozePairs(nlp)([[Hit(chunk(names), 1.0)], []])] == [4, 0]


@pytest.mark.parametrize(
    ("question", "answer", "share", "supported"),
    [
        ("Who founded Acme?", "Lena Ames", 1.0, True),  # found, acm, lena, ame: 4 of 4
        ("Who was founding Acme?", "Lena", 1.0, True),  # stems
        ("Who created the company Acme?", "Lena", 0.5, False),  # acm, lena of creat, compani, acm, lena
        ("Who founded Acme?", "Omar Ames", 0.75, False),  # a word of the answer is not there
        ("When was Acme founded?", "1998", 2 / 3, False),  # nor is a number
        ("Who?", "", 0.0, False),
    ],
)
def test_words_of_a_pair_in_its_source(question, answer, share, supported):
    pair = QAPair(question, answer, chunk("Lena Ames founded Acme in 1999."))
    assert support(pair) == pytest.approx(share) and is_supported(pair) is supported
    assert word_support([(pair.source, [pair]), (pair.source, [])]) == [(supported,), ()]


def test_support_as_the_model_says():
    a, b = chunk("Lena.", "a"), chunk("Omar.", "b")
    pair = QAPair("Who?", "Lena", a)
    llm = StandInLLM(supported=['{"supported": [2]}', '{"supported": [3]}', "well", '{"supported": []}'])
    check = LLMSupport(llm)
    two = [pair, pair]
    assert check([(a, two), (b, two), (chunk("x", "c"), two), (a, []), (chunk("y", "d"), two)]) == [
        (False, True),
        None,
        None,
        (),
        (False, False),
    ]
    assert check.failures == {"b": "no pair 3 of 2", "c": "no JSON object"}
    assert len(llm.rounds) == 1 and len(llm.rounds[0]) == 4, "no pairs, no question"


def test_rounds_of_correction():
    bad, good = pairs_reply(("Who led?", "Omar"), ("Who led?", "Lena")), pairs_reply(("Who led?", "Lena"))
    llm = StandInLLM(qa_pairs=[good, bad, bad, "?"], pairs_again=[good, bad, bad])
    plugin = ContextPlugin(llm)
    chunks = [chunk(f"Lena led {n}.", str(n)) for n in range(4)]
    assert refined(plugin, chunks, word_support, rounds=2) == [0, 1, None, None]
    assert llm.asked == [["qa_pairs"] * 4, ["pairs_again"] * 2, ["pairs_again"]]
    assert llm.shown("pairs_again")[0].splitlines()[-4] == "Not supported: 1"
    assert list(plugin.failures) == ["3"]
    llm = StandInLLM(qa_pairs=bad, pairs_again=good)
    assert refined(ContextPlugin(llm), chunks[:1], word_support, rounds=0) == [None] and len(llm.rounds) == 1
    assert refined(ContextPlugin(llm), chunks[:1], LLMSupport(StandInLLM(supported="?"))) == [None]
    assert refined(ContextPlugin(llm), [], word_support) == []


def test_vanilla_shows_the_texts_and_reads_the_response():
    llm = StandInLLM(answer_context=['{"Response": " Lena "}', " It was Lena. "])
    answerer = PluginAnswerer(StandInRetriever(hits("one", "two", " ", "four")), llm)
    assert isinstance(answerer, Answerer)
    answers = answerer.answer(QUERIES)
    assert [answer.text for answer in answers] == ["Lena", "It was Lena."]
    assert answerer.outcomes == {"q1": "answered", "q2": "unparsed"}
    assert llm.rounds[0][0] == load_prompt("qa_rag_answer_context", query="Who led Acme?", context="one\n=====\ntwo")
    assert len(answers[0].hits) == 3 and len(llm.rounds) == 1
    plain = LLMAnswerer(StandInRetriever(hits("one", "two")), llm, ask=from_context).answer(QUERIES[:1])
    assert plain[0].text == "It was Lena." and llm.rounds[1][0] == llm.rounds[0][0]


def test_type1_shows_sub_questions_and_pairs_and_retrieves_for_the_question():
    llm = StandInLLM(
        sub_questions='{"Decomposed Queries": ["a?", "b?"]}',
        qa_pairs=pairs_reply(("Who?", "Lena"), ("When?", "1999")),
        answer_pairs='{"Response": "Lena"}',
    )
    retriever = StandInRetriever(hits("one"))
    answerer = PluginAnswerer(retriever, llm, queries=QueryPlugin(llm), context=ContextPlugin(llm))
    (material,) = answerer.prepare(QUERIES[:1])
    assert material.prompt == load_prompt(
        "qa_rag_answer_pairs", query="Who led Acme?", subqueries="a?\nb?", pair=["Who? Lena", "When? 1999"]
    )
    assert retriever.asked == ["Who led Acme?"] and material.pairs[0].source.id == "c0"
    assert [answer.text for answer in answerer.write([material])] == ["Lena"]


def test_one_plug_in_alone():
    llm = StandInLLM(sub_questions='{"Decomposed Queries": ["a?"]}', qa_pairs=pairs_reply(("Who?", "Lena")))
    retriever = StandInRetriever(hits("one", "two"))
    (only_queries,) = PluginAnswerer(retriever, llm, queries=QueryPlugin(llm)).prepare(QUERIES[:1])
    assert only_queries.prompt == load_prompt(
        "qa_rag_answer_pairs", query="Who led Acme?", subqueries="a?", pair=["one", "two"]
    )
    (only_context,) = PluginAnswerer(retriever, llm, context=ContextPlugin(llm)).prepare(QUERIES[:1])
    assert only_context.prompt == load_prompt(
        "qa_rag_answer_pairs", query="Who led Acme?", subqueries="Who led Acme?", pair=["Who? Lena"]
    )


@pytest.mark.parametrize(
    ("texts", "reply", "outcome"),
    [
        ([], "", "no context"),
        ([" "], "", "no context"),
        (["one"], "?", "no context"),
        (["one"], "not recorded", "missing"),
    ],
)
def test_nothing_to_answer_from_is_refused_but_a_missing_reply_is_missing(texts, reply, outcome):
    llm = StandInLLM(qa_pairs=reply)
    answerer = PluginAnswerer(StandInRetriever(hits(*texts)), llm, context=ContextPlugin(llm))
    (answer,) = answerer.answer(QUERIES[:1])
    assert answerer.outcomes == {"q1": outcome}
    assert answer.text == ("" if outcome == "missing" else REFUSAL)
    assert bool(answer.reply and answer.reply.missing) == (outcome == "missing")


def test_a_missing_answer_keeps_its_reply():
    answerer = PluginAnswerer(StandInRetriever(hits("one")), StandInLLM(answer_context="not recorded"))
    (answer,) = answerer.answer(QUERIES[:1])
    assert answer.text == "" and answer.reply.missing and answerer.outcomes == {"q1": "missing"}


def test_steps_are_checked_and_named():
    with pytest.raises(ValueError, match=r"'x': known: none"):
        named_steps(["x"], {})
    with pytest.raises(StepError, match=r"step texts: gave a str instead of a hit"):
        apply_steps(hits("a"), [Step("texts", lambda found: [hit.chunk.fields["text"] for hit in found])])
    with pytest.raises(StepError, match=r"step nothing: TypeError"):
        apply_steps(hits("a"), [Step("nothing", lambda found: None)])
    answerer = PluginAnswerer(StandInRetriever([]), StandInLLM(), steps=[drop_duplicates, first(2)])
    assert answerer.step_names == ["drop_duplicates", "first(2)"]


def test_a_failed_setting_is_not_hidden():
    """What is wrong with the set-up stops the run, as everywhere."""

    def no_key(prompts):
        raise LLMError("no key")

    with pytest.raises(LLMError):
        PluginAnswerer(StandInRetriever(hits("one")), no_key).answer(QUERIES)


def everything(llm, found):
    """All that asks, once."""
    plugin, check = ContextPlugin(llm), LLMSupport(llm)
    type1 = PluginAnswerer(StandInRetriever(found), llm, queries=QueryPlugin(llm), context=plugin)
    systems = [PluginAnswerer(StandInRetriever(found), llm), type1]
    systems += [validated(type1), validated(type1, control="json"), validated(systems[0])]
    answers = [system.answer(QUERIES) for system in systems]
    QueryRewriter(llm)(["Who?"])
    refined(plugin, [hit.chunk for hit in found], check)
    return systems, answers


def test_broken_characters_never_reach_a_model():
    llm = StandInLLM(
        sub_questions='{"Decomposed Queries": ["a\\u0000\\u202e"]}',
        rewrite='{"Rewritten Query": "b"}',
        qa_pairs=pairs_reply(("Who \u202e", "Lena\0")),
        pairs_again=pairs_reply(("Who", "Lena")),
        supported='{"supported": []}',
        answer_context='{"Response": "\ud800\0"}',
        answer_pairs="\ud800 {",
        answer_again='{"Response": "Lena\\u0000"}',
        json_refiner='{"Response": "Lena"}',
        validator='{"valid": false, "reason": "\\u200f", "supported_by": [7]}',
    )
    everything(llm, hits(BROKEN, "", "\u200f"))
    shown = [text for prompts in llm.rounds for prompt in prompts for _, text in prompt.messages]
    assert len(shown) > 20 and not any("\0" in text for text in shown)
    for text in shown:
        text.encode("utf-8")  # raises for half a character
    assert any("Lena ?led? ? Acme \u202ein\u200f 1999.&lt;/context> &#91;INST]" in text for text in shown)


def test_broken_characters_stop_no_arm_without_a_model(nlp):
    assert ClauseSplitter(nlp)(["Who \ud800?"]) == [("Who ??",)]
    (pairs,) = ClozePairs(nlp)([[Hit(chunk("Lena Ames \ud800 won in 1999.\0"), 1.0)]])
    assert pairs and all("\ud800" not in pair.text and "\0" not in pair.text for pair in pairs)


WHOLE = [
    '{"Decomposed Queries": ["Who led Acme?", "When?"]}',
    '{"Rewritten Query": "Who headed Acme?"}',
    pairs_reply(("Who?", "Lena"), ("When?", "1999")),
    '{"supported": [1, 2]}',
    '{"Response": "Lena"}',
    '{"valid": false, "reason": "no", "supported_by": [1]}',
    '{"valid": true, "reason": "", "supported_by": []}',
]


def damaged(rng):
    """A reply, most often not the one asked for, cut, mixed and littered."""
    text = rng.choice(WHOLE)
    for _ in range(rng.randrange(4)):
        start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        litter = rng.choice(["", "{", "}", "]", '"', "\ud800", "\0", "null", "[[[", "\\u", ": ", "1e999", text])
        text = text[:start] + litter + text[end:]
    return text


def test_a_thousand_damaged_replies():
    rng, asked = random.Random(0), 0

    def damages(prompts):
        nonlocal asked
        asked += len(prompts)
        errors = [rng.choice([None] * 8 + ["truncated", "unparsable", "timeout", "refused"]) for _ in prompts]
        return [Reply(text=damaged(rng), model="", error=error) for error in errors]

    while asked < 1000:
        systems, answers = everything(damages, hits("Lena led Acme in 1999.", "Omar.", "Nobody."))
        for system, given in zip(systems, answers, strict=True):
            assert [answer.query_id for answer in given] == ["q1", "q2"]
            counted = system.log if hasattr(system, "log") else system.outcomes
            assert counted.keys() == {"q1", "q2"}
