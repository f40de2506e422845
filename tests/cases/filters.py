"""Filters: what a model wrote becomes a condition that holds for the right records, in Python as in the store."""

import numpy as np

from rag_utils.filters import matches, parse_filter, relax, to_chroma, validate_filter
from rag_utils.indexing import DenseIndex
from rag_utils.schema import Chunk

RECORDS = {
    "a": {"source": "Daily Gull", "published_at": "March 3, 2024", "year": 2024},
    "b": {"source": "Tin Post", "published_at": "March 4, 2024", "year": 2023},
    "c": {"source": "Tin Post", "published_at": "March 3, 2024", "year": 2023},
    "d": {"source": "Orchid Wire"},
}
ALLOWED = ["Daily Gull", "Tin Post", "Orchid Wire", "Coast | Harbor and Sea News"]


def _index(records=RECORDS):
    chunks = [
        Chunk(id=id_, document_id=id_, start=0, end=1, fields={"text": id_}, metadata=record)
        for id_, record in records.items()
    ]
    return DenseIndex(chunks, lambda texts: np.tile(np.float32([1, 0]), (len(texts), 1)))


def _selected(where, records=RECORDS):
    """Ids by the rule in Python, which the index and the store have to confirm."""
    ids = [id_ for id_, record in records.items() if matches(where, record)]
    index, condition = _index(records), to_chroma(where)
    assert [id_ for id_, _ in index.search(["q"], len(records), where)[0]] == ids
    with index.store.opened() as collection:
        assert sorted(collection.get(where=condition, include=[])["ids"]) == ids
    return ids


def FIL_G01():
    """An empty filter is no filter."""
    assert _selected({}) == ["a", "b", "c", "d"]


def FIL_G02():
    """An empty list of outlets is dropped and reported; the date holds."""
    where = {"source": {"$in": []}, "published_at": {"$in": ["March 3, 2024"]}}
    kept, dropped = validate_filter(where, ALLOWED)
    assert kept == {"published_at": {"$in": ["March 3, 2024"]}} and dropped == {"source": [{"$in": []}]}
    assert _selected(kept) == _selected(where) == ["a", "c"]


def FIL_G03():
    """One condition goes alone."""
    assert _selected({"source": {"$in": ["Tin Post"]}}) == ["b", "c"]


def FIL_G04():
    """Two fields are joined."""
    assert _selected({"source": {"$in": ["Tin Post"]}, "published_at": {"$in": ["March 3, 2024"]}}) == ["c"]


def FIL_G05():
    """Both bounds of one field hold."""
    years = {"o": {"year": 2021}, "p": {"year": 2023}, "q": {"year": 2025}}
    assert _selected({"year": {"$gte": 2022, "$lte": 2024}}, years) == ["p"]


def FIL_G06():
    """A bare value means equality."""
    kept, dropped = validate_filter({"source": "Tin Post"}, ALLOWED)
    assert _selected(kept) == ["b", "c"] and not dropped


def FIL_G07():
    """An outlet outside the list is dropped and reported."""
    kept, dropped = validate_filter({"source": {"$in": ["Tin Post", "Moon Courier"]}}, ALLOWED)
    assert kept == {"source": {"$in": ["Tin Post"]}} and dropped == {"source": ["Moon Courier"]}


def FIL_G08():
    """Case and outer blanks are repaired."""
    kept, _ = validate_filter({"source": {"$in": ["tin post", " DAILY GULL "]}}, ALLOWED)
    assert kept == {"source": {"$in": ["Tin Post", "Daily Gull"]}}


def FIL_G09():
    """Four spellings of a day become one."""
    for day in ("March 03, 2024", "2024-03-03", "2024-03-03T09:30:00+00:00", "March 3, 2024"):
        kept, _ = validate_filter({"published_at": {"$in": [day]}}, ALLOWED)
        assert kept == {"published_at": {"$in": ["March 3, 2024"]}}


def FIL_G10():
    """A date that is none is dropped and reported; the good one beside it stays."""
    kept, dropped = validate_filter({"published_at": {"$in": ["March 3, 2024", "last week"]}}, ALLOWED)
    assert kept == {"published_at": {"$in": ["March 3, 2024"]}} and dropped == {"published_at": ["last week"]}


def FIL_G11():
    """The shape of the known prompt's example, copied by a model, is repaired."""
    text = "{'source': {'$in': ['Tin Post']}, 'published_at': '$in': ['March 3, 2024']}"
    where = {"source": {"$in": ["Tin Post"]}, "published_at": {"$in": ["March 3, 2024"]}}
    assert parse_filter(text) == (where, "repaired")


def FIL_G12():
    """The rubbish of a general repairer is dropped and reported."""
    kept, dropped = validate_filter({"published_at": "$in': ['March 3, 2024']"}, ALLOWED)
    assert kept == {} and dropped == {"published_at": ["$in': ['March 3, 2024']"]}


def FIL_G13():
    """An apostrophe inside single quotes is repaired."""
    assert parse_filter("{'source': {'$in': ['Sailor's Weekly']}}") == (
        {"source": {"$in": ["Sailor's Weekly"]}},
        "repaired",
    )


def FIL_G14():
    """Where nothing matches, the result is empty, and the ladder names each weaker filter."""
    where = {"source": {"$in": ["Orchid Wire"]}, "published_at": {"$in": ["March 3, 2024"]}}
    assert _index().search(["q"], 3, where) == [[]]
    assert [(rung, _selected(weaker)) for rung, weaker in relax(where, ALLOWED)] == [
        ("as asked", []),
        ("without dates", ["d"]),
        ("no filter", ["a", "b", "c", "d"]),
    ]


def FIL_G15():
    """A record without the field passes a negation, as documented."""
    assert _selected({"published_at": {"$nin": ["March 3, 2024"]}}) == ["b", "d"]


def FIL_G16():
    """A number stored, text in the filter: the same year."""
    assert _selected({"year": {"$in": ["2023"]}}) == ["b", "c"]


def FIL_G17():
    """Written dates compare as days, not as text."""
    records = {"p": "March 9, 2024", "q": "March 10, 2024", "r": "January 2, 2025"}
    dated = {id_: {"published_at": day} for id_, day in records.items()}
    assert _selected({"published_at": {"$gte": "March 10, 2024"}}, dated) == ["q", "r"]


def FIL_G18():
    """A list of 100,001 names: the search is our own, so the store's limit does not apply."""
    where = {"source": {"$in": [*(f"x{i}" for i in range(100_000)), "Tin Post"]}}
    assert [id_ for id_, _ in _index().search(["q"], 4, where)[0]] == ["b", "c"]
    assert [id_ for id_, record in RECORDS.items() if matches(where, record)] == ["b", "c"]


def FIL_G19():
    """Repeats add nothing."""
    kept, dropped = validate_filter({"source": {"$in": ["Tin Post", "tin post", "Tin Post"]}}, ALLOWED)
    assert kept == {"source": {"$in": ["Tin Post"]}} and not dropped


def FIL_G20():
    """Four ways to say nothing give no filter; the last two count as unparsed."""
    read = [parse_filter(text) for text in ("{}", "None", "", "No filter needed.")]
    assert read == [({}, "empty"), ({}, "empty"), ({}, "unparsable"), ({}, "unparsable")]


def FIL_G21():
    """Two empty lists are no filter, reported."""
    where = {"source": {"$in": []}, "published_at": {"$in": []}}
    kept, dropped = validate_filter(where, ALLOWED)
    assert kept == {} and dropped == {"source": [{"$in": []}], "published_at": [{"$in": []}]}
    assert _selected(where) == ["a", "b", "c", "d"]
