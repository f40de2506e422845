"""Answers before they are judged: out of a model's reply, without marks that give them away, or damaged on purpose."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from rag_utils.chunking import sentences

NO_ANSWER = "I couldn't find an answer."
_FAILED = "FAIL TO GENERATE ANS."
_THINKING = [("<thinking>", "</thinking>")] + [(word, "Answer: ") for word in ("Thinking: ", "Thoughts: ", "Thought: ")]
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<=[a-z0-9,;:)] )[A-Z]\w+(?: [A-Z]\w+)*")
"""Words with a capital inside a sentence; at its beginning every word has one."""


def process_response(text: str) -> str:
    """The answer in a model's reply: what was thought before it, and its labels, are taken off.

    Thinking goes only where it has an end. For all three templates (`arena_answer_cot`, `_no_cot`, `_cap`).

    Source: RAG-QA Arena (arXiv 2407.13998), the function of the same name in the authors' code.
    """
    for opening, closing in _THINKING:
        start, end = text.find(opening), text.find(closing)
        if 0 <= start <= end:
            text = text[end + len(closing) :]
        text = text.strip()
    for label in ("Answer: ", "Answer:\n", "<answer>", "</answer>"):
        text = text.replace(label, "")
    return NO_ANSWER if text.strip() == _FAILED else text.strip()


def damaged(answers: Sequence[str], how: str, seed: int = 0) -> list[str]:
    """Copies that are worse in a known way: a judge that discriminates prefers the originals, without any human vote.

    Args:
        answers: The originals, one a question.
        how: "another" question's answer, the "first sentence", "shuffled" sentences, or "swapped" numbers and names,
            each for another one of the answers.
        seed: Of what is drawn.

    Returns:
        One copy an answer. Where that damage is not possible (a single sentence, no number and no name) it equals the
        original: leave such pairs out, and count them.
    """
    if how not in DAMAGES:
        raise ValueError(f"how = {how!r}: choose one of {', '.join(map(repr, DAMAGES))}")
    return DAMAGES[how](answers, np.random.default_rng(seed))


def _another(answers: Sequence[str], rng: np.random.Generator) -> list[str]:
    """In a random circle, so that none keeps its own."""
    order = rng.permutation(len(answers))
    taken = dict(zip(order.tolist(), np.roll(order, 1).tolist(), strict=True))
    return [answers[taken[i]] for i in range(len(answers))]


def _first_sentence(answers: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [text[slice(*sentences(text)[0])] if text.strip() else text for text in answers]


def _shuffled(answers: Sequence[str], rng: np.random.Generator) -> list[str]:
    copies = []
    for text in answers:
        parts = [text[start:end] for start, end in sentences(text)]
        order = rng.permutation(len(parts))
        if np.array_equal(order, np.arange(len(parts))):
            order = np.roll(order, 1)
        copies.append(" ".join(parts[i] for i in order) if len(parts) > 1 else text)
    return copies


def _swapped(answers: Sequence[str], rng: np.random.Generator) -> list[str]:
    copies = list(answers)
    for kind in (_NUMBER, _NAME):
        pool = sorted({fact for text in copies for fact in kind.findall(text)})
        copies = [_exchanged(text, kind, pool, rng) for text in copies]
    return copies


def _exchanged(text: str, kind: re.Pattern[str], pool: list[str], rng: np.random.Generator) -> str:
    """Every number or name becomes another one of the pool, equal ones the same."""
    facts = list(dict.fromkeys(kind.findall(text)))
    places = rng.integers(max(len(pool), 1), size=len(facts)).tolist()
    other = {fact: pool[place - (pool[place] == fact)] for fact, place in zip(facts, places, strict=True)}
    return kind.sub(lambda match: other[match[0]], text)


DAMAGES: dict[str, Callable[[Sequence[str], np.random.Generator], list[str]]] = {
    "another": _another,
    "first sentence": _first_sentence,
    "shuffled": _shuffled,
    "swapped": _swapped,
}
