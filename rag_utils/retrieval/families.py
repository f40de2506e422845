"""QA-RAG's retriever families, each around retrievers that stand here already (QA-RAG, section 2).

Every family has two forms. "sound" keeps the contract of all retrievers. "paper" does what the authors' code does with
similarities, so it may give a chunk twice, more than k hits, or fewer than there are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag_utils.enrichment import enrich, extract_phrases
from rag_utils.filters import matcher
from rag_utils.filters.validation import Sources
from rag_utils.indexing import LexicalIndex
from rag_utils.retrieval.filtered import Filtered
from rag_utils.retrieval.fusion import fuse_hits
from rag_utils.retrieval.retrievers import HybridRetriever, LexicalRetriever, _check
from rag_utils.schema import Chunk, Enricher, Hit, Query, Retriever

Rewrite = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""Questions to other wordings of each, best first; a question may have none."""


def duplicated_by_index(scores: Sequence[float], k: int) -> list[int]:
    """Places of the k highest scores, found as in all of the authors' scripts: a score that is tied gives one place.

    The scores are sorted and each is looked up with `list.index`, which finds the first of equals every time:
    [.5, .9, .9, .1] gives 1, 1, 0 for k = 3, and the chunk at place 2 is never read. The scores of our indices are
    rounded to 1e-5, so they tie a little more often than the authors'.
    """
    return [scores.index(score) for score in sorted(scores, reverse=True)[:k]]


def top_by_index(hits: Sequence[Hit], k: int) -> list[Hit]:
    """The first k hits as the authors' code would have them, see `duplicated_by_index`."""
    return [hits[place] for place in duplicated_by_index([hit.score for hit in hits], k)]


def check_mode(mode: str) -> None:
    """Raises ValueError for anything but "sound" and "paper"."""
    if mode not in ("sound", "paper"):
        raise ValueError(f'mode = {mode!r}: choose "sound" or "paper"')


class QueryFusionRetriever:
    """Hits of the question and of its other wordings in one list (QRFusion), all retrieved in one call.

    "paper": the k hits of the question, then the k of its first other wording; a chunk may stand in both.

    Args:
        retriever: Asked with every wording; each keeps the question's filter.
        rewrite: Gives the other wordings; repeated ones count once, and a question without any keeps its ranking.
        mode: "sound" or "paper".
        depth: Hits of each wording that are fused; "paper" takes k.
    """

    def __init__(self, retriever: Retriever, rewrite: Rewrite, *, mode: str = "sound", depth: int = 20):
        check_mode(mode)
        self.retriever, self.rewrite, self.mode, self.depth = retriever, rewrite, mode, depth

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.retriever.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k hits each ("paper": 2k); scores are sums of 1 / (60 + rank) ("paper": the retriever's)."""
        _check(k)
        paper = self.mode == "paper"
        others = self.rewrite([query.text for query in queries])
        wordings = [(query.text, *own) for query, own in zip(queries, others, strict=True)]
        wordings = [own[:2] if paper else (*dict.fromkeys(own),) for own in wordings]
        asked = [replace(query, text=text) for query, own in zip(queries, wordings, strict=True) for text in own]
        found = iter(self.retriever.retrieve(asked, k if paper else max(k, self.depth)))
        lists = [[next(found) for _ in own] for own in wordings]
        if paper:
            return [[hit for hits in own for hit in top_by_index(hits, k)] for own in lists]
        return [fuse_hits(own, "rrf")[:k] for own in lists]


class KeywordFusionRetriever:
    """Nearest chunks fused with those whose key phrases hold words of the question (HFusion).

    "paper": the k nearest chunks, then the k whose tokens, as white space parts them, overlap most with the question's
    (Jaccard); a chunk may stand in both.

    Args:
        dense: Any retriever with `chunks`.
        phrases: Makes the key phrases of the chunks (`enrichment.KeyBERTEnricher`, ...), which BM25 then searches; kept
            on disk as by `enrichment.enrich`. "paper" does not use it.
        mode: "sound" or "paper".
        depth: Hits of each list that are fused; "paper" takes k.
    """

    def __init__(self, dense: Retriever, phrases: Enricher, *, mode: str = "sound", depth: int = 20):
        check_mode(mode)
        self.dense, self._hybrid = dense, None
        if mode == "sound":
            index = LexicalIndex(enrich(self.chunks, [phrases]), fields=(phrases.field,))
            self._hybrid = HybridRetriever(LexicalRetriever(index), dense, fusion="rrf", depth=depth)

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved; hits may carry the field of phrases beside theirs."""
        return self.dense.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k hits each ("paper": 2k); scores are the mean of both lists' 1 / (60 + rank), 0 where missing."""
        if self._hybrid:
            return self._hybrid.retrieve(queries, k)
        near = self.dense.retrieve(queries, k)
        tokens = [frozenset(chunk.fields["text"].split()) for chunk in self.chunks]
        pairs = zip(near, (self._overlaps(query, tokens) for query in queries), strict=True)
        return [top_by_index(hits, k) + top_by_index(alike, k) for hits, alike in pairs]

    def _overlaps(self, query: Query, tokens: Sequence[frozenset[str]]) -> list[Hit]:
        """All chunks that the question's filter lets through, with their Jaccard similarities."""
        allowed, own = matcher(query.where), frozenset(query.text.split())
        pairs = [(c, words) for c, words in zip(self.chunks, tokens, strict=True) if allowed(c.metadata)]
        return [Hit(chunk, len(own & words) / max(len(own | words), 1)) for chunk, words in pairs]


class MetadataRetriever:
    """The hits that share phrases with the question, or pass its filter (MRetr); all hits where that leaves none.

    "paper": of the first k hits those that share more than one phrase, maybe none. Phrases are the authors': of more
    than 4 characters, without their words of up to 4; one of short words only is "", and "" is shared like any other.

    Args:
        retriever: Gives the hits.
        phrases: Finds the phrases of chunks and questions, compared without regard to case; or None, and `filters`.
        filters: Query id to filter, in place of phrases; a query without one keeps its own `where`. `Filtered` asks
            with the filter, then with ever weaker ones, at last with none; so does it with that `where`.
        sources: What filters may name (`filters.relax`); None = nothing known, and the ladder has no rung for it.
        least: Phrases that a hit shares to be kept; "paper" takes 2.
        depth: Hits looked at for phrases, if k is not larger; "paper" takes k.
        mode: "sound" or "paper" (with phrases).

    Attributes:
        fallbacks: Query id to the reason why its hits are not as asked for: "none shared", "no phrases in the
            question", or the rung that its filter went down to.

    Raises:
        ValueError: Both or none of phrases and filters, "paper" without phrases, or an unknown mode.
    """

    def __init__(
        self,
        retriever: Retriever,
        phrases: Enricher | None = None,
        *,
        filters: Mapping[str, Mapping[str, Any] | None] | None = None,
        sources: Sources | None = None,
        least: int = 1,
        depth: int = 20,
        mode: str = "sound",
    ):
        check_mode(mode)
        if (phrases is None) == (filters is None) or (mode == "paper" and phrases is None):
            raise ValueError('give either phrases or filters; mode "paper" needs phrases')
        self.retriever, self.depth, self.mode = retriever, depth, mode
        self.least = 2 if mode == "paper" else least
        self.fallbacks: dict[str, str] = {}
        self._by = Filtered(retriever, filters or {}, sources or ()) if phrases is None else phrases
        self._known: dict[str, frozenset[str]] = {}

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks that can be retrieved."""
        return self.retriever.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k hits each, with the retriever's scores and in its order."""
        _check(k)
        for query in queries:
            self.fallbacks.pop(query.id, None)
        if isinstance(self._by, Filtered):
            return self._passing(self._by, queries, k)
        asked = [self._compared(phrases) for phrases in self._by([query.text for query in queries])]
        if self.mode == "paper":
            first = [top_by_index(hits, k) for hits in self.retriever.retrieve(queries, k)]
            return self._sharing(self._by, asked, first)
        first = self.retriever.retrieve(queries, max(k, self.depth))
        kept = self._sharing(self._by, asked, first)
        for query, phrases, own, hits in zip(queries, asked, kept, first, strict=True):
            if hits and not own:
                self.fallbacks[query.id] = "none shared" if phrases else "no phrases in the question"
        return [(own or hits)[:k] for own, hits in zip(kept, first, strict=True)]

    def _passing(self, filtered: Filtered, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        hits = filtered.retrieve(queries, k)
        asked = [query.id for query in queries if filtered.filters.get(query.id) or query.where]
        self.fallbacks |= {id_: filtered.rungs[id_] for id_ in asked if filtered.rungs[id_] != "as asked"}
        return hits

    def _sharing(self, enricher: Enricher, asked: list[frozenset[str]], first: list[list[Hit]]) -> list[list[Hit]]:
        """Of each question's hits those that share phrases; a chunk's own are found once for each text."""
        chunks = {hit.chunk.fields["text"]: hit.chunk for hits in first for hit in hits}
        new = [chunk for text, chunk in chunks.items() if text not in self._known]
        found = extract_phrases(new, [enricher], progress=False)[enricher.field]
        self._known |= {chunk.fields["text"]: self._compared(own) for chunk, own in zip(new, found, strict=True)}
        return [
            [hit for hit in hits if len(own & self._known[hit.chunk.fields["text"]]) >= self.least]
            for own, hits in zip(asked, first, strict=True)
        ]

    def _compared(self, phrases: Iterable[str]) -> frozenset[str]:
        """Phrases in the form in which they are compared; more than 4 characters is what the authors' code keeps."""
        if self.mode == "sound":
            return frozenset(phrase.casefold() for phrase in phrases)
        spans = (phrase.split() for phrase in phrases if len(phrase) > 4)
        return frozenset(" ".join(word for word in words if len(word) > 4) for words in spans)
