"""A corpus by its name: read, split, sampled, and noted in the run's provenance."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from rag_utils.corpora._catalogue import find
from rag_utils.corpora._corpus import Corpus, fingerprint, is_dev
from rag_utils.corpora._draft import Draft
from rag_utils.corpora._rows import Ledger
from rag_utils.provenance import note
from rag_utils.schema import Query


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
) -> Corpus:
    """Documents and queries by name, from a local folder, else the hub, else (`builtin_...`) the package.

    Args:
        name: One of `list_corpora()`, or a folder of your own in BEIR layout: its path, or its name in `data_dir`.
            `corpus.jsonl` (`_id`, `text`, `title`; other keys become metadata), `queries.jsonl` (`_id`, `text`, and
            where you have them `answers`, `facts`, `type`, `label`), `qrels/*.tsv` (query-id, corpus-id, score).
        data_dir: The folder that holds the data sets' folders, or the set's folder itself; else `RAG_DATA_DIR`.
        split: "test", "dev" (for tuning) or "all" queries, by `is_dev`; documents are always complete.
        dev_share: Share of dev queries, 0 to 1.
        n_queries: Sample so many queries of the split, by question type in the shares of the whole, each type at
            least once where there is room. With equal seed a smaller sample lies inside a larger one.
        seed: Of the sample.
        strict: Raise at the first malformed row, where by default it is left out, counted and listed in `problems`.
        distractors: Also the documents that no query asks about, where they are a table of their own (PubMedQA's
            artificial abstracts, BoolQ's unlabelled passages).

    Raises:
        FileNotFoundError: The data is nowhere to be had; says what was tried, the folder expected and how to fetch it.
        ValueError: An argument out of range, or a malformed row when strict.
    """
    _check(split, dev_share, n_queries)
    dataset, source = find(name, data_dir)
    ledger = Ledger(strict)
    draft = Draft(dataset, source, ledger, distractors=distractors)
    dataset.read(draft)
    queries, lost = _chosen(draft, split, dev_share, n_queries, seed)
    known: dict[str, Any] = {
        kind: {query.id: values[query.id] for query in queries if query.id in values}
        for kind, values in draft.known.items()
    }
    corpus = Corpus(
        dataset.name,
        list(draft.documents.values()),
        queries,
        **known,
        dropped=dict(ledger.dropped),
        problems=tuple(ledger.problems),
        missing=(*draft.missing, *lost),
        split=split,
        dev_share=dev_share,
        where=source.where,
    )
    return _noted(replace(corpus, fingerprint=fingerprint(corpus)))


def _noted(corpus: Corpus) -> Corpus:
    facts = {key: getattr(corpus, key) for key in ("name", "fingerprint", "split", "dev_share", "dropped", "where")}
    note("dataset", **facts, n_documents=len(corpus.documents), n_queries=len(corpus.queries))
    return corpus


def _chosen(
    draft: Draft, split: str, dev_share: float, n_queries: int | None, seed: int
) -> tuple[list[Query], list[str]]:
    """The queries of the split, or a sample of them, and the question types that the sample has lost."""
    kept = [q for q in draft.queries.values() if split == "all" or is_dev(q.id, dev_share) == (split == "dev")]
    if n_queries is None:
        return kept, []
    strata = draft.known["types"] or draft.known["labels"]
    queries = sample(kept, n_queries, strata, seed)
    lost = {strata.get(q.id, "") for q in kept} - {strata.get(q.id, "") for q in queries}
    return queries, [f"queries of type {stratum!r} in the sample" for stratum in sorted(lost)]


def sample(queries: Sequence[Query], n: int, strata: Mapping[str, str], seed: int) -> list[Query]:
    """A nested stratified sample in the order given: the i-th of m in its stratum, in seeded order, stands at i / m."""

    def lot(query: Query) -> str:
        return sha256(f"{seed}:{query.id}".encode()).hexdigest()

    members: dict[str, list[Query]] = defaultdict(list)
    for query in sorted(queries, key=lot):
        members[strata.get(query.id, "")].append(query)
    standing = {q.id: (i / len(group), lot(q)) for group in members.values() for i, q in enumerate(group)}
    drawn = set(sorted(standing, key=lambda id_: standing[id_])[:n])
    return [query for query in queries if query.id in drawn]


def _check(split: str, dev_share: float, n_queries: int | None) -> None:
    if split not in ("test", "dev", "all"):
        raise ValueError(f"split = {split!r}: choose 'test', 'dev' or 'all'")
    if not 0 <= dev_share <= 1:
        raise ValueError(f"dev_share = {dev_share!r}: a share lies between 0 and 1")
    if n_queries is not None and n_queries < 1:
        raise ValueError(f"n_queries = {n_queries!r}: sample at least one query, or None for all")
