"""A corpus: documents, queries, and what is known of each query."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from rag_utils.schema import Document, Query


@dataclass(frozen=True)
class Corpus:
    """Documents and queries; what is known of a query stands under its id, and an id that is not there has none."""

    name: str
    documents: list[Document]
    queries: list[Query]
    answers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Accepted answers, any of which is right."""
    gold_documents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of the documents that hold the evidence; a question that cannot be answered has none."""
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Pieces of evidence, verbatim from the gold documents, all of which are needed."""
    types: dict[str, str] = field(default_factory=dict)
    """Kind of question: "inference", "comparison", "temporal", "null"."""
    labels: dict[str, str] = field(default_factory=dict)
    """Class, where the answer is one: "yes", "no", "maybe"."""
    fingerprint: str = ""
    """SHA-256 of all of the above but the name; the same on every machine, for files in any order."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows left out, by reason."""
    problems: tuple[str, ...] = ()
    """Each of them: "folder/file:line: reason"."""
    missing: tuple[str, ...] = ()
    """Optional columns and tables that the data does not have, and question types that a sample has lost."""
    split: str = "all"
    dev_share: float = 0.4
    where: str = ""
    """Where the data came from: a folder, the hub, or the package."""

    def unanswerable(self) -> list[str]:
        """Ids of queries with a gold document that is not among the documents: no system can find all of it."""
        known = {document.id for document in self.documents}
        return [query.id for query in self.queries if not known.issuperset(self.gold_documents.get(query.id, ()))]

    def __str__(self) -> str:
        """A summary without any text of the data."""
        dropped = ", ".join(f"{count} x {reason}" for reason, count in self.dropped.items()) or "nothing"
        return (
            f"{self.name}: {len(self.documents):,} documents, {len(self.queries):,} queries "
            f"(split {self.split!r}, dev share {self.dev_share})\n"
            f"from {self.where or 'memory'}; left out: {dropped}; "
            f"not in the data: {', '.join(self.missing) or 'nothing'}\n"
            f"fingerprint {self.fingerprint[:16]}"
        )


def is_dev(query_id: str, dev_share: float = 0.4) -> bool:
    """Whether a query is for tuning: first 8 hex digits of the SHA-256 of its id, mod 100, below the share.

    Args:
        query_id: Decides alone (PAPERS 0.5), so that a query keeps its side whatever else is loaded.
        dev_share: Share of dev queries, 0 to 1, in whole per cent.
    """
    return int(sha256(query_id.encode()).hexdigest()[:8], 16) % 100 < round(dev_share * 100)


def fingerprint(corpus: Corpus) -> str:
    """SHA-256 over documents, queries and what is known of them, sorted by id."""
    known = (corpus.answers, corpus.gold_documents, corpus.facts, corpus.types, corpus.labels)
    parts: list[list[Any]] = [["document", d.id, d.title, d.text, sorted(d.metadata.items())] for d in corpus.documents]
    parts += [["query", q.id, q.text, [values.get(q.id) for values in known]] for q in corpus.queries]
    digest = sha256()
    for line in sorted(json.dumps(part, ensure_ascii=False) for part in parts):
        digest.update(line.encode("utf-8", errors="surrogatepass"))
    return digest.hexdigest()
