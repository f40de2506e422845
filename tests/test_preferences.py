"""Pairs of answers with human votes: read, split by what is asked, and counted."""

import json
import os
from collections import Counter
from hashlib import sha256
from itertools import combinations

import pytest

from rag_utils.corpora import load_corpus, load_preferences
from rag_utils.provenance import recorded
from rag_utils.statistics import cohen_kappa

GPT, PANDALM = "gpt-3.5 (recorded)", "pandalm-7b (recorded)"


def row(idx, **changes):
    votes = {"annotator1": 1, "annotator2": 2, "annotator3": 0, "gpt_result": -1, "pandalm_result": 2}
    texts = {"instruction": "Say", "input": "", "response1": "one", "response2": "two", "cmp_key": "a-7b_b-6.9b"}
    return {"idx": idx, **texts, **votes, **changes}


def write(folder, *rows):
    (folder / "pandalm").mkdir()
    lines = "".join((json.dumps(one) if isinstance(one, dict) else one) + "\n" for one in rows)
    (folder / "pandalm" / "testset-v1.jsonl").write_text(lines, encoding="utf-8")
    return folder


def test_a_pair_by_hand(tmp_path):
    """1 and 2 are the better answer, 0 a tie, a model's -1 garbage."""
    preferences = load_preferences("pandalm", write(tmp_path, row(7, input="hello")), split="all")
    (pair,) = preferences.pairs
    assert (pair.id, pair.question, pair.answer_1, pair.answer_2) == ("7", "Say\n\nhello", "one", "two")
    assert pair.models == ("a-7b", "b-6.9b")
    assert pair.human == (1, -1, 0)
    assert pair.judges == {GPT: None, PANDALM: -1}
    assert (preferences.where, preferences.dropped, preferences.quirks) == ("folder pandalm", {}, {})


def test_odd_answers_and_malformed_rows(tmp_path):
    """An empty answer is one; a truth value becomes text and is counted; the rest is left out and named."""
    rows = [row(1, response1=""), row(2, response2=True), row(3, annotator2=-1), row(4, response1=None), row(1)]
    preferences = load_preferences(
        data_dir=write(tmp_path, *rows, row(5, gpt_result="A"), "{", row("", input="x")), split="all"
    )
    assert [(pair.answer_1, pair.answer_2) for pair in preferences.pairs] == [("", "two"), ("one", "True")]
    assert preferences.quirks == {"an answer is a truth value, taken as text": 1}
    assert preferences.dropped == {
        "not a vote": 2,
        "no response": 1,
        "repeated query id": 1,
        "not a JSON record": 1,
        "no idx": 1,
    }
    assert preferences.problems[0].startswith("pandalm/testset-v1.jsonl:2: an answer is a truth value")


def test_without_recorded_judges(tmp_path):
    plain = {key: value for key, value in row(1).items() if not key.endswith("_result")}
    assert load_preferences(data_dir=write(tmp_path, plain), split="all").pairs[0].judges == {}


def test_split_by_what_is_asked(tmp_path):
    """First 8 hex digits of SHA-256 of instruction + input, mod 100, below 40 = dev; a question is on one side."""
    rows = [row(n, instruction=f"Do {n // 3}", input="!" * (n % 2)) for n in range(300)]
    write(tmp_path, *rows)
    sides = {split: load_preferences(data_dir=tmp_path, split=split).pairs for split in ("dev", "test", "all")}
    expected = [
        str(one["idx"])
        for one in rows
        if int(sha256((one["instruction"] + one["input"]).encode()).hexdigest()[:8], 16) % 100 < 40
    ]
    assert [pair.id for pair in sides["dev"]] == expected
    assert sorted(pair.id for pair in sides["dev"] + sides["test"]) == sorted(pair.id for pair in sides["all"])
    assert not {pair.query_id for pair in sides["dev"]} & {pair.query_id for pair in sides["test"]}
    assert len({pair.query_id for pair in sides["all"]}) == 200
    other = load_preferences(data_dir=tmp_path, split="dev", seed=1).pairs
    assert other != sides["dev"] and other == load_preferences(data_dir=tmp_path, split="dev", seed=1).pairs
    noted = [one for one in recorded() if one["kind"] == "dataset" and one["name"] == "pandalm"][-1]
    assert (noted["seed"], noted["split"], noted["n_pairs"]) == (1, "dev", len(other))


def test_names(tmp_path):
    with pytest.raises(ValueError, match=r"no preferences 'squad': choose one of pandalm"):
        load_preferences("squad")
    with pytest.raises(ValueError, match=r"load_preferences\('pandalm'\)"):
        load_corpus("pandalm", data_dir=tmp_path)
    with pytest.raises(ValueError, match="split = 'train'"):
        load_preferences(data_dir=write(tmp_path, row(1)), split="train")
    with pytest.raises(FileNotFoundError, match=r"testset-v1.*\n.*github\.com/WeOpenML/PandaLM"):
        load_preferences(data_dir=tmp_path / "nowhere")


@pytest.mark.skipif(not os.environ.get("RAG_DATA_DIR"), reason="needs RAG_DATA_DIR")
def test_pandalm_by_the_numbers_known_of_it():
    """On the 699 rows at hand: kappas of the annotators, and agreement of the recorded judges with their majority."""
    pairs = load_preferences("pandalm", split="all").pairs
    if len(pairs) != 699:
        pytest.skip(f"{len(pairs)} rows, not the 699 that the numbers belong to")
    votes = list(zip(*(pair.human for pair in pairs), strict=True))
    kappas = [round(cohen_kappa(one, other), 3) for one, other in combinations(votes, 2)]
    assert kappas == [0.830, 0.872, 0.846]
    majority = [Counter(pair.human).most_common(1)[0][0] for pair in pairs]  # every row has one
    right = {judge: sum(m == p.judges[judge] for m, p in zip(majority, pairs, strict=True)) for judge in (GPT, PANDALM)}
    assert right == {GPT: 497, PANDALM: 476}
