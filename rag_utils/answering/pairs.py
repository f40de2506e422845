"""QA-RAG's context plug-in: passages become questions with their answers, each with the passage it came from.

Section 3.2; whether the passage supports a pair is checked by its words or asked of a language model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rag_utils.answering.plugins import Asking, ask_each, fill, object_schema
from rag_utils.chunking import sentences
from rag_utils.indexing import stems, words
from rag_utils.llm import ParseFailure, readable
from rag_utils.schema import Chunk, Hit

_SHORT = {"type": "string", "maxLength": 120}
MOST_PAIRS = 4
"""Of one chunk."""
PAIRS_SCHEMA = object_schema(
    {
        "Questions and Answers": {
            "type": "array",
            "items": object_schema({"question": _SHORT, "answer": _SHORT}),
            "minItems": 1,
            "maxItems": MOST_PAIRS,
        }
    }
)
"""For `load_llm(name, schema=PAIRS_SCHEMA, max_tokens=220)`."""
SUPPORT_SCHEMA = object_schema({"supported": {"type": "array", "items": {"type": "integer"}, "maxItems": MOST_PAIRS}})
"""For `load_llm(name, schema=SUPPORT_SCHEMA, max_tokens=40)`."""


@dataclass(frozen=True, slots=True)
class QAPair:
    """A question, its answer and the chunk that both were made from."""

    question: str
    answer: str
    source: Chunk

    @property
    def text(self) -> str:
        """Question and answer in one line, as a model gets to read them."""
        return f"{self.question} {self.answer}"


Check = Callable[[Sequence[tuple[Chunk, Sequence[QAPair]]]], list[tuple[bool, ...] | None]]
"""Chunks with their pairs to whether each pair is supported; None = could not be told."""


class ContextPlugin(Asking):
    """Passages to the questions and answers that a language model makes of them; each text is asked about once a call.

    A chunk whose reply fails, or that has no text, gives no pairs.

    Args:
        llm: `load_llm(name, schema=PAIRS_SCHEMA, max_tokens=220)`.

    Attributes:
        failures: Why a chunk gave no pairs, by chunk id.
        halves: Pairs left out since they had no question or no answer.
    """

    halves = 0

    def __call__(self, hits: Sequence[Sequence[Hit]]) -> list[tuple[QAPair, ...]]:
        """The pairs of each question's hits, in their order; of equal texts the first, in the place of the last."""
        return _of_each(hits, self.convert)

    def convert(self, chunks: Sequence[Chunk]) -> list[tuple[QAPair, ...]]:
        """One to four pairs a chunk."""
        texts = [chunk.fields["text"] for chunk in chunks]
        values = ask_each(
            self.llm, {text: fill("qa_rag_qa_pairs", context=text) for text in texts if text.strip()}, PAIRS_SCHEMA
        )
        empty = ParseFailure("empty context")
        return [self._pairs(chunk, values.get(text, empty)) for chunk, text in zip(chunks, texts, strict=True)]

    def again(self, checked: Sequence[tuple[Chunk, Sequence[QAPair], Sequence[bool]]]) -> list[tuple[QAPair, ...]]:
        """The pairs of each chunk written anew, after those were named to the model that the chunk does not support."""
        prompts = {
            place: fill(
                "qa_rag_pairs_again",
                context=chunk.fields["text"],
                pair=[pair.text for pair in pairs],
                unsupported=", ".join(str(n) for n, supported in enumerate(verdicts, 1) if not supported),
            )
            for place, (chunk, pairs, verdicts) in enumerate(checked)
        }
        values = ask_each(self.llm, prompts, PAIRS_SCHEMA)
        return [self._pairs(chunk, values[place]) for place, (chunk, _, _) in enumerate(checked)]

    def _pairs(self, chunk: Chunk, value: Any) -> tuple[QAPair, ...]:
        rows = value["Questions and Answers"] if value else []
        pairs = [QAPair(row["question"].strip(), row["answer"].strip(), chunk) for row in rows]
        whole = tuple(pair for pair in pairs if pair.question and pair.answer)
        self.halves += len(pairs) - len(whole)
        self.note(chunk.id, None if whole else "empty" if value else value.reason)
        return whole


class ClozePairs:
    """The context plug-in without a language model: a name, date or number of a sentence is the gap in a question.

    Args:
        nlp: A spaCy pipeline with entities, as `chunking.load_pipeline()`.
    """

    def __init__(self, nlp: Any):
        self.nlp = nlp

    def __call__(self, hits: Sequence[Sequence[Hit]]) -> list[tuple[QAPair, ...]]:
        """The pairs of each question's hits, in their order; of equal texts the first, in the place of the last."""
        return _of_each(hits, self.convert)

    def convert(self, chunks: Sequence[Chunk]) -> list[tuple[QAPair, ...]]:
        """At most four pairs a chunk: one a sentence, with its first entity as the answer; none without entities."""
        parsed = self.nlp.pipe([readable(chunk.fields["text"]) for chunk in chunks])
        return [tuple(_cloze(chunk, text)[:MOST_PAIRS]) for chunk, text in zip(chunks, parsed, strict=True)]


class LLMSupport(Asking):
    """Whether chunks support their pairs, as a language model says.

    Args:
        llm: `load_llm(name, schema=SUPPORT_SCHEMA, max_tokens=40)`.

    Attributes:
        failures: Why nothing is known of a chunk's pairs, by chunk id.
    """

    def __call__(self, items: Sequence[tuple[Chunk, Sequence[QAPair]]]) -> list[tuple[bool, ...] | None]:
        """A verdict for each pair of each chunk; None for a chunk whose reply failed or names a pair that is not."""
        prompts = {
            place: fill("qa_rag_supported", context=chunk.fields["text"], pair=[pair.text for pair in pairs])
            for place, (chunk, pairs) in enumerate(items)
            if pairs
        }
        values = ask_each(self.llm, prompts, SUPPORT_SCHEMA)
        nothing: dict[str, Any] = {"supported": []}
        return [self._verdicts(*items[place], values.get(place, nothing)) for place in range(len(items))]

    def _verdicts(self, chunk: Chunk, pairs: Sequence[QAPair], value: Any) -> tuple[bool, ...] | None:
        numbers = range(1, len(pairs) + 1)
        strange = set(value["supported"]).difference(numbers) if value else set()
        reason = f"no pair {', '.join(map(str, sorted(strange)))} of {len(pairs)}" if strange else None
        self.note(chunk.id, reason if value else value.reason)
        return tuple(n in value["supported"] for n in numbers) if value and not strange else None


def support(pair: QAPair) -> float:
    """Share (0 to 1) of the stems of question and answer that stand in the source.

    Words of asking ("who", "did") and stop words are left out; without any other word the share is 0.
    """
    asked = {stem for word in words(pair.text) if word not in _ASKING for stem in stems(word)}
    return len(asked & set(stems(pair.source.fields["text"]))) / max(len(asked), 1)


def is_supported(pair: QAPair, threshold: float = 0.6) -> bool:
    """Whether all words and numbers of the answer stand in the source, and `support` is at least `threshold`.

    Words in common are necessary, not sufficient: who did what to whom is not looked at. 0.6 lets a question of five
    content words have two of its own, since a question is seldom put in the words of the passage alone.
    """
    passage = pair.source.fields["text"]
    answer = stems(pair.answer) or words(pair.answer)
    return bool(answer) and {*stems(passage), *words(passage)}.issuperset(answer) and support(pair) >= threshold


def word_support(items: Sequence[tuple[Chunk, Sequence[QAPair]]]) -> list[tuple[bool, ...] | None]:
    """`is_supported` for each pair of each chunk: the check without a language model."""
    return [tuple(is_supported(pair) for pair in pairs) for _, pairs in items]


def refined(plugin: ContextPlugin, chunks: Sequence[Chunk], check: Check, rounds: int = 2) -> list[int | None]:
    """After how many rounds of correction all pairs of each chunk were supported; 0 = at once, None = never.

    A proxy of table 1's "hits@<n" (section 4), where people judged and corrected: here `check` names the pairs that are
    not supported, and the model writes them again. A chunk whose conversion, check or correction fails stays None; why
    is told in the `failures` of plug-in and check.
    """
    needed: list[int | None] = [None] * len(chunks)
    pairs = {place: own for place, own in enumerate(plugin.convert(chunks)) if own}
    for round_ in range(rounds + 1):
        verdicts = dict(zip(pairs, check([(chunks[place], own) for place, own in pairs.items()]), strict=True))
        for place, verdict in verdicts.items():
            if verdict and all(verdict):
                needed[place] = round_
        open_ = [(place, verdict) for place, verdict in verdicts.items() if verdict and not all(verdict)]
        if round_ == rounds or not open_:
            break
        again = plugin.again([(chunks[place], pairs[place], verdict) for place, verdict in open_])
        pairs = {place: own for (place, _), own in zip(open_, again, strict=True) if own}
    return needed


_ASKING = frozenset(
    "who whom whose what which when where why how do does did has have had were many much fits gap ____".split()
)
_WORD_OF = {
    "Who": "PERSON",
    "When": "DATE TIME",
    "Where": "GPE LOC FAC",
    "How many": "CARDINAL",
    "How much": "MONEY PERCENT QUANTITY",
}
_ASKS = {label: word for word, labels in _WORD_OF.items() for label in labels.split()}


def _of_each(
    hits: Sequence[Sequence[Hit]], convert: Callable[[Sequence[Chunk]], list[tuple[QAPair, ...]]]
) -> list[tuple[QAPair, ...]]:
    """What both context plug-ins do with hits; each chunk is converted once."""
    chunks = {(hit.chunk.id, hit.chunk.fields["text"]): hit.chunk for found in hits for hit in found}
    pairs = dict(zip(chunks, convert(list(chunks.values())), strict=True))
    rows = [[pair for hit in found for pair in pairs[hit.chunk.id, hit.chunk.fields["text"]]] for found in hits]
    return [tuple({pair.text: pair for pair in reversed(row)}.values())[::-1] for row in rows]


def _cloze(chunk: Chunk, parsed: Any) -> list[QAPair]:
    text, pairs = parsed.text, []
    for start, end in sentences(text):
        entity = next((e for e in parsed.ents if start <= e.start_char and e.end_char <= end), None)
        if entity:
            gap = f"{text[start : entity.start_char]}____{text[entity.end_char : end]}".rstrip(".?!")
            pairs.append(QAPair(f"{_ASKS.get(entity.label_, 'What')} fits the gap: {gap}?", entity.text, chunk))
    return pairs
