"""Questions and passages for the benchmarks of encoders: real ones with RAG_DATA_DIR, else made up."""

import os
import random

import numpy as np

MANY_LETTERS = ["government", "administration", "international", "communication", "neighbourhood", "understanding"]
FEW_LETTERS = ["the", "of", "to", "a", "in", "is", "on", "at", "as", "by"]
MANY_TOKENS = ["Kyzylorda", "Ouagadougou", "1,483.25", "thermolysine", "Zhytomyr", "x2b-77q"]


def questions_and_passages(n_questions: int, n_passages: int) -> tuple[list[str], list[str], str]:
    """Seeded samples, and what they are."""
    if not os.environ.get("RAG_DATA_DIR"):
        return _made_up(n_questions, n_passages)
    from rag_utils.corpora import load_corpus

    sets = [load_corpus(name, split="all") for name in ("squad", "natural_questions")]
    draw = random.Random(0)
    questions = draw.sample([query.text for corpus in sets for query in corpus.queries], n_questions)
    passages = draw.sample([document.text for corpus in sets for document in corpus.documents], n_passages)
    return questions, passages, "SQuAD and Natural Questions"


def _made_up(n_questions: int, n_passages: int) -> tuple[list[str], list[str], str]:
    """Lengths as SQuAD's (log-normal); each text leans to words of another kind, so letters do not tell tokens."""
    rng = np.random.default_rng(0)

    def text(words: float) -> str:
        kinds = rng.choice(3, int(words), p=rng.dirichlet([2.0, 2.0, 1.0]))
        return " ".join(rng.choice((MANY_LETTERS, FEW_LETTERS, MANY_TOKENS)[kind]) for kind in kinds)

    questions = [text(rng.integers(8, 16)) for _ in range(n_questions)]
    passages = [text(np.clip(rng.lognormal(np.log(75), 0.5), 8, 200)) for _ in range(n_passages)]
    return questions, passages, "made up; set RAG_DATA_DIR for real text"
