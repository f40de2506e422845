"""Judges: a language model with the paper's rubric, and scores of one answer at a time, which need no model.

The latter are baselines, and probes: a judge that agrees with "longer" may be measuring no more than that.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rag_utils.indexing import stems, words
from rag_utils.llm import load_prompt
from rag_utils.schema import LLM, Embedder, Verdict

Score = Callable[[Sequence[str], Sequence[str]], np.ndarray]
"""Targets (questions, or references) and answers to one number each, higher is better."""

_RATINGS = {"0": Verdict.TIE, "1": Verdict.WIN, "2": Verdict.LOSS}
_TAG = re.compile(r"<rating>([^<]*)</rating>", re.IGNORECASE)
_PAPER_TAG = re.compile(r"<rating>.*\d.*</rating>", re.DOTALL)


def parse_rating(text: str) -> Verdict:
    """The rating in the last pair of tags; INVALID without one, or if all three ratings stand in tags (an echo)."""
    tagged = [content.strip() for content in _TAG.findall(text)]
    if not tagged or _RATINGS.keys() <= {*tagged}:
        return Verdict.INVALID
    return _RATINGS.get(tagged[-1], Verdict.INVALID)


def parse_rating_paper(text: str) -> Verdict:
    """The authors' way: the largest of 0, 1 and 2 that occurs in the tags or, without tags, anywhere; else a tie.

    "Answer 1 and answer 2 are equal" is a LOSS by it, and a reply that failed a TIE.
    """
    tagged = _PAPER_TAG.search(text)
    place = tagged[0] if tagged else text
    return _RATINGS[max((digit for digit in _RATINGS if digit in place), default="0")]


class LLMJudge:
    """A language model that is shown both answers and no passages, with rubric and examples (prompt `arena_judge`).

    What looks like a tag in an answer is escaped, so that no answer can write its own verdict.

    Args:
        llm: The model; 100 tokens are enough for a reply.
        mode: "sound" reads replies by `parse_rating`, a failed one is INVALID; "paper" by `parse_rating_paper`, of
            which only a reply that was never asked for ("not recorded") is INVALID.

    Source: RAG-QA Arena (arXiv 2407.13998), section 4.
    """

    def __init__(self, llm: LLM, mode: str = "sound"):
        if mode not in ("sound", "paper"):
            raise ValueError(f"mode = {mode!r}: choose 'sound' or 'paper'")
        self.llm, self.mode = llm, mode

    def __call__(self, pairs: Sequence[tuple[str, str, str]]) -> list[Verdict]:
        """Verdicts on the first answers of (question, first, second), all asked at once."""
        replies = self.llm([load_prompt("arena_judge", query=q, first=a, second=b) for q, a, b in pairs])
        if self.mode == "paper":
            return [Verdict.INVALID if r.error == "not recorded" else parse_rating_paper(r.text) for r in replies]
        return [Verdict.INVALID if r.error else parse_rating(r.text) for r in replies]


class ScoreJudge:
    """The answer with the higher score wins, and equal scores tie.

    Args:
        score: `length`, `coverage(...)`, `similarity(...)` or one of your own.
        references: Question -> text that answers are held against; None = the question itself.
    """

    def __init__(self, score: Score, references: Mapping[str, str] | None = None):
        self.score, self.references = score, references

    def __call__(self, pairs: Sequence[tuple[str, str, str]]) -> list[Verdict]:
        """Verdicts on the first answers of (question, first, second).

        Raises:
            ValueError: A question without a reference, where there are references.
        """
        targets, first, second = (list(column) for column in zip(*pairs, strict=True)) if pairs else ([], [], [])
        if self.references is not None:
            missing = [question for question in targets if question not in self.references]
            if missing:
                raise ValueError(f"{len(missing)} questions have no reference, as {missing[0]!r}: leave them out")
            targets = [self.references[question] for question in targets]
        scores = np.asarray(self.score(targets * 2, first + second))
        differences = np.sign(scores[: len(first)] - scores[len(first) :]).tolist()
        return [{1: Verdict.WIN, 0: Verdict.TIE, -1: Verdict.LOSS}[sign] for sign in differences]


def length(targets: Sequence[str], answers: Sequence[str]) -> np.ndarray:
    """Words of the answer, whatever the target: the bias that every judge must be compared with."""
    return np.array([len(words(answer)) for answer in answers])


def variety(targets: Sequence[str], answers: Sequence[str]) -> np.ndarray:
    """Different words of the answer, whatever the target: length that repetition does not buy."""
    return np.array([len({*words(answer)}) for answer in answers])


def coverage(texts: Sequence[str], bonus: float = 0.0) -> Score:
    """Share of the target's words that the answer has, by idf (0 to 1), + `bonus` x ln(1 + words of the answer).

    Args:
        texts: What idf is counted in, as all reference answers: ln(1 + texts / (1 + texts with the word)), of stems.
        bonus: For length; 0.03 lets it decide only between answers that cover about the same.
    """
    holding = Counter(word for text in texts for word in {*stems(text)})

    def covered(target: str, answer: str) -> float:
        held = {*stems(answer)}
        idf = {word: math.log(1 + len(texts) / (1 + holding[word])) for word in dict.fromkeys(stems(target))}
        share = math.fsum(idf[word] for word in idf if word in held) / (math.fsum(idf.values()) or 1)
        return share + bonus * math.log1p(len(words(answer)))

    return lambda targets, answers: np.array([covered(*both) for both in zip(targets, answers, strict=True)])


def similarity(embedder: Embedder) -> Score:
    """Cosine of target and answer, to 5 decimals. Closeness to the question is no quality: a copy of it is closest."""

    def cosines(targets: Sequence[str], answers: Sequence[str]) -> np.ndarray:
        return np.einsum("nd,nd->n", embedder(targets), embedder(answers)).astype(float).round(5)

    return cosines
