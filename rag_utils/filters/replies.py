"""From a language model's reply to a filter (Multi-Meta-RAG, arXiv 2406.13213, section 3.1 and its public script).

A reply is read (`parse_filter`), cleaned (`validate_filter`) and, where it finds nothing, relaxed (`relax`). What the
model did not write is never guessed, and what is dropped is reported.
"""

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

from rag_utils.filters.conditions import MEMBERSHIP, RANGES, as_text
from rag_utils.filters.validation import Dropped, Mode, Sources, allowed_fields, validate_filter
from rag_utils.llm import load_prompt, parse_json
from rag_utils.provenance import note
from rag_utils.schema import LLM, Prompt, Reply

Read = tuple[dict[str, Any], str | None]
"""A filter and why it is not what the model was asked for; None = it is."""

_PROMPTS = {"sound": "multi_meta_rag_filter", "paper": "multi_meta_rag_filter_malformed"}
_ASK_AGAIN = "That cannot be read as a filter. Write the filter alone: one JSON object, or {} without a condition."
_NOTHING = re.compile(r"\W*(?:Answer\W+)?(?:None|null)\W*")
_REPAIRS = (
    (re.compile(r"\n\s*Question:.*", re.DOTALL), ""),  # the prompt asks for the first of several
    (re.compile(r"(?<=\w)'(?=\w)"), r"\\'"),  # 'Sailor's Weekly'
    (re.compile(r"([{,]\s*)(\$[a-z]+)(?=\s*:)"), r'\1"\2"'),
    (re.compile(r"""^\s*(?=(["'])\w+\1\s*:)"""), "{"),
    (re.compile(r"\{\s*(\[[^][]*\])\s*\}"), r"\1"),  # {["March 4, 2024"]}, as in the paper's example, and beside it:
    (re.compile(r"""(["'])(\w+)\1\s*:\s*(["'])(\$\w+)\3\s*:\s*(\[[^][]*\])"""), r'"\2": {"\4": \5}'),
)


def parse_filter(reply: str | None) -> Read:
    """The filter in a reply, not yet validated: JSON or a Python literal, with or without words around.

    Repaired are the paper's own malformed example (its brace in the wrong place), an apostrophe in single quotes,
    operators without quotes, outer braces that are missing, and a model that goes on with questions of its own.

    Returns:
        The filter and a reason: None = read as it stood, "repaired", "empty" = `{}` or `None` was written,
        "unparsable" = nothing, prose, or several different filters; the filter is {} for the last two.
    """
    text = (reply or "").strip()
    if _NOTHING.fullmatch(text):
        return {}, "empty"
    where = _read(text)
    if where is not None:
        return where, None if where else "empty"
    for pattern, replacement in _REPAIRS:
        text = pattern.sub(replacement, text)
    if text.endswith(("]", "}")):
        text += "}" * (text.count("{") - text.count("}"))
    return (where, "repaired") if (where := _read(text)) else ({}, "unparsable")


def _read(text: str) -> dict[str, Any] | None:
    """One object whose keys are fields; None if there is none, or several."""
    found = parse_json(text)
    if not isinstance(found, dict) and not found.reason.startswith("ambiguous"):
        try:  # by way of JSON, which has neither tuples nor sets
            found = json.loads(json.dumps(ast.literal_eval(text), default=sorted))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
    return found if isinstance(found, dict) and not found.keys() & (MEMBERSHIP.keys() | RANGES.keys()) else None


class LLMFilterExtractor:
    """Filters from questions, by a language model with three worked examples.

    Args:
        llm: Asked without a schema, once, and once more where its reply cannot be read.
        sources: As `allowed_fields`.
        mode: "sound", or "paper" = the prompt's date example as printed (its brace in the wrong place) and the authors'
            cleaner; see `validate_filter`.

    Raises:
        ValueError: No field has allowed values to make the worked examples of, or an unknown mode.
    """

    def __init__(self, llm: LLM, sources: Sources, mode: Mode = "sound"):
        self.llm, self.sources, self.mode = llm, allowed_fields(sources), mode
        fields = self.sources
        validate_filter({}, fields, mode)  # refuses a wrong mode before anything is paid for
        named = sorted((field for field, values in fields.items() if values), key="source".__ne__)
        if not named:
            raise ValueError(f"no field of {sorted(fields)} has allowed values: the prompt's examples need some")
        self._values = {
            "fields": "\n".join(_described(field, values) for field, values in fields.items()),
            "field": named[0],
            **dict(zip(("first", "second", "third"), cycle(map(as_text, fields[named[0]] or ())), strict=False)),
        }

    def prompt(self, question: str) -> Prompt:
        """What the model is asked."""
        return load_prompt(_PROMPTS[self.mode], question=question, **self._values)

    def __call__(self, questions: Sequence[str]) -> list[Read]:
        """A validated filter and a reason for each question, in order.

        The reasons are those of `parse_filter` ("repaired" also for a second reply), the model's own error ("not
        recorded", "timeout", ...) with the filter {}, and in paper mode "cleaner stopped", where the authors' script
        ends with an error. How many values were dropped is noted for the run.
        """
        prompts = [self.prompt(question) for question in questions]
        replies = self.llm(prompts)
        found = [_read_reply(reply) for reply in replies]
        unread = [i for i, (_, reason) in enumerate(found) if reason == "unparsable"]
        second = self.llm([_again(prompts[i], replies[i]) for i in unread]) if unread else []
        for i, reply in zip(unread, second, strict=True):
            where, reason = _read_reply(reply)
            if where or reason == "empty":
                found[i] = where, reason or "repaired"
        validated = [self._validated(*one) for one in found]
        n_dropped = sum(len(values) for _, dropped in validated for values in dropped.values())
        if n_dropped:
            note("dropped", what=f"parts of extracted filters, {self.mode} mode", n=n_dropped)
        return [one for one, _ in validated]

    def _validated(self, where: dict[str, Any], reason: str | None) -> tuple[Read, Dropped]:
        try:
            kept, dropped = validate_filter(where, self.sources, self.mode)
        except KeyError:
            return ({}, "cleaner stopped"), {}
        return (kept, reason), dropped


def _read_reply(reply: Reply) -> Read:
    return ({}, reply.error) if reply.error else parse_filter(reply.text)


def _again(prompt: Prompt, reply: Reply) -> Prompt:
    return replace(prompt, messages=(*prompt.messages, ("assistant", reply.text), ("user", _ASK_AGAIN)))


def _described(field: str, values: Sequence[Any] | None) -> str:
    free = "any date" if field == "published_at" else "any number, or any date"
    if values is None:
        return f'{field}: {free}, written like "March 4, 2024"'
    return f"{field}: {json.dumps([*map(as_text, values)], ensure_ascii=False)}"
