"""BM25 as arrays: rank-bm25's fitted model compiled into postings, and their search in numpy.

The search is exact and skips work: a chunk that matches only frequent words is looked at only if these words together
could lift it into the best k (MaxScore: Turtle and Flood 1995). `_bm25_numba` does the same, compiled.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from rank_bm25 import BM25Okapi

FREQUENT = 0.1
"""A term in more than this share of the chunks also gets a dense row: its weights can be looked up and added fast."""
GRAIN = 1e-5
"""Scores of a search are rounded to this."""


class Postings(NamedTuple):
    """What each term adds to each chunk's score; terms of all fields are numbered by rising document frequency."""

    starts: np.ndarray
    """(terms + 1,): the postings of term t are starts[t]:starts[t + 1]."""
    chunks: np.ndarray
    """(postings,): chunk positions, rising within a term."""
    weights: np.ndarray
    """(postings,) float64."""
    fields: np.ndarray
    """(terms,): number of the field that the term belongs to."""
    ceilings: np.ndarray
    """(terms,): largest weight of the term, at least 0."""
    dense: np.ndarray
    """(frequent terms, chunks) float64: weights of the last, most frequent terms, 0 where absent."""

    @classmethod
    def of(cls, starts: np.ndarray, chunks: np.ndarray, weights: np.ndarray, fields: np.ndarray, n_chunks: int):
        """Adds what follows from the postings themselves."""
        frequency = np.diff(starts)
        first = int(np.searchsorted(frequency, FREQUENT * n_chunks, side="right"))
        dense = np.zeros((len(frequency) - first, n_chunks))
        rows = np.repeat(np.arange(len(dense)), frequency[first:])
        dense[rows, chunks[starts[first] :]] = weights[starts[first] :]
        ceilings = np.maximum(np.maximum.reduceat(weights, starts[:-1]), 0.0) if len(weights) else np.zeros(0)
        return cls(starts, chunks, weights, fields, ceilings, dense)


def fit(documents: Sequence[list[str]], idf: str, k1: float, b: float, epsilon: float) -> tuple[list[str], tuple]:
    """Fits BM25Okapi to the tokens of one field.

    Returns:
        The words, and the arrays (word number, chunk position, weight) of the postings, chunk by chunk. The weight is
        what `get_scores` adds for one occurrence of the word in the query. Without any word the model, which divides by
        the mean length, is not fitted.
    """
    if not any(documents):
        return [], (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    model = BM25Okapi(documents, k1=k1, b=b, epsilon=epsilon)
    number = {word: i for i, word in enumerate(model.idf)}
    sizes = np.array([len(counts) for counts in model.doc_freqs])
    terms = np.fromiter(map(number.__getitem__, chain.from_iterable(model.doc_freqs)), np.int64, sizes.sum())
    counts = np.fromiter(chain.from_iterable(f.values() for f in model.doc_freqs), np.float64, sizes.sum())
    chunks = np.repeat(np.arange(len(sizes)), sizes)
    rarity = np.fromiter(model.idf.values(), np.float64, len(number))
    if idf == "lucene":
        n = np.bincount(terms)
        rarity = np.log(1 + (len(sizes) - n + 0.5) / (n + 0.5))
    norms = k1 * (1 - b + b * np.array(model.doc_len) / model.avgdl)
    return list(number), (terms, chunks, rarity[terms] * (counts * (k1 + 1) / (counts + norms[chunks])))


def compile_postings(fitted: Sequence[tuple[list[str], tuple]], n_chunks: int) -> tuple[list[str], Postings]:
    """Joins the fitted fields; returns the words (those of a field keep their own number each) and the postings."""
    from scipy.sparse import csr_array

    words = [word for own, _ in fitted for word in own]
    sizes = [len(own) for own, _ in fitted]
    offsets = np.cumsum([0, *sizes])
    terms, chunks, weights = (
        np.concatenate(parts)
        for parts in zip(*((t + offset, c, w) for (_, (t, c, w)), offset in zip(fitted, offsets, strict=False)), strict=True)
    )
    order = np.argsort(np.bincount(terms, minlength=len(words)), kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    matrix = csr_array((weights, (number[terms], chunks)), shape=(len(words), n_chunks))
    fields = np.repeat(np.arange(len(sizes)), sizes)[order]
    arrays = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, fields
    return [words[i] for i in order], Postings.of(*arrays, n_chunks)


def add_term(postings: Postings, term: int, boost: float, row: np.ndarray) -> None:
    """Adds what one occurrence of a term gives each chunk, times `boost`, to `row` (chunks,)."""
    frequent = term - (len(postings.fields) - len(postings.dense))
    if frequent >= 0:
        row += boost * postings.dense[frequent]
    else:
        span = slice(postings.starts[term], postings.starts[term + 1])
        row[postings.chunks[span]] += boost * postings.weights[span]
