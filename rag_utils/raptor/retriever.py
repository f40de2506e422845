"""Search in the tree of summaries: in all layers at once, or from the top down."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np

from rag_utils.chunking import count_words_and_marks
from rag_utils.filters import matcher
from rag_utils.indexing import DenseIndex
from rag_utils.raptor.summaries import Summarise
from rag_utils.raptor.tree import grow
from rag_utils.schema import Chunk, Embedder, Hit, Query

MODES = ("collapsed", "traversal", "paper")


class RaptorRetriever:
    """RAPTOR (arXiv 2401.18059): chunks, and summaries of what belongs together, searched by cosine.

    Two builds from the same chunks give the same tree. A query's filter lets a summary through only if it lets every
    chunk below it through; a summary of several sources answers no question about one of them.

    Args:
        chunks: The leaves, as they are.
        embedder: Texts to vectors (`load_embedder`).
        summarise: The texts of all clusters of a layer to their summaries (`ExtractiveSummariser`, `LLMSummariser`).
        mode: "collapsed": the best nodes of all layers, until the next would exceed `tokens`. "traversal": the best
            `per_layer` nodes of the top layer, then the best of their children, and so on down; hits come from all
            layers. With a filter it goes through nodes that have a chunk below that passes. "paper": what QA-RAG's
            code does under this name, the plain best chunks; an agglomeration is computed there and never used, so
            none is here, nor are there summaries.
        seed: Of the mixtures.
        dimensions: Of the reduced vectors; `dimensions` + 1 nodes or fewer get no layer above.
        layers: Layers of summaries, at most.
        threshold: Share of a cluster, 0 to 1, above which a node is in it.
        tokens: Words and marks of a cluster's texts, and of the hits of "collapsed", at most; its best node is always
            a hit, however long.
        per_layer: Nodes that "traversal" takes from each layer.

    Attributes:
        tree: `layers` of nodes from the leaves up, and `children` by id.

    Raises:
        ValueError: An unknown mode, a number out of range, or what `DenseIndex` and `grow` refuse.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        embedder: Embedder,
        summarise: Summarise,
        *,
        mode: str = "collapsed",
        seed: int = 0,
        dimensions: int = 10,
        layers: int = 5,
        threshold: float = 0.1,
        tokens: int = 3_500,
        per_layer: int = 5,
    ):
        if mode not in MODES:
            raise ValueError(f"mode = {mode!r}: choose among {', '.join(MODES)}")
        if min(dimensions, tokens, per_layer) < 1 or layers < 0 or not 0 <= threshold < 1:
            numbers = f"{dimensions = }, {tokens = }, {per_layer = }, {layers = }, {threshold = }"
            raise ValueError(f"{numbers}: the first three are 1 or more, layers 0 or more, threshold from 0 to below 1")
        from rag_utils.raptor.clustering import SoftClusters

        self.mode, self.tokens, self.per_layer = mode, tokens, per_layer
        self.index = DenseIndex(chunks, embedder)
        clusters = SoftClusters(dimensions=dimensions, threshold=threshold, tokens=tokens, seed=seed)
        layers = 0 if mode == "paper" else layers
        self.tree = grow(self.index, summarise, clusters, few=dimensions + 1, layers=layers)
        columns = {node.id: column for column, node in enumerate(self.chunks)}
        self._places = np.argsort(np.argsort([*columns]))  # in the order of ids, for ties
        self._top = [columns[node.id] for node in self.tree.layers[-1]]
        self._children = [tuple(columns[id_] for id_ in self.tree.children.get(parent, ())) for parent in columns]
        self._lengths = [count_words_and_marks(node.fields["text"]) for node in self.chunks]

    @property
    def chunks(self) -> Sequence[Chunk]:
        """All nodes: the chunks that were given, then the summaries layer by layer."""
        return self.index.chunks

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k nodes each, fewer where `tokens` or `per_layer` end the list; scores are cosines, -1 to 1."""
        if k < 0:
            raise ValueError(f"k = {k}: ask for 0 or more hits")
        filters = {repr(query.where): query.where for query in queries}  # questions share a few
        passing = {key: self._passing(where) for key, where in filters.items()}
        cosines = self.index.scores([query.text for query in queries])
        return [self._hits(row, *passing[repr(query.where)], k) for query, row in zip(queries, cosines, strict=True)]

    def _passing(self, where: Mapping[str, Any] | None) -> tuple[list[bool], list[bool]]:
        """For each node, whether it and all below it pass, and whether any chunk below (or the chunk itself) does."""
        passes = matcher(where)
        wholly: list[bool] = []
        partly: list[bool] = []
        for node, below in zip(self.chunks, self._children, strict=True):  # children come before their parents
            own = passes(node.metadata)
            wholly.append(own and all(wholly[child] for child in below))
            partly.append(any(partly[child] for child in below) if below else own)
        return wholly, partly

    def _hits(self, cosines: np.ndarray, wholly: list[bool], partly: list[bool], k: int) -> list[Hit]:
        ranked = np.lexsort((self._places, -cosines)).tolist()
        if self.mode == "traversal":
            walked = self._walked(ranked, partly)
            ranked = [node for node in ranked if node in walked]
        best = [*islice((node for node in ranked if wholly[node]), k)]
        if self.mode == "collapsed":
            totals = accumulate(self._lengths[node] for node in best)
            best = [node for node, total in zip(best, totals, strict=True) if total <= self.tokens or node == best[0]]
        return [Hit(self.chunks[node], float(cosines[node])) for node in best]

    def _walked(self, ranked: list[int], partly: list[bool]) -> set[int]:
        """The nodes chosen on the way down."""
        walked: set[int] = set()
        candidates = set(self._top)
        while candidates:
            best = [*islice((node for node in ranked if node in candidates and partly[node]), self.per_layer)]
            walked.update(best)
            candidates = {child for node in best for child in self._children[node]}
        return walked
