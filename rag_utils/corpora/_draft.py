"""A corpus in the making: rows are taken apart as the catalogue says, and the books are kept of what is left out."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from rag_utils.corpora._sources import Rows, Table
from rag_utils.corpora.dates import published
from rag_utils.schema import Document, Query

_KINDS = {
    **dict.fromkeys(("id", "gold_documents", "cited_documents"), (str, int)),
    **dict.fromkeys(("answers", "labels"), (str, bool)),
    "score": (str, int, float),
}
"""Types of a column by our name for it, where not text alone."""

_HALF = re.compile("[\ud800-\udfff]")


class RowError(Exception):
    """A malformed row: the reason and, if it helps, the value."""


@dataclass
class Row:
    """A record, and what its table finds in it, by our names."""

    record: dict[str, Any]
    document: dict[str, Any]
    metadata: dict[str, Any]
    query: dict[str, Any]
    table: str
    quirks: list[str] = field(default_factory=list)
    """What is odd in it, though it can be used."""


class Draft:
    """Collects a corpus from rows; what is left out is counted and listed by place or, if malformed and strict, raised.

    `known` has, by field of `Corpus`, what is known of each query; `missing` the tables and columns that are not there.
    `memo` is what adapters remember.
    """

    def __init__(self, *, strict: bool):
        self.documents: dict[str, Document] = {}
        self.queries: dict[str, Query] = {}
        self.known: dict[str, dict[str, Any]] = defaultdict(dict)
        self.missing: list[str] = []
        self.dropped: Counter[str] = Counter()
        self.quirks: Counter[str] = Counter()
        self.problems: list[str] = []
        self.memo: dict[str, Any] = {}
        self._strict, self._place = strict, ""

    def read(self, name: str, table: Table, rows: Rows | None) -> None:
        """Take all rows of a table, None = there is no such table here; the malformed ones are reported."""
        if rows is None:
            self.missing.append(name)
            return
        unseen = {column.strip("()") for column in table.columns if column.startswith("(")}
        for self._place, record in rows:
            try:
                row = _row(record, table, name)
                table.adapt(row, self.memo)
                _check_characters([row.document, row.metadata, row.query])
                questions = _questions(row.query)
                document = self._add_document(row, "text" in table.document) if table.document else ""
                for question in questions:
                    self._add_query(question, document)
            except RowError as error:
                self._report(*error.args)
            except RecursionError:
                self._report("nested too deeply")
            else:
                self.quirks.update(row.quirks)
                self.problems += [f"{self._place}: {quirk}" for quirk in row.quirks]
                unseen -= {column for column in unseen if texts(list(_values_at(record, column)))}
        self.missing += sorted(f"{name}.{column}" for column in unseen)

    def _report(self, reason: str, detail: object = "", *, malformed: bool = True) -> None:
        said = f"{self._place}: {reason}" + (f" ({detail})" if detail != "" else "")
        if self._strict and malformed:
            raise ValueError(f"{said} (strict=True stops at the first malformed row)")
        self.dropped[reason] += 1
        self.problems.append(said)

    def _add_document(self, row: Row, new: bool) -> str:
        """Keep a document, or more metadata of one that is there; the same one may come again, not another one."""
        text, title = ("\n".join(texts(row.document.get(name))) for name in ("text", "title"))
        id_, metadata = str(row.document.get("id") or stable_id(text)), dict(self._metadata(row.metadata))
        known = self.documents.get(id_)
        if known and not new:
            self.documents[id_] = replace(known, metadata={**known.metadata, **metadata})
            return id_
        if not text:
            raise RowError("no text" if new else "document is not among the documents", id_)
        document = Document(id=id_, text=text, title=title, metadata=metadata)
        if self.documents.setdefault(id_, document) != document:
            self._report("repeated document id", id_)
        return id_

    def _metadata(self, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Without absent values, lists joined; an unreadable date of publication is reported, never guessed."""
        for key, value in fields.items():
            if key == "published_at":
                try:
                    yield from published(value).items()
                except ValueError as error:
                    self._report("unreadable date", error)
            elif texts(value):
                yield key, "; ".join(texts(value)) if isinstance(value, list) else value

    def _add_query(self, question: Mapping[str, Any], document: str) -> None:
        """Keep a question, or what is known of one that is there; asked twice without an id, it is one question."""
        known = {"gold_documents": document, **question}
        id_, text = str(known.pop("id", "")), known.pop("text", "")
        key = id_ or stable_id(document, text)
        if key in self.queries and text:
            if id_:
                raise RowError("repeated query id", id_)
            self._report("same question again, answers joined", key, malformed=False)
            known = {"answers": known.get("answers")}
        elif key not in self.queries:
            if not text:
                raise RowError("query is not among the queries", id_)
            self.queries[key] = Query(id=key, text=text)
        for kind, value in known.items():
            more, before = texts(value), self.known[kind].get(key, ())
            if more and kind in ("types", "labels", "long_answers"):
                self.known[kind][key] = more[0]
            elif more and kind in ("facts", "cited_documents"):  # every one counts
                self.known[kind][key] = (*before, *more)
            elif more:  # an answer or a gold document, once
                self.known[kind][key] = tuple(dict.fromkeys([*before, *more]))

    def contents(self, queries: Sequence[Query]) -> dict[str, Any]:
        """All that was collected, with these of the queries only, by field of `Corpus`."""
        known = {kind: {q.id: values[q.id] for q in queries if q.id in values} for kind, values in self.known.items()}
        return {"documents": list(self.documents.values()), "queries": list(queries), **known, **self.books()}

    def books(self) -> dict[str, Any]:
        """What was left out, odd or not there, by field of `Corpus`."""
        counts = {"dropped": dict(self.dropped), "quirks": dict(self.quirks)}
        return {**counts, "problems": tuple(self.problems), "missing": tuple(self.missing)}


def stable_id(*parts: str) -> str:
    """First 16 hex digits of the SHA-256 of the parts joined: an id where the data has none."""
    return sha256("".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def texts(value: object) -> list[str]:
    """A value or a list of values as texts, without absent and blank ones; truth is "yes" or "no"."""
    values = value if isinstance(value, list) else [value]
    values = [("yes" if one else "no") if isinstance(one, bool) else one for one in values]
    return [str(one) for one in values if one is not None and str(one).strip()]


def _row(record: Any, table: Table, name: str) -> Row:
    if isinstance(record, Exception):
        raise record if isinstance(record, RowError) else RowError("unreadable from here on", record)
    if not isinstance(record, dict):
        raise RowError("not a JSON record")
    document, metadata, query = (_fields(record, columns) for columns in (table.document, table.metadata, table.query))
    return Row(record, document, metadata, query, name)


def _check_characters(value: object) -> None:
    """RowError for half a character (a lone surrogate): JSON can spell one, but no file, hash or encoder takes it."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for one in value:
            _check_characters(one)
    elif isinstance(value, str) and not value.isascii() and (found := _HALF.search(value)):
        raise RowError("half a character", ascii(found[0]))


def _fields(record: dict[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """What the columns hold, by our names; RowError if one that is not optional holds nothing or another type."""
    found: dict[str, Any] = {}
    for name, column in mapping.items():
        path, optional = column.strip("()"), column.startswith("(")
        values = [value for value in _values_at(record, path) if texts(value) or not optional]
        for value in () if optional else values:
            if not texts(value):
                raise RowError(f"no {path}")
            if not isinstance(value, _KINDS.get(name, str)):
                raise RowError(f"{path} is of type {type(value).__name__}")
        if values:
            found[name] = values if "[]" in path else values[0]
    return found


def _questions(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The question of a row, or its several with what is known of each."""
    if not isinstance(fields.get("text"), list):
        return [fields] if fields else []
    if len(fields["text"]) != len(fields.get("answers", ())):
        raise RowError("questions and answers differ in number")
    return [dict(zip(fields, known, strict=True)) for known in zip(*fields.values(), strict=True)]


def _values_at(record: object, path: str) -> Iterator[Any]:
    """The values at a dotted path; None stands for what is not there."""
    key, _, rest = path.partition(".")
    value = record.get(key.removesuffix("[]")) if isinstance(record, Mapping) else None
    for item in (value if isinstance(value, list) else [None]) if key.endswith("[]") else [value]:
        yield from _values_at(item, rest) if rest else [item]
