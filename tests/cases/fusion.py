"""Fusion: several rankings of one query become one."""

import pytest

from rag_utils.retrieval import fuse, fuse_hits
from rag_utils.schema import Chunk, Hit

HALVES = (0.5, 0.5)


def _hit(id_, score, **metadata):
    return Hit(Chunk(id=id_, document_id=id_, start=0, end=1, fields={"text": id_}, metadata=metadata), score)


def FUS_G01():
    """All scores equal: min-max gives each 1, documented, in place of 0/0."""
    assert fuse([{"a": 2.5, "b": 2.5, "c": 2.5}], weights=[1]) == {"a": 1.0, "b": 1.0, "c": 1.0}


def FUS_G02():
    """A lone match keeps its reward."""
    fused = fuse([{"a": 7.1}, {"a": 0.9, "b": 0.8}], weights=HALVES)
    assert list(fused) == ["a", "b"]
    assert fused["a"] == pytest.approx(1.0)


def FUS_G03():
    """A document missing in one list counts 0 there."""
    fused = fuse([{"b": 1.0, "c": 2.0}, {"a": 0.9, "b": 0.5, "c": 0.1}], weights=HALVES)
    assert fused == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.5}, abs=1e-6)


def FUS_G04():
    """Reciprocal ranks count from 1; absent documents get nothing."""
    fused = fuse([["x", "a", "y"], ["b", "c", "y"]], "rrf")
    assert fused == pytest.approx({"x": 1 / 61, "a": 1 / 62, "y": 2 / 63, "b": 1 / 61, "c": 1 / 62}, abs=1e-6)
    assert next(iter(fused)) == "y"


def FUS_G05():
    """A repeated document counts its best place; later ones move up."""
    assert fuse([["p", "p", "q"], ["q"]], "rrf") == pytest.approx({"p": 1 / 61, "q": 1 / 62 + 1 / 61}, abs=1e-6)


def FUS_G06():
    """Ids of two types would never match: a clear error."""
    with pytest.raises(TypeError, match="two types"):
        fuse([[4, 7], ["4"]], "rrf")


def FUS_G07():
    """Distances are fused negated; the farthest document cannot win."""
    distance = {"a": 0.9, "b": 0.1, "c": 0.2}
    fused = fuse([{"a": 2.0, "b": 1.0}, {id_: -d for id_, d in distance.items()}], weights=HALVES)
    assert fused == pytest.approx({"a": 0.5, "b": 0.5, "c": 0.4375}, abs=1e-6)
    assert next(iter(fused)) != "c"


def FUS_G08():
    """Scaling first keeps a large keyword score from drowning the weight."""
    fused = fuse([{"k": 25.86, "m": 0.0}, {"m": 0.4279, "k": 0.05}], weights=(0.3, 0.7))
    assert list(fused) == ["m", "k"]
    assert fused == pytest.approx({"m": 0.7, "k": 0.3}, abs=1e-6)


def FUS_G09():
    """The weight is the first list's share."""
    lists = [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}]
    assert list(fuse(lists, weights=(1, 0))) == ["a", "b"]
    assert list(fuse(lists, weights=(0, 1))) == ["b", "a"]


def FUS_G10():
    """One empty list leaves the other's order."""
    assert list(fuse([[], ["q", "r"]], "rrf")) == ["q", "r"]
    assert list(fuse([{}, {"q": 0.9, "r": 0.1}])) == ["q", "r"]


def FUS_G11():
    """Equal scores stand in order of id."""
    assert list(fuse([{"c": 0.5, "a": 0.5, "b": 0.5}])) == ["a", "b", "c"]


def FUS_G12():
    """A NaN is refused by name."""
    with pytest.raises(ValueError, match=r"'a'.*nan"):
        fuse([{"a": 1.0, "b": 0.5}, {"a": float("nan"), "b": 0.3}])


def FUS_G13():
    """Of two records of one chunk the one at the better rank is kept."""
    fused = fuse_hits([[_hit("T", 1.0, source="P")], [_hit("U", 2.0, source="Q"), _hit("T", 1.0, source="R")]], "rrf")
    assert next(hit.chunk.metadata["source"] for hit in fused if hit.chunk.id == "T") == "P"
