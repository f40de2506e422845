"""BM25 over one or more fields: rank-bm25's model and scores, answered about a thousand times faster.

MetaGen Blended RAG, section 3.1: keyword index, best fields with boosts.
"""

import contextlib
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rag_utils.indexing import _bm25, _lexical_files
from rag_utils.indexing._filtered import MetadataTable
from rag_utils.indexing._tokens import stems, words
from rag_utils.schema import Chunk

__all__ = ["LexicalIndex", "stems", "words"]

_id = operator.attrgetter("id")
_K1 = {"okapi": 1.5, "lucene": 1.2}
_HIGHEST_BOOST = 1_000
"""Keeps score in grains x chunks within 64 bits."""
_COMPILED_FROM = 1_000_000
"""Queries x chunks from which loading numba pays; below, numpy has answered by then."""

TIE_BREAKER = 0.3
"""What the fields beside the best count of several (MetaGen Blended RAG, section 3.1)."""


class LexicalIndex:
    """One BM25 a field; terms, lengths and document frequencies of a field are its own.

    Args:
        chunks: Chunks with distinct ids; may be empty, as may their texts.
        fields: Names of the fields to search; a chunk without one counts as empty there.
        tokenizer: From text to tokens, used for chunks and queries.
        idf: "okapi": that of rank-bm25's BM25Okapi, ln((N - n + 0.5) / (n + 0.5)), where negative replaced by `epsilon`
            times the mean idf. "lucene": ln(1 + (N - n + 0.5) / (n + 0.5)), never negative (Elasticsearch's).
        k1: How slowly a repeated word saturates; None = 1.5 for "okapi", 1.2 for "lucene".
        b: Strength of the length normalisation, 0 to 1.
        epsilon: See `idf`; unused by "lucene".

    Attributes:
        chunks: The chunks in the order given.

    Raises:
        ValueError: Two chunks with one id, no field, or a parameter outside its range.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        *,
        fields: Sequence[str] = ("text",),
        tokenizer: Callable[[str], list[str]] = words,
        idf: str = "okapi",
        k1: float | None = None,
        b: float = 0.75,
        epsilon: float = 0.25,
    ):
        if idf not in _K1:
            raise ValueError(f'idf = {idf!r}: choose "okapi" or "lucene"')
        k1 = _K1[idf] if k1 is None else k1
        if not (0 <= k1 < np.inf and 0 <= b <= 1 and np.isfinite(epsilon)):
            limits = "k1 is a number from 0, b lies between 0 and 1, epsilon is finite"
            raise ValueError(f"k1 = {k1}, b = {b}, epsilon = {epsilon}: {limits}")
        if isinstance(fields, str) or not fields or len(set(fields)) < len(fields):
            raise ValueError(f"fields = {fields!r}: give a sequence of distinct names, as ('text', 'title')")
        settings = {"fields": list(fields), "idf": idf, "k1": k1, "b": b, "epsilon": epsilon}
        by_id = sorted(chunks, key=_id)
        fitted = [
            _bm25.fit((tokenizer(chunk.fields.get(field, "")) for chunk in by_id), idf, k1, b, epsilon)
            for field in fields
        ]
        self._assemble(chunks, tokenizer, settings, *_bm25.compile_postings(fitted, len(by_id)))

    def _assemble(self, chunks, tokenizer, settings, terms: list[str], postings: _bm25.Postings) -> None:
        self.chunks, self._tokenizer, self._settings = list(chunks), tokenizer, settings
        self._terms, self._postings = terms, postings
        self._numbers: dict[str, dict[str, int]] = {}
        for i, field in enumerate(settings["fields"]):
            own = np.flatnonzero(postings.fields == i).tolist()
            self._numbers[field] = {terms[term]: term for term in own}
        repeated = [id_ for id_, n in Counter(map(_id, self.chunks)).items() if n > 1]
        if repeated:
            raise ValueError(f"several chunks have the id {repeated[0]!r}: give each chunk an id of its own")
        by_id = sorted(self.chunks, key=_id)  # inside, chunks are numbered by id, which breaks ties
        self._ids = np.array([*map(_id, by_id)], dtype=object)
        place = {id_: i for i, id_ in enumerate(self._ids)}
        self._order = np.array([place[chunk.id] for chunk in self.chunks], np.int64)
        self._table = MetadataTable([chunk.metadata for chunk in by_id])

    def scores(self, queries: Sequence[str], field: str = "text") -> np.ndarray:
        """BM25 of every chunk, unrounded: `BM25Okapi.get_scores` for idf "okapi", to 1e-9.

        A word counts as often as the query holds it, as in the library; unknown words count nothing.

        Returns:
            (queries, chunks) float64, columns in the order of `chunks`, no filter applied.

        Raises:
            TypeError: `queries` is a bare string.
            ValueError: The field is not indexed.
        """
        self._check_fields([field])
        terms, starts = self._encode(_texts(queries), [field])
        scores = np.zeros((len(starts) - 1, len(self.chunks)))
        _engine(scores.size).score(self._postings, terms, starts, scores)
        return scores if (np.diff(self._order) > 0).all() else scores[:, self._order]

    def search(
        self,
        queries: Sequence[str],
        k: int,
        boosts: Mapping[str, float] | None = None,
        where: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        tie_breaker: float = TIE_BREAKER,
    ) -> list[list[tuple[str, float]]]:
        """The best chunks of each query as (chunk id, score), best first, ties by id.

        The score is that of the best field, times its boost, plus `tie_breaker` times the sum of the others'
        ("best fields"), rounded to 1e-5. Only chunks that share a term with the query in a searched field
        are returned, whatever the sign of their score.

        Args:
            queries: Texts, tokenised as the chunks were.
            k: Hits wanted, 0 or more; fewer come back where fewer match.
            boosts: Weight of a field, 0 to 1,000, 1 where not named; 0 leaves the field out.
            where: A filter for all queries, or one (or None) for each; see `rag_utils.filters.matches`.
            tie_breaker: 0 (best field only) to 1 (sum of the fields).

        Raises:
            TypeError: `queries` is a bare string.
            ValueError: Negative k, an unknown field, a boost or tie-breaker out of range, too few or many filters.
        """
        texts = _texts(queries)
        if k < 0:
            raise ValueError(f"k = {k}: ask for 0 or more hits")
        if not 0 <= tie_breaker <= 1:
            raise ValueError(f"tie_breaker = {tie_breaker}: choose 0 (best field only) to 1 (sum of the fields)")
        postings, weights, fields = self._searched(boosts or {})
        k = min(k, len(self.chunks))
        if k == 0 or not fields:
            return [[] for _ in texts]
        engine = _engine(len(texts) * len(self.chunks))
        keys = np.empty((len(texts), k), np.int64)
        for members, allowed in self._by_filter(where, len(texts)):
            terms, starts = self._encode([texts[i] for i in members], fields)
            arguments = postings, terms, starts, weights, float(tie_breaker), allowed, k
            keys[members] = engine.search(*arguments)
        return self._named(keys)

    def _named(self, keys: np.ndarray) -> list[list[tuple[str, float]]]:
        found = (keys != _bm25.NOTHING).sum(axis=1).tolist()
        grains, later = np.divmod(keys, len(self.chunks))
        ids, scores = self._ids[len(self.chunks) - 1 - later].tolist(), (grains / _bm25.GRAINS).tolist()
        return [list(zip(ids[q][:n], scores[q][:n], strict=True)) for q, n in enumerate(found)]

    def _searched(self, boosts: Mapping[str, float]) -> tuple[_bm25.Postings, np.ndarray, list[str]]:
        """Postings with the searched fields numbered from 0, their weights and their names."""
        self._check_fields(boosts)
        weights = np.array([boosts.get(field, 1.0) for field in self._numbers], np.float64)
        if not ((weights >= 0) & (weights <= _HIGHEST_BOOST)).all():
            raise ValueError(f"boosts = {dict(boosts)}: a boost is a number from 0 to {_HIGHEST_BOOST}")
        kept = weights > 0
        renumbered = np.cumsum(kept) - 1
        postings = self._postings._replace(fields=renumbered[self._postings.fields])
        return postings, weights[kept], [field for field, keep in zip(self._numbers, kept, strict=True) if keep]

    def _check_fields(self, names) -> None:
        unknown = [name for name in names if name not in self._numbers]
        if unknown:
            raise ValueError(f"field {unknown[0]!r} is not indexed: choose among {', '.join(self._numbers)}")

    def _encode(self, texts: Sequence[str], fields: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Known terms of each text, rising, in one array, and where each text's begin."""
        numbers = [self._numbers[field] for field in fields]
        terms: list[int] = []
        starts = [0]
        for text in texts:
            tokens = self._tokenizer(text)
            terms += sorted([own[token] for own in numbers for token in tokens if token in own])
            starts.append(len(terms))
        return np.array(terms, np.int64), np.array(starts, np.int64)

    def _by_filter(self, where, n_queries: int) -> Iterator[tuple[list[int], np.ndarray]]:
        """The queries of each distinct filter, and the chunks that it lets through."""
        filters = [where] * n_queries if where is None or isinstance(where, Mapping) else list(where)
        if len(filters) != n_queries:
            raise ValueError(f"{len(filters)} filters for {n_queries} queries: give one filter, or one for each query")
        members: dict[str, list[int]] = {}
        for i, one in enumerate(filters):
            members.setdefault(repr(one), []).append(i)
        for own in members.values():
            yield own, self._allowed(filters[own[0]])

    def _allowed(self, where: Mapping[str, Any] | None) -> np.ndarray:
        allowed = np.full(len(self.chunks), not where)
        if where:
            allowed[self._table.rows(where)] = True
        return allowed

    def save(self, folder: str | Path) -> None:
        """Writes the index as numpy arrays and JSON; an index that was there is overwritten."""
        about = {"tokenizer": _name(self._tokenizer), "settings": self._settings}
        _lexical_files.write(Path(folder), self.chunks, self._terms, self._postings, about)

    @classmethod
    def load(cls, folder: str | Path, tokenizer: Callable[[str], list[str]] | None = None) -> "LexicalIndex":
        """Reads a saved index, which then answers as the saved one did.

        Args:
            folder: What `save` wrote.
            tokenizer: That of the saved index; need not be given if it was `words` or `stems`.

        Raises:
            ValueError: A file is missing or damaged, or the tokenizer has another name than the saved index's.
        """
        chunks, terms, postings, about = _lexical_files.read(Path(folder))
        tokenizer = tokenizer or {"words": words, "stems": stems}.get(about["tokenizer"])
        if tokenizer is None or _name(tokenizer) != about["tokenizer"]:
            raise ValueError(f"{folder} was built with the tokenizer {about['tokenizer']!r}: pass the same one to load")
        index = cls.__new__(cls)
        index._assemble(chunks, tokenizer, about["settings"], terms, postings)
        return index


def _texts(queries: Sequence[str]) -> list[str]:
    if isinstance(queries, str):
        raise TypeError(f"queries = {queries!r} is one text: give a list of texts, as [{queries!r}]")
    return list(queries)


def _engine(work: int) -> ModuleType:
    """`_bm25`, or its compiled twin where the work is worth it and numba is installed."""
    if work >= _COMPILED_FROM:
        with contextlib.suppress(ImportError):
            from rag_utils.indexing import _bm25_numba

            return _bm25_numba
    return _bm25


def _name(tokenizer: Callable[[str], list[str]]) -> str:
    return getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__)
