"""From a set of streams to the ranks of the gold chunks, with what does not depend on the set computed once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from rag_utils.indexing import TIE_BREAKER, DenseIndex, LexicalIndex, stems
from rag_utils.retrieval.matrices import gold_columns, gold_ranks, spread
from rag_utils.schema import Chunk

Block = Callable[[slice], np.ndarray]
"""Some of the questions to their scores (questions, chunks)."""

_BLOCK = 2**20
"""Scores at a time: few enough for the processor's cache, enough to use BM25's compiled engine."""


@dataclass(frozen=True)
class FieldScores:
    """Hybrid scores of all chunks, under any set of fields beside the text.

    BM25 (Lucene's) and the cosines of the text are brought to 0-1 over all chunks, those without a word of the question
    having BM25 0, and added: `fuse(..., "minmax")` of two complete lists. Ties go by chunk id. Kept as float32,
    4 bytes x questions x chunks: the cosines and, with `handling="fields"`, the BM25 of each field.

    Raises:
        ValueError: A setting out of range, or an index of other chunks.
    """

    chunks: Sequence[Chunk]
    """With their fields; a chunk without one counts as empty there."""
    _: KW_ONLY
    dense: DenseIndex | None = None
    """Index of the same chunks; None = BM25 alone, which finds no chunk without a word of the question."""
    weight: float = 0.4
    """Share of BM25, 0 to 1."""
    handling: str = "concatenated"
    """"concatenated": the streams are appended to the text and share its statistics; BM25 is fitted anew for each set.
    "fields": each has a BM25 of its own; the best counts and 0.3 of the others (MetaGen, section 3.1)."""
    tokenizer: Callable[[str], list[str]] = stems
    """From text to tokens, for chunks and questions."""

    def __post_init__(self):
        if self.handling not in ("concatenated", "fields") or not 0 <= self.weight <= 1:
            known = "'concatenated' or 'fields', and the share of BM25, 0 to 1"
            raise ValueError(f"handling = {self.handling!r}, weight = {self.weight}: choose {known}")
        if self.dense is not None and {c.id for c in self.dense.chunks} != {c.id for c in self.chunks}:
            raise ValueError("the dense index holds other chunks: build it of the same ones")


class Ranker:
    """Asked with a set of streams, gives the ranks of gold chunks, which are given by their ids for each question."""

    def __init__(self, scores: FieldScores, questions: Sequence[str], gold: Sequence[Iterable[str]]):
        self._scores, self._chunks = scores, sorted(scores.chunks, key=lambda chunk: chunk.id)
        column = {chunk.id: i for i, chunk in enumerate(self._chunks)}
        self._gold = gold_columns([[column[id_] for id_ in ids] for ids in gold])
        self._questions = self._tokens(questions)
        self._texts: dict[str, list[str]] = {}
        self._fields: dict[str, np.ndarray] = {}
        if (dense := scores.dense) is not None:
            by_id = sorted(range(len(column)), key=lambda i: dense.chunks[i].id)
            self._cosines = self._kept(lambda part: dense.scores(questions[part])[:, by_id])
            self._cosines *= (1 - scores.weight) / spread(self._cosines)

    def __call__(self, streams: Sequence[str]) -> np.ndarray:
        """(questions, most gold chunks of one) float: from 1, infinite if not found, NaN where a question has fewer."""
        ranks, lexical = np.empty(self._gold.shape), self._lexical(("text", *streams))
        for part in self._parts():
            scores = lexical(part)
            if self._scores.dense is None:
                scores[scores == 0] = -np.inf
            else:  # the lowest score need not be deducted, which would move all chunks of a question alike
                scores *= self._scores.weight / spread(scores)
                scores += self._cosines[part]
            ranks[part] = gold_ranks(scores, self._gold[part])
        return ranks

    def _lexical(self, fields: Sequence[str]) -> Block:
        if self._scores.handling == "concatenated":
            return self._bm25(fields)
        for field in fields:
            if field not in self._fields:
                self._fields[field] = self._kept(self._bm25([field]))
        return lambda part: _best_fields([self._fields[field][part] for field in fields])

    def _bm25(self, fields: Sequence[str]) -> Block:
        """BM25 of these fields written one after the other."""
        for field in fields:
            if field not in self._texts:
                if not any(field in chunk.fields for chunk in self._chunks):
                    raise ValueError(f"no chunk has a field {field!r}: enrich the chunks, or name a field they have")
                self._texts[field] = self._tokens(chunk.fields.get(field, "") for chunk in self._chunks)
        texts = map(" ".join, zip(*(self._texts[field] for field in fields), strict=True))
        joined = [replace(chunk, fields={"text": text}) for chunk, text in zip(self._chunks, texts, strict=True)]
        index = LexicalIndex(joined, tokenizer=str.split, idf="lucene")
        return lambda part: index.scores(self._questions[part]).astype(np.float32)

    def _tokens(self, texts: Iterable[str]) -> list[str]:
        """The tokens of each text with blanks between."""
        return [" ".join(self._scores.tokenizer(text)) for text in texts]

    def _kept(self, block: Block) -> np.ndarray:
        kept = np.empty((len(self._gold), len(self._chunks)), np.float32)
        for part in self._parts():
            kept[part] = block(part)
        return kept

    def _parts(self) -> Iterator[slice]:
        size = max(1, _BLOCK // len(self._chunks))
        return (slice(start, start + size) for start in range(0, len(self._gold), size))


def _best_fields(fields: Sequence[np.ndarray]) -> np.ndarray:
    """The best field and 0.3 of the others, times 1 / 0.7, which no ranking sees."""
    best, total = fields[0].copy(), fields[0].copy()
    for scores in fields[1:]:
        np.maximum(best, scores, out=best)
        total += scores
    total *= TIE_BREAKER / (1 - TIE_BREAKER)
    best += total
    return best
