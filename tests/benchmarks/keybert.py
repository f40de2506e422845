"""Key phrases by embeddings: `KeyBERT.extract_keywords` text by text against `KeyBERTEnricher`.

Run: DOCS=300 python tests/benchmarks/keybert.py   (make bench NAME=keybert; 15 minutes on a quiet machine)

DOCS passages of Natural Questions (RAG_DATA_DIR) with the paper's settings for them, else the built-in abstracts with
those for abstracts, drawn at random. Both embed with all-MiniLM-L6-v2 on the CPU and take turns, 60 passages each, in
one process. Processor time is shown beside elapsed time, since other processes disturb it less. Exit status 1 below
twice the speed (elapsed), when a phrase or its place differs, or when a cosine differs from that of the peer's own
vectors by more than 1e-5.
"""

import os
import random
import sys
import time

import numpy as np
from _keybert_loop import load_peer, loop_of

from rag_utils.corpora import load_corpus
from rag_utils.encoders import load_embedder
from rag_utils.enrichment import KEYBERT_PRESETS, KeyBERTEnricher

PASSAGES, BLOCK = int(os.environ.get("DOCS", "300")), 60
GOAL, TOLERANCE = 2.0, 1e-5


def passages() -> tuple[str, list[str]]:
    """The data set and a seeded sample of it."""
    name = "natural_questions" if os.environ.get("RAG_DATA_DIR") else "builtin_abstracts"
    texts = [document.text for document in load_corpus(name, split="all").documents]
    return name, random.Random(0).sample(texts, min(PASSAGES, len(texts)))


def largest_difference(peer, text: str, scored: list[tuple[str, float]]) -> float:
    """Between our cosines and those of the peer's vectors."""
    vectors = peer.model.embed([text, *(phrase for phrase, _ in scored)]).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return float(np.abs(vectors[1:] @ vectors[0] - [score for _, score in scored]).max(initial=0))


def main() -> int:
    """Prints times, the ratio and the checks; returns the exit status."""
    name, texts = passages()
    preset = KEYBERT_PRESETS["natural_questions" if name == "natural_questions" else "pubmedqa"]
    peer = load_peer()
    enricher = KeyBERTEnricher(load_embedder(batch_size=256, cache=False, device="cpu"), **preset)
    calls = {"loop": loop_of(peer, **preset), "ours": enricher.scored}
    for call in calls.values():
        call(["Models are loaded and threads started before the clock runs."])
    times: dict[str, list[tuple[float, float]]] = {side: [] for side in calls}
    found: dict[str, list] = {side: [] for side in calls}
    for block in (texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK)):
        for side, call in calls.items():
            start = time.perf_counter(), time.process_time()
            found[side] += call(block)
            times[side].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    phrases = {side: [[phrase for phrase, _ in own] for own in scored] for side, scored in found.items()}
    other = sum(theirs != own for theirs, own in zip(*phrases.values(), strict=True))
    apart = max(largest_difference(peer, *pair) for pair in zip(texts, found["ours"], strict=True))
    seconds = {side: np.sum(own, axis=0) for side, own in times.items()}
    elapsed, processor = seconds["loop"] / seconds["ours"]
    print(f"{name}: " + ", ".join(f"{side} {len(texts) / own[0]:.2f} texts/s" for side, own in seconds.items()))
    print(f"{elapsed:.2f} x (goal {GOAL:g}), {processor:.2f} x in processor time")
    print(f"{other} of {len(texts)} texts with other phrases (goal 0), cosines differ by up to {apart:.1e}")
    return int(elapsed < GOAL or other > 0 or apart > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
