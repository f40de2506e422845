"""`matches` against hand-computed cases, `to_chroma` against a real Chroma collection with `matches` as the oracle.

Replies of models are read, validated and relaxed; a double stands for the model.
"""

import json
import math
import random
from datetime import date
from itertools import pairwise

import numpy as np
import pytest

from rag_utils.filters import (
    LLMFilterExtractor,
    allowed_fields,
    chroma_metadata,
    matcher,
    matches,
    parse_filter,
    relax,
    to_chroma,
    validate_filter,
)
from rag_utils.provenance import recorded
from rag_utils.schema import Chunk, Reply

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


def unit_vectors(texts):
    return np.tile(np.float32([1, 0]), (len(texts), 1))


def test_store_index_and_oracle_return_the_same_chunks():
    pytest.importorskip("chromadb")
    from rag_utils.indexing import DenseIndex

    rng = random.Random(20240613)
    records = {f"r{number:03d}": random_record(rng) for number in range(150)}
    chunks = [
        Chunk(id=name, document_id=name, start=0, end=1, fields={"text": "x"}, metadata=record)
        for name, record in records.items()
    ]
    index = DenseIndex(chunks, unit_vectors)
    sizes = set()
    with index.store.opened() as collection:
        for _ in range(1000):
            where = random_where(rng)
            test = matcher(where)
            expected = {name for name, record in records.items() if test(record)}
            condition = to_chroma(where)
            stored = set(collection.get(where=condition, include=[])["ids"]) if condition else set(records)
            assert stored == expected, where
            assert {id_ for id_, _ in index.search(["q"], len(records), where)[0]} == expected, where
            sizes.add(len(expected))
    assert len(sizes) > 40  # the filters were not all trivial


# Reading replies

FILTER = {"source": {"$in": ["Tin Post"]}, "published_at": {"$in": ["March 3, 2024", "March 4, 2024"]}}
READ_AS_THEY_STAND = [
    json.dumps(FILTER),
    str(FILTER),
    f"```json\n{json.dumps(FILTER, indent=1)}\n```",
    f"The filter is {FILTER}. It names one outlet.",
    f"Answer: {FILTER}",
    str(FILTER).replace("[", "(").replace("]", ",)"),
]
REPAIRED = [
    '{"source": {"$in": ["Tin Post"]}, "published_at": "$in": {["March 3, 2024", "March 4, 2024"]}}',
    "{'source': {'$in': ['Tin Post']}, 'published_at': '$in': ['March 3, 2024', 'March 4, 2024']}",
    '{"source": {"$in": ["Tin Post"]}, "published_at": {"$in": {["March 3, 2024", "March 4, 2024"]}}}',
    '{source: {$in: ["Tin Post"]}, published_at: {$in: ["March 3, 2024", "March 4, 2024"]}}',
    json.dumps(FILTER)[1:-1],
    json.dumps(FILTER)[:-1],
    f"{json.dumps(FILTER)}\n\nQuestion: What did the Daily Gull say?\nAnswer: {{'source': {{'$in': ['Daily Gull']}}}}",
]


@pytest.mark.parametrize("reply", READ_AS_THEY_STAND)
def test_what_is_well_formed_is_read_as_it_stands(reply):
    assert parse_filter(reply) == (FILTER, None)


@pytest.mark.parametrize("reply", REPAIRED)
def test_slips_of_form_are_repaired(reply):
    assert parse_filter(reply) == (FILTER, "repaired")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        *[(reply, "empty") for reply in ("{}", " None ", "null", "```\n{}\n```", "Answer: None.")],
        *[
            (reply, "unparsable")
            for reply in (None, "", "The Tin Post.", "[1, 2]", '"Tin Post"', "{" * 3000, "(" * 3000)
        ],
        ('{"source": {"$in": ["Tin Post", "Dai', "unparsable"),
        ('{"source": "Tin Post"} or {"source": "Daily Gull"}', "unparsable"),
        ("{'source': 'Tin Post', 'source': 'Daily Gull'}", "unparsable"),
        ("{'$in': ['Tin Post']}", "unparsable"),
    ],
)
def test_nothing_is_told_from_what_cannot_be_read(reply, reason):
    assert parse_filter(reply) == ({}, reason)


def test_names_with_marks_survive_repair():
    names = ["Coast | Harbor: Sea & Co.", "Sailor's Weekly", "A $in: B"]
    assert parse_filter(json.dumps({"source": {"$in": names}})[:-1]) == ({"source": {"$in": names}}, "repaired")


# Validation


def test_allowed_fields():
    assert allowed_fields(["b", "a", "b"]) == {"source": ("a", "b"), "published_at": None}
    assert allowed_fields({"year": [2023.0, None, 2021]}) == {"year": (2021, 2023.0), "published_at": None}
    with pytest.raises(ValueError, match=r"'source'.*'Tin Post'.*list"):
        allowed_fields("Tin Post")


ALLOWED = {"source": SOURCES, "year": None, "section": ["harbour", "town"]}


@pytest.mark.parametrize(
    ("where", "kept", "dropped"),
    [
        (None, {}, {}),
        ({"source": {"$in": ["Moon Courier"]}}, {}, {"source": ["Moon Courier"]}),
        (
            {"source": {"$nin": ["Moon Courier", "TIN POST"]}},
            {"source": {"$nin": ["Tin Post"]}},
            {"source": ["Moon Courier"]},
        ),
        ({"source": {"$ne": " tin post "}}, {"source": {"$ne": "Tin Post"}}, {}),
        ({"source": "tin post", "colour": "red"}, {"source": "Tin Post"}, {"colour": ["red"]}),
        ({"source": ["Tin Post", None]}, {"source": ["Tin Post"]}, {"source": [None]}),
        ({"source": {"$like": "Tin Post"}}, {}, {"source": [{"$like": "Tin Post"}]}),
        ({"source": {"$in": []}}, {}, {"source": [{"$in": []}]}),
        ({"source": {"$gt": "Daily Gull"}}, {}, {"source": ["Daily Gull"]}),
        ({"section": {"$in": ["Town", "sea"]}}, {"section": {"$in": ["town"]}}, {"section": ["sea"]}),
        ({"year": {"$gte": 2022, "$lt": "2024"}}, {"year": {"$gte": 2022, "$lt": "2024"}}, {}),
        ({"year": {"$gte": 0}}, {"year": {"$gte": 0}}, {}),
        ({"year": ["2023", "recent", True, [2023]]}, {"year": ["2023"]}, {"year": ["recent", True, [2023]]}),
        (
            {"published_at": {"$in": ["2024-03-03", "March 03, 2024", "last week", 2024]}},
            {"published_at": {"$in": ["March 3, 2024"]}},
            {"published_at": ["last week", 2024]},
        ),
        ({"published_at": {"$gte": date(2024, 3, 3)}}, {"published_at": {"$gte": "March 3, 2024"}}, {}),
        (
            {"$or": [{"source": "Moon Courier"}, {"source": "tin post"}]},
            {"$or": [{"source": "Tin Post"}]},
            {"source": ["Moon Courier"]},
        ),
        ({"$and": [{"source": "Moon Courier"}]}, {}, {"source": ["Moon Courier"]}),
        ({"$or": ["Tin Post"]}, {}, {"$or": [["Tin Post"]]}),
        ({"$not": [{"source": "Tin Post"}]}, {}, {"$not": [[{"source": "Tin Post"}]]}),
    ],
)
def test_sound_validation_by_hand(where, kept, dropped):
    assert validate_filter(where, ALLOWED) == (kept, dropped)


def test_names_that_differ_in_case_only_stay_apart():
    assert validate_filter({"source": ["wired", "Wired", "WIRED"]}, ["wired", "Wired"])[0] == {
        "source": ["wired", "Wired"]
    }


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ({"source": {"$in": ["Moon Courier"]}, "colour": 1}, {"source": {"$in": ["Moon Courier"]}}),
        ({"source": "x", "published_at": "March 3, 2024"}, {"source": "x"}),
        ({"published_at": ["March 3, 2024"]}, {}),
        ({"published_at": {"$in": ["March 3, 2024", "last week"]}}, {}),
        ({"published_at": {"$in": ["2024-03-03"]}}, {}),
        ({"published_at": {"$in": [20240303]}}, {}),
        ({"published_at": {"$gte": "March 3, 2024", "$in": ["last week"]}}, {}),
        ({"published_at": {"$in": ["March 3, 2024"], "$nin": ["last week"]}}, {}),
        *[({"published_at": dates},) * 2 for dates in ({}, {"$in": []}, {"$in": ["March 03, 2024"]})],
        ({"published_at": {"$lt": ["March 3, 2024"]}},) * 2,
    ],
)
def test_the_published_cleaner(where, kept):
    """Expected values: the conditions of `clean_filter` in the authors' script, followed by hand."""
    result, dropped = validate_filter(where, ["Tin Post"], "paper")
    assert result == kept
    assert dropped == {field: [value] for field, value in where.items() if field not in kept}


def test_the_published_cleaner_stops_where_the_script_does():
    with pytest.raises(KeyError, match="published_at"):
        validate_filter({"published_at": {"$in": ["last week"], "$nin": ["March 3, 2024"]}}, ["Tin Post"], "paper")
    with pytest.raises(ValueError, match="mode 'strict'"):
        validate_filter({}, ["Tin Post"], "strict")


def unsound_where(rng):
    """A filter of which some outlets are unknown, some dates are none, some operators and fields do not exist."""
    swaps = {"Orchid Wire": "Moon Courier", "2024-03-04": "last week", "$ne": "$like"}
    text = json.dumps(random_where(rng))
    for good, bad in swaps.items():
        if rng.random() < 0.4:
            text = text.replace(f'"{good}"', f'"{bad}"')
    return json.loads(text)


def test_sound_filters_are_valid_and_mean_the_same_where_nothing_was_dropped():
    rng = random.Random(4)
    records = [random_record(rng) for _ in range(60)]
    unchanged = 0
    for _ in range(1000):
        where = unsound_where(rng)
        kept, dropped = validate_filter(where, {"source": SOURCES, "year": None})
        assert all(bad not in json.dumps(kept) for bad in ("Moon Courier", "last week", "$like")), where
        assert validate_filter(kept, {"source": SOURCES, "year": None}) == (kept, {})
        test = matcher(kept)
        if not dropped:
            unchanged += 1
            assert [test(record) for record in records] == [matches(where, record) for record in records], where
    assert 300 < unchanged < 900


# The fallback ladder


def test_the_ladder_by_hand():
    dates, outlets = {"published_at": "March 3, 2024"}, {"source": {"$in": ["Tin Post", "Moon Courier"]}}
    assert relax(outlets | dates, SOURCES) == [
        ("as asked", outlets | dates),
        ("without dates", outlets),
        ("known outlets only", {"source": {"$in": ["Tin Post"]}}),
        ("no filter", {}),
    ]
    assert [rung for rung, _ in relax({"source": "Moon Courier"}, SOURCES)] == ["as asked", "no filter"]
    assert [rung for rung, _ in relax(dates, SOURCES)] == ["as asked", "no filter"]
    assert relax(None, SOURCES) == relax({}, SOURCES) == [("no filter", {})]
    nested = {"$and": [dates, {"source": "Tin Post"}], "seen": {"$lt": "2024-01-01"}}
    assert relax(nested, {"source": SOURCES, "seen": None})[1] == ("without dates", {"$and": [{"source": "Tin Post"}]})


def test_no_rung_finds_less_than_the_one_before():
    rng = random.Random(5)
    records = [random_record(rng) for _ in range(60)]
    for _ in range(500):
        rungs = relax(random_where(rng), {"source": SOURCES, "year": None})
        assert rungs[-1] == ("no filter", {}) and all(where for _, where in rungs[:-1])
        found = [{i for i, record in enumerate(records) if matches(where, record)} for _, where in rungs]
        assert all(fewer <= more for fewer, more in pairwise(found)), rungs


# The extractor


class Scripted:
    """A double of a model: replies (or errors) in turn, one list a call; it keeps what it was asked."""

    def __init__(self, *calls):
        self.calls, self.asked = list(calls), []

    def __call__(self, prompts):
        self.asked.append(prompts)
        return [reply if isinstance(reply, Reply) else Reply(text=reply, model="double") for reply in self.calls.pop(0)]


def failed(error, text=""):
    return Reply(text=text, model="double", error=error)


def test_the_extractor_reads_validates_and_asks_again_once():
    first = [str(FILTER), "{}", "The Tin Post.", "No idea.", failed("timeout", "{'source': 'Tin Post'}"), "Hm."]
    llm = Scripted(first, ["{'source': 'tin post'}", failed("not recorded"), "None"])
    found = LLMFilterExtractor(llm, SOURCES)(["a", "b", "c", "d", "e", "f"])
    assert found == [
        (FILTER, None),
        ({}, "empty"),
        ({"source": "Tin Post"}, "repaired"),
        ({}, "unparsable"),
        ({}, "timeout"),
        ({}, "empty"),
    ]
    assert [len(prompts) for prompts in llm.asked] == [6, 3]
    roles = [role for role, _ in llm.asked[1][0].messages]
    assert roles == ["user", "assistant", "user"] and llm.asked[1][0].messages[1] == ("assistant", "The Tin Post.")


def test_no_second_call_where_all_is_read():
    llm = Scripted(["{'source': {'$in': ['Moon Courier', 'Tin Post']}, 'colour': 'red'}"])
    assert LLMFilterExtractor(llm, SOURCES)(["a"]) == [({"source": {"$in": ["Tin Post"]}}, None)]
    assert any(fact["kind"] == "dropped" and fact.get("n") == 2 for fact in recorded())


def test_paper_mode_passes_unknown_outlets_and_names_where_the_script_stops():
    unknown, stops = {"source": {"$in": ["Moon Courier"]}}, {"published_at": {"$in": ["x"], "$nin": ["y"]}}
    llm = Scripted([str(unknown), str(stops)])
    assert LLMFilterExtractor(llm, SOURCES, "paper")(["a", "b"]) == [(unknown, None), ({}, "cleaner stopped")]
    assert '"published_at": "$in": {["March 4, 2024"' in llm.asked[0][0].messages[0][1]


def test_the_prompt_states_fields_values_and_three_of_them_in_the_examples():
    prompt = LLMFilterExtractor(Scripted(), {"year": None, "section": {"town", "harbour", "coast"}}).prompt("Where?")
    ((role, text),) = prompt.messages
    assert role == "user" and "<question>\nWhere?\n</question>" in text
    fields = text.partition("<fields>\n")[2].partition("\n</fields>")[0]
    assert fields.splitlines() == [
        'year: any number, or any date, written like "March 4, 2024"',
        'section: ["coast", "harbour", "town"]',
        'published_at: any date, written like "March 4, 2024"',
    ]
    answers = [json.loads(line.removeprefix("Answer: ")) for line in text.splitlines() if line.startswith("Answer: {")]
    assert [answer["section"]["$in"] for answer in answers] == [["coast", "harbour"], ["town"], ["harbour", "town"]]


def test_the_prompt_does_not_depend_on_the_order_of_the_names():
    one, other = (LLMFilterExtractor(Scripted(), names).prompt("q") for names in (SOURCES, iter(SOURCES[::-1])))
    assert one == other
    assert "'A'" in LLMFilterExtractor(Scripted(), ["A"]).prompt("q").messages[0][1]  # too few names are repeated


def test_without_values_there_are_no_examples():
    with pytest.raises(ValueError, match=r"no field of .*'year'.*examples"):
        LLMFilterExtractor(Scripted(), {"year": None})
    with pytest.raises(ValueError, match="mode 'strict'"):
        LLMFilterExtractor(Scripted(), SOURCES, "strict")


def test_numbers_compare_whatever_their_type_and_size():
    record = {"year": np.int64(2023), "share": 3e-7, "score": np.float32(0.5), "size": math.nan}
    for where in ({"year": {"$gte": 2023}}, {"share": {"$gt": 1e-7, "$lt": np.float64(1e-6)}}, {"score": 0.5}):
        assert matches(where, record), where
        assert validate_filter(where, {"year": None, "share": None, "score": None}) == (where, {})
    assert not matches({"share": {"$gt": 1e20}}, record)
    assert chroma_metadata(record) == {"year": 2023, "share": 3e-7, "score": 0.5}


def test_values_are_those_of_the_corpus_in_its_own_type():
    fields = {"year": [2022, 2023], "open": [True, False]}
    asked = {"year": {"$in": ["2023", 2023, 2023.0]}, "open": "True"}
    assert validate_filter(asked, fields) == ({"year": {"$in": [2023]}, "open": True}, {})
    assert relax({"year": 2023}, fields) == [("as asked", {"year": 2023}), ("no filter", {})]


def test_arrays_are_lists_and_what_is_no_filter_is_named():
    years = {"year": {"$in": np.array([2022, 2023])}}
    sources = {"year": [2021, 2022, 2023]}
    assert [matches(years, {"year": year}) for year in (2021, 2022, 2023)] == [False, True, True]
    assert to_chroma(years) == to_chroma({"year": {"$in": [2022, 2023]}})
    assert validate_filter({"$or": [years, {"year": 2021}]}, sources)[0] == {
        "$or": [{"year": {"$in": [2022, 2023]}}, {"year": 2021}]
    }
    assert [rung for rung, _ in relax(years, sources)] == ["as asked", "no filter"]
    for read in (
        lambda w: matches(w, {}),
        to_chroma,
        lambda w: validate_filter(w, sources),
        lambda w: relax(w, sources),
    ):
        for wrong in ([1], "Tin Post", 7):
            with pytest.raises(ValueError, match="maps fields to conditions"):
                read(wrong)
