"""The verb, prompts in and replies out, and what it costs: measured after asking, estimated before."""

import csv
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rag_utils.provenance import note, recorded
from rag_utils.schema import Prompt, Reply

Answers = Callable[[Sequence[Prompt]], Iterator[tuple[int, Reply]]]
"""Replies with the positions of their prompts, in the order in which they come."""


class LLMError(RuntimeError):
    """A model, a reply or a sum of money that is not to be had; the message names it and what to do."""


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A model with its settings.

    A reply's error is None or "not recorded", "timeout", "rate limit", "refused" (by server or model), "server",
    "truncated" (at `max_tokens`) or "unparsable" (not what the schema asks for).
    """

    name: str
    revision: str
    settings: Mapping[str, Any]
    answers: Answers
    known: Callable[[Sequence[Prompt]], dict[int, Reply]] = lambda prompts: {}
    """Replies that cost nothing, by the position of their prompts."""

    def __call__(self, prompts: Sequence[str | Prompt]) -> list[Reply]:
        """One reply a prompt, in order; a text is one user message. Calls, tokens and failures are noted for the run.

        Raises:
            TypeError: A prompt instead of a list of them.
        """
        found = dict(self.answers(as_prompts(prompts)))
        replies = [found[i] for i in range(len(prompts))]
        usage, errors = asdict(Usage.of(replies)), Counter(reply.error for reply in replies if reply.error)
        # with a number, since equal notes are kept once
        note("llm", model=self.name, **usage, errors=dict(sorted(errors.items())), batch=len(recorded()))
        return replies


def as_prompts(prompts: Sequence[str | Prompt]) -> list[Prompt]:
    """Texts as prompts of one user message, named by their hash."""
    if isinstance(prompts, str | Prompt):
        raise TypeError("a language model takes a list of prompts: write [prompt] for a single one")
    return [one if isinstance(one, Prompt) else Prompt(_text_id(one), (("user", one),)) for one in prompts]


def _text_id(text: str) -> str:
    return f"text@{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What the replies of a stage cost when they were made; a list of these makes a table. NaN = not known."""

    stage: str
    calls: int
    """Replies asked for in this run; cache hits and recorded ones were not."""
    cache_hits: int
    invalid_replies: int = 0
    tokens_in: int
    tokens_out: int
    seconds: float
    """Sum over the replies; `p50` and `p95` are of one reply."""
    p50: float = math.nan
    p95: float = math.nan
    dollars: float

    @classmethod
    def of(cls, replies: Sequence[Reply], stage: str = "") -> "Usage":
        """Counts of the replies, those with an error included, and their cost by the dated prices of `rates.csv`."""
        made = [reply for reply in replies if reply.error != "not recorded"]
        p50, p95 = np.percentile([reply.seconds for reply in made] or [math.nan], [50, 95]).tolist()
        return cls(
            stage=stage,
            calls=sum(not reply.cached for reply in made),
            cache_hits=sum(reply.cached for reply in made),
            invalid_replies=sum(reply.error is not None for reply in replies),
            **{part: sum(getattr(reply, part) for reply in made) for part in ("tokens_in", "tokens_out", "seconds")},
            p50=p50,
            p95=p95,
            dollars=sum(_cost(reply.model, reply.tokens_in, reply.tokens_out)[0] for reply in made),
        )


def estimate(
    prompts: Sequence[str | Prompt],
    llm: LanguageModel,
    *,
    tokens_out: int | None = None,
    count_tokens: Callable[[str], int] = lambda text: len(text) // 4 + 1,
    budget: float = math.inf,
) -> Usage:
    """What asking would cost; prompts whose replies are known cost nothing.

    Args:
        prompts: What would be asked.
        llm: Whom.
        tokens_out: Of one reply; None = as many as it may have.
        count_tokens: Tokens of a text; by default one for four characters, as in English.
        budget: Dollars.

    Raises:
        LLMError: It would cost more than the budget, or nobody knows how much.
    """
    asked = as_prompts(prompts)
    known = llm.known(asked)
    new = [prompt for i, prompt in enumerate(asked) if i not in known]
    read = sum(count_tokens(text) for prompt in new for _, text in prompt.messages)
    written = len(new) * (tokens_out or llm.settings["max_tokens"])
    dollars, seconds = _cost(llm.name, read, written)
    if budget < math.inf and not dollars <= budget:
        raise LLMError(f"{llm.name}: {len(new)} calls would cost {dollars:.2f} dollars, the budget is {budget:.2f}")
    counts = {"calls": len(new), "cache_hits": len(known), "tokens_in": read, "tokens_out": written}
    return Usage(stage="estimate", **counts, seconds=seconds, dollars=dollars)


def _cost(model: str, tokens_in: int, tokens_out: int) -> tuple[float, float]:
    """Dollars and seconds, NaN where not known."""
    rates = _rates(model)
    dollars = (tokens_in * rates["dollars_in"] + tokens_out * rates["dollars_out"]) / 1e6
    return dollars, tokens_in / rates["tokens_read"] + tokens_out / rates["tokens_written"]


@cache
def _rates(model: str) -> dict[str, float]:
    with Path(__file__).with_name("rates.csv").open(encoding="utf-8", newline="") as file:
        row = next((row for row in csv.DictReader(file) if row["model"] == model), {})
    price = 0.0 if model.startswith(("gguf:", "hf:", "replay")) else math.nan  # of what runs in this process
    unknown = {"dollars_in": price, "dollars_out": price, "tokens_read": math.nan, "tokens_written": math.nan}
    return {name: float(row.get(name) or default) for name, default in unknown.items()}
