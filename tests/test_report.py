"""What leaves a notebook: checked results, safe tables, the papers' numbers, the README's table."""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from rag_utils.report import beside_paper, interval_plot, paper_table, save_figure, save_results, save_table, show
from rag_utils.report.readme import BEGIN, END, with_table

ROOT = Path(__file__).parent.parent
COLUMNS = ["system", "metric", "value", "low", "high", "n", "dropped", "p"]


def a_table(**changes) -> pd.DataFrame:
    rows = [("bm25", "hits@4", 0.7, 0.65, 0.75, 200, 3, None), ("dense", "hits@4", 0.8, 0.75, 0.85, 200, 3, 1.25e-9)]
    return pd.DataFrame(rows, columns=COLUMNS).assign(**changes)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_RUN_FOLDER", str(tmp_path))
    return tmp_path


# results


def test_results_as_written(folder):
    assert save_results(a_table()) == folder / "results.csv"
    assert (folder / "results.csv").read_bytes() == (
        b"system,metric,value,low,high,n,dropped,p\n"
        b"bm25,hits@4,0.7,0.65,0.75,200,3,\n"
        b"dense,hits@4,0.8,0.75,0.85,200,3,1.25e-09\n"
    )


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"value": [0.7, None]}, r"\(dense, hits@4\) has no finite value"),
        ({"value": [0.7, float("inf")]}, "has no finite value"),
        ({"value": [0.7, 0.9]}, r"\(dense, hits@4\) lies outside its interval"),
        ({"low": [0.65, None]}, r"\(dense, hits@4\) is a bare mean"),
        ({"system": "bm25"}, r"\(bm25, hits@4\) is there twice"),
        ({"n": [200, 1.5]}, "not a whole number"),
        ({"dropped": [0, -1]}, "not a whole number"),
        ({"p": [None, 1.2]}, "p outside 0 to 1"),
        ({"p": [None, "abc"]}, r"\(dense, hits@4\) has a p that is no number"),
        ({"low": [0.65, "abc"], "n": 1}, r"\(dense, hits@4\) has a low that is no number"),
        ({"n": [200, None]}, r"\(dense, hits@4\) has an n that is not a whole number"),
        ({"system": ["bm25", ""]}, r"\(, hits@4\) lacks a name"),
        ({"system": ["bm25", None]}, "hits@4\\) lacks a name"),
        ({"seconds": 1.0}, "columns are"),
    ],
)
def test_results_that_break_a_rule_are_refused(folder, changes, fault):
    with pytest.raises(ValueError, match=fault):
        save_results(a_table(**changes))
    assert not (folder / "results.csv").exists()


def test_missing_column_is_refused():
    with pytest.raises(ValueError, match="columns are"):
        save_results(a_table().drop(columns="dropped"))


def test_per_query_has_equal_bytes_in_any_order_and_no_undefined_value(folder):
    rows = pd.DataFrame(
        [("q1", "bm25", "hits@4", 1.0), ("q2", "bm25", "hits@4", 0.0), ("q3", "bm25", "hits@4", None)],
        columns=["query_id", "system", "metric", "value"],
    )
    save_results(a_table(), rows)
    first = (folder / "per_query.parquet").read_bytes()
    save_results(a_table(), rows.iloc[::-1])
    assert (folder / "per_query.parquet").read_bytes() == first
    back = pd.read_parquet(folder / "per_query.parquet")
    assert back.to_dict("list") == rows.dropna().to_dict("list")
    with pytest.raises(ValueError, match="has a query twice"):
        save_results(a_table(), pd.concat([rows, rows]))
    with pytest.raises(ValueError, match=r"infinite value, \['q1', 'bm25', 'hits@4'\]"):
        save_results(a_table(), rows.assign(value=[float("inf"), 0.0, None]))
    with pytest.raises(ValueError, match="per_query has columns"):
        save_results(a_table(), rows.drop(columns="metric"))


# tables


def test_show_joins_value_and_interval():
    shown = show(a_table())
    assert list(shown.columns) == ["metric", "value [95 % interval]", "n", "dropped", "p"]
    assert shown.loc["bm25"].tolist() == ["hits@4", "0.700 [0.650, 0.750]", "200", "3", ""]
    assert shown.loc["dense", "p"] == "< 0.001"


def test_show_wide_keeps_the_order_and_the_missing():
    other = a_table(metric="mrr@10", n=150).iloc[:1]
    grid = show(pd.concat([a_table(), other]), wide=True)
    assert list(grid.index) == ["bm25", "dense"] and list(grid.columns) == ["hits@4", "mrr@10", "n"]
    assert grid.loc["dense"].tolist() == ["0.800 [0.750, 0.850]", "n/a", "200"]
    assert grid.loc["bm25", "n"] == "150 to 200"


def test_document_text_is_data_in_every_format(folder):
    table = pd.DataFrame({"text": ["<b>a|b</b> & 50 % of $1_000\nnext", "[1] x"], "n": [1234, 2]})
    assert "<b>" not in show(table).to_html()
    save_table(table, "40_errors")
    markdown, latex = ((folder / f"40_errors.{kind}").read_text(encoding="utf-8") for kind in ("md", "tex"))
    assert r"| &lt;b&gt;a\|b&lt;/b&gt; &amp; 50 % of \$1_000 next | 1,234 |" in markdown
    assert r"\textless{}b\textgreater{}a|b\textless{}/b\textgreater{} \& 50 \% of \$1\_000 next & 1,234 \\" in latex
    assert "\n{}[1] x & 2" in latex  # else LaTeX takes [1] as the argument of the \\ before
    assert latex.startswith("\\begin{tabular}{lr}\n\\toprule\ntext & n \\\\\n\\midrule\n")
    assert pd.read_csv(folder / "40_errors.csv").equals(table)


@pytest.mark.parametrize("name", ["hits", "4_hits", "40-hits", "../40_hits", "40_hits.png"])
def test_names_carry_the_notebooks_number(name):
    with pytest.raises(ValueError, match="is named like 21_hits_at_k"):
        save_table(a_table(), name)
    with pytest.raises(ValueError, match="is named like 21_hits_at_k"):
        save_figure(plt.figure(), name, a_table())
    plt.close("all")


# figures


def test_a_figure_brings_its_numbers(folder):
    heat = pd.DataFrame({"0": [0.5, 0.25], "32": [1.0, 0.75]}, index=pd.Index([128, 256], name="size"))
    fig = plt.figure()
    save_figure(fig, "10_ceiling", heat)
    assert (folder / "10_ceiling.csv").read_text() == "size,0,32\n128,0.5,1\n256,0.25,0.75\n"
    plt.close(fig)


def test_opened_by_hand_a_figure_lands_with_its_notebook(tmp_path, monkeypatch):
    monkeypatch.delenv("RAG_RUN_FOLDER")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks" / "10_chunking.ipynb").touch()
    for name in ("10_ceiling", "21_hits"):
        save_figure(plt.figure(), name, a_table())
    interactive = tmp_path / "papermill_runs" / "scratch" / "interactive"
    assert (interactive / "10_chunking" / "10_ceiling.svg").is_file() and (interactive / "21" / "21_hits.svg").is_file()
    plt.close("all")


def test_interval_plot_keeps_the_place_of_a_system_without_a_row():
    fig, ax = plt.subplots()
    interval_plot(ax, pd.concat([a_table(), a_table(metric="mrr@10").iloc[1:]]), "mrr@10")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["bm25", "dense"]
    assert next((text.get_position()[1], text.get_text()) for text in ax.texts) == (0, "n/a")
    plt.close(fig)


def test_interval_plot_marks_the_baseline_and_refuses_typos():
    fig, ax = plt.subplots()
    interval_plot(ax, a_table(), "hits@4", baseline="bm25")
    assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"] == [0.7]
    assert ax.get_ylim() == (1.5, -0.5)  # the first system on top
    assert ax.get_xlabel() == "hits@4 (95 % intervals, n = 200)"
    for wrong in ({"metric": "hits@5"}, {"metric": "hits@4", "baseline": "bm52"}, {"metric": "hits@4", "kind": "pie"}):
        with pytest.raises(ValueError):
            interval_plot(ax, a_table(), **wrong)
    plt.close(fig)


def test_the_import_is_light_and_warnings_name_no_file_of_this_machine():
    code = "import sys, warnings; from rag_utils.report import use_style; print('matplotlib' in sys.modules)"
    code += "; use_style(); warnings.warn('3 texts were cut')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "UserWarning: 3 texts were cut\n")


# papers


def all_paper_tables() -> list[tuple[str, int]]:
    names = [path.name.removesuffix(".csv") for path in (ROOT / "rag_utils" / "papers").glob("*_table*.csv")]
    return sorted((name.rpartition("_table")[0], int(name.rpartition("_table")[2])) for name in names)


def test_every_paper_has_its_tables():
    studies = "metagen_blended_rag multi_meta_rag multihop_rag qa_rag rag_qa_arena"
    assert sorted({study for study, _ in all_paper_tables()}) == studies.split()


@pytest.mark.parametrize(("study", "n"), all_paper_tables())
def test_paper_cells_have_one_place_a_mark_and_nothing_guessed(study, n):
    cells = paper_table(study, n)
    assert list(cells.columns) == ["row", "metric", "value", "mark", "note", "n"]
    assert not cells.duplicated(["row", "metric"]).any()
    assert set(cells["mark"]) <= set("FSTCM?")
    assert ((cells["value"] == "") == (cells["mark"] == "?")).all()
    assert cells["value"].replace("", "0").astype(float).between(0, 1).all()
    assert (study != "qa_rag") or (cells["value"] == "").all()


def test_the_papers_arithmetic_holds():
    """Relations the papers state between their own cells, so that a typing error here shows."""

    def value(study, n, row, metric):
        cells = paper_table(study, n).set_index(["row", "metric"])
        return float(cells.loc[(row, metric), "value"])

    by_type = {
        llm: sum(
            round(float(cell["value"]) * int(cell["n"]))
            for cell in paper_table("multi_meta_rag", 4).to_dict("records")
            if llm in cell["row"]
        )
        for llm in ("GPT-4", "PaLM")
    }
    assert by_type == {"GPT-4": 1549, "PaLM": 1553}  # right answers of 2,556 overall, Multi-Meta-RAG's Table 3
    for llm, right in by_type.items():
        assert value("multi_meta_rag", 3, f"Multi-Meta-RAG, {llm}", "accuracy") == pytest.approx(right / 2556, abs=5e-4)
    metagen = "metagen_blended_rag"
    best = value(metagen, 1, "NQ: existing + enriched", "hits@5")
    assert best / value(metagen, 1, "NQ: no metadata", "hits@5") - 1 == pytest.approx(0.2098, abs=1e-3)
    for row, same in {"PubMedQA: after enrichment": "PubMedQA: boosted, existing + enriched"}.items():
        assert value(metagen, 2, row, "hits@1") == value(metagen, 1, same, "hits@1")
    lead = value("rag_qa_arena", 3, "LFRQA against gpt-4o", "win") - value("rag_qa_arena", 3, "gpt-4o", "win")
    assert lead == pytest.approx(0.137)


def test_beside_paper():
    ours = pd.concat([a_table(), a_table(metric="mrr@10", value=0.6, low=0.55, high=0.65)])
    rows = {"Multi-Meta-RAG, voyage-02": "dense", "Multi-Meta-RAG, bge-large-en-v1.5": "bm25"}
    table = beside_paper(ours, "multi_meta_rag", 2, rows=rows, data="builtin_news").set_index(["row", "metric"])
    columns = "reported|reported interval|ours|ours interval|n ours|difference|same data?|same model?|mark"
    assert list(table.columns) == columns.split("|")
    assert len(table) == 16
    known = table.loc[("Multi-Meta-RAG, voyage-02", "hits@4")]
    # the interval is Wilson's
    expected = "0.7920|[0.775, 0.808]|0.800|[0.750, 0.850]|200|+0.008|no: builtin_news|no|T"
    assert known.tolist() == expected.split("|")
    remembered = table.loc[("Multi-Meta-RAG, bge-large-en-v1.5", "mrr@10")]
    assert remembered.tolist()[:6] == ["(0.6574)", "", "0.600", "[0.550, 0.650]", "200", "(-0.057)"]
    unknown = table.loc[("Baseline, bge-large-en-v1.5", "hits@4")]
    assert unknown.tolist() == ["n/a", *[""] * 7, "?"]
    assert table.loc[("Multi-Meta-RAG, voyage-02", "map@10"), "ours"] == ""  # we have no map@10: nothing else fills it


def test_beside_paper_refuses_names_it_does_not_know():
    with pytest.raises(ValueError, match="there are: metagen_blended_rag_table1"):
        beside_paper(a_table(), "multi_meta_rag", 9)
    with pytest.raises(ValueError, match="the paper's row 'Baseline'"):
        beside_paper(a_table(), "multi_meta_rag", 2, rows={"Baseline": "dense"})
    with pytest.raises(ValueError, match="our system 'dens'"):
        beside_paper(a_table(), "multi_meta_rag", 2, rows={"Baseline, voyage-02": "dens"})
    with pytest.raises(ValueError, match=r"our table has \['bm25', 'hits@4'\] twice"):
        beside_paper(pd.concat([a_table(), a_table()]), "multi_meta_rag", 2, rows={"Baseline, voyage-02": "bm25"})
    with pytest.raises(ValueError, match="no metric in common"):
        beside_paper(a_table(), "multi_meta_rag", 3, rows={"Baseline, PaLM": "dense"})


# README


@pytest.fixture
def project(tmp_path):
    def notebook(name, first, metadata):
        cells = [{"cell_type": "markdown", "source": first}]
        (tmp_path / "notebooks" / name).write_text(json.dumps({"cells": cells, "metadata": metadata}), encoding="utf-8")

    for name in ("notebooks", "papermill_runs/published", "figures"):
        (tmp_path / name).mkdir(parents=True)
    paper = {"study": "multi_meta_rag", "table": 2, "row": "Multi-Meta-RAG, voyage-02", "metric": "hits@4"}
    headline = {"headline": {"system": "dense", "metric": "hits@4", "paper": paper}}
    first = ["# 21 · Filtered retrieval\n", "\n", "Paper: [Multi-Meta-RAG](https://arxiv.org/abs/2406.13213), 3.2\n"]
    notebook("21_filtered_retrieval.ipynb", first, {"rag_handbook": headline})
    notebook("00_how_to_read.ipynb", "# 00 · How to read", {})
    a_table().to_csv(tmp_path / "papermill_runs/published/21_filtered_retrieval.csv", index=False)
    (tmp_path / "papermill_runs/published/21_filtered_retrieval.ipynb").touch()
    for name in ("21_hits.squad.png", "21_slopes.png"):
        (tmp_path / "figures" / name).touch()
    (tmp_path / "README.md").write_text(f"# Title\n{BEGIN}\nold\n{END}\nrest\n", encoding="utf-8")
    return tmp_path


def test_readme_table(project):
    lines = with_table((project / "README.md").read_text(encoding="utf-8"), project).splitlines()
    assert lines[:2] == ["# Title", BEGIN] and lines[-2:] == [END, "rest"]
    assert lines[4:-2] == [
        "| start here | 00 · How to read ([run](notebooks/00_how_to_read.ipynb)) | - | - | - | - |",
        "| filters | 21 · Filtered retrieval ([read](papermill_runs/published/21_filtered_retrieval.ipynb), "
        "[run](notebooks/21_filtered_retrieval.ipynb)) | [Multi-Meta-RAG](https://arxiv.org/abs/2406.13213), 3.2 | "
        "[21_slopes](figures/21_slopes.png) | hits@4 0.800 [0.750, 0.850], dense | hits@4 0.7920 [0.775, 0.808] |",
    ]


def test_a_system_may_be_named_like_a_missing_value(project):
    notebook = project / "notebooks" / "21_filtered_retrieval.ipynb"
    notebook.write_text(notebook.read_text(encoding="utf-8").replace('"dense"', '"NA"'), encoding="utf-8")
    results = project / "papermill_runs/published/21_filtered_retrieval.csv"
    a_table(system=["None", "NA"]).to_csv(results, index=False)
    assert "hits@4 0.800 [0.750, 0.850], NA" in with_table((project / "README.md").read_text(encoding="utf-8"), project)


def test_readme_command_writes_the_table_once(project):
    readme = project / "README.md"
    expected = with_table(readme.read_text(encoding="utf-8"), project)
    for _ in range(2):
        subprocess.run([sys.executable, "-m", "rag_utils.report", str(readme)], check=True, timeout=120)
        assert readme.read_text(encoding="utf-8") == expected


@pytest.mark.skipif(not any((ROOT / "papermill_runs" / "published").glob("*.ipynb")), reason="nothing is published yet")
def test_readme_shows_what_is_published():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == with_table(readme, ROOT), "run `make readme`"


def test_readme_faults_are_named(project):
    with pytest.raises(ValueError, match="needs the two lines"):
        with_table("# Title\n", project)
    a_table(metric="mrr@10").to_csv(project / "papermill_runs/published/21_filtered_retrieval.csv", index=False)
    with pytest.raises(ValueError, match=r"has 0 rows \(dense, hits@4\)"):
        with_table(f"{BEGIN}\n{END}\n", project)
