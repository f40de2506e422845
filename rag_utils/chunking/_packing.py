"""Sentences packed into spans of at most so many tokens, with whole sentences as overlap."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

CountTokens = Callable[[str], int]
Span = tuple[int, int]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\S+")


def count_words_and_marks(text: str) -> int:
    """Words and punctuation marks: the count used when no encoder's own is given."""
    return len(_TOKEN.findall(text))


def word_spans(text: str) -> list[Span]:
    """Character spans of the words, as white space parts them."""
    return [match.span() for match in _WORD.finditer(text)]


class Unit(NamedTuple):
    """What is packed: a sentence, or a part of one that alone exceeds the limit."""

    start: int
    end: int
    tokens: int
    whole: bool


def units(text: str, spans: Iterable[Span], limit: int, count: CountTokens) -> Iterator[Unit]:
    """The sentences, each counted once; one of more than `limit` tokens is cut between words."""
    for start, end in spans:
        tokens = count(text[start:end])
        if tokens <= limit:
            yield Unit(start, end, tokens, True)
        else:
            words = (
                part for word in word_spans(text[start:end]) for part in _parts(text[start:end], word, limit, count)
            )
            for first, last, total in pack(words, limit):
                yield Unit(start + first, start + last, total, False)


def _parts(text: str, word: Span, limit: int, count: CountTokens) -> Iterator[Unit]:
    """A word, or what it is cut into when it alone exceeds the limit."""
    start, end = word
    while start < end:
        tokens = count(text[start:end])
        cut = end
        if tokens > limit:
            longest = bisect_right(range(start + 1, end), limit, key=lambda stop: count(text[start:stop]))
            cut = start + max(longest, 1)
            tokens = count(text[start:cut])
        yield Unit(start, cut, tokens, False)
        start = cut


def pack(parts: Iterable[Unit], limit: int, overlap: int = 0) -> Iterator[tuple[int, int, int]]:
    """Greedy spans (start, end, tokens) of consecutive parts, at most `limit` tokens each.

    The next span opens with the whole sentences that end the last one, as many as fit into `overlap` tokens and leave
    room for the sentence that comes next: every span so holds something new. Counts are added up, which is exact for
    tokenizers that part at white space (WordPiece, words).
    """
    held: list[Unit] = []
    for part in parts:
        if held and _tokens(held) + part.tokens > limit:
            yield held[0].start, held[-1].end, _tokens(held)
            held = _carried(held, min(overlap, limit - part.tokens))
        held.append(part)
    if held:
        yield held[0].start, held[-1].end, _tokens(held)


def _carried(held: list[Unit], room: int) -> list[Unit]:
    first = len(held)
    while first > 1 and held[first - 1].whole and held[first - 1].tokens <= room:
        first -= 1
        room -= held[first].tokens
    return held[first:]


def _tokens(held: list[Unit]) -> int:
    return sum(part.tokens for part in held)
