"""Retrieval behind filters that were read out of the questions (Multi-Meta-RAG, arXiv 2406.13213, section 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag_utils.filters import relax
from rag_utils.filters.validation import Sources
from rag_utils.schema import Chunk, Hit, Query, Retriever


class Filtered:
    """A retriever whose queries get their filters from a table, and weaker ones where a filter lets nothing through.

    Args:
        retriever: Asked with each query's filter.
        filters: Query id to filter; without one (None, {} or no entry) a query keeps its own `where`.
        sources: What filters may name, for `relax`; None = no ladder: what a filter empties stays empty, as in the
            authors' code.
    """

    def __init__(
        self, retriever: Retriever, filters: Mapping[str, Mapping[str, Any] | None], sources: Sources | None = None
    ):
        self.retriever, self.filters, self.sources = retriever, filters, sources
        self.rungs: dict[str, str] = {}
        """Query id to the rung of the ladder that its hits came from."""

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.retriever.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k hits each; a query goes down its ladder until something is found."""
        ladders = [self._ladder(query) for query in queries]
        hits: list[list[Hit]] = [[] for _ in queries]
        waiting, rung = list(range(len(queries))), 0
        while waiting:
            found = self.retriever.retrieve([replace(queries[i], where=ladders[i][rung][1]) for i in waiting], k)
            for i, row in zip(waiting, found, strict=True):
                hits[i], self.rungs[queries[i].id] = row, ladders[i][rung][0]
            rung += 1
            waiting = [i for i in waiting if not hits[i] and rung < len(ladders[i])]
        return hits

    def _ladder(self, query: Query) -> list[tuple[str, Mapping[str, Any] | None]]:
        where = self.filters.get(query.id) or query.where
        if not where:
            return [("no filter", None)]
        return [("as asked", where)] if self.sources is None else list(relax(where, self.sources))
