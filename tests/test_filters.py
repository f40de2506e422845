"""`matches` against hand-computed cases, `to_chroma` against a real Chroma collection with `matches` as the oracle."""

import random
from datetime import date

import pytest

from rag_utils.filters import chroma_metadata, matcher, matches, to_chroma

RECORDS = {
    "a": {"source": "Daily Gull", "published_at": "March 3, 2024", "year": 2024},
    "b": {"source": "Tin Post", "published_at": "2024-03-04", "year": 2023},
    "c": {"source": "Tin Post", "published_at": "2024-03-03T09:30:00+00:00", "year": 2023},
    "d": {"source": "Orchid Wire"},
    "e": {"source": "2023", "published_at": "2025-01-02", "year": 2022.5, "section": "harbour"},
}


def selected(where):
    return [name for name, record in RECORDS.items() if matches(where, record)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "abcde"),
        ({}, "abcde"),
        ({"source": {"$in": []}}, "abcde"),
        ({"source": {"$in": []}, "published_at": {"$in": ["March 3, 2024"]}}, "ac"),
        ({"source": "Tin Post"}, "bc"),
        ({"source": ["Tin Post", "Daily Gull"]}, "abc"),
        ({"source": {"$eq": "tin post"}}, ""),
        ({"source": {"$ne": "Tin Post"}}, "ade"),
        ({"published_at": "2024-03-03"}, "ac"),
        ({"published_at": {"$nin": ["March 3, 2024"]}}, "bde"),
        ({"published_at": {"$gte": "March 4, 2024"}}, "be"),
        ({"published_at": {"$gt": date(2024, 3, 3), "$lt": "1 January 2025"}}, "b"),
        ({"published_at": {"$lt": "2024-03-04T00:00:00"}}, "ac"),
        ({"year": {"$gte": 2023, "$lte": 2023}}, "bc"),
        ({"year": {"$in": ["2023"]}}, "bc"),
        ({"year": {"$gt": "2022", "$lt": 2023}}, "e"),
        ({"source": {"$in": [2023]}}, "e"),
        ({"section": None, "year": 2024}, "a"),
        ({"$or": [{"source": "Orchid Wire"}, {"year": 2024}]}, "ad"),
        ({"$and": [{"source": "Tin Post"}, {"published_at": "2024-03-04"}]}, "b"),
        ({"$or": [{"source": "Orchid Wire"}, {}]}, "abcde"),
        ({"$or": []}, "abcde"),
        ({"source": "Tin Post", "$or": [{"published_at": "2024-03-04"}, {"source": "Daily Gull"}]}, "b"),
    ],
)
def test_matches_by_hand(where, expected):
    assert selected(where) == list(expected)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"source": {"$like": "Tin%"}}, "'\\$like'.*'source'"),
        ({"$not": [{"source": "Tin Post"}]}, "'\\$not'"),
        ({"source": {"$gte": "M"}}, "'source'.*number or a date.*'M'"),
        ({"$and": ["Tin Post"]}, "maps fields"),
        ({"$or": {"source": "Tin Post"}}, "\\$or takes a list"),
        ({"$and": {"source": "Tin Post"}}, "\\$and takes a list"),
        ({"$or": [{1: 2}]}, "1 is no field"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_both(where, said):
    with pytest.raises(ValueError, match=said):
        matches(where, {})
    with pytest.raises(ValueError, match=said):
        to_chroma(where)


def test_a_text_that_begins_with_a_date_is_a_text():
    record = {"note": "2024-03-01 pier closed"}
    assert not matches({"note": "2024-03-01 budget cut"}, record) and matches({"note": record["note"]}, record)
    assert chroma_metadata(record) == record


def test_no_condition_is_none_for_the_store():
    for where in (None, {}, {"source": {"$in": []}}, {"$and": []}, {"$and": [{}]}, {"$or": [{}, {"source": "x"}]}):
        assert to_chroma(where) is None


def test_one_condition_stands_alone_and_dates_are_integers():
    assert to_chroma({"source": {"$in": ["Tin Post"]}}) == {"source": {"$in": ["Tin Post"]}}
    assert to_chroma({"$and": [{"published_at": {"$gte": "March 3, 2024"}}]}) == {"published_day": {"$gte": 20240303}}
    two = to_chroma({"year": {"$gte": 2022, "$lte": 2024}})
    assert two == {"$and": [{"year": {"$gte": 2022}}, {"year": {"$lte": 2024}}]}


def test_metadata_for_the_store():
    record = {"published_at": "2024-03-03", "year": 2024, "open": True, "author": None, "seen": "2024-01-02"}
    assert chroma_metadata(record) == {
        **{"published_at": "2024-03-03", "published_day": 20240303, "year": 2024, "open": "true"},
        **{"seen": "2024-01-02", "seen_day": 20240102},
    }


SOURCES = ["Daily Gull", "Tin Post", "Orchid Wire", "Coast | Harbor: Sea & Co.", "2023"]
DAYS = ["2024-03-03", "March 3, 2024", "2024-03-04", "December 31, 2023", "2025-01-02T08:00:00+00:00"]
YEARS = [2021, 2022, 2022.5, 2023, "2023", 2024]


def random_record(rng):
    record = {"source": rng.choice(SOURCES), "published_at": rng.choice(DAYS), "year": rng.choice(YEARS), "number": 1}
    return {key: value for key, value in record.items() if key == "number" or rng.random() < 0.8}


def random_condition(rng):
    field, values = rng.choice([("source", SOURCES), ("published_at", DAYS), ("year", YEARS)])
    named = rng.choice(["bare", "list", "$in", "$nin", "$eq", "$ne", "range", "ranges"])
    one, some = rng.choice(values), rng.choices(values, k=rng.randint(0, 3))
    if named in ("range", "ranges") and field != "source":
        two = rng.sample(["$gt", "$gte", "$lt", "$lte"], k=2)
        return {field: {operator: rng.choice(values) for operator in two[: 1 + (named == "ranges")]}}
    if named in ("bare", "list", "range", "ranges"):
        return {field: some if named == "list" else one}
    return {field: {named: some if named in ("$in", "$nin") else one}}


def random_where(rng, depth=2):
    where = {}
    for _ in range(rng.randint(0, 2)):
        where |= random_condition(rng)
    if depth and rng.random() < 0.5:
        where[rng.choice(["$and", "$or"])] = [random_where(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return where


def test_store_and_oracle_return_the_same_records():
    chromadb = pytest.importorskip("chromadb")
    rng = random.Random(20240613)
    records = {f"r{number:03d}": random_record(rng) for number in range(150)}
    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
    collection = client.create_collection("oracle-of-filters", embedding_function=None)
    collection.add(
        ids=list(records),
        embeddings=[[1.0, 0.0]] * len(records),
        metadatas=[chroma_metadata(record) for record in records.values()],
    )
    sizes = set()
    for _ in range(400):
        where = random_where(rng)
        test = matcher(where)
        expected = {name for name, record in records.items() if test(record)}
        condition = to_chroma(where)
        found = set(collection.get(where=condition, include=[])["ids"]) if condition else set(records)
        assert found == expected, where
        sizes.add(len(expected))
    client.delete_collection("oracle-of-filters")
    assert len(sizes) > 30  # the filters were not all trivial
