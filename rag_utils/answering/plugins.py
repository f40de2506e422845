"""QA-RAG's query plug-in: a question becomes simpler questions, or other words for the same (section 3.2)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rag_utils.llm import ParseFailure, load_prompt, parse_json, readable
from rag_utils.schema import LLM, Prompt, Reply

Key = TypeVar("Key", bound=Hashable)


def object_schema(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON Schema of an object with these members, all of them and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


QUERY_SCHEMA = object_schema(
    {
        "Decomposed Queries": {
            "type": "array",
            "items": {"type": "string", "maxLength": 160},
            "minItems": 1,
            "maxItems": 4,
        }
    }
)
"""For `load_llm(name, schema=QUERY_SCHEMA, max_tokens=120)`."""
REWRITE_SCHEMA = object_schema({"Rewritten Query": {"type": "string", "maxLength": 200}})
"""For `load_llm(name, schema=REWRITE_SCHEMA, max_tokens=80)`."""


def fill(name: str, **values: str | Sequence[str]) -> Prompt:
    """`load_prompt` for texts of any origin: halves of characters and NUL, which no model takes, become "?"."""
    prompt = load_prompt(name, **values)
    return replace(prompt, messages=tuple((role, readable(text)) for role, text in prompt.messages))


def read_reply(reply: Reply, schema: Mapping[str, Any]) -> Any:
    """The JSON object in a reply, or a `ParseFailure` with the reply's error or what is wrong with its form."""
    value = ParseFailure(reply.error or "") if reply.missing else parse_json(reply.text, schema)
    return value if value or not reply.error else ParseFailure(reply.error)


def ask_each(llm: LLM, prompts: Mapping[Key, Prompt], schema: Mapping[str, Any]) -> dict[Key, Any]:
    """What `read_reply` gives for each prompt, by the prompt's key; asked in one call, if there is any."""
    replies = llm(list(prompts.values())) if prompts else []
    return {key: read_reply(reply, schema) for key, reply in zip(prompts, replies, strict=True)}


class Asking:
    """What the plug-ins that ask a model share: the model, and why something got nothing from it."""

    def __init__(self, llm: LLM):
        self.llm = llm
        self.failures: dict[str, str] = {}

    def note(self, key: str, reason: str | None) -> None:
        """The last reason for this key; None = it succeeded."""
        self.failures.pop(key, None)
        if reason is not None:
            self.failures[key] = reason


class QueryPlugin(Asking):
    """Questions to the simpler questions that a language model splits each into; distinct ones are asked once a call.

    Where the reply fails, the question stands for itself.

    Args:
        llm: `load_llm(name, schema=QUERY_SCHEMA, max_tokens=120)`.

    Attributes:
        failures: Why a question was not split, by question.
    """

    _prompt, _schema, _keeps_question = "qa_rag_sub_questions", QUERY_SCHEMA, True

    def __call__(self, questions: Sequence[str]) -> list[tuple[str, ...]]:
        """One to four questions for each, without repetitions."""
        prompts = {question: fill(self._prompt, query=question) for question in questions}
        found = {}
        for question, value in ask_each(self.llm, prompts, self._schema).items():
            texts = _lines(*value.values()) if value else ()
            self.note(question, None if texts else "empty" if value else value.reason)
            found[question] = texts or ((question,) if self._keeps_question else ())
        return [found[question] for question in questions]


class QueryRewriter(QueryPlugin):
    """Questions to one other wording each, for `QueryFusionRetriever`; none where the reply fails.

    Args:
        llm: `load_llm(name, schema=REWRITE_SCHEMA, max_tokens=80)`.

    Attributes:
        failures: Why a question got no other wording, by question.
    """

    _prompt, _schema, _keeps_question = "qa_rag_rewrite", REWRITE_SCHEMA, False


def _lines(given: str | list[str]) -> tuple[str, ...]:
    lines = (" ".join(text.split()) for text in ([given] if isinstance(given, str) else given))
    return tuple(dict.fromkeys(filter(None, lines)))


class ClauseSplitter:
    """The query plug-in without a language model: a part for each coordinated or relative clause of a question.

    A clause without a subject gets that of the main clause, a relative one the noun that it describes; a pronoun as
    subject becomes the question's first name. Words keep their order, so that a part need not read like a question.

    Args:
        nlp: A spaCy pipeline with parser and entities, as `chunking.load_pipeline()`.
    """

    def __init__(self, nlp: Any):
        self.nlp = nlp

    def __call__(self, questions: Sequence[str]) -> list[tuple[str, ...]]:
        """At least one part for each; a question of one clause is returned as it is."""
        return [_clauses(parsed) for parsed in self.nlp.pipe(map(readable, questions))]


def _clauses(question: Any) -> tuple[str, ...]:
    heads = [token for token in question if token.dep_ in ("ROOT", "relcl") or _is_second_verb(token)]
    if len(heads) < 2:
        return (question.text,)
    clause_of = {token: next(head for head in (token, *token.ancestors) if head in heads) for token in question}

    def words(of: Any) -> list[str]:
        return [token.text for token in of.subtree if clause_of[token] == clause_of[of]]

    root = next(head for head in heads if head.dep_ == "ROOT")
    main = [word for child in root.children if child.dep_ in _SUBJECTS for word in words(child)]
    names = [entity.text for entity in question.ents if any(token.pos_ == "PROPN" for token in entity)]
    parts = []
    for head in heads:
        needs_subject = head.dep_ == "conj" and not any(child.dep_ in _SUBJECTS for child in head.children)
        part = main.copy() if needs_subject else []
        for token in question:
            if clause_of[token] != head or token.dep_ == "cc" or token.is_punct:
                continue
            if head.dep_ == "relcl" and token.tag_ in ("WDT", "WP"):
                part += words(head.head)
            else:
                part.append(names[0] if names and token.tag_ == "PRP" and token.dep_ in _SUBJECTS else token.text)
        parts.append(f"{' '.join(part)}?")
    return tuple(dict.fromkeys(parts))


_SUBJECTS = ("nsubj", "nsubjpass")


def _is_second_verb(token: Any) -> bool:
    verbs = ("VERB", "AUX")
    return token.dep_ == "conj" and token.pos_ in verbs and token.head.pos_ in verbs
