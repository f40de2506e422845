"""Scores of one generated answer against its references, and of a column of labels."""

import math
import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

ABSTENTIONS = (
    "insufficient information",
    "not enough information",
    "i do not know",
    "i don't know",
    "i could not find an answer",
    "i couldn't find an answer",
)
"""The wordings that `is_abstention` accepts anywhere in an answer, in any case, with straight or curly apostrophes."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def word_overlap_accuracy(prediction: str, gold: str | Sequence[str]) -> float:
    """Whether prediction and gold share a word: MultiHop-RAG's current rule, 1 or 0, NaN without a gold word.

    Words are split at white space, lower-cased and otherwise left alone, so "Yes." misses "Yes" while "the Verge"
    hits "The Guardian". `gold` may be several references, of which the best counts, here and in the rules below.

    Source: `qa_evaluate.py` of MultiHop-RAG, as used for Table 3 of Multi-Meta-RAG (arXiv 2406.13213).
    """
    words = set(prediction.lower().split())
    golds = [set(text.lower().split()) for text in _references(gold)]
    return max((float(bool(words & wanted)) for wanted in golds if wanted), default=math.nan)


def substring_accuracy(prediction: str, gold: str | Sequence[str]) -> float:
    """Whether one text contains the other, lower-cased and without punctuation: 1 or 0, NaN without a gold text.

    The rule of the first version of Multi-Meta-RAG (arXiv 2406.13213v1); an empty prediction is always right.
    """
    answer, *golds = (text.lower().strip().translate(_NO_PUNCTUATION) for text in (prediction, *_references(gold)))
    return max((float(answer in wanted or wanted in answer) for wanted in golds if wanted), default=math.nan)


def exact_match(prediction: str, gold: str | Sequence[str]) -> float:
    """Whether the normalised texts are equal: 1 or 0; NaN without any reference.

    SQuAD's normalisation (Rajpurkar et al., arXiv 1606.05250): lower case, no punctuation, no articles, single blanks;
    but a step that would empty a text is left out, so that "A" is still an answer. Punctuation joins numbers: "3.5%"
    equals "35", a known false match of this rule.
    """
    words = _answer_words(prediction)
    return max((float(words == _answer_words(text)) for text in _references(gold)), default=math.nan)


def token_f1(prediction: str, gold: str | Sequence[str]) -> float:
    """Harmonic mean of precision and recall over words, normalised as in `exact_match`; NaN without any reference.

    A repeated word counts as often as both texts have it. Two empty texts score 1, one empty text 0.
    """
    words = _answer_words(prediction)
    return max((_word_f1(words, _answer_words(text)) for text in _references(gold)), default=math.nan)


def is_abstention(text: str) -> bool:
    """Whether an answer says that it cannot answer, in one of the wordings of `ABSTENTIONS`; an empty text does not."""
    plain = " ".join(text.lower().replace("’", "'").split())
    return any(wording in plain for wording in ABSTENTIONS)


def macro_f1(
    gold: Sequence[Hashable], predicted: Sequence[Hashable | None], labels: Iterable[Hashable] | None = None
) -> float:
    """Unweighted mean of the labels' F1.

    Args:
        gold: True labels.
        predicted: Predicted labels; None (unreadable) is wrong for its gold label and no label itself.
        labels: The labels to average over; by default all that occur. One that occurs in neither list has no F1 and is
            left out of the mean, which is NaN when no label is left.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels against {len(predicted)} predictions: give one for each")
    right = Counter(true for true, guess in zip(gold, predicted, strict=True) if true == guess)
    occurrences = Counter([*gold, *predicted])
    del occurrences[None]
    chosen = occurrences if labels is None else dict.fromkeys(labels)
    scores = [2 * right[label] / occurrences[label] for label in chosen if occurrences[label]]
    return sum(scores) / len(scores) if scores else math.nan


def _references(gold: str | Sequence[str]) -> Sequence[str]:
    return [gold] if isinstance(gold, str) else gold


def _answer_words(text: str) -> list[str]:
    lowered = text.lower()
    plain = lowered.translate(_NO_PUNCTUATION)
    return _ARTICLES.sub(" ", plain).split() or plain.split() or lowered.split()


def _word_f1(words: list[str], wanted: list[str]) -> float:
    if not words and not wanted:
        return 1.0
    return 2 * (Counter(words) & Counter(wanted)).total() / (len(words) + len(wanted))
