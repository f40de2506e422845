"""The vocabulary: frozen values that every stage takes and returns, and the protocols that stages obey.

Fields are searched, metadata is filtered on. Each paper is a function from these values to these values, so the four
compose without glue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

Run = dict[str, dict[str, float]]
"""Query id -> chunk id -> score, higher is better."""
Qrels = dict[str, dict[str, int]]
"""Query id -> chunk id -> grade, 0 = not relevant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text as the data set gives it; `metadata` holds strings, numbers and ISO dates (`YYYY-MM-DD`)."""

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A passage. `fields` are searched, `metadata` is filtered on."""

    id: str
    document_id: str
    start: int
    """First character of the passage in the document's text."""
    end: int
    """One past the last character: `document.text[start:end]` is the passage."""
    fields: Mapping[str, str]
    """Searched text by field: "text" always, then "title", "keybert", "entities", ..."""
    metadata: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question, with the filter that was read out of it."""

    id: str
    text: str
    where: Mapping[str, Any] | None = None
    """A validated filter; None = no filter."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk with its score, higher is better; the scale is the retriever's."""

    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is asked: `messages` are pairs of role ("system", "user", "assistant") and text."""

    id: str
    messages: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a language model said. `error` is None or a named failure; a failed reply has the text it got, or ""."""

    text: str
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cached: bool = False
    error: str | None = None

    @property
    def missing(self) -> bool:
        """Whether nothing was had from the model: a row to drop and count, while a bad reply is the model's own."""
        return self.error in MISSING


MAY_PASS = ("timeout", "rate limit", "server", "refused")
"""Errors that may pass when the server is asked again."""
MISSING = ("not recorded", *MAY_PASS)
"""Errors of replies that are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer with the hits it was made from and, where a language model wrote it, the reply."""

    query_id: str
    text: str
    hits: tuple[Hit, ...] = ()
    reply: Reply | None = None


class Verdict(Enum):
    """How the first answer fared against the second; INVALID is a judgement that could not be read."""

    WIN = "win"
    TIE = "tie"
    LOSS = "loss"
    INVALID = "invalid"


@runtime_checkable
class Embedder(Protocol):
    """Texts to an array (n, d) of float32, each row of unit length (a blank text may give a zero row)."""

    def __call__(self, texts: Sequence[str]) -> "np.ndarray": ...


@runtime_checkable
class Reranker(Protocol):
    """One query and n texts to n scores, higher is better; raw logits, not comparable across models."""

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]: ...


@runtime_checkable
class LLM(Protocol):
    """Prompts to replies, one each, in order; a plain string is one user message."""

    def __call__(self, prompts: Sequence[str | Prompt]) -> list[Reply]: ...


@runtime_checkable
class Enricher(Protocol):
    """Texts to phrases, one tuple each; they become the searched field named `field`."""

    field: str

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...]]: ...


@runtime_checkable
class Retriever(Protocol):
    """Queries to hits: at most k each, best first, no chunk twice, none that violates the query's `where`."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]: ...


@runtime_checkable
class Answerer(Protocol):
    """Queries to answers, one each, in order."""

    def answer(self, queries: Sequence[Query]) -> list[Answer]: ...


@runtime_checkable
class Judge(Protocol):
    """Triples (question, first answer, second answer) to verdicts on the first answer, one each, in order."""

    def __call__(self, pairs: Sequence[tuple[str, str, str]]) -> list[Verdict]: ...
