"""The tree of summaries: each layer's nodes are clustered, and what stands in a cluster becomes one node above it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rag_utils.chunking import count_words_and_marks
from rag_utils.indexing import DenseIndex
from rag_utils.raptor.summaries import Summarise
from rag_utils.schema import Chunk

Clusters = Callable[[np.ndarray, Sequence[int]], list[tuple[int, ...]]]
"""Vectors and lengths of nodes to the rows of each cluster; a row may stand in several (`SoftClusters`)."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes from the leaves up; a node may have several parents."""

    layers: list[list[Chunk]]
    """The first are the chunks that were given, the others summaries."""
    children: dict[str, tuple[str, ...]]
    """Of a summary: the ids of the nodes one layer below that it was made from."""


def grow(index: DenseIndex, summarise: Summarise, clusters: Clusters, *, few: int, layers: int) -> Tree:
    """A tree over the index's chunks, whose summaries are put into the index too.

    It is complete when the top layer has no more than `few` nodes, or after `layers` layers of summaries; so a few
    chunks have no tree at all, as in the released code.

    Raises:
        ValueError: A chunk has an id like a summary's, or `summarise` gave more or fewer texts than there are clusters.
    """
    nodes = list(index.chunks)
    taken = [node.id for node in nodes if re.fullmatch(r"summary-\d+-\d+", node.id)]
    if taken:
        raise ValueError(f"chunk {taken[0]!r} has a summary's id: give the chunks without summaries, or rename it")
    tree = Tree([nodes], {})
    for number in range(1, layers + 1):
        if len(nodes) <= few:
            break
        vectors = index.store.read()[2][-len(nodes) :]  # as the index keeps them: each text is embedded once
        found = clusters(vectors, [count_words_and_marks(node.fields["text"]) for node in nodes])
        members = {f"summary-{number}-{place:03d}": [nodes[row] for row in rows] for place, rows in enumerate(found)}
        texts = summarise([[node.fields["text"] for node in own] for own in members.values()])
        nodes = [_summary(id_, own, text) for (id_, own), text in zip(members.items(), texts, strict=True)]
        tree.children.update({id_: tuple(node.id for node in own) for id_, own in members.items()})
        tree.layers.append(nodes)
        index.add(nodes)
    return tree


def _summary(id_: str, members: Sequence[Chunk], text: str) -> Chunk:
    """A node that claims only what all its members agree on, so that filters stay sound."""
    documents = {node.document_id for node in members}
    document = documents.pop() if len(documents) == 1 else ""
    first, *others = [node.metadata for node in members]
    agreed = {key: value for key, value in first.items() if all((key, value) in other.items() for other in others)}
    return Chunk(id=id_, document_id=document, start=0, end=0, fields={"text": text}, metadata=agreed)
