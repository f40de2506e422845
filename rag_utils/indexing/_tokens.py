"""From text to the tokens that BM25 counts."""

import functools
import re

_WORD = re.compile(r"\w+")
STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with"
    )
)
"""The 33 English stop words of Lucene."""


def words(text: str) -> list[str]:
    r"""Lower-case runs of letters, digits and underscores (`\w+`)."""
    return _WORD.findall(text.lower())


def stems(text: str) -> list[str]:
    """`words` without Lucene's 33 English stop words, stemmed by Snowball English (nltk)."""
    return [_stem(word) for word in words(text) if word not in STOP_WORDS]


@functools.cache
def _stem(word: str) -> str:
    return _stemmer().stem(word)


@functools.cache
def _stemmer():
    from nltk.stem.snowball import EnglishStemmer

    return EnglishStemmer()
