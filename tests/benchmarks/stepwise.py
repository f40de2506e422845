"""Forward selection over 8 streams: asking rank-bm25 again for each set of streams, against `FieldScores`.

Run: python tests/benchmarks/stepwise.py   (make bench NAME=stepwise)

Both sides score "best fields" over the BM25 of the text and of each stream, fused with cosines (min-max). What is timed
is a complete path: all 37 sets from no stream to all 8, whatever they gain. The naive side asks for every field of
every set, question by question, on `LOOPED` questions a round, multiplied. Ours computes the scores of each field once,
which is timed apart. What is checked on the naive side's questions are the reciprocal ranks under every set, and the
streams and path of the selection that follows from them.

With RAG_DATA_DIR the questions are SQuAD's, all rows, which makes it a timing and no result; else they are made up. The
streams are cheap stand-ins and the vectors random projections of word counts, so what is selected means nothing. Exit
status 1 below a goal, or when a rank or a path differs. Times are the process's own (one thread), so that other work on
the machine does not count; the clock's stand beside. Peak memory is read before the naive side's models are built.
"""

import os
import random
import re
import resource
import sys
import time
from collections import Counter
from dataclasses import replace
from statistics import median

import numpy as np
from rank_bm25 import BM25Okapi

from rag_utils.chunking import gold_chunks, whole
from rag_utils.corpora import Corpus, load_corpus
from rag_utils.indexing import words
from rag_utils.schema import Chunk, Document, Query
from rag_utils.selection import DevRows, FieldScores, forward_selection

LOOPED, ROUNDS = 8, 5
K, HIT, WEIGHT, TIE_BREAKER = 10, 5, 0.4, 0.3
RATIO_GOAL, SECONDS_GOAL, MEMORY_GOAL = 1_000, 5.0, 1.0
STREAMS = ("title", "first", "last", "capitals", "numbers", "rare", "frequent", "long")


class Lucene(BM25Okapi):
    """rank-bm25 with Lucene's idf, as ours has it."""

    def _calc_idf(self, nd):
        self.idf = {word: np.log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for word, n in nd.items()}


class Projections:
    """Stands in for a dense index: cosines of random projections of word counts."""

    def __init__(self, chunks: list[Chunk]):
        self.chunks = chunks
        self._words: dict[str, np.ndarray] = {}
        self._rng = np.random.default_rng(0)
        self._vectors = self.embed([chunk.fields["text"] for chunk in chunks])

    def embed(self, texts: list[str]) -> np.ndarray:
        for word in sorted({word for text in texts for word in words(text)}):
            self._words.setdefault(word, self._rng.standard_normal(64))
        vectors = np.array([np.sum([self._words[word] for word in words(text)], axis=0) for text in texts])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def scores(self, questions: list[str]) -> np.ndarray:
        return np.round(self.embed(questions) @ self._vectors.T, 5)


def corpus() -> tuple[Corpus, str]:
    """8,007 questions and 2,067 passages, and what they are."""
    if os.environ.get("RAG_DATA_DIR"):
        return load_corpus("squad", split="dev", dev_share=1.0), "SQuAD"
    draw = random.Random(0)
    vocabulary = [f"{'W' if i % 9 == 0 else 'w'}{i}" for i in range(30_000)]
    odds = [1 / (rank + 20) for rank in range(len(vocabulary))]
    texts = [" ".join(draw.choices(vocabulary, odds, k=draw.randint(60, 200))) for _ in range(2_067)]
    documents = [Document(id=f"d{i:04d}", text=text, title=text[:20]) for i, text in enumerate(texts)]
    gold = [draw.choice(documents) for _ in range(8_007)]
    queries = [Query(id=f"q{i}", text=" ".join(draw.choices(d.text.split(), k=10))) for i, d in enumerate(gold)]
    found = {query.id: (document.id,) for query, document in zip(queries, gold, strict=True)}
    made = Corpus("made up", documents, queries, gold_documents=found, split="dev", dev_share=1.0)
    return made, "made up; set RAG_DATA_DIR for SQuAD"


def enriched(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks with cheap streams beside title and text."""
    frequency = Counter(word for chunk in chunks for word in set(words(chunk.fields["text"])))

    def streams(text: str) -> dict[str, str]:
        sentences, own = re.split(r"(?<=[.?!])\s", text), sorted(set(words(text)))
        return {
            "first": sentences[0],
            "last": sentences[-1],
            "capitals": " ".join(re.findall(r"\b[A-Z]\w+", text)),
            "numbers": " ".join(re.findall(r"\w*\d\w*", text)),
            "rare": " ".join(sorted(own, key=lambda word: frequency[word])[:5]),
            "frequent": " ".join(word for word, _ in Counter(words(text)).most_common(10)),
            "long": " ".join(sorted(own, key=len)[-5:]),
        }

    return [replace(chunk, fields={**chunk.fields, **streams(chunk.fields["text"])}) for chunk in chunks]


class Naive:
    """The peer: a question is asked anew for every set of streams, in every field."""

    def __init__(self, chunks: list[Chunk], dense: Projections):
        self.ids, self.dense = [chunk.id for chunk in chunks], dense
        self.models = {f: Lucene([words(c.fields.get(f, "")) for c in chunks], k1=1.2) for f in ("text", *STREAMS)}

    def reciprocal_rank(self, question: str, gold: set[str], streams: tuple[str, ...]) -> float:
        fields = np.array([self.models[field].get_scores(words(question)) for field in ("text", *streams)])
        lexical = (1 - TIE_BREAKER) * fields.max(axis=0) + TIE_BREAKER * fields.sum(axis=0)
        cosines = self.dense.scores([question])[0]
        fused = WEIGHT * lexical / (np.ptp(lexical) or 1) + (1 - WEIGHT) * cosines / np.ptp(cosines)
        best = np.argsort(-fused, kind="stable")[:K]
        return next((1 / rank for rank, i in enumerate(best, 1) if self.ids[i] in gold), 0.0)


def complete_path() -> list[tuple[str, ...]]:
    """Every set that is asked for when the streams come in one after the other, down to the last."""
    return [(), *((*STREAMS[:n], stream) for n in range(len(STREAMS)) for stream in STREAMS[n:])]


def seconds(function, *arguments):
    """The process's own of one call, and what it returned."""
    start = time.process_time()
    found = function(*arguments)
    return time.process_time() - start, found


def same_selection(naive: Naive, questions: list[tuple[str, set[str]]], ours, rows: list[int]) -> bool:
    """Whether both sides select the same streams on the same path, with these questions as dev rows."""
    settings = {"alpha": None, "min_gain": 0.0}
    asked = forward_selection(
        STREAMS, lambda s: [naive.reciprocal_rank(q, gold, s) for q, gold in questions], **settings
    )
    quick = forward_selection(STREAMS, lambda s: ours(s)[rows], **settings)
    print(f"mrr@{K}, selected on {len(questions)} questions, without a test: {asked.selected} and {quick.selected}")
    return asked.selected == quick.selected and asked.path.equals(quick.path)


def main() -> int:
    """Prints times, ratios and checks; returns the exit status."""
    data, source = corpus()
    chunks = sorted(enriched(whole(data.documents)), key=lambda chunk: chunk.id)
    dense, sets, found = Projections(chunks), complete_path(), gold_chunks(data, chunks)
    questions = [(query.text, set(found[query.id])) for query in data.queries if query.id in found]
    print(f"{len(questions):,} questions, {len(chunks):,} passages: {source}; {len(sets)} sets of streams")
    ours = DevRows(data).evaluator(FieldScores(chunks, dense=dense, handling="fields", tokenizer=words), f"mrr@{K}")
    once, _ = seconds(ours, STREAMS)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    naive, slow, fast, clock, wrong = Naive(chunks, dense), [], [], [], 0
    rows = random.Random(0).sample(range(len(questions)), LOOPED * ROUNDS)
    for turn in range(ROUNDS):
        own = rows[turn * LOOPED : (turn + 1) * LOOPED]
        took, peer = seconds(lambda own=own: [[naive.reciprocal_rank(*questions[row], s) for row in own] for s in sets])
        slow.append(took * len(questions) / LOOPED)
        start = time.perf_counter()
        took, values = seconds(lambda: [ours(s) for s in sets])
        clock.append(time.perf_counter() - start)
        fast.append(took)
        wrong += int((np.array(peer) != np.array(values)[:, own]).sum())
    took, selection = seconds(forward_selection, STREAMS, lambda s: ours(s) >= 1 / HIT)
    print(f"tested on the hits@{HIT} of all questions, {took:.2f} s: {selection}")
    same = same_selection(naive, [questions[row] for row in rows], ours, rows)
    print(f"scores of all fields, once: {once:.2f} s; the path by the clock: {median(clock):.2f} s")
    return report(slow, fast, memory, wrong, same)


def report(slow: list[float], fast: list[float], memory: float, wrong: int, same: bool) -> int:
    """Prints the figures; 1 where a goal is missed or a check fails."""
    ratio, own = median(np.divide(slow, fast)), median(fast)
    print(f"naive {median(slow):,.0f} s ({LOOPED} questions a round, multiplied)")
    print(f"ours {own:.2f} s (goal {SECONDS_GOAL})")
    print(f"{ratio:,.0f} x, median of {ROUNDS} interleaved rounds (goal {RATIO_GOAL:,} x)")
    print(f"peak memory of the process {memory:.2f} GB (goal {MEMORY_GOAL})")
    print(f"{wrong} of {LOOPED * ROUNDS * len(complete_path())} reciprocal ranks differ (goal 0)")
    print(f"same selection and path: {same}")
    return int(ratio < RATIO_GOAL or own > SECONDS_GOAL or memory > MEMORY_GOAL or wrong > 0 or not same)


if __name__ == "__main__":
    sys.exit(main())
