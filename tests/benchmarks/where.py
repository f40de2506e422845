"""Filtered dense search: Chroma's own `where` against `DenseIndex`, one question at a time.

Run: python tests/benchmarks/where.py   (make bench NAME=where)

20,000 random unit vectors of 384 numbers around 500 centres, 49 outlets whose sizes follow Zipf's law, 90 days. Each
question has a filter of its own on 1 to 3 outlets; a second table leaves the filter out. Each of 5 rounds asks 30
questions one by one, first of the peer, then of ours, in one process. Exit status 1 when filtered search is not 50
times as fast at the median, when unfiltered search is slower, or when cosines are not those of brute force.
"""

import random
import sys
import time
from typing import Any

import numpy as np

from rag_utils.filters import to_chroma
from rag_utils.indexing.dense import DenseIndex
from rag_utils.schema import Chunk

CHUNKS, DIMENSION, OUTLETS, K = 20_000, 384, 49, 10
QUESTIONS, ROUNDS = 30, 5
GOALS = {"filtered": 50.0, "unfiltered": 1.0}


class Double:
    """Stands for an encoder: a text is the number of its vector, so that only search is timed."""

    dimension, name = DIMENSION, "double"

    def __init__(self, vectors: np.ndarray):
        self.vectors = vectors

    def __call__(self, texts):
        return self.vectors[[int(text) for text in texts]]


def unit_vectors(n: int) -> np.ndarray:
    """Clustered, as embeddings are."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((500, DIMENSION))
    points = centres[rng.integers(500, size=n)] + 0.7 * rng.standard_normal((n, DIMENSION))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def corpus() -> list[Chunk]:
    """Chunks with an outlet and a day each."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, OUTLETS + 1)
    outlets, days = rng.choice(OUTLETS, CHUNKS, p=share / share.sum()), rng.integers(90, size=CHUNKS)
    metadata = [
        {"source": f"Outlet {outlet}", "published_at": f"2023-1{day // 30}-{day % 30 + 1:02d}"}
        for outlet, day in zip(outlets, days, strict=True)
    ]
    return [
        Chunk(id=f"c{i:05d}", document_id=f"d{i:05d}", start=0, end=1, fields={"text": str(i)}, metadata=facts)
        for i, facts in enumerate(metadata)
    ]


class Race:
    """Chroma and ours over the same collection."""

    def __init__(self, index: DenseIndex, collection: Any, vectors: np.ndarray):
        self.index, self.collection, self.vectors = index, collection, vectors
        self.sources = np.array([chunk.metadata["source"] for chunk in index.chunks])

    def run(self, filters: list[dict[str, Any] | None]) -> tuple[np.ndarray, float, int]:
        """Milliseconds (rounds, peer and ours, questions), the peer's recall, and how many of our answers are wrong."""
        times, recalls, wrong = np.empty((ROUNDS, 2, QUESTIONS)), [], 0
        truth = [self.brute_force(CHUNKS + q, where) for q, where in enumerate(filters)]
        for turn in range(ROUNDS):
            for engine, ask in enumerate((self.peer, self.ours)):
                for q, (where, best) in enumerate(zip(filters, truth, strict=True)):
                    start = time.perf_counter()
                    found = ask(CHUNKS + q, where)
                    times[turn, engine, q] = (time.perf_counter() - start) * 1000
                    if ask == self.ours:
                        near = np.allclose(list(found.values()), list(best.values())[:K], atol=2e-5)
                        wrong += not (near and found.keys() <= best.keys())
                    else:
                        recalls.append(len(found.keys() & best.keys()) / min(K, len(best)))
        return times, float(np.mean(recalls)), wrong

    def peer(self, question: int, where: dict[str, Any] | None) -> dict[str, float]:
        """Chroma's ids and distances."""
        vector, condition = self.vectors[[question]], to_chroma(where)
        found = self.collection.query(vector, n_results=K, where=condition, include=["distances"])
        return dict(zip(found["ids"][0], found["distances"][0], strict=True))

    def ours(self, question: int, where: dict[str, Any] | None) -> dict[str, float]:
        """Our ids and cosines."""
        return dict(self.index.search([str(question)], K, where)[0])

    def brute_force(self, question: int, where: dict[str, Any] | None) -> dict[str, float]:
        """The best K, best first, and what ties with the last of them to 1e-5."""
        rows = np.flatnonzero(np.isin(self.sources, where["source"]["$in"])) if where else np.arange(CHUNKS)
        cosines = self.vectors[rows].astype(np.float64) @ self.vectors[question]
        order = np.argsort(-cosines)
        lowest = cosines[order[:K]][-1] - 2e-5
        return {self.index.chunks[rows[i]].id: cosines[i] for i in order if cosines[i] >= lowest}


def main() -> int:
    """Prints medians, ratios and checks; returns the exit status."""
    vectors = unit_vectors(CHUNKS + QUESTIONS)
    index = DenseIndex(corpus(), Double(vectors))
    draw = random.Random(0)
    outlets = [[f"Outlet {o}" for o in draw.sample(range(OUTLETS), draw.randint(1, 3))] for _ in range(QUESTIONS)]
    kinds = {"filtered": [{"source": {"$in": own}} for own in outlets], "unfiltered": [None] * QUESTIONS}
    failed = False
    with index.store.opened() as collection:
        race = Race(index, collection, vectors)
        for kind, filters in kinds.items():
            times, recall, wrong = race.run(filters)
            peer, ours = np.median(times, axis=2).T  # of each round
            ratio = float(np.median(peer / ours))
            print(f"{kind}: Chroma {np.median(peer):.2f} ms, ours {np.median(ours):.3f} ms")
            print(f"  {ratio:.1f} x, goal {GOALS[kind]:g}; Chroma's recall@{K} {recall:.3f}")
            print(f"  {wrong} of {ROUNDS * QUESTIONS} of our answers are wrong, goal 0")
            failed |= ratio < GOALS[kind] or wrong > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
