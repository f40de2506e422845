"""A corpus by its name: read, split, sampled, and noted in the run's provenance."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from rag_utils.corpora._catalogue import find
from rag_utils.corpora._draft import Draft
from rag_utils.corpora._sources import open_tables
from rag_utils.provenance import note
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
    long_answers: dict[str, str] = field(default_factory=dict)
    """Answers in prose, with citation marks such as "[1, 3]": places in `cited_documents`, counted from 1."""
    cited_documents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of the documents that the long answer cites, in the order of its marks' numbers."""
    fingerprint: str = ""
    """SHA-256 of all of the above but the name; the same on every machine, for files in any order."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows left out, by reason."""
    quirks: dict[str, int] = field(default_factory=dict)
    """Rows that were kept though something is odd about them, by what it is."""
    problems: tuple[str, ...] = ()
    """Each of `dropped` and `quirks`: "folder/file:line: reason"."""
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
        odd = "".join(f"; {count} x {what}" for what, count in self.quirks.items())
        missing = ", ".join(self.missing) or "nothing"
        counts = f"{len(self.documents):,} documents, {len(self.queries):,} queries"
        return (
            f"{self.name}: {counts} (split {self.split!r}, dev share {self.dev_share})\n"
            f"from {self.where or 'memory'}; left out: {dropped}; not in the data: {missing}{odd}\n"
            f"fingerprint {self.fingerprint[:16]}"
        )


def is_dev(query_id: str, dev_share: float = 0.4) -> bool:
    """Whether a query is for tuning: first 8 hex digits of the SHA-256 of its id, mod 100, below the share.

    The id alone decides (the handbook's one split), so that a query keeps its side whatever else is loaded;
    `dev_share` is 0 to 1, in whole per cent.
    """
    return int(sha256(query_id.encode()).hexdigest()[:8], 16) % 100 < round(dev_share * 100)


def require_side(corpus: Corpus, side: str) -> None:
    """ValueError, with one of them, if any query of the corpus is not on this side of the split, "dev" or "test"."""
    wrong = [query.id for query in corpus.queries if is_dev(query.id, corpus.dev_share) != (side == "dev")]
    if wrong:
        raise ValueError(
            f"{corpus.name}: {len(wrong)} of {len(corpus.queries)} questions are no {side} rows, as {wrong[0]!r}: "
            f"load the corpus with split={side!r}"
        )


def load_corpus(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    split: str = "test",
    dev_share: float = 0.4,
    n_queries: int | None = None,
    seed: int = 0,
    strict: bool = False,
    distractors: bool = True,
    questions: str = "main",
) -> Corpus:
    """Documents and queries by name, from a local folder, else the hub, else (`builtin_...`) the package.

    Args:
        name: One of `list_corpora()`, or a folder of your own: its path, or its name in `data_dir`. In BEIR layout:
            `corpus.jsonl` (`_id`, `text`, `title`; other keys become metadata), `queries.jsonl` (`_id`, `text`, and
            where you have them `answers`, `facts`, `type`, `label`), `qrels/*.tsv` (query-id, corpus-id, score;
            in this order where no header names them). Without `corpus.jsonl`, the PDF, HTML, Markdown, text and Word
            files in it and below are the documents, named by their path in it (see `files.file_rows`).
        data_dir: The folder that holds the data sets' folders, or the set's folder itself; else `RAG_DATA_DIR`.
        split: "test", "dev" (for tuning) or "all" queries, by `is_dev`; documents are always complete.
        dev_share: Share of dev queries, 0 to 1.
        n_queries: Sample so many queries of the split, by question type in the shares of the whole, each type at
            least once where there is room. With equal seed a smaller sample lies inside a larger one.
        seed: Of the sample.
        strict: Raise at the first malformed row; by default it is left out, counted and listed in `problems`.
        distractors: Also documents that no query asks about (PubMedQA's artificial, BoolQ's unlabelled ones).
        questions: "main", or "single" for those that a single document answers, which the built-in news keep apart; a
            data set that does not has one kind, and gives it under both names.

    Raises:
        FileNotFoundError: The data is nowhere to be had; says what was tried, the folder expected and how to fetch it.
        ValueError: An argument out of range, or a malformed row when strict.
    """
    check_arguments(split, dev_share, n_queries)
    if questions not in ("main", "single"):
        raise ValueError(f"questions = {questions!r}: choose 'main' or 'single'")
    dataset, folders = find(name, data_dir)
    if dataset.preferences:
        raise ValueError(f"{name!r} is no corpus but judged pairs: load_preferences({name!r})")
    where, tables = open_tables(dataset, folders)
    draft = Draft(strict=strict)
    kind = questions if any(table.questions == questions for table in dataset.tables.values()) else "main"
    for key, table in dataset.tables.items():
        if (distractors or not table.distractors) and (table.document or table.questions == kind):
            draft.read(key, table, tables.get(key))
    queries = [q for q in draft.queries.values() if split == "all" or is_dev(q.id, dev_share) == (split == "dev")]
    if n_queries is not None:
        queries = _sampled(queries, n_queries, seed, draft)
    corpus = Corpus(dataset.name, **draft.contents(queries), split=split, dev_share=dev_share, where=where)
    corpus = replace(corpus, fingerprint=_fingerprint(corpus))
    told = ("name", "fingerprint", "split", "dev_share", "dropped", "quirks", "where")
    facts = {key: getattr(corpus, key) for key in told}
    note("dataset", **facts, n_documents=len(corpus.documents), n_queries=len(corpus.queries))
    return corpus


def check_arguments(split: str, dev_share: float = 0.4, n_queries: int | None = None) -> None:
    """ValueError for one out of range."""
    if split not in ("test", "dev", "all"):
        raise ValueError(f"split = {split!r}: choose 'test', 'dev' or 'all'")
    if not 0 <= dev_share <= 1:
        raise ValueError(f"dev_share = {dev_share!r}: a share lies between 0 and 1")
    if n_queries is not None and n_queries < 1:
        raise ValueError(f"n_queries = {n_queries!r}: sample at least one query, or None for all")


def _sampled(queries: Sequence[Query], n: int, seed: int, draft: Draft) -> list[Query]:
    """A nested stratified sample in the order given: the i-th of m in its stratum, in seeded order, stands at i / m."""
    strata: Mapping[str, str] = draft.known["types"] or draft.known["labels"]

    def lot(query: Query) -> str:
        return sha256(f"{seed}:{query.id}".encode()).hexdigest()

    members: dict[str, list[Query]] = defaultdict(list)
    for query in sorted(queries, key=lot):
        members[strata.get(query.id, "")].append(query)
    standing = {q.id: (i / len(group), lot(q)) for group in members.values() for i, q in enumerate(group)}
    drawn = set(sorted(standing, key=lambda id_: standing[id_])[:n])
    lost = sorted(stratum for stratum, group in members.items() if group[0].id not in drawn)
    draft.missing += [f"queries of type {stratum!r} in the sample" for stratum in lost]
    return [query for query in queries if query.id in drawn]


def _fingerprint(corpus: Corpus) -> str:
    known: list[Mapping[str, Any]] = [corpus.answers, corpus.gold_documents, corpus.facts, corpus.types, corpus.labels]
    if corpus.long_answers:  # the fingerprints of data sets without them are older than the field
        known += [corpus.long_answers, corpus.cited_documents]
    parts: list[list[Any]] = [["document", d.id, d.title, d.text, sorted(d.metadata.items())] for d in corpus.documents]
    parts += [["query", q.id, q.text, [values.get(q.id) for values in known]] for q in corpus.queries]
    lines = sorted(json.dumps(part, ensure_ascii=False) for part in parts)
    return sha256("".join(lines).encode("utf-8", errors="surrogatepass")).hexdigest()
