"""The whole way: the quick study through the real runner, and a corpus of one's own, judged by their results.csv."""

import json
import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from rag_utils.experiments import COLUMNS
from rag_utils.provenance import cache_folder
from rag_utils.runs import run_study
from rag_utils.runs.execute import Outcome

ROOT = Path(__file__).parent.parent
NEWS_QUESTIONS, NEWS_NULL = 96, 12
DONE = ("finished", "finished before")


@pytest.fixture(scope="module")
def quick() -> dict[str, Path]:
    """The folder of each notebook's run in the quick study (finished runs are taken as they are)."""
    return _folders(run_study(ROOT / "papermill_runs" / "quick.yaml"))


NO_NETWORK = """
import os, socket

def refused(place):
    with open(os.environ["CALLS"], "a") as calls:
        print(place, file=calls)
    raise OSError(f"no network: {place}")

def guarded(reach):
    def reaching(self, place):
        local = isinstance(place, (str, bytes)) or place[0].startswith("127.") or place[0] == "::1"
        return reach(self, place) if local else refused(place)
    return reaching

socket.socket.connect, socket.socket.connect_ex = map(guarded, (socket.socket.connect, socket.socket.connect_ex))
find = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **named: (
    find(host, *more, **named) if host in (None, "localhost", "127.0.0.1", "::1") else refused(host)
)
"""


@pytest.fixture(scope="module")
def again(quick, tmp_path_factory) -> tuple[dict[str, Path], str]:
    """The quick study a second time, in a copy of the project and with sockets blocked; and the calls that were tried.

    Vectors come from the same cache, as they do for a reader who runs it twice.
    """
    root, guard = tmp_path_factory.mktemp("again"), tmp_path_factory.mktemp("guard")
    (guard / "sitecustomize.py").write_text(NO_NETWORK)
    calls = guard / "calls"
    calls.touch()
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    for name in ("pyproject.toml", "requirements.lock", "papermill_runs/quick.yaml"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(guard))
        patch.setenv("CALLS", str(calls))
        patch.setenv("RAG_CACHE_DIR", str(cache_folder()))
        return _folders(run_study(root / "papermill_runs" / "quick.yaml", root=root)), calls.read_text()


def _folders(outcomes: list[Outcome]) -> dict[str, Path]:
    assert all(o.state in DONE for o in outcomes), [o.reason for o in outcomes]
    return {o.run.notebook: o.run.folder for o in outcomes}


def _unmeasured(folder: Path) -> list[str]:
    """The lines of results.csv without times, memory and rates, which are measured anew."""
    lines = (folder / "results.csv").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not re.search(r",(ms|seconds|memory|rate)_", line)]


def test_the_handbook_calls_nobody(again):
    assert again[1] == ""


@pytest.mark.parametrize("notebook", sorted(p.stem for p in (ROOT / "notebooks").glob("*.ipynb")))
def test_two_runs_write_the_same_bytes(quick, again, notebook):
    first, second = _unmeasured(quick[notebook]), _unmeasured(again[0][notebook])
    assert len(first) > 3 and first == second
    run = json.loads((again[0][notebook] / "run.json").read_text(encoding="utf-8"))
    assert run["llm"]["calls"] == 0 and "not recorded" not in run["llm"]["errors"]


def _results(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "results.csv").set_index(["system", "metric"])


def test_every_notebook_is_in_the_quick_study(quick):
    assert set(quick) == {p.stem for p in (ROOT / "notebooks").glob("*.ipynb")}


@pytest.mark.parametrize("notebook", sorted(p.stem for p in (ROOT / "notebooks").glob("*.ipynb")))
def test_a_run_leaves_results_figures_and_provenance(quick, notebook):
    folder = quick[notebook]
    table = pd.read_csv(folder / "results.csv")
    assert list(table.columns) == COLUMNS and not table.duplicated(["system", "metric"]).any()
    assert table[["value", "low", "high"]].notna().all().all()
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()
    per_query = pd.read_parquet(folder / "per_query.parquet")
    means = per_query.groupby(["system", "metric"])["value"].agg(["mean", "count"])
    both = table.set_index(["system", "metric"]).join(means, how="inner")  # kappa, ratings are no means over questions
    assert len(both)
    pd.testing.assert_series_equal(both["value"], both["mean"], check_names=False, atol=1e-6)
    assert (both["n"] == both["count"]).all()
    for figure in folder.glob(f"{notebook[:2]}_*.png"):
        assert all(figure.with_suffix(s).stat().st_size > 0 for s in (".pdf", ".svg", ".csv"))
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["notebook"] == notebook and run["datasets"] and run["parameters"]["seed"] == 0
    assert str(ROOT) not in (folder / "run.json").read_text(encoding="utf-8")
    cells = json.loads((folder / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert "widget-view" not in json.dumps(cells)  # a progress bar is another one in each run
    assert str(ROOT) not in json.dumps(cells)  # the copy's own metadata name its place until it is published


def test_reading_answers_a_question(quick):
    results = _results(quick["00_how_to_read"])
    assert results.loc[("hybrid", "hits@5"), "value"] >= 0.5
    notebook = json.loads((quick["00_how_to_read"] / "notebook.ipynb").read_text(encoding="utf-8"))
    printed = "".join("".join(o.get("text", [])) for c in notebook["cells"] for o in c.get("outputs", []))
    assert "nineteen houses" in printed.split("answer  :")[1].splitlines()[0]


def test_chunking_shows_what_borders_cost(quick):
    results = _results(quick["10_chunking"])
    ceiling = results.xs("ceiling", level="metric")
    assert ceiling.loc["sentences 256/32", "value"] == 1.0  # facts are whole sentences, all shorter than 256 tokens
    assert ceiling.loc["4 equal pieces", "high"] < ceiling.loc["sentences 256/32", "low"]
    for size in (64, 128, 256):  # a wider overlap never cuts more
        words = [ceiling.loc[f"words {size}/{overlap}", "value"] for overlap in (0, 16, 32)]
        assert words == sorted(words)
    hits = results.xs("hits@4", level="metric")
    assert (hits["n"] + hits["dropped"] == NEWS_QUESTIONS).all() and (hits["dropped"] == NEWS_NULL).all()


def test_hybrid_beats_its_parts_on_the_news(quick):
    results = _results(quick["40_hybrid_retrieval"])
    hits = results.xs("hits@5", level="metric")
    assert hits.loc["hybrid min-max", "value"] > max(hits.loc["bm25", "value"], hits.loc["dense", "value"])
    assert hits.loc["hybrid min-max", "p"] < 0.05  # against bm25, exact McNemar, Holm over ten systems
    assert hits.loc["hybrid + metadata + rerank", "n"] <= 16
    for low, high in (("hits@1", "hits@5"), ("hits@5", "hits@10")):
        wide = results["value"].unstack()
        assert (wide[low] <= wide[high]).all()


def test_named_sources_read_filters_better_than_the_small_model(quick):
    results = _results(quick["20_metadata_extraction"])
    exact, small = results.xs("exact_set", level="metric"), "qwen2.5-coder-1.5b"
    assert exact.loc["named sources", "value"] > exact.loc[small, "value"]
    assert exact.loc["oracle", "value"] == 1 and exact.loc["named sources", "n"] == NEWS_QUESTIONS - NEWS_NULL
    assert results.loc[("named sources", "empty_rate"), "value"] == 0
    assert exact.loc[small, "dropped"] == 0  # every reply is recorded


def test_the_oracle_bounds_every_filter(quick):
    hits = _results(quick["21_filtered_retrieval"]).xs("hits@4", level="metric")["value"]
    for search in ("dense", "bm25", "hybrid"):
        assert hits[f"{search} + oracle"] >= max(hits[search], hits[f"{search} + filter"])


def test_answers_are_all_there_and_a_constant_is_beside_them(quick):
    results = _results(quick["22_filtered_answers"])
    rows = results.loc[["llm, no filter", "llm, filter", "no llm", "eight common words"]]
    assert (rows.xs("accuracy", level="metric")["n"] == 32).all()  # no reply is missing
    assert results.loc[("always insufficient", "null_recall"), "value"] == 1
    assert results.loc[("eight common words", "exact_match"), "value"] == 0


def test_selection_keeps_its_promise_in_simulation(quick):
    results = _results(quick["31_forward_selection"])
    assert results.loc[("holm", "noise_let_in"), "value"] <= 0.07
    assert results.loc[("holm", "noise_let_in"), "value"] < results.loc[("uncorrected", "noise_let_in"), "low"]
    assert results.loc[("holm", "useful_found"), "value"] >= 0.95


def test_eight_configurations_are_measured(quick):
    results = _results(quick["41_boosted_fields"]).xs("hits@1", level="metric")
    kinds = ("no meta", "existing", "enriched", "both")
    names = ["knn no meta", *(f"hybrid {k}" for k in kinds), *(f"boosted {k}" for k in kinds[1:])]
    assert set(names) <= set(results.index)


def test_judging_in_both_orders_undoes_a_love_of_the_first_place(quick):
    results = _results(quick["60_pairwise_judge"])
    assert results.loc[("coverage + length", "win_first_sentence"), "value"] == 1
    planted = results.xs("win_both_order", level="metric")
    assert (planted["value"] == 0).all() and len(planted) == 1


def test_ratings_by_question_cover_the_truth_and_by_battle_do_not(quick):
    coverage = _results(quick["62_ratings"]).xs("coverage", level="metric")
    assert coverage.loc["bradley-terry, by question", "value"] > 0.9 > coverage.loc["bradley-terry, by battle", "high"]


def test_a_corpus_of_ones_own(tmp_path, monkeypatch):
    """A BEIR folder with metadata of its own goes through notebook 40 to a table."""
    folder = tmp_path / "my corpus"
    (folder / "qrels").mkdir(parents=True)
    topics = ["ferry", "bridge", "harbour", "school", "museum", "orchard", "railway", "theatre"] * 5
    documents = [
        {
            "_id": f"d{i}",
            "title": f"Report {i}",
            "text": f"The {t} of district {i} was opened in spring.",
            "year": 2000 + i,
        }
        for i, t in enumerate(topics)
    ]
    queries = [{"_id": f"q{i}", "text": f"When was the {t} in district {i} opened?"} for i, t in enumerate(topics)]
    rows = ["query-id\tcorpus-id\tscore"] + [f"q{i}\td{i}\t1" for i in range(len(topics))]
    for name, lines in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows), encoding="utf-8")
    (outcome,) = run_study(
        ROOT / "papermill_runs" / "quick.yaml", only="40", overrides={"dataset": str(folder), "rerank_sample": 4}
    )
    assert outcome.state in DONE, outcome.reason
    results = _results(outcome.run.folder)
    assert results.loc[("bm25", "hits@1"), "value"] == 1.0  # the number of the district stands in one text only
    assert results.loc[("bm25", "hits@1"), ["n", "dropped"]].sum() == results.loc[("dense", "hits@1"), "n"]


@pytest.mark.skipif(not os.environ.get("RAG_DATA_DIR"), reason="needs RAG_DATA_DIR")
@pytest.mark.parametrize("dataset", ["narrativeqa", "qasper"])
def test_chunking_of_real_long_texts(dataset):
    (outcome,) = run_study(ROOT / "papermill_runs" / "multi_meta_rag.yaml", only="10", overrides={"dataset": dataset})
    assert outcome.state in DONE, outcome.reason
    ceiling = _results(outcome.run.folder).xs("ceiling", level="metric")
    assert ceiling.loc["sentences 256/32", "value"] >= 0.99
    assert ceiling.loc["sentences 256/32", "n"] >= 40
