"""Embedding of mixed documents: `SentenceTransformer.encode` against `load_embedder`, in batches of up to 32.

Run: python tests/benchmarks/embed.py   (make bench NAME=embed)

Counted on 2,000 passages: computed tokens for each real one, when batches are sorted by characters, as the library
does, and by tokens. Timed and compared on 96 of them, peer and ours alternating in one process. Passages are drawn
at random from SQuAD and Natural Questions (RAG_DATA_DIR), else made up. Exit status 1 above 1.02 tokens, below 1.15
times the speed, or when a number of a vector differs by more than 1e-5.
"""

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from _passages import questions_and_passages

from rag_utils.encoders import backends, bundled, load_embedder
from rag_utils.encoders.folders import find_model

PASSAGES, TIMED, BATCH, ROUNDS = 2_000, 96, 32, 5
GOAL, PADDING_GOAL, TOLERANCE = 1.15, 1.02, 1e-5


def padding(batches: list[list[str]], count: Callable[[str], int], limit: int) -> float:
    """Computed tokens for a real one, when each batch is padded to its longest text."""
    lengths = [np.minimum([count(text) + 2 for text in batch], limit) for batch in batches]
    return sum(own.max() * len(own) for own in lengths) / sum(own.sum() for own in lengths)


def own_batches(texts: list[str]) -> list[list[str]]:
    """The batches that ours makes, recorded and not run."""
    batches: list[list[str]] = []

    def record(model, *_):
        return lambda batch: batches.append([text for (text,) in batch]) or np.zeros((len(batch), model.dimension))

    backends.EMBEDDERS["recorded"] = record
    load_embedder(backend="recorded", cache=False, batch_size=BATCH)(texts)
    return batches


def main() -> int:
    """Prints counts, times and the largest difference; returns the exit status."""
    from sentence_transformers import SentenceTransformer

    _, texts, source = questions_and_passages(1, PASSAGES)
    ours = load_embedder(cache=False, batch_size=BATCH)
    peer = SentenceTransformer(str(find_model(bundled.MINILM).path), device="cpu")
    by_letters = sorted(texts, key=len, reverse=True)
    theirs = [by_letters[start : start + BATCH] for start in range(0, PASSAGES, BATCH)]
    letters, own = (padding(batches, ours.count_tokens, ours.max_tokens) for batches in (theirs, own_batches(texts)))
    print(
        f"{source}; {PASSAGES} passages: {letters:.3f} computed tokens for a real one by letters, {own:.3f} by tokens"
    )
    sample = texts[:TIMED]
    calls = {"SentenceTransformer": lambda: peer.encode(sample, batch_size=BATCH), "ours": lambda: ours(sample)}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    vectors = {}
    for turn in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            vectors[name] = call()
            if turn:  # the first loads the model and warms up
                seconds[name].append(time.perf_counter() - start)
    ratio = median(t / o for t, o in zip(*seconds.values(), strict=True))
    apart = np.abs(vectors["SentenceTransformer"] - vectors["ours"]).max()
    print(", ".join(f"{name} {TIMED / median(times):.1f} passages/s" for name, times in seconds.items()))
    print(f"{ratio:.2f} x (goal {GOAL}), padding {own:.3f} (goal {PADDING_GOAL}), numbers differ by up to {apart:.1e}")
    return int(own > PADDING_GOAL or ratio < GOAL or apart > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
