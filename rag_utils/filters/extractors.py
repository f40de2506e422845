"""Filters read from questions without a language model: by the names and dates they spell out, or by a linear probe."""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rag_utils.filters.conditions import Where, as_text
from rag_utils.filters.quality import named_values
from rag_utils.filters.validation import Sources, allowed_fields, validate_filter
from rag_utils.schema import Embedder

_WORD = re.compile(r"\w+")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"(?<![\w-])(?:{_MONTH} {_NTH},? \d{{4}}|{_NTH}(?: of)? {_MONTH},? \d{{4}}|\d{{4}}-\d\d-\d\d)(?![\w-])",
    re.IGNORECASE,
)
_ELSEWHEN = re.compile(r"\b(?:before|after|since|until|other than)\b", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:(?:not|nor|neither)(?: \w+(?:ed|en|ing))?(?: (?:by|in|on|from))?"
    r"|other than|except(?:ing)?(?: for)?|excluding|apart from|leaving aside)(?: the)?[ \"'‘“(]+$",
    re.IGNORECASE,
)
"""What stands right before a name that is ruled out."""
_AND = re.compile(r"[\"'”]?,?(?: (?:or|nor|and))?(?: (?:by|in|on|from))?(?: the)?[ \"'‘“]+", re.IGNORECASE)
"""What stands between two names of one list."""
_THRESHOLDS = [percent / 100 for percent in range(5, 95, 5)]


class _Name(NamedTuple):
    """A spelling, whether it has to be written exactly so (or in capitals), and the fields and values it stands for."""

    spelling: str
    exact: bool
    targets: list[tuple[str, Any]]

    def stands_at(self, start: int, question: str) -> bool:
        end = start + len(self.spelling)
        written, folded = question[start:end], self.spelling.casefold()
        same = written in (self.spelling, self.spelling.upper()) if self.exact else written.casefold() == folded
        return same and not _WORD.match(question, end)


class NamedSourceExtractor:
    """Reads a filter from the names and dates that a question spells out; no model, well below 1 ms a question.

    Names are found at word borders, the longest first, by these aliases: the part before " | ", ": " or " - " (which
    may stand for several names, "FOX News" for all its sections), without ".com", and without "The" if two words are
    left. A single capitalised word ("Wired", "The Age") is a word of the language too, so it has to be written as it is
    or in capitals; the case of all other names does not matter. A name right after "not by", "other than" and the like
    is ruled out (`$nin`), unless it is asked for too.

    Args:
        sources: Outlet names, short for `{"source": names}`, or a mapping from fields to their allowed values; in a
            field that is free (None) there is no name to look for.
        dates: When whole days become a condition on `published_at`: "off" = never, "all" = always, "safe" = if there
            are at least two, at least as many as outlets, and no word of before, after, since, until or other than
            (often a question dates only one of the articles it needs, and the filter then loses the other).

    Raises:
        ValueError: Another value of `dates`, or sources that `allowed_fields` refuses.

    Source: Multi-Meta-RAG (arXiv 2406.13213), section 3.1, asks a language model instead; these rules are ours.
    """

    def __init__(self, sources: Sources, dates: Literal["off", "safe", "all"] = "off"):
        if dates not in ("off", "safe", "all"):
            raise ValueError(f"dates = {dates!r}: choose 'off', 'safe' or 'all'")
        fields = allowed_fields(sources)
        self._dates, self._days = dates, {"published_at": fields.pop("published_at")}
        self._names = _by_first_word(fields)

    def __call__(self, questions: Sequence[str]) -> list[dict[str, Any] | None]:
        """A filter each, in order: `{"source": {"$in": [names as in `sources`]}, ...}`; None = no filter."""
        return [self._read(_plain(question)) or None for question in questions]

    def _read(self, question: str) -> dict[str, Any]:
        wanted: dict[str, list[Any]] = defaultdict(list)
        unwanted: dict[str, list[Any]] = defaultdict(list)
        ruled_out, end = False, 0
        for start, stop, targets in self._mentions(_DATE.sub(lambda date: "." * len(date[0]), question)):
            listed = bool(_AND.fullmatch(question, end, start))
            ruled_out = bool(_NOT.search(question[max(0, start - 50) : start])) or (ruled_out and listed)
            end = stop
            if question[start:stop].isdigit() and _ELSEWHEN.search(question, max(0, start - 12), start):
                continue  # "since 2021" is no wish for 2021
            for field, value in targets:
                (unwanted if ruled_out else wanted)[field].append(value)
        where: dict[str, Any] = {}
        for field in {**wanted, **unwanted}:
            # of "FOX News but not FOX News - Health" the rest is kept, if there is any
            kept = [value for value in wanted[field] if value not in unwanted[field]] or wanted[field]
            where[field] = {"$in": _distinct(kept)} if kept else {"$nin": _distinct(unwanted[field])}
        return where | self._published(question, len(named_values(where)))

    def _mentions(self, question: str) -> Iterator[tuple[int, int, list[tuple[str, Any]]]]:
        """First character of a name, one past its last, and the fields and values that it stands for."""
        end = 0
        for word in _WORD.finditer(question):
            for name in self._names.get(word[0].casefold(), ()) if word.start() >= end else ():
                if name.stands_at(word.start(), question):
                    end = word.start() + len(name.spelling)
                    yield word.start(), end, name.targets
                    break

    def _published(self, question: str, n_sources: int) -> dict[str, Any]:
        if self._dates == "off":
            return {}
        where, _ = validate_filter({"published_at": {"$in": _DATE.findall(question)}}, self._days)
        n_days = len(named_values(where, "published_at"))
        unsafe = self._dates == "safe" and (n_days < max(2, n_sources) or _ELSEWHEN.search(question))
        return {} if unsafe else where


class LinearProbe:
    """Reads outlets from the embedding of a question: a logistic regression an outlet, fitted on dev questions.

    Classes are weighted by their rarity. The one threshold of all outlets, `threshold`, is chosen for micro-F1 on dev
    questions alone, each predicted by a model that did not see it (5 folds).

    Args:
        embedder: Texts to vectors.
        field: The filter's field that is learned.

    Source: Multi-Meta-RAG's repository has such a probe (2026), on a language model's hidden states; ours needs none.
    """

    def __init__(self, embedder: Embedder, field: str = "source"):
        self._embedder, self._field = embedder, field

    def fit(self, questions: Sequence[str], gold_filters: Sequence[Where | None]) -> "LinearProbe":
        """Learn from dev questions, at least 5, and the filter that each should have (None = none).

        Raises:
            ValueError: Fewer questions, or the filters name fewer than two values of the field.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import f1_score
        from sklearn.model_selection import KFold, cross_val_predict
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler

        self._outlets = MultiLabelBinarizer()
        named = self._outlets.fit_transform([sorted(named_values(where, self._field)) for where in gold_filters])
        if named.shape[1] < 2:
            raise ValueError(
                f"the gold filters name {named.shape[1]} values of {self._field!r}: there is nothing to learn"
            )
        vectors = self._embedder(questions)
        one = LogisticRegression(class_weight="balanced", max_iter=1000)
        self._model = make_pipeline(StandardScaler(), OneVsRestClassifier(one))
        with warnings.catch_warnings():  # an outlet that is absent from four folds cannot be predicted in the fifth
            warnings.filterwarnings("ignore", "Label not .* is present in all training examples")
            folds = KFold(5, shuffle=True, random_state=0)
            unseen = cross_val_predict(self._model, vectors, named, cv=folds, method="predict_proba")
        self.threshold = max(_THRESHOLDS, key=lambda t: f1_score(named, unseen >= t, average="micro", zero_division=0))
        self._model.fit(vectors, named)
        return self

    def __call__(self, questions: Sequence[str]) -> list[dict[str, Any] | None]:
        """A filter each, in order; None = no outlet reaches the threshold."""
        likely = self._model.predict_proba(self._embedder(questions)) >= self.threshold
        return [
            {self._field: {"$in": list(names)}} if names else None for names in self._outlets.inverse_transform(likely)
        ]


def _by_first_word(fields: Mapping[str, Sequence[Any] | None]) -> dict[str, list[_Name]]:
    """Names by the first word of their spelling, the longest first: a question costs a look-up a word."""
    targets: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for field, values in fields.items():
        own = {as_text(value): value for value in values or ()}
        for name, value in own.items():
            for alias in {name, *(_aliases(name) - own.keys())}:  # another's whole name is no alias
                targets[_plain(alias)].append((field, value))
    names: dict[str, list[_Name]] = defaultdict(list)
    for alias in sorted(targets, key=len, reverse=True):
        if first := _WORD.search(alias):
            spelling, word = alias[first.start() :], alias.removeprefix("The ")
            exact = " " not in word and word == word.capitalize()
            names[first[0].casefold()].append(_Name(spelling, exact, targets[alias]))
    return names


def _aliases(name: str) -> set[str]:
    heads = {re.split(r" \| |: ", name)[0], re.split(r" \| |: | - ", name)[0]}
    heads |= {head.removesuffix(".com") for head in heads}
    return heads | {head.removeprefix("The ") for head in heads if len(head.split()) > 2}


def _plain(text: str) -> str:
    """With straight apostrophes and single blanks."""
    return " ".join(text.replace("’", "'").split())


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
