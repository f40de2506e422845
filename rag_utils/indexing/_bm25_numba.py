import heapq

import numpy as np
from numba import njit

from rag_utils.indexing._bm25 import GRAIN, Postings


@njit(cache=True, nogil=True)
def best_fields(scores, chunk, tie_breaker):
    best = total = scores[chunk, 0]
    for field in range(1, scores.shape[1]):
        score = scores[chunk, field]
        best = max(best, score)
        total += score
    return best + tie_breaker * (total - best)


@njit(cache=True, nogil=True)
def slacks(postings, terms, boosts, tie_breaker):
    out = np.zeros(len(terms) + 1)
    scores = np.zeros((1, len(boosts)))
    for i in range(len(terms) - 1, -1, -1):
        field = postings.fields[terms[i]]
        scores[0, field] += boosts[field] * postings.ceilings[terms[i]]
        out[i] = best_fields(scores, 0, tie_breaker)
    return out


@njit(cache=True, nogil=True)
def scatter(postings, terms, boosts, partial, seen, touched, n):
    starts, chunks, weights, fields = postings.starts, postings.chunks, postings.weights, postings.fields
    for term in terms:
        field = fields[term]
        boost = boosts[field]
        for p in range(starts[term], starts[term + 1]):
            chunk = chunks[p]
            partial[chunk, field] += boost * weights[p]
            if not seen[chunk]:
                seen[chunk] = True
                touched[n] = chunk
                n += 1
    return n


@njit(cache=True, nogil=True)
def find_floor(postings, rest, boosts, tie_breaker, partial, allowed, touched, k):
    first = len(postings.fields) - len(postings.dense)
    fields, dense = postings.fields, postings.dense
    heap = [(-np.inf, -1) for _ in range(0)]
    for chunk in touched:
        if allowed[chunk]:
            s = best_fields(partial, chunk, tie_breaker)
            if len(heap) < k:
                heapq.heappush(heap, (s, chunk))
            elif s > heap[0][0]:
                heapq.heapreplace(heap, (s, chunk))
    if len(heap) < k:
        return -np.inf
    floor = np.inf
    scratch = np.zeros((1, len(boosts)))
    for s, chunk in heap:
        for field in range(len(boosts)):
            scratch[0, field] = partial[chunk, field]
        for term in rest:
            field = fields[term]
            scratch[0, field] += boosts[field] * dense[term - first, chunk]
        floor = min(floor, best_fields(scratch, 0, tie_breaker))
    return floor - 2 * GRAIN


@njit(cache=True, nogil=True)
def collect(postings, terms, boosts, tie_breaker, partial, touched, allowed, slack, floor, rank, k):
    first = len(postings.fields) - len(postings.dense)
    fields, dense = postings.fields, postings.dense
    best = [(-np.inf, -1, -1) for _ in range(0)]
    for chunk in touched:
        if not allowed[chunk]:
            continue
        score = best_fields(partial, chunk, tie_breaker)
        for i in range(len(terms)):
            if score + slack[i] < floor:
                score = -np.inf
                break
            field = fields[terms[i]]
            partial[chunk, field] += boosts[field] * dense[terms[i] - first, chunk]
            score = best_fields(partial, chunk, tie_breaker)
        if score >= floor:
            item = (np.rint(score / GRAIN) * GRAIN, -rank[chunk], chunk)
            if len(best) < k:
                heapq.heappush(best, item)
                if len(best) == k:
                    floor = max(floor, best[0][0] - 2 * GRAIN)
            elif item > best[0]:
                heapq.heapreplace(best, item)
                floor = max(floor, best[0][0] - 2 * GRAIN)
    return best


@njit(cache=True, nogil=True)
def search(postings, queries, offsets, boosts, tie_breaker, allowed, rank, k):
    n_chunks, n_fields = len(allowed), len(boosts)
    n_queries = len(offsets) - 1
    first = len(postings.fields) - len(postings.dense)
    found = np.full((n_queries, k), -1, np.int64)
    values = np.zeros((n_queries, k))
    partial = np.zeros((n_chunks, n_fields))
    seen = np.zeros(n_chunks, np.bool_)
    touched = np.empty(n_chunks, np.int64)
    stats = np.zeros((n_queries, 4), np.int64)
    for q in range(n_queries):
        terms = queries[offsets[q] : offsets[q + 1]]
        slack = slacks(postings, terms, boosts, tie_breaker)
        used = np.searchsorted(terms, first)
        n = scatter(postings, terms[:used], boosts, partial, seen, touched, 0)
        floor = find_floor(postings, terms[used:], boosts, tie_breaker, partial, allowed, touched[:n], k)
        start = used
        while used < len(terms) and slack[used] >= floor:
            used += 1
        n = scatter(postings, terms[start:used], boosts, partial, seen, touched, n)
        stats[q, 0] = n
        stats[q, 2] = used
        best = collect(postings, terms[used:], boosts, tie_breaker, partial, touched[:n], allowed, slack[used:], floor, rank, k)
        for chunk in touched[:n]:
            for field in range(n_fields):
                partial[chunk, field] = 0.0
            seen[chunk] = False
        for i in range(len(best) - 1, -1, -1):
            s, _, chunk = heapq.heappop(best)
            found[q, i] = chunk
            values[q, i] = s
    return found, values, stats
