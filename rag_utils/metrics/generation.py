"""Overlap of a written answer with the accepted ones, by the libraries of the field: BLEU, ROUGE, METEOR.

Of several references the best counts; without any the score is NaN. The libraries are imported at the first call.
"""

import math
import unicodedata
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from rag_utils.metrics.answers import Gold, texts


class Overlap(NamedTuple):
    """Shares of the prediction's and of the reference's n-grams that the other has, and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def bleu(prediction: str, gold: Gold, *, order: int = 4, mode: str = "sound") -> float:
    """BLEU of one answer with equal weights up to n-grams of `order`; 0 when prediction or reference is empty.

    Words as NLTK's Treebank rules have them, in their case; a full stop is a word at the end of the whole text only,
    while `word_tokenize`, which needs a download, also finds those of the sentences within.

    Args:
        prediction: The answer.
        gold: One reference or several; each is compared by itself, and the best counts.
        order: Longest n-gram, 1 or more.
        mode: "sound" is 0 to 1, and 1 for equal texts: orders longer than the shorter text are left out, those without
            a match smoothed by Chen & Cherry's method 1. "paper" is what QA-RAG's script computes, method 5, which is
            no share: equal texts of 7 words score 1.333 up to order 1 and 1.117 up to order 4, one equal word .1925.

    Raises:
        ValueError: Another mode, or an order below 1.

    Source: Papineni et al., ACL 2002; Chen & Cherry, WMT 2014; QA-RAG, `Evaluation.all_metrics`.
    """
    if mode not in ("sound", "paper"):
        raise ValueError(f"mode = {mode!r}: choose 'sound' or 'paper'")
    if order < 1:
        raise ValueError(f"order = {order!r}: n-grams have at least 1 word")
    words, *references = map(_words, texts(prediction, gold))
    return max((_bleu(words, reference, order, mode) for reference in references), default=math.nan)


def rouge_n(prediction: str, gold: Gold, n: int = 1) -> Overlap:
    """ROUGE-N with Porter's stems, n from 1 to 9; the reference with the best F1.

    Words are runs of letters, marks and digits of any script, lower-cased, so that no script scores 0 with itself as in
    `rouge_score`, which keeps a-z and 0-9. A script without blanks (Thai, Chinese) has one word a run: such texts match
    only where whole runs are equal. A text of signs alone is split at white space; an empty one scores 0.

    Source: Lin, ROUGE, ACL 2004 workshop.
    """
    return _rouge(f"rouge{n}", prediction, gold)


def rouge_l(prediction: str, gold: Gold) -> float:
    """F1 of ROUGE-L, the longest common subsequence of words; words and references as in `rouge_n`."""
    return _rouge("rougeL", prediction, gold).f1


def meteor(prediction: str, gold: Gold, *, synonyms: bool | None = None) -> float:
    """METEOR with NLTK's settings, 0 to 1: words match if equal in lower case, by Porter's stem, or as synonyms.

    Equal texts of m words score 1 - 0.5 / m^3, so that one equal word is .5; words are split as in `bleu`.

    Args:
        prediction: The answer.
        gold: One reference or several, of which the best counts.
        synonyms: Match by WordNet too; None = if it is installed, which `meteor_label` tells.

    Raises:
        LookupError: Synonyms are asked for and WordNet is not installed.

    Source: Lavie & Agarwal, WMT 2007.
    """
    from nltk.translate.meteor_score import meteor_score

    wordnet = _wordnet() if synonyms is not False else None
    if synonyms and not wordnet:
        raise LookupError("WordNet is not installed: `python -m nltk.downloader wordnet`, or use synonyms=False")
    words, *references = map(_words, texts(prediction, gold))
    without = SimpleNamespace(synsets=lambda word: [])
    return float(meteor_score(references, words, wordnet=wordnet or without)) if references else math.nan


def meteor_label() -> str:
    """The name of what `meteor` computes here: "meteor", or "meteor (no synonyms)" where WordNet is not installed.

    To install it: `python -m nltk.downloader wordnet`.
    """
    return "meteor" if _wordnet() else "meteor (no synonyms)"


def _words(text: str) -> list[str]:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer().tokenize(text)


def _bleu(words: list[str], reference: list[str], order: int, mode: str) -> float:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    if mode == "paper":
        return float(sentence_bleu([reference], words, (1 / order,) * order, SmoothingFunction().method5))
    order = min(order, len(words), len(reference))
    if not order:
        return 0.0
    return min(1.0, sentence_bleu([reference], words, (1 / order,) * order, SmoothingFunction().method1))


def _rouge(kind: str, prediction: str, gold: Gold) -> Overlap:
    _, *references = texts(prediction, gold)
    scores = [Overlap(*_scorer(kind).score(reference, prediction)[kind]) for reference in references]
    return max(scores, key=lambda overlap: overlap.f1, default=Overlap(math.nan, math.nan, math.nan))


@cache
def _scorer(kind: str) -> Any:
    from nltk.stem import PorterStemmer
    from rouge_score.rouge_scorer import RougeScorer

    stem = PorterStemmer().stem

    def stems(text: str) -> list[str]:
        plain = "".join(sign if unicodedata.category(sign)[0] in "LMN" else " " for sign in text.lower())
        words = plain.split() or text.lower().split()
        return [stem(word) if len(word) > 3 else word for word in words]  # as rouge_score does

    return RougeScorer([kind], tokenizer=SimpleNamespace(tokenize=stems))


@cache
def _wordnet() -> Any:
    """NLTK's reader, None where its files are not installed."""
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except (LookupError, OSError):
        return None
    return wordnet
