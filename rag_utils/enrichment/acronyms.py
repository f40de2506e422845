"""Acronyms that a text explains itself: "magnetic resonance imaging (MRI)" or "MRI (magnetic resonance imaging)".

The rule is that of Schwartz and Hearst (2003): read backwards, each letter of the short form is found in the words
before it, the first one at the start of a word, within a number of words that grows with the short form.
"""

import re
from collections.abc import Sequence

_BRACKETS = re.compile(r"\(([^()]+)\)")
_SHORT_FORM = re.compile(r"(?=[^A-Z]*[A-Z])(?=[^\W_])[\w.&/+-]{2,10}(?: [\w.&/+-]{1,9})?")
_BREAK = re.compile(r"[;:()]|[.!?](?=\s)|\n\s*\n")
"""A long form does not reach across it."""
_REACH = 400  # characters, more than 20 words


class AcronymEnricher:
    """Long forms with their short forms, each pair once, as "magnetic resonance imaging (MRI)"; no model is needed."""

    field = "acronyms_found"
    settings = "pairs, 1"

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The pairs in the order of the text."""
        return [tuple(f"{long} ({short})" for long, short in acronym_pairs(text)) for text in texts]


def acronym_pairs(text: str) -> list[tuple[str, str]]:
    """Different pairs (long form, short form), in the order of the text."""
    pairs = []
    for match in _BRACKETS.finditer(text):
        before = _BREAK.split(text[max(0, match.start() - _REACH) : match.start()])[-1].split()
        inside = re.split(r"[;,]", match[1])[0].strip()  # "(ESRD, n = 42)"
        pairs.append(_pair(before, inside) or _pair(inside.split(), before[-1] if before else ""))
    return list(dict.fromkeys(pair for pair in pairs if pair))


def _pair(words: list[str], short: str) -> tuple[str, str] | None:
    """The long form that ends with these words, if the short form is one of theirs."""
    if not _SHORT_FORM.fullmatch(short):
        return None
    letters = [letter for letter in short.lower() if letter.isalnum()]
    most = min(len(letters) + 5, 2 * len(letters))
    text = " ".join(words[-most:])
    start = _start(text.lower(), letters)
    long = text[start:] if start is not None else ""
    holds_itself = short.lower() in long.lower().split()
    return (long, short) if len(long) > len(short) and not holds_itself else None


def _start(text: str, letters: list[str]) -> int | None:
    """Where the long form begins in the text that it ends."""
    place = len(text)
    for n, letter in enumerate(reversed(letters), 1):
        place = text.rfind(letter, 0, place)
        while n == len(letters) and place > 0 and text[place - 1].isalnum():
            place = text.rfind(letter, 0, place)
        if place < 0:
            return None
    return text.rfind(" ", 0, place) + 1
