"""Texts of clusters to summaries: by a language model, or by picking sentences."""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from rag_utils.chunking import count_words_and_marks, sentences
from rag_utils.llm import load_prompt, readable
from rag_utils.schema import LLM, Embedder

Summarise = Callable[[Sequence[Sequence[str]]], list[str]]
"""The texts of each cluster to its summary, in order."""


class ExtractiveSummariser:
    """The sentences of a cluster that are nearest to the mean of all its sentences, in the order of the text.

    Args:
        embedder: Texts to vectors; each sentence of a layer is embedded once.
        tokens: Words and marks of a summary, at most. Only where no sentence is that short does the nearest one stand
            alone, whole.
    """

    def __init__(self, embedder: Embedder, tokens: int = 100):
        self.embedder, self.tokens = embedder, tokens

    def __call__(self, clusters: Sequence[Sequence[str]]) -> list[str]:
        """One summary each; a cluster without a sentence gets ""."""
        # each sentence once, since neighbouring chunks may overlap
        split = [list(dict.fromkeys(text[slice(*s)] for text in texts for s in sentences(text))) for texts in clusters]
        known = list(dict.fromkeys(chain.from_iterable(split)))
        vectors = dict(zip(known, self.embedder(known), strict=True)) if known else {}
        return [self._summary(own, np.array([vectors[sentence] for sentence in own])) for own in split]

    def _summary(self, candidates: list[str], vectors: np.ndarray) -> str:
        if not candidates:
            return ""
        nearness = np.round(vectors @ vectors.mean(axis=0), 5)
        nearest, room, chosen = np.argsort(-nearness, kind="stable").tolist(), self.tokens, []
        for place in nearest:
            length = count_words_and_marks(candidates[place])
            if length <= room:
                chosen.append(place)
                room -= length
        return " ".join(candidates[place] for place in sorted(chosen or nearest[:1]))


class LLMSummariser:
    """Summaries that a language model writes (prompt `qa_rag_summary`).

    Args:
        llm: `load_llm(name, max_tokens=100)` for the paper's length; a summary cut off there is used as it is, as in
            the released code.
        fallback: Summarises where the model gave nothing, so that every node keeps its place in the tree.

    Attributes:
        failures: Why a cluster got the fallback's summary, by its text, of all calls so far.
    """

    def __init__(self, llm: LLM, fallback: Summarise):
        self.llm, self.fallback = llm, fallback
        self.failures: dict[str, str] = {}

    def __call__(self, clusters: Sequence[Sequence[str]]) -> list[str]:
        """One summary each, all asked in one call."""
        texts = [readable("\n\n".join(own)) for own in clusters]
        replies = self.llm([load_prompt("qa_rag_summary", text=text) for text in texts])
        summaries = ["" if reply.missing else readable(reply.text).strip() for reply in replies]
        failed = [place for place, summary in enumerate(summaries) if not summary]
        self.failures |= {texts[place]: replies[place].error or "empty" for place in failed}
        for place, summary in zip(failed, self.fallback([clusters[place] for place in failed]), strict=True):
            summaries[place] = summary
        return summaries
