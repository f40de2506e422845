"""A corpus in the making: rows are taken apart as the catalogue says, and the books are kept of what is left out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from rag_utils.corpora._sources import Table
from rag_utils.corpora.dates import published
from rag_utils.schema import Document, Query

_KINDS = {
    **dict.fromkeys(("id", "gold_documents"), (str, int)),
    **dict.fromkeys(("answers", "labels"), (str, bool)),
    "score": (str, int, float),
}
"""Types of a column by our name for it, where not text alone."""


class Fault(Exception):  # noqa: N818
    """A malformed row: the reason and, if it helps, the value."""


@dataclass
class Row:
    """A record, and what its table finds in it, by our names."""

    record: dict[str, Any]
    document: dict[str, Any]
    metadata: dict[str, Any]
    query: dict[str, Any]


class Draft:
    """Collects a corpus from rows; what is left out is counted and listed by place or, if malformed and strict, raised.

    `known` has, by field of `Corpus`, what is known of each query; `missing` the tables and columns that are not there.
    """

    def __init__(self, *, strict: bool):
        self.documents: dict[str, Document] = {}
        self.queries: dict[str, Query] = {}
        self.known: dict[str, dict[str, Any]] = defaultdict(dict)
        self.missing: list[str] = []
        self.dropped: Counter[str] = Counter()
        self.problems: list[str] = []
        self._memo: dict[str, Any] = {}
        self._strict, self._place = strict, ""

    def read(self, name: str, table: Table, rows: Iterable[tuple[str, Any]]) -> None:
        """Take all rows of a table, given with their places; the malformed ones are reported."""
        unseen = {column.strip("()") for column in table.columns if column.startswith("(")}
        for self._place, record in rows:
            try:
                row = _taken_apart(record, table)
                table.adapt(row, self._memo)
                questions = _questions(row.query)
                document = self._add_document(row, "text" in table.document) if table.document else ""
                for question in questions:
                    self._add_query(question, document)
            except Fault as fault:
                self._report(*fault.args)
            else:
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
        text, metadata = row.document.get("text", ""), dict(self._metadata(row.metadata))
        id_ = str(row.document.get("id") or stable_id(text))
        known = self.documents.get(id_)
        if not new and known:
            self.documents[id_] = replace(known, metadata={**known.metadata, **metadata})
            return id_
        if not text:
            raise Fault("no text" if new else "document is not among the documents", id_)
        document = Document(id=id_, text=text, title=row.document.get("title", ""), metadata=metadata)
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
                raise Fault("repeated query id", id_)
            self._report("same question again, answers joined", key, malformed=False)
            known = {"answers": known["answers"]}
        elif key not in self.queries:
            if not text:
                raise Fault("query is not among the queries", id_)
            self.queries[key] = Query(id=key, text=text)
        for kind, value in known.items():
            if texts(value):
                self.known[kind][key] = self._joined(kind, key, texts(value))

    def _joined(self, kind: str, key: str, values: list[str]) -> str | tuple[str, ...]:
        """A type or label as it is; else what was known before and the new texts, each once but for the facts."""
        if kind in ("types", "labels"):
            return values[0]
        values = [*self.known[kind].get(key, ()), *values]
        return tuple(values if kind == "facts" else dict.fromkeys(values))


def stable_id(*parts: str) -> str:
    """First 16 hex digits of the SHA-256 of the parts joined: an id where the data has none."""
    return sha256("".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def texts(value: object) -> list[str]:
    """A value or a list of values as texts, without absent and blank ones; truth is "yes" or "no"."""
    values = value if isinstance(value, list) else [value]
    values = [("yes" if one else "no") if isinstance(one, bool) else one for one in values]
    return [str(one) for one in values if one is not None and str(one).strip()]


def _taken_apart(record: Any, table: Table) -> Row:
    if isinstance(record, Exception):
        raise Fault("unreadable from here on", record)
    if not isinstance(record, dict):
        raise Fault("not a JSON record")
    row = Row(record, *(_fields(record, mapping) for mapping in (table.document, table.metadata, table.query)))
    if isinstance(row.document.get("text"), list):  # its sections
        row.document["text"] = "\n".join(row.document["text"])
    return row


def _fields(record: dict[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """What the columns hold, by our names; a Fault if one that is not optional holds nothing or another type."""
    found: dict[str, Any] = {}
    for name, column in mapping.items():
        path, optional = column.strip("()"), column.startswith("(")
        values = [value for value in _values_at(record, path) if texts(value) or not optional]
        for value in () if optional else values:
            if not texts(value):
                raise Fault(f"no {path}")
            if not isinstance(value, _KINDS.get(name, str)):
                raise Fault(f"{path} is of type {type(value).__name__}")
        if values:
            found[name] = values if "[]" in path else values[0]
    return found


def _questions(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The question of a row, or its several with their answers."""
    if not isinstance(fields.get("text"), list):
        return [fields] if fields else []
    if len(fields["text"]) != len(fields.get("answers", ())):
        raise Fault("questions and answers differ in number")
    return [{"text": text, "answers": answer} for text, answer in zip(fields["text"], fields["answers"], strict=True)]


def _values_at(record: object, path: str) -> Iterator[Any]:
    """The values at a dotted path; None stands for what is not there."""
    key, _, rest = path.partition(".")
    value = record.get(key.removesuffix("[]")) if isinstance(record, Mapping) else None
    for item in (value if isinstance(value, list) else [None]) if key.endswith("[]") else [value]:
        yield from _values_at(item, rest) if rest else [item]
