"""The scoring and the search of `_bm25` compiled; the search skips most postings of frequent words and stays exact.

MaxScore (Turtle and Flood 1995): rare terms are added up first; the k-th best of the chunks they lead to is a floor.
A frequent term's postings are walked only while the remaining terms together could lift a chunk without any rare term
to the floor; after that they are looked up for the chunks that can still reach it. One thread, float64.
"""

import numpy as np
from numba import njit

from rag_utils.indexing._bm25 import GRAINS, NOTHING, SLACK

_SPARE = 4
"""Candidates kept per wanted chunk before they are sorted out."""


@njit(cache=True, nogil=True)
def score(postings, terms, starts, scores):
    """See `_bm25.score`."""
    first = len(postings.fields) - len(postings.dense)
    for q in range(len(scores)):
        row = scores[q]
        for term in terms[starts[q] : starts[q + 1]]:
            if term >= first:
                dense = postings.dense[term - first]
                for chunk in range(len(row)):
                    row[chunk] += dense[chunk]
            else:
                for p in range(postings.starts[term], postings.starts[term + 1]):
                    row[postings.chunks[p]] += postings.weights[p]


@njit(cache=True, nogil=True)
def _best_fields(scores, chunk, tie_breaker):
    best = total = scores[chunk, 0]
    for field in range(1, scores.shape[1]):
        best = max(best, scores[chunk, field])
        total += scores[chunk, field]
    return best + tie_breaker * (total - best)


@njit(cache=True, nogil=True)
def _remaining(postings, terms, boosts, tie_breaker):
    """(terms + 1,): the most that terms[i:] can add to any score."""
    bounds = np.zeros(len(terms) + 1)
    by_field = np.zeros((1, len(boosts)))
    for i in range(len(terms) - 1, -1, -1):
        field = postings.fields[terms[i]]
        by_field[0, field] += boosts[field] * postings.ceilings[terms[i]]
        bounds[i] = _best_fields(by_field, 0, tie_breaker)
    return bounds


@njit(cache=True, nogil=True)
def _walk(postings, terms, boosts, scores, seen, touched, n):
    """Adds all postings of the terms to `scores`; returns how many chunks stand in `touched` then."""
    starts, chunks, weights = postings.starts, postings.chunks, postings.weights
    for term in terms:
        field = postings.fields[term]
        boost = boosts[field]
        for p in range(starts[term], starts[term + 1]):
            chunk = chunks[p]
            scores[chunk, field] += boost * weights[p]
            touched[n] = chunk  # overwritten by the next unless new: no branch to mispredict
            n += not seen[chunk]
            seen[chunk] = True
    return n


@njit(cache=True, nogil=True)
def _top(scores, chunks, allowed, tie_breaker, k):
    """Keys of some allowed chunks, the best k among them, in no order."""
    n_chunks = len(allowed)
    keys = np.empty(_SPARE * k, np.int64)
    n, floor = 0, -np.inf
    for chunk in chunks:
        score = _best_fields(scores, chunk, tie_breaker)
        if score >= floor and allowed[chunk]:
            keys[n] = np.int64(np.rint(score * GRAINS)) * n_chunks + n_chunks - 1 - chunk
            n += 1
            if n == len(keys):
                keys.sort()
                keys[:k] = keys[n - k :]
                n, floor = k, keys[0] // n_chunks / GRAINS - SLACK
    return keys[:n]


@njit(cache=True, nogil=True)
def _floor(postings, rest, boosts, tie_breaker, scores, chunks, allowed, k):
    """What the k-th best chunk scores at least: the k-th best full score of those that lead now."""
    leaders = len(allowed) - 1 - _top(scores, chunks, allowed, tie_breaker, k) % len(allowed)
    if len(leaders) < k:
        return -np.inf
    first = len(postings.fields) - len(postings.dense)
    by_field = scores[leaders]
    for term in rest:
        field = postings.fields[term]
        boost, row = boosts[field], postings.dense[term - first]
        for i in range(len(leaders)):
            by_field[i, field] += boost * row[leaders[i]]
    full = np.array([_best_fields(by_field, i, tie_breaker) for i in range(len(leaders))])
    full.sort()
    return full[len(full) - k] - SLACK


@njit(cache=True, nogil=True)
def _reaching(scores, chunks, allowed, tie_breaker, floor):
    """The allowed chunks whose score is not below the floor."""
    reaching = np.empty_like(chunks)
    n = 0
    for chunk in chunks:
        reaching[n] = chunk
        n += allowed[chunk] and _best_fields(scores, chunk, tie_breaker) >= floor
    return reaching[:n]


@njit(cache=True, nogil=True)
def _finish(postings, rest, bounds, boosts, tie_breaker, scores, rivals, allowed, floor):
    """Adds the rest to the scores of the rivals, and leaves out at each term those that cannot reach the floor."""
    first = len(postings.fields) - len(postings.dense)
    for i in range(len(rest)):
        field = postings.fields[rest[i]]
        boost, row = boosts[field], postings.dense[rest[i] - first]
        rivals = _reaching(scores, rivals, allowed, tie_breaker, floor - bounds[i])
        for chunk in rivals:
            scores[chunk, field] += boost * row[chunk]
    return rivals


@njit(cache=True, nogil=True)
def search(postings, terms, starts, boosts, tie_breaker, allowed, k):
    """See `_bm25.search`."""
    keys = np.full((len(starts) - 1, k), NOTHING)
    scores = np.zeros((len(allowed), len(boosts)))
    seen = np.zeros(len(allowed), np.bool_)
    touched = np.empty(len(allowed) + 1, np.int64)
    for q in range(len(keys)):
        own = terms[starts[q] : starts[q + 1]]
        bounds = _remaining(postings, own, boosts, tie_breaker)
        rare = walked = np.searchsorted(own, len(postings.fields) - len(postings.dense))
        n = _walk(postings, own[:rare], boosts, scores, seen, touched, 0)
        floor = _floor(postings, own[rare:], boosts, tie_breaker, scores, touched[:n], allowed, k)
        while walked < len(own) and bounds[walked] >= floor:
            walked += 1
        n = _walk(postings, own[rare:walked], boosts, scores, seen, touched, n)
        rivals = _reaching(scores, touched[:n], allowed, tie_breaker, floor - bounds[walked])
        floor = max(floor, _floor(postings, own[walked:], boosts, tie_breaker, scores, rivals, allowed, k))
        rivals = _finish(postings, own[walked:], bounds[walked:], boosts, tie_breaker, scores, rivals, allowed, floor)
        found = np.sort(_top(scores, rivals, allowed, tie_breaker, k))[::-1][:k]
        keys[q, : len(found)] = found
        for chunk in touched[:n]:
            scores[chunk] = 0
            seen[chunk] = False
    return keys
