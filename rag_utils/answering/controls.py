"""QA-RAG's response controls: replies held to their form (Type2a), responses judged and written again (Type2b)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rag_utils.answering.plugged import REFUSAL, RESPONSE_SCHEMA, Material, PluginAnswerer
from rag_utils.answering.plugins import fill, object_schema, read_reply
from rag_utils.schema import LLM, Answer, Prompt, Query, Reply

RESPONSE_FORM = '{"Response": "your response"}'
VALIDATOR_SCHEMA = object_schema(
    {
        "valid": {"type": "boolean"},
        "reason": {"type": "string", "maxLength": 120},
        "supported_by": {"type": "array", "items": {"type": "integer"}, "maxItems": 12},
    }
)
"""For `load_llm(name, schema=VALIDATOR_SCHEMA, max_tokens=100)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What the controls did to one answer; the tuples hold one item a verdict, of the first and the second response."""

    first: str = ""
    """The first response, after re-asks where its form was wrong; as it stands where no re-ask helped."""
    re_asks: int = 0
    verdicts: tuple[bool | None, ...] = ()
    """None = the validator's reply could not be read or had."""
    reasons: tuple[str, ...] = ()
    """The validator's, or why its reply could not be read."""
    supported_by: tuple[tuple[int, ...], ...] = ()
    """Numbers of pairs from 1, as the validator gave them: some may be of no pair."""
    final: str = "kept"
    """"kept" or "second" response, "refused", "unjudged" (the response stands), "no context", "failed"."""


@dataclass(slots=True, eq=False)
class _Case:
    """A question on its way through the controls."""

    material: Material
    answer: Answer
    prompt: Prompt
    """The last one that asked for a response."""
    control: Control

    def note(self, **values: Any) -> None:
        self.control = replace(self.control, **values)

    def fill(self, name: str, **others: str) -> Prompt:
        """A prompt about the response."""
        query, subqueries, pairs = self.material.query, self.material.subqueries, self.material.evidence
        shown = {"query": query.text, "subqueries": "\n".join(subqueries), "response": self.answer.text}
        return fill(name, pair=pairs, **shown, **others)

    def refiner(self) -> Prompt:
        """A prompt about the form of the reply."""
        asked = [text for role, text in self.prompt.messages if role == "user"]
        return fill("qa_rag_json_refiner", prompt=asked[-1], reply=self.reply.text, form=RESPONSE_FORM)

    @property
    def reply(self) -> Reply:
        assert self.answer.reply, "a model was asked"
        return self.answer.reply

    def read(self) -> bool:
        """Whether the reply has its form; if so, its response is the answer's text."""
        value = read_reply(self.reply, RESPONSE_SCHEMA)
        if value:
            self.answer = replace(self.answer, text=value["Response"].strip())
        return bool(value)

    def fail(self) -> None:
        """Refused by name; without text, where there is no reply to speak of."""
        reply = replace(self.reply, error=self.reply.error or "unparsable")
        self.answer = replace(self.answer, text="" if reply.missing else REFUSAL, reply=reply)
        self.note(final="failed")


def validated(
    answerer: PluginAnswerer, llm: LLM | None = None, *, control: str = "validator", attempts: int = 2
) -> "ValidatedAnswerer":
    """The answerer with response controls (section 3.3); its own first prompts stay as they are.

    Args:
        answerer: Its model writes the responses, the second ones and the replies that are asked for again too.
        llm: Validates; `load_llm(name, schema=VALIDATOR_SCHEMA, max_tokens=100)`. None = the answerer's model.
        control: "json" (Type2a): a reply that is not the JSON asked for is asked for again, and at last refused.
            "validator" (Type2b): also, an invalid response is written once again with the reason, and at last refused.
        attempts: Times that a reply of wrong form is asked for again.

    Raises:
        ValueError: Another control.
    """
    if control not in ("json", "validator"):
        raise ValueError(f'control = {control!r}: choose "json" or "validator"')
    validator = (llm or answerer.llm) if control == "validator" else None
    return ValidatedAnswerer(answerer, validator, attempts)


class ValidatedAnswerer:
    """What `validated` makes; every round asks about all its questions in one call.

    A response whose validation cannot be read stands, as "unjudged"; where the validator's reply is missing, so is the
    answer's reply, and the row is dropped and counted. A response that never had its form is refused with the reply's
    error "unparsable".

    Attributes:
        log: What was done to each answer, by query id.
    """

    def __init__(self, answerer: PluginAnswerer, validator: LLM | None, attempts: int):
        self.answerer, self.validator, self.attempts = answerer, validator, attempts
        self.log: dict[str, Control] = {}

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """One answer a query, in order."""
        materials = self.answerer.prepare(queries)
        answers = self.answerer.write(materials)
        cases = {
            place: _Case(material, answer, material.prompt, Control(first=answer.text))
            for place, (material, answer) in enumerate(zip(materials, answers, strict=True))
            if material.prompt
        }
        self._control(list(cases.values()))
        for place, answer in enumerate(answers):
            unasked = Control(first=answer.text, final="failed" if answer.reply else "no context")
            self.log[answer.query_id] = cases[place].control if place in cases else unasked
        return [cases[place].answer if place in cases else answer for place, answer in enumerate(answers)]

    def _control(self, cases: Sequence[_Case]) -> None:
        formed = self._formed(cases)
        for case in formed:
            case.note(first=case.answer.text)
        if self.validator:
            second = self._formed(self._written_again(self._invalid(formed, self.validator)))
            for case in self._invalid(second, self.validator):
                case.answer = replace(case.answer, text=REFUSAL)
                case.note(final="refused")

    def _formed(self, cases: Sequence[_Case]) -> list[_Case]:
        """Those whose reply has its form, if need be after re-asks; the others fail."""
        bad = [case for case in cases if not case.read()]
        for _ in range(self.attempts):
            asked = [case for case in bad if not case.reply.missing]
            self._ask(asked, [case.refiner() for case in asked])
            for case in asked:
                case.note(re_asks=case.control.re_asks + 1)
            bad = [case for case in bad if not case.read()]
        for case in bad:
            case.fail()
        return [case for case in cases if case not in bad]

    def _invalid(self, cases: Sequence[_Case], validator: LLM) -> list[_Case]:
        """Those whose response the validator calls invalid."""
        replies = validator([case.fill("qa_rag_validator") for case in cases]) if cases else []
        for case, reply in zip(cases, replies, strict=True):
            value, control = read_reply(reply, VALIDATOR_SCHEMA), case.control
            case.note(
                verdicts=(*control.verdicts, value["valid"] if value else None),
                reasons=(*control.reasons, value["reason"] if value else value.reason),
                supported_by=(*control.supported_by, tuple(value["supported_by"]) if value else ()),
                final=control.final if value else "unjudged",
            )
            if reply.missing:
                case.answer = replace(case.answer, reply=reply)
        return [case for case in cases if case.control.verdicts[-1] is False]

    def _written_again(self, cases: Sequence[_Case]) -> Sequence[_Case]:
        """With a second response; the model is shown the first, and the reason."""
        for case in cases:
            case.prompt = case.fill("qa_rag_answer_again", reason=case.control.reasons[-1])
            case.note(final="second")
        self._ask(cases, [case.prompt for case in cases])
        return cases

    def _ask(self, cases: Sequence[_Case], prompts: Sequence[Prompt]) -> None:
        """The answerer's model, for replies in place of those before."""
        replies = self.answerer.llm(prompts) if prompts else []
        for case, reply in zip(cases, replies, strict=True):
            case.answer = replace(case.answer, reply=reply)


def captured_json(text: str) -> str | None:
    """JSON as the authors' code captures it; shown beside `parse_json`, and used nowhere.

    The text between the first opening brace and the next brace of either kind, or the end, in braces of its own:
    `{"a": {"b": 1}}` gives `{"a": }`, and `{"a": 1` gives `{"a": 1}`. None without an opening brace.
    """
    _, brace, rest = text.partition("{")
    return "{" + re.split("[{}]", rest, maxsplit=1)[0] + "}" if brace else None


def false_reject_rate(log: Mapping[str, Control], right: Mapping[str, bool]) -> tuple[int, int]:
    """How many right first responses the validator called invalid, and of how many right ones that it judged.

    Args:
        log: Of a `ValidatedAnswerer`.
        right: By query id, whether `log[id].first` is right by the gold answers.
    """
    judged = [one.verdicts[0] for id_, one in log.items() if one.verdicts and right.get(id_) == 1]
    return judged.count(False), len(judged) - judged.count(None)
