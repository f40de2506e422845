"""Reranking: FlagReranker with its defaults, called per question, against `load_reranker` on all questions at once.

Run: python tests/benchmarks/rerank.py   (make bench NAME=rerank)

Counted on 100 questions x 20 candidates: computed tokens for each real one. Timed, compared and counted (passes)
on 3 x 20 pairs, peer and ours alternating in one process. Passages are drawn at random from SQuAD and Natural Questions
(RAG_DATA_DIR), else made up. Exit status 1 below 2.5 times the speed, above 1.02 tokens, when a batch costs more than
one pass, or when a score differs by more than 1e-5.
"""

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from _passages import questions_and_passages

from rag_utils.encoders import backends, bundled, load_reranker
from rag_utils.encoders.folders import find_model

QUESTIONS, TIMED, CANDIDATES, ROUNDS = 100, 3, 20, 5
GOAL, PADDING_GOAL, TOLERANCE = 2.5, 1.02, 1e-5
PEER = "FlagReranker"


class Passes:
    """Counts forward passes of BERT classifiers while the block runs."""

    def __enter__(self) -> "Passes":
        from transformers import BertForSequenceClassification

        self.network, self.forward, self.count = BertForSequenceClassification, BertForSequenceClassification.forward, 0

        def counted(*arguments, **keywords):
            self.count += 1
            return self.forward(*arguments, **keywords)

        self.network.forward = counted
        return self

    def __exit__(self, *_: object) -> None:
        self.network.forward = self.forward


def recorded(pairs: list[tuple[str, str]]) -> tuple[float, int]:
    """Computed tokens for a real one, and batches: they are recorded and not run."""
    batches: list[list[tuple[str, ...]]] = []

    def record(*_):
        return lambda batch: batches.append(list(batch)) or np.zeros((len(batch), 1))

    backends.RERANKERS["recorded"] = record
    reranker = load_reranker(backend="recorded", cache=False)
    reranker.score_pairs(pairs)
    lengths = [np.minimum(reranker._model.lengths(batch) + 3, reranker.max_tokens) for batch in batches]
    return sum(own.max() * len(own) for own in lengths) / sum(own.sum() for own in lengths), len(batches)


def engines(pairs: list[tuple[str, str]]) -> dict[str, Callable[[], list[float]]]:
    """The peer and ours, loaded."""
    from FlagEmbedding import FlagReranker

    peer = FlagReranker(str(find_model(bundled.MS_MARCO).path), devices="cpu", use_fp16=False)
    ours = {f"ours, {backend}": load_reranker(backend=backend, cache=False) for backend in ("cross-encoder", "flag")}
    for score in (peer.compute_score, *(reranker.score_pairs for reranker in ours.values())):
        score(pairs[:1])  # loads the model
    questions = [pairs[start : start + CANDIDATES] for start in range(0, len(pairs), CANDIDATES)]
    calls = {PEER: lambda: [score for one in questions for score in peer.compute_score(one)]}
    calls |= {name: lambda reranker=reranker: reranker.score_pairs(pairs) for name, reranker in ours.items()}
    return calls


def main() -> int:
    """Prints counts, times and the largest difference; returns the exit status."""
    questions, passages, source = questions_and_passages(QUESTIONS, 2_000)
    pairs = [(questions[i // CANDIDATES], passage) for i, passage in enumerate(passages)]
    everywhere, _ = recorded(pairs)
    print(
        f"{source}; {QUESTIONS} x {CANDIDATES}: {everywhere:.3f} computed tokens for a real one, goal <= {PADDING_GOAL}"
    )
    _, batches = recorded(pairs[: TIMED * CANDIDATES])
    calls = engines(pairs[: TIMED * CANDIDATES])
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    scores, passes = {}, {}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            with Passes() as counter:
                start = time.perf_counter()
                scores[name] = np.array(call())
                seconds[name].append(time.perf_counter() - start)
            passes[name] = counter.count
    failed = everywhere > PADDING_GOAL
    for name, own in seconds.items():
        ratio = median(theirs / mine for theirs, mine in zip(seconds[PEER], own, strict=True))
        apart = np.abs(scores[name] - scores[PEER]).max()
        speed = TIMED * CANDIDATES / median(own)
        print(f"{name}: {speed:.1f} pairs/s, {ratio:.2f} x, {passes[name]} passes, scores differ by up to {apart:.1e}")
        failed |= name != PEER and bool(ratio < GOAL or passes[name] != batches or apart > TOLERANCE)
    print(f"goals: {GOAL} x, {batches} passes for {batches} batches, {TOLERANCE:g}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
