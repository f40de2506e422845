"""BM25 as arrays: rank-bm25's fitted model compiled into postings, and their search in numpy.

A search is exact: it orders by the float64 score, rounded to `1 / GRAINS`, and then by chunk number. Both make one
integer, the key, so that the best k are simply the k largest keys. `_bm25_numba` gives the same keys, faster.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from rank_bm25 import BM25Okapi

GRAINS = 100_000
"""Scores of a search are rounded to 1 / GRAINS."""
SLACK = 2 / GRAINS
"""Two scores further apart than this differ after rounding too."""
NOTHING = np.iinfo(np.int64).min
"""The key where fewer than k chunks match."""
_FREQUENT = 0.1
"""Terms in more than this share of the chunks get a dense row beside their postings."""

Fitted = tuple[list[str], np.ndarray, np.ndarray, np.ndarray]
"""Words of a field, then its postings: word number, chunk and weight."""


class Postings(NamedTuple):
    """What each term adds to each chunk's score. Terms of all fields are numbered by rising document frequency."""

    starts: np.ndarray
    """(terms + 1,) int64: the postings of term t are starts[t]:starts[t + 1]."""
    chunks: np.ndarray
    """(postings,) int32: chunk numbers, rising within a term."""
    weights: np.ndarray
    """(postings,) float64."""
    fields: np.ndarray
    """(terms,) int64: number of the term's field."""
    ceilings: np.ndarray
    """(terms,) float64: largest weight of the term in any chunk, at least 0."""
    dense: np.ndarray
    """(frequent terms, chunks) float64: weights of the last, most frequent terms, 0 where the chunk lacks the term."""


def fit(documents: Iterable[list[str]], idf: str, k1: float, b: float, epsilon: float) -> Fitted:
    """Fits BM25Okapi to the tokens of one field and reads the weight of each word in each chunk out of it.

    The weight is what `get_scores` adds for one occurrence of the word in the query; with `idf="lucene"` the idf is
    replaced by ln(1 + (N - n + 0.5) / (n + 0.5)). Where no chunk has a word nothing is fitted: the library would
    divide by a mean length of zero.
    """
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    coded = [list(map(number.__getitem__, tokens)) for tokens in documents]  # numbers are fitted faster than words
    if not number:
        return [], np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    model = BM25Okapi(coded, k1=k1, b=b, epsilon=epsilon)
    sizes = np.array([len(counts) for counts in model.doc_freqs])
    words = np.fromiter(chain.from_iterable(model.doc_freqs), np.int64, sizes.sum())
    counts = np.fromiter(chain.from_iterable(f.values() for f in model.doc_freqs), np.float64, sizes.sum())
    chunks = np.repeat(np.arange(len(sizes)), sizes)
    rarity = np.fromiter(model.idf.values(), np.float64, len(number))
    if idf == "lucene":
        n = np.bincount(words)
        rarity = np.log(1 + (len(sizes) - n + 0.5) / (n + 0.5))
    norms = k1 * (1 - b + b * np.array(model.doc_len) / model.avgdl)
    return list(number), words, chunks, rarity[words] * (counts * (k1 + 1) / (counts + norms[chunks]))


def compile_postings(fitted: Sequence[Fitted], n_chunks: int) -> tuple[list[str], Postings]:
    """Joins the fitted fields; returns the word of each term and the postings."""
    from scipy.sparse import csr_array

    sizes = [len(words) for words, *_ in fitted]
    firsts = np.cumsum([0, *sizes[:-1]])
    terms = np.concatenate([first + numbers for first, (_, numbers, _, _) in zip(firsts, fitted, strict=True)])
    chunks, weights = (np.concatenate([field[part] for field in fitted]) for part in (2, 3))
    by_frequency = np.argsort(np.bincount(terms, minlength=sum(sizes)), kind="stable")
    renumbered = np.empty_like(by_frequency)
    renumbered[by_frequency] = np.arange(len(by_frequency))
    matrix = csr_array((weights, (renumbered[terms], chunks)), shape=(sum(sizes), n_chunks))
    words = [word for own, *_ in fitted for word in own]
    fields = np.repeat(np.arange(len(sizes)), sizes)[by_frequency]
    return [words[i] for i in by_frequency], with_bounds(matrix.indptr, matrix.indices, matrix.data, fields, n_chunks)


def with_bounds(
    starts: np.ndarray, chunks: np.ndarray, weights: np.ndarray, fields: np.ndarray, n_chunks: int
) -> Postings:
    """Postings with the ceilings and dense rows that follow from them."""
    starts, chunks = starts.astype(np.int64), chunks.astype(np.int32)
    frequency = np.diff(starts)
    first = int(np.searchsorted(frequency, _FREQUENT * n_chunks, side="right"))
    dense = np.zeros((len(frequency) - first, n_chunks))
    tail = slice(starts[first], None)
    dense[np.repeat(np.arange(len(dense)), frequency[first:]), chunks[tail]] = weights[tail]
    ceilings = np.maximum(np.maximum.reduceat(weights, starts[:-1]), 0) if len(weights) else np.zeros(0)
    return Postings(starts, chunks, weights, fields, ceilings, dense)


def add_term(postings: Postings, term: int, boost: float, scores: np.ndarray) -> None:
    """Adds `boost` times what one occurrence of the term gives each chunk to `scores` (chunks,)."""
    row = term - (len(postings.fields) - len(postings.dense))
    if row >= 0:
        scores += boost * postings.dense[row]
    else:
        own = slice(postings.starts[term], postings.starts[term + 1])
        scores[postings.chunks[own]] += boost * postings.weights[own]


def score(postings: Postings, terms: np.ndarray, starts: np.ndarray, scores: np.ndarray) -> None:
    """Adds the scores of all chunks to `scores` (queries, chunks); terms and starts as in `search`."""
    for q in range(len(scores)):
        for term in terms[starts[q] : starts[q + 1]]:
            add_term(postings, term, 1.0, scores[q])


def search(
    postings: Postings,
    terms: np.ndarray,
    starts: np.ndarray,
    boosts: np.ndarray,
    tie_breaker: float,
    allowed: np.ndarray,
    k: int,
) -> np.ndarray:
    """The best k allowed chunks of each query that share a term with it.

    Args:
        postings: The index.
        terms: Terms of all queries, rising within a query; repeated words stand repeatedly.
        starts: (queries + 1,): the terms of query q are terms[starts[q]:starts[q + 1]].
        boosts: (fields,), at least 0.
        tie_breaker: Share, 0 to 1, of the fields beside the best.
        allowed: (chunks,) bool: what the filter lets through.
        k: At least 1, at most the number of chunks.

    Returns:
        (queries, k) keys, best first, then `NOTHING`. Of equal scores the earlier chunk is better: a key is the
        score in grains x chunks + the number of chunks that come later.
    """
    keys = np.full((len(starts) - 1, k), NOTHING)
    for q in range(len(keys)):
        own = terms[starts[q] : starts[q + 1]]
        by_field = np.zeros((len(boosts), len(allowed)))
        for term in own:
            field = postings.fields[term]
            add_term(postings, term, boosts[field], by_field[field])
        best = by_field.max(axis=0)
        scores = best + tie_breaker * (by_field.sum(axis=0) - best)
        rivals = _rivals(postings, own, scores, allowed, k)
        grains = np.rint(scores[rivals] * GRAINS).astype(np.int64)
        found = np.sort(grains * len(allowed) + len(allowed) - 1 - rivals)[::-1][:k]
        keys[q, : len(found)] = found
    return keys


def _rivals(postings: Postings, terms: np.ndarray, scores: np.ndarray, allowed: np.ndarray, k: int) -> np.ndarray:
    """Matching, allowed chunks, all those that could be among the best k at least."""
    n_rare = np.searchsorted(terms, len(postings.fields) - len(postings.dense))
    rare = _matching(postings, terms[:n_rare], allowed)
    if len(rare) >= k:
        floor = np.partition(scores[rare], -k)[-k] - SLACK
        if floor > 0:  # what scores more than 0 matches
            return np.flatnonzero((scores >= floor) & allowed)
    return _matching(postings, terms, allowed)


def _matching(postings: Postings, terms: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    seen = np.zeros(len(allowed), bool)
    for term in terms:
        seen[postings.chunks[postings.starts[term] : postings.starts[term + 1]]] = True
    return np.flatnonzero(seen & allowed)
