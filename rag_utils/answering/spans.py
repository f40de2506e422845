"""Hits to answers without a language model: a few words of the sentence that fits the question best."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag_utils.answering.extractive import ExtractiveAnswerer
from rag_utils.indexing import stems
from rag_utils.schema import Answer, Hit, Query, Reranker, Retriever

_NUMBERS = "CARDINAL QUANTITY MONEY PERCENT"
_KINDS = [
    ("who|whom|whose|(?:what|which) (?:person|individual|figure)s?", "PERSON", "ORG NORP"),
    (r"(?:what|which) (?:\w+ )?(?:company|companies|organi[sz]ation|team|club|agency)", "ORG", ""),
    (r"when|(?:what|which) (?:\w+ )?(?:year|date|day|month|century|decade|era|period)s?", "DATE TIME", ""),
    ("how (?:long|old)|what age", "DATE TIME", _NUMBERS),
    ("how (?:many|much|far|tall|large|big|high|often|fast|deep|heavy|wide)", _NUMBERS, "ORDINAL"),
    (r"(?:what|which) (?:\w+ )?(?:percent\w*|number|amount|price|cost|population)", _NUMBERS, "ORDINAL"),
    (r"where|(?:what|which) (?:\w+ )?(?:city|country|state|town|place|region|river|island)", "GPE LOC FAC", "ORG"),
    ("what|which|why|how", "", ""),
]
"""Words that ask, the entity labels (spaCy's) that they ask for, and labels that may answer too."""
_PATTERNS = [re.compile(rf"\b(?:{wording})\b", re.IGNORECASE) for wording, _, _ in _KINDS]


class SpanAnswerer(ExtractiveAnswerer):
    """Answers with a span of the sentence that `ExtractiveAnswerer` chooses: an entity or a noun phrase.

    The span is of a kind that the question word asks for and stands near the words that sentence and question share
    (see `best_span`). It is a floor for readers: the sentence holds an answer far more often than the span is one.

    Args:
        retriever: Finds the hits.
        nlp: A spaCy pipeline with parser and entities, as `chunking.load_pipeline()`; it reads chosen sentences.
        k: Hits whose sentences are candidates.
        reranker: Scores (question, sentence) pairs; None = BM25.
    """

    def __init__(self, retriever: Retriever, nlp: Any, k: int = 5, reranker: Reranker | None = None):
        super().__init__(retriever, k, reranker)
        self.nlp = nlp

    def read(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[Answer]:
        """A span each; the answer's first hit is the sentence that it was taken from. No hit, no text."""
        chosen = super().read(queries, hits)
        texts = list(dict.fromkeys(answer.text for answer in chosen))
        parsed = dict(zip(texts, self.nlp.pipe(texts, disable=["lemmatizer"]), strict=True))
        return [
            replace(answer, text=best_span(query.text, parsed[answer.text]))
            for query, answer in zip(queries, chosen, strict=True)
        ]


def asked_labels(question: str) -> dict[str, float]:
    """Entity labels that answer the question, by its first asking word: 1 = asked for, 0.5 = possible, {} = any."""
    found = [(match.start(), i) for i, pattern in enumerate(_PATTERNS) if (match := pattern.search(question))]
    if not found:
        return {}
    _, sure, possible = _KINDS[min(found)[1]]
    return dict.fromkeys(sure.split(), 1.0) | dict.fromkeys(possible.split(), 0.5)


def best_span(question: str, sentence: Any) -> str:
    """The entity or noun phrase of a parsed sentence (a spaCy `Doc`) that fits best; without one, all of it.

    A span scores by its label (`asked_labels`), plus the mean of 1 / (1 + distance in tokens) to the words that the
    question shares, a word inside the span counting 0; both 0 to 1. One that only repeats the question is no answer.
    """
    labels, asked = asked_labels(question), set(stems(question))
    words = [set(stems(token.text)) for token in sentence]
    shared = [i for i, word in enumerate(words) if word & asked]

    def fit(span: tuple[int, int], label: str) -> float:
        start, end = span
        distances = [max(start - i, i - end + 1) for i in shared if not start <= i < end]
        return labels.get(label, 0.0) + sum(1 / (1 + far) for far in distances) / max(len(shared), 1)

    spans = {span: label for span, label in _candidates(sentence).items() if set().union(*words[slice(*span)]) - asked}
    if not spans:
        return sentence.text
    start, end = max(spans, key=lambda span: fit(span, spans[span]))
    return sentence[start:end].text


def _candidates(sentence: Any) -> dict[tuple[int, int], str]:
    """Entities with their labels; noun phrases without a leading article or pronoun, also with what "of" adds."""
    spans = {(entity.start, entity.end): entity.label_ for entity in sentence.ents}
    for phrase in sentence.noun_chunks:
        start, end = phrase.start, phrase.end
        while start < end and sentence[start].pos_ in ("DET", "PRON"):
            start += 1
        if start < end:
            spans.setdefault((start, end), "")
            if end < len(sentence) and sentence[end].lower_ == "of":
                spans.setdefault((start, max(token.i for token in phrase.root.subtree) + 1), "")
    return spans
