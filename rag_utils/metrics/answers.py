"""Rules that hold an answer against the accepted ones, and what they say of a system that may abstain."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from rag_utils.metrics.retrieval import check_cut_off, mean_defined, refuse_bare_text

if TYPE_CHECKING:
    import numpy as np

Gold = str | Sequence[str]  # one reference or several
ABSTENTIONS = ("insufficient information", "not enough information", "i do not know", "i could not find an answer")
"""The wordings that `is_abstention` accepts anywhere in an answer, in any case; "n't" is read as " not"."""
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def word_overlap_accuracy(prediction: str, gold: Gold) -> float:
    """Whether prediction and gold share a word: MultiHop-RAG's current rule, 1 or 0, NaN without a gold word.

    Words are split at white space, lower-cased and otherwise left alone, so "Yes." misses "Yes" while "the Verge"
    hits "The Guardian". `gold` may be several references, of which the best counts, here and in the rules below.

    Source: `qa_evaluate.py` of MultiHop-RAG, as used for Table 3 of Multi-Meta-RAG (arXiv 2406.13213).
    """
    words, *golds = (set(text.lower().split()) for text in texts(prediction, gold))
    return max((float(bool(words & wanted)) for wanted in golds if wanted), default=math.nan)


def substring_accuracy(prediction: str, gold: Gold) -> float:
    """Whether one text contains the other, lower-cased and without punctuation: 1 or 0, NaN without a gold text.

    The rule of the first version of Multi-Meta-RAG (arXiv 2406.13213v1); an empty prediction is always right.
    """
    answer, *golds = (text.lower().strip().translate(_NO_PUNCTUATION) for text in texts(prediction, gold))
    return max((float(answer in wanted or wanted in answer) for wanted in golds if wanted), default=math.nan)


def exact_match(prediction: str, gold: Gold) -> float:
    """Whether the normalised texts are equal: 1 or 0; NaN without any reference.

    SQuAD's normalisation (Rajpurkar et al., arXiv 1606.05250): lower case, no punctuation, no articles, single blanks;
    but a step that would empty a text is left out, so that "A" is still an answer. Punctuation joins numbers: "3.5%"
    equals "35", a known false match of this rule.
    """
    answer, *golds = (_answer_words(text) for text in texts(prediction, gold))
    return max((float(answer == wanted) for wanted in golds), default=math.nan)


def token_f1(prediction: str, gold: Gold) -> float:
    """Harmonic mean of precision and recall over words, normalised as in `exact_match`; NaN without any reference.

    A repeated word counts as often as both texts have it. Two empty texts score 1, one empty text 0.
    """
    return _best_overlap(prediction, gold, lambda said, wanted: (said + wanted) / 2)


def token_precision(prediction: str, gold: Gold) -> float:
    """Share of the prediction's words that the reference has too, of the reference with the most; as in `token_f1`."""
    return _best_overlap(prediction, gold, lambda said, wanted: said)


def token_recall(prediction: str, gold: Gold) -> float:
    """Share of the reference's words that the prediction has too, of the reference with the most; as in `token_f1`."""
    return _best_overlap(prediction, gold, lambda said, wanted: wanted)


def _best_overlap(prediction: str, gold: Gold, length: Callable[[int, int], float]) -> float:
    """Words in common over a length made of those of both texts, of the best reference."""
    words, *golds = (Counter(_answer_words(text)) for text in texts(prediction, gold))
    scores = []
    for wanted in golds:
        both, over = (words & wanted).total(), length(words.total(), wanted.total())
        scores.append(both / over if over else float(words == wanted))
    return max(scores, default=math.nan)


def answer_at_k(retrieved: Sequence[str], gold: Gold, k: int) -> float:
    """Whether an accepted answer stands in one of the first k retrieved texts: 1 or 0, NaN without a gold text.

    Both normalised as in `exact_match`, the answer as whole words in sequence ("Ann" is not in "Annual report"). For
    answers that are phrases of the text: a yes, a no or an abstention says nothing of what was found.
    """
    refuse_bare_text(retrieved=retrieved)
    check_cut_off(k)
    passages = [f" {' '.join(_answer_words(text))} " for text in retrieved[:k]]
    answers = [" ".join(_answer_words(text)) for text in ([gold] if isinstance(gold, str) else gold)]
    found = [float(any(f" {answer} " in passage for passage in passages)) for answer in answers if answer]
    return max(found, default=math.nan)


def is_abstention(text: str) -> bool:
    """Whether an answer says that it cannot answer, in one of the wordings of `ABSTENTIONS`; an empty text does not."""
    plain = " ".join(text.lower().replace("’", "'").replace("n't", " not").split())
    return any(wording in plain for wording in ABSTENTIONS)


def macro_f1(gold: Sequence[Hashable], predicted: Sequence[Hashable], labels: Iterable[Hashable] = ()) -> float:
    """Unweighted mean of the F1 of `labels`, by default of all that occur; NaN when there is none.

    A prediction of None (unreadable) is wrong for its gold label and no label itself. A label that occurs in neither
    list has no F1 and is left out of the mean.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels against {len(predicted)} predictions: give one for each")
    right = Counter(true for true, guess in zip(gold, predicted, strict=True) if true == guess)
    occurrences = Counter([*gold, *predicted])
    del occurrences[None]
    chosen = dict.fromkeys(labels) or occurrences
    return mean_defined(2 * right[label] / occurrences[label] for label in chosen if occurrences[label]).value


def risk_coverage(confidence: Sequence[float], correct: Sequence[float]) -> tuple["np.ndarray", "np.ndarray"]:
    """What is answered and how much of it is wrong, when only answers from some confidence upwards are given.

    Args:
        confidence: Of each answer, on any scale, higher is surer.
        correct: 1 or 0 for each answer, or a score between.

    Returns:
        Coverage, ascending to 1, and risk (1 - mean of `correct` over the answers given), both 0 to 1: a point for
        each distinct confidence, since equal ones enter together.

    Raises:
        ValueError: No answers, not one of both for each, a confidence that is NaN, or a score outside 0 to 1.

    Source: Geifman & El-Yaniv, NeurIPS 2017.
    """
    import numpy as np

    sure, right = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
    if sure.ndim != 1 or sure.shape != right.shape or not sure.size:
        raise ValueError(f"confidence of shape {sure.shape}, correct {right.shape}: give one of both for each answer")
    if np.isnan(sure).any() or not ((right >= 0) & (right <= 1)).all():
        raise ValueError("a confidence is NaN, or a score is NaN or outside 0 to 1: leave such answers out and say so")
    order = np.argsort(-sure)
    sure, given = sure[order], np.arange(1, sure.size + 1)
    last = np.append(sure[1:] != sure[:-1], True)  # of those with equal confidence
    return given[last] / sure.size, (np.cumsum(1 - right[order]) / given)[last]


def aurc(coverage: "np.ndarray", risk: "np.ndarray") -> float:
    """Area under `risk_coverage`'s steps, 0 to 1: the mean risk at the coverage where each answer enters; 0 is best."""
    return float(risk @ (coverage - [0.0, *coverage[:-1]]))


def texts(prediction: str, gold: Gold) -> list[str]:
    """The prediction, then each reference."""
    return [prediction, gold] if isinstance(gold, str) else [prediction, *gold]


def _answer_words(text: str) -> list[str]:
    plain = text.lower().translate(_NO_PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split() or plain.split() or text.lower().split()
