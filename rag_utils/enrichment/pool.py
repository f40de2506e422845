"""The "MetaGen pool": the phrases of all streams, united and freed from noise, each with where it came from.

The paper (section 3.2.1) names union, deduplication and denoising and has no code for them; the rules are ours.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache

Span = tuple[int, int]
Phrases = Sequence[Sequence[str]]
"""Of each text."""
Row = Mapping[str, tuple[str, ...]]
"""Phrases of one text with the streams that have them."""

_LETTER = r"[^\W\d_]"
_FEWEST_CHARACTERS = 3
_SHARE_OF_TEXTS = 0.2  # a phrase that more texts have tells none from another
_ALIKE = 0.8  # Jaccard index of the words


@dataclass(frozen=True, slots=True)
class PooledPhrase:
    """A phrase in small letters without punctuation."""

    text: str
    streams: tuple[str, ...]
    """That have it, in the order given."""
    span: Span | None
    """Characters of the text where it stands, at most stop words between its words; None = generated."""


@dataclass(frozen=True)
class Pool:
    """The pooled phrases of each text."""

    phrases: list[tuple[PooledPhrase, ...]]
    counts: dict[str, int]
    """Phrases "given", the "different" ones of them, how many each rule dropped, and "kept"."""

    def texts(self) -> list[tuple[str, ...]]:
        """The phrases alone, for `add_fields(chunks, {"pool": pool.texts()})`."""
        return [tuple(phrase.text for phrase in own) for own in self.phrases]


def metagen_pool(texts: Sequence[str], streams: Mapping[str, Phrases]) -> Pool:
    """Unite the streams of each text, in the order given.

    Phrases equal but for case and punctuation become one. Dropped are, in this order: those with fewer than 3
    characters and numbers; those that more than 20 % of the texts have (and more than one); those that share their
    words with an earlier phrase of the text (Jaccard index >= 0.8).

    Args:
        texts: Which the phrases belong to.
        streams: As `extract_phrases` gives them.

    Raises:
        ValueError: A stream has phrases for more or for fewer texts.
    """
    rows = [_united(dict(zip(streams, own, strict=True))) for _, *own in zip(texts, *streams.values(), strict=True)]
    shares = Counter(phrase for row in rows for phrase in row)
    most = max(1, _SHARE_OF_TEXTS * len(texts))
    counts = {"given": sum(map(_size, streams.values())), "different": _size(rows)}
    rules: dict[str, Callable[[Row], Iterable[str]]] = {
        "short or a number": lambda row: [p for p in row if len(p) >= _FEWEST_CHARACTERS and re.search(_LETTER, p)],
        "in many texts": lambda row: [p for p in row if shares[p] <= most],
        "nearly the same": _unlike,
    }
    for reason, rule in rules.items():
        before, rows = _size(rows), [{phrase: row[phrase] for phrase in rule(row)} for row in rows]
        counts[reason] = before - _size(rows)
    pooled = [
        tuple(PooledPhrase(phrase, names, find(text, phrase)) for phrase, names in row.items())
        for text, row in zip(texts, rows, strict=True)
    ]
    return Pool(pooled, counts | {"kept": _size(rows)})


def leaks(texts: Sequence[str], phrases: Phrases, secrets: Sequence[str]) -> list[tuple[int, str]]:
    """Phrases that a text's secret (gold answer, question) holds and the text does not, with the text's number.

    A stream made from the texts alone has none, but by chance where a model generates words.
    """
    found = []
    for n, (text, own, secret) in enumerate(zip(texts, phrases, secrets, strict=True)):
        found += [(n, phrase) for phrase in own if find(secret, phrase) and not find(text, phrase)]
    return found


def find(text: str, phrase: str) -> Span | None:
    """The first place of the phrase, else of its words with nothing but stop words and letters between."""
    wanted = _words(phrase)
    for words, spans in _sequences(text):
        for i in range(len(words) - len(wanted) + 1):
            if wanted and words[i : i + len(wanted)] == wanted:
                return spans[i][0], spans[i + len(wanted) - 1][1]
    return None


@lru_cache(maxsize=16)  # many phrases are looked up in one text after another
def _sequences(text: str) -> list[tuple[list[str], list[Span]]]:
    """Words with their places: all, and those that KeyBERT makes phrases of."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    places = [(match[0].casefold(), match.span()) for match in re.finditer(r"\w+", text)]
    telling = [place for place in places if len(place[0]) > 1 and place[0] not in ENGLISH_STOP_WORDS]
    return [([word for word, _ in own], [span for _, span in own]) for own in (places, telling)]


def _words(phrase: str) -> list[str]:
    return re.findall(r"\w+", phrase.casefold())


def _united(streams: Mapping[str, Sequence[str]]) -> Row:
    row: dict[str, tuple[str, ...]] = {}
    for name, phrases in streams.items():
        for phrase in dict.fromkeys(" ".join(_words(phrase)) for phrase in phrases):
            row[phrase] = (*row.get(phrase, ()), name)
    return row


def _unlike(row: Row) -> Iterable[str]:
    kept: dict[str, set[str]] = {}
    for phrase in row:
        words = set(phrase.split())
        if all(len(words & other) < _ALIKE * len(words | other) for other in kept.values()):
            kept[phrase] = words
    return kept


def _size(rows: Iterable[Sized]) -> int:
    return sum(map(len, rows))
