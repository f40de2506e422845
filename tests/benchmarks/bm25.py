"""BM25, top 10 of a batch of 1,000 questions: rank-bm25 and bm25s (numba) against `LexicalIndex`.

Run: python tests/benchmarks/bm25.py   (make bench NAME=bm25; DOCS=62000 for another size, 20,000 by default)

With RAG_DATA_DIR the documents are SQuAD, Natural Questions and BoolQ passages, then passages spliced from two of them
until there are enough, and the questions SQuAD's; without it, made-up texts whose words follow Zipf's law. All engines
see the same tokens on one thread. The peers get each question as a list of tokens; ours gets text and splits it within
the timed call. rank-bm25 is timed on a few questions a round. Exit status 1 below a goal (goals hold from 20,000
documents on), or when a score or a ranking is wrong.
"""

import math
import os
import random
import sys
import time
from importlib.util import find_spec
from statistics import median

import numpy as np
from rank_bm25 import BM25Okapi

from rag_utils.indexing import LexicalIndex, lexical, words
from rag_utils.schema import Chunk

DOCS = int(os.environ.get("DOCS", "20000"))
QUESTIONS = 1_000
LOOPED = 5
ROUNDS = 7
K = 10
GOALS = {"numba": {"rank-bm25": 1_000, "bm25s": 0.9}, "numpy": {"rank-bm25": 250}}
INDEX_GOAL = 2.0


def texts() -> tuple[list[str], list[str], str]:
    """Documents, questions, and what they are."""
    rng = random.Random(0)
    if not os.environ.get("RAG_DATA_DIR"):
        vocabulary = [f"w{i}" for i in range(50_000)]
        odds = [1 / (rank + 1) for rank in range(len(vocabulary))]
        lengths = [rng.randint(40, 160) for _ in range(DOCS)] + [rng.randint(5, 15) for _ in range(QUESTIONS)]
        made = [" ".join(rng.choices(vocabulary, odds, k=length)) for length in lengths]
        return made[:DOCS], made[DOCS:], "made up (Zipf); set RAG_DATA_DIR for real text"
    from rag_utils.corpora import load_corpus

    sets = {name: load_corpus(name, split="all") for name in ("squad", "natural_questions", "boolq")}
    real = [document.text for corpus in sets.values() for document in corpus.documents][:DOCS]
    spliced = [_spliced(*rng.sample(real, 2)) for _ in range(DOCS - len(real))]
    questions = rng.sample([query.text for query in sets["squad"].queries], QUESTIONS)
    return real + spliced, questions, f"{len(real):,} real passages and {len(spliced):,} spliced ones, SQuAD questions"


def _spliced(a: str, b: str) -> str:
    return a[: len(a) // 2] + " " + b[len(b) // 2 :]


def seconds(function, *arguments) -> float:
    """Of one call."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def engine(name: str):
    """Our search on one engine, whatever the amount of work."""
    compiled_from = 0 if name == "numba" else math.inf

    def search(index: LexicalIndex, questions: list[str]):
        lexical._COMPILED_FROM = compiled_from
        return index.search(questions, K)

    return search


def exact(index: LexicalIndex, questions: list[str], found: list[list[tuple[str, float]]]) -> int:
    """Questions whose hits are not the ranking by the float64 score, rounded to 1e-5, ties by id."""
    ids = np.array([chunk.id for chunk in index.chunks])
    by_id = np.argsort(ids)
    wrong = 0
    for question, hits in zip(questions, found, strict=True):
        rounded = np.round(index.scores([question])[0, by_id], 5)
        best = by_id[np.argsort(-rounded, kind="stable")[:K]]
        wrong += [id_ for id_, _ in hits] != ids[best].tolist()
    return wrong


def index_ratio(tokens: list[list[str]], chunks: list[Chunk]) -> float:
    """Building ours, rank-bm25's fit included, as a multiple of the fit on the same lists: median of the rounds."""
    ready = {chunk.fields["text"]: own for chunk, own in zip(chunks, tokens, strict=True)}
    ratios = []
    for _ in range(ROUNDS):
        fit = seconds(BM25Okapi, tokens)
        ratios.append(seconds(lambda: LexicalIndex(chunks, tokenizer=ready.__getitem__)) / fit)
    return median(ratios)


def bm25s_search(tokens: list[list[str]], queries: list[list[str]]):
    """The rival with rank-bm25's formula (but for the floor under negative idf), on one thread."""
    import bm25s

    rival = bm25s.BM25(method="atire", idf_method="robertson", k1=1.5, b=0.75, backend="numba")
    rival.index(tokens, show_progress=False)
    return lambda: rival.retrieve(queries, k=K, return_as="tuple", show_progress=False, n_threads=1)


def main() -> int:
    """Prints times, ratios and checks; returns the exit status."""
    documents, questions, source = texts()
    tokens, queries = [words(text) for text in documents], [words(text) for text in questions]
    chunks = [
        Chunk(id=f"{i:06d}", document_id=str(i), start=0, end=len(text), fields={"text": " ".join(own)})
        for i, (text, own) in enumerate(zip(documents, tokens, strict=True))
    ]
    split = [" ".join(query) for query in queries]
    print(f"{DOCS:,} documents: {source}; {QUESTIONS:,} questions, top {K}, {ROUNDS} interleaved rounds, one thread")
    fitting = index_ratio(tokens, chunks)
    peer, ours = BM25Okapi(tokens), LexicalIndex(chunks, tokenizer=str.split)
    difference = max(
        np.abs(peer.get_scores(query) - ours.scores([text])[0]).max()
        for query, text in zip(queries[:20], split[:20], strict=True)
    )
    calls = {"numpy": lambda: engine("numpy")(ours, split)}
    if find_spec("numba") and find_spec("bm25s"):
        calls |= {"numba": lambda: engine("numba")(ours, split), "bm25s": bm25s_search(tokens, queries)}
    else:
        print("numba or bm25s is not installed: only numpy is measured")
    wrong = {name: exact(ours, split, calls[name]()) for name in GOALS if name in calls}
    for call in calls.values():
        call()
    times = {name: [] for name in ("rank-bm25", *calls)}
    for turn in range(ROUNDS):
        looped = queries[turn * LOOPED : (turn + 1) * LOOPED]
        times["rank-bm25"].append(sum(seconds(peer.get_scores, query) for query in looped) / LOOPED)
        for name, call in calls.items():
            times[name].append(seconds(call) / QUESTIONS)
    return report(times, wrong, difference, fitting)


def report(times: dict[str, list[float]], wrong: dict[str, int], difference: float, fitting: float) -> int:
    """Prints the table; 1 where a goal is missed or a check fails."""
    for name, own in times.items():
        print(f"{name:10} {1_000 * median(own):9.4f} ms a question")
    failed = difference > 1e-9 or any(wrong.values())
    print(f"scores: at most {difference:.1e} from rank-bm25's (allowed 1e-9)")
    for name, n in wrong.items():
        print(f"{name}: top {K} unlike the float64 ranking in {n} of {QUESTIONS} questions")
        for rival, goal in GOALS[name].items():
            ratio = median(theirs / own for theirs, own in zip(times[rival], times[name], strict=True))
            print(f"{name} against {rival}: {ratio:,.2f} x (goal {goal:,} x)")
            failed |= DOCS >= 20_000 and ratio < goal
    print(f"building the index: {fitting:.2f} x rank-bm25's fit (goal at most {INDEX_GOAL})")
    return int(failed or fitting > INDEX_GOAL)


if __name__ == "__main__":
    sys.exit(main())
