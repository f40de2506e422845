"""A corpus in the making: readers ask it for rows and hand it documents and queries; it keeps the books."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from rag_utils.corpora._sources import DataSet, Rows, Table
from rag_utils.corpora.dates import published
from rag_utils.schema import Document, Query

Row = dict[str, Any]


class Draft:
    """Collects a corpus from the well-formed rows of a data set; what is left out is counted, listed by place, or raised.

    `known` has, by field of `Corpus`, what is known of each query; `missing` the tables and columns that are not there.
    """

    def __init__(self, dataset: DataSet, tables: Mapping[str, Rows], *, strict: bool, distractors: bool):
        self.distractors = distractors
        self.documents: dict[str, Document] = {}
        self.queries: dict[str, Query] = {}
        self.known: dict[str, dict[str, Any]] = {
            kind: {} for kind in ("answers", "gold_documents", "facts", "types", "labels")
        }
        self.missing: list[str] = []
        self.dropped: Counter[str] = Counter()
        self.problems: list[str] = []
        self._dataset, self._tables, self._strict = dataset, tables, strict
        self._place = ""

    def rows(self, name: str) -> Iterator[Row]:
        """The well-formed rows of a table; none if the data set lacks it here."""
        if name not in self._tables:
            self.missing.append(name)
            return
        table = self._dataset.tables[name]
        unseen = set(table.optional.split())
        for place, row in self._tables[name]:
            self._place = place
            fault = _fault(row, table)
            if fault:
                self.report(fault, row if isinstance(row, Exception) else "")
            else:
                unseen -= {column for column in unseen if not all(map(is_absent, _values_at(row, column)))}
                yield row
        self.missing += sorted(f"{name}.{column}" for column in unseen)

    def report(self, reason: str, detail: object = "", *, malformed: bool = True) -> None:
        """Count the row that is being read as left out; when strict, a malformed one raises ValueError."""
        said = f"{self._place}: {reason}" + (f" ({detail})" if detail != "" else "")
        if self._strict and malformed:
            raise ValueError(f"{said} (strict=True stops at the first malformed row)")
        self.dropped[reason] += 1
        self.problems.append(said)

    def add_document(self, id: str, text: str, title: str | None = "", /, **metadata: Any) -> str:
        """Keep a document and give its id back; it may come again, another one under its id is reported.

        Of the metadata, values that are absent go, lists are joined by "; ", and `published_at` becomes an ISO day,
        which is reported and left out if it cannot be read, never guessed.
        """
        if is_absent(text):
            self.report("no text", id)
        elif id not in self.documents:
            known = dict(self._present(metadata))
            self.documents[id] = Document(id=id, text=text, title=title or "", metadata=known)
        elif self.documents[id].text != text:
            self.report("repeated document id", id)
        return id

    def _present(self, metadata: Row) -> Iterator[tuple[str, Any]]:
        for key, value in metadata.items():
            if key == "published_at":
                try:
                    yield from published(value).items()
                except ValueError as error:
                    self.report("unreadable date", error)
            elif isinstance(value, list):
                yield from [(key, "; ".join(texts(value)))] if texts(value) else []
            elif not is_absent(value):
                yield key, value

    def add_query(
        self,
        id: str | None,
        text: str,
        *,
        answers: Iterable[str] = (),
        gold: Sequence[str] = (),
        facts: Iterable[str] = (),
        type: str = "",
        label: str = "",
    ) -> None:
        """Keep a question with what is known of it, or report its id as repeated (the first one stays).

        Without an id it is known by its document and text: asked twice, it is one question with the answers of both.
        """
        key = id or stable_id(gold[0], text)
        if key not in self.queries:
            self.queries[key] = Query(id=key, text=text)
            for kind, value in zip(self.known, (distinct(answers), distinct(gold), tuple(facts), type, label), strict=True):
                self.known[kind] |= {key: value} if value else {}
        elif id:
            self.report("repeated query id", id)
        else:
            self.report("same question again, answers joined", key, malformed=False)
            self.known["answers"][key] = distinct([*self.known["answers"].get(key, ()), *answers])


def stable_id(*parts: str) -> str:
    """First 16 hex digits of the SHA-256 of the parts joined: an id where the data has none."""
    return sha256("".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def is_absent(value: object) -> bool:
    """Nothing there: None, or text that is blank."""
    return value is None or (isinstance(value, str) and not value.strip())


def texts(value: object) -> list[str]:
    """A value or a list of values as texts, without absent ones."""
    return [str(one) for one in (value if isinstance(value, list) else [value]) if not is_absent(one)]


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """Each value once, in order, without absent ones."""
    return tuple(dict.fromkeys(value for value in values if not is_absent(value)))


def _fault(row: object, table: Table) -> str:
    """What is wrong with a row, "" if nothing."""
    if isinstance(row, Exception):
        return "unreadable from here on"
    if not isinstance(row, dict):
        return "not a JSON record"
    for column in table.columns.split():
        for value in _values_at(row, column):
            if is_absent(value):
                return f"no {column}"
            if not isinstance(value, table.kinds.get(column, str)):
                return f"{column} is of type {type(value).__name__}"
    return ""


def _values_at(row: object, path: str) -> Iterator[Any]:
    """The values at a dotted path; None stands for what is not there."""
    key, _, rest = path.partition(".")
    value = row.get(key.removesuffix("[]")) if isinstance(row, Mapping) else None
    items = (value if isinstance(value, list) else [None]) if key.endswith("[]") else [value]
    for item in items:
        yield from _values_at(item, rest) if rest else [item]
