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
def _leaders(scores, touched, allowed, tie_breaker, k):
    """At least k of the touched chunks, the best k among them, if there are so many."""
    n_chunks = len(allowed)
    keys = np.empty(_SPARE * k, np.int64)
    n, floor = 0, -np.inf
    for chunk in touched:
        score = _best_fields(scores, chunk, tie_breaker)
        if score > floor and allowed[chunk]:
            keys[n] = np.int64(score * GRAINS) * n_chunks + chunk
            n += 1
            if n == len(keys):
                keys.sort()
                keys[:k] = keys[n - k :]
                n, floor = k, keys[0] // n_chunks / GRAINS
    return keys[:n] % n_chunks


@njit(cache=True, nogil=True)
def _floor(postings, rest, boosts, tie_breaker, scores, leaders, k):
    """What the k-th best chunk scores at least: the k-th best full score of the leaders."""
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
def _finish(postings, rest, bounds, boosts, tie_breaker, scores, rivals, floor):
    """Adds the rest to the scores of the rivals; returns those that reach the floor."""
    first = len(postings.fields) - len(postings.dense)
    for i in range(len(rest)):
        field = postings.fields[rest[i]]
        boost, row = boosts[field], postings.dense[rest[i] - first]
        n = 0
        for chunk in rivals:
            scores[chunk, field] += boost * row[chunk]
            rivals[n] = chunk
            n += _best_fields(scores, chunk, tie_breaker) >= floor - bounds[i + 1]
        rivals = rivals[:n]
    return rivals


@njit(cache=True, nogil=True)
def _reaching(scores, touched, allowed, tie_breaker, floor):
    rivals = np.empty_like(touched)
    n = 0
    for chunk in touched:
        rivals[n] = chunk
        n += allowed[chunk] and _best_fields(scores, chunk, tie_breaker) >= floor
    return rivals[:n]


@njit(cache=True, nogil=True)
def search(postings, terms, starts, boosts, tie_breaker, allowed, places, k):
    """See `_bm25.search`."""
    n_chunks = len(allowed)
    keys = np.full((len(starts) - 1, k), NOTHING)
    scores = np.zeros((n_chunks, len(boosts)))
    seen = np.zeros(n_chunks, np.bool_)
    touched = np.empty(n_chunks + 1, np.int64)
    for q in range(len(keys)):
        own = terms[starts[q] : starts[q + 1]]
        bounds = _remaining(postings, own, boosts, tie_breaker)
        rare = walked = np.searchsorted(own, len(postings.fields) - len(postings.dense))
        n = _walk(postings, own[:rare], boosts, scores, seen, touched, 0)
        leaders = _leaders(scores, touched[:n], allowed, tie_breaker, k)
        floor = _floor(postings, own[rare:], boosts, tie_breaker, scores, leaders, k)
        while walked < len(own) and bounds[walked] >= floor:
            walked += 1
        n = _walk(postings, own[rare:walked], boosts, scores, seen, touched, n)
        rivals = _reaching(scores, touched[:n], allowed, tie_breaker, floor - bounds[walked])
        leaders = _leaders(scores, rivals, allowed, tie_breaker, k)
        floor = max(floor, _floor(postings, own[walked:], boosts, tie_breaker, scores, leaders, k))
        rivals = _finish(postings, own[walked:], bounds[walked:], boosts, tie_breaker, scores, rivals, floor)
        found = np.empty(len(rivals), np.int64)
        for i, chunk in enumerate(rivals):
            grains = np.int64(np.rint(_best_fields(scores, chunk, tie_breaker) * GRAINS))
            found[i] = grains * n_chunks + places[chunk]
        found.sort()
        found = found[::-1][:k]
        keys[q, : len(found)] = found
        for chunk in touched[:n]:
            scores[chunk] = 0
            seen[chunk] = False
    return keys
