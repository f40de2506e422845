"""A corpus in the making: readers ask it for rows and hand it documents and queries; it keeps the books."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from rag_utils.corpora._rows import Ledger, Row, fault, is_absent, values_at
from rag_utils.corpora._sources import Source
from rag_utils.corpora._tables import DataSet
from rag_utils.corpora.dates import published
from rag_utils.schema import Document, Query

KNOWN = ("answers", "gold_documents", "facts", "types", "labels")
"""What a corpus knows of a query, by the names of its fields."""


def stable_id(*parts: str) -> str:
    """First 16 hex digits of the SHA-256 of the parts joined: an id where the data has none."""
    return sha256("".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


class Draft:
    """Collects a corpus from the checked rows of a source; malformed rows go to the ledger."""

    def __init__(self, dataset: DataSet, source: Source, ledger: Ledger, *, distractors: bool):
        self.distractors = distractors
        self.documents: dict[str, Document] = {}
        self.queries: dict[str, Query] = {}
        self.known: dict[str, dict[str, Any]] = {kind: {} for kind in KNOWN}
        self.missing: list[str] = []
        self._tables = dataset.tables
        self._source = source
        self._ledger = ledger

    def rows(self, name: str) -> Iterator[tuple[str, Row]]:
        """The well-formed rows of a table with their places; none if the source lacks the table, which is noted."""
        table = self._tables[name]
        if not self._source.has(name):
            self.missing.append(name)
            return
        unseen = set(table.optional)
        for place, row in self._source.rows(name, self._ledger):
            wrong = fault(row, table.columns)
            if wrong or not isinstance(row, dict):
                self._ledger.report(place, wrong)
                continue
            unseen -= {column for column in unseen if not all(map(is_absent, values_at(row, column)))}
            yield place, row
        self.missing += sorted(f"{name}.{column}" for column in unseen)

    def add_document(
        self, place: str, *, id: str, text: str, title: str = "", metadata: dict[str, Any] | None = None
    ) -> str:
        """Keep a document and give its id back; a repeated id (the first one stays) or a blank text is reported."""
        if is_absent(text):
            self._ledger.report(place, "no text", id)
        elif id in self.documents:
            self._ledger.report(place, "repeated document id", id)
        else:
            self.documents[id] = Document(id=id, text=text, title=title, metadata=_present(metadata or {}))
        return id

    def add_query(
        self,
        place: str,
        *,
        id: str,
        text: str,
        answers: Iterable[str] = (),
        gold: Iterable[str] = (),
        facts: Iterable[str] = (),
        type: str = "",
        label: str = "",
    ) -> None:
        """Keep a question with what is known of it, or report its id as repeated (the first one stays)."""
        if id in self.queries:
            self._ledger.report(place, "repeated query id", id)
            return
        self.queries[id] = Query(id=id, text=text)
        values = (_distinct(answers), _distinct(gold), tuple(facts), type, label)
        for kind, value in zip(KNOWN, values, strict=True):
            if value:
                self.known[kind][id] = value

    def add_answers(self, place: str, id: str, answers: Iterable[str]) -> None:
        """More answers for a question that the data asks twice about the same document; the second row is counted."""
        self._ledger.mention(place, "same question again, answers joined", id)
        self.known["answers"][id] = _distinct([*self.known["answers"].get(id, ()), *answers])

    def published(self, place: str, value: object) -> dict[str, str]:
        """Metadata of a publication date; one that cannot be read is reported and left out, never guessed."""
        try:
            return published(value)
        except ValueError as error:
            self._ledger.report(place, "unreadable date", error)
            return {}

    def report(self, place: str, reason: str, detail: object = "") -> None:
        """A row that its reader cannot use."""
        self._ledger.report(place, reason, detail)


def _present(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if not is_absent(value)}


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if not is_absent(value)))
