"""Notebook files: saved orders and outputs that can be trusted, small and equal files, no tie to a starting folder."""

import json

from rag_utils.runs import differing_outputs, execution_order
from rag_utils.runs.execute import execute
from rag_utils.runs.notebooks import by_number, cells_of, read_notebook
from rag_utils.runs.parameters import read_parameters
from rag_utils.runs.publish import without_noise
from tests.notebook_project import Project, notebook, printed


def NB_G01():
    """Saved execution counts tell a run in order from a session."""
    verdicts = []
    for counts in ([1, 2, 3, 4], [1, 2, 3, 8, 4, 5], [1, 2, 2, 3], [3, 4, 5], [1, None, 2]):
        saved = notebook(*["pass"] * len(counts))
        for cell, count in zip(saved["cells"], counts, strict=True):
            cell["execution_count"] = count
        verdicts.append(execution_order(saved))
    assert verdicts == ["clean", "out of order", "repeated", "does not start at 1", "not all run"]


def NB_G02():
    """A saved output that the code no longer gives is found; times and addresses may differ."""

    def shows(*texts):
        made = notebook(*["pass"] * len(texts))
        for cell, text in zip(made["cells"], texts, strict=True):
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]
        return made

    assert differing_outputs(shows("MAP 0.42", "took 3.1 s"), shows("MAP 0.43", "took 2.7 s")) == ["cell 1 differs"]
    assert differing_outputs(shows("<A at 0x7f12ab>"), shows("<A at 0x7fff00>")) == []


def NB_G03(tmp_path):
    """Two runs without a change give the same published bytes."""
    project = Project(tmp_path / "p")
    source = project.notebook("10_a", "# parameters\nk=1", "print(k)", "k * 2")
    published = []
    for name in ("first", "second"):
        target = tmp_path / name / "notebook.ipynb"
        execute(source, target, {"k": 7}, project.root, {}, None)
        published.append(json.dumps(without_noise(read_notebook(target))))
    assert published[0] == published[1]
    assert "14" in published[0]


def NB_G04():
    """Numbered files stand in the order of their numbers."""
    files = ["10_arena.ipynb", "2_filters.ipynb", "1_data.ipynb", "02b_enrich.ipynb"]
    assert sorted(files, key=by_number) == ["1_data.ipynb", "2_filters.ipynb", "02b_enrich.ipynb", "10_arena.ipynb"]


def NB_G05(tmp_path):
    """From the root, from its own folder and by the runner a notebook reads and writes the same places."""
    project = Project(tmp_path / "p")
    (project.root / "data.txt").write_text("the data")
    source = project.notebook(
        "10_a",
        "from rag_utils.provenance import project_root, run_folder",
        "print((project_root() / 'data.txt').read_text())",
        "folder = run_folder('10_a'); (folder / 'out.txt').write_text('done'); print(folder)",
    )
    interactive = project.root / "papermill_runs" / "scratch" / "interactive" / "10_a"
    for start in (project.root, source.parent):
        execute(source, tmp_path / "copy" / "notebook.ipynb", {}, start, {}, None)
        assert printed(tmp_path / "copy") == ["the data", str(interactive)]
    (outcome,) = project.run(project.study("10_a"))
    assert printed(outcome.run.folder) == ["the data", str(outcome.run.folder)]
    assert (interactive / "out.txt").read_text() == (outcome.run.folder / "out.txt").read_text() == "done"


def NB_G06(tmp_path):
    """A bar over 2,556 questions does not fill the saved notebook, even one that is forced to print every step."""
    project = Project(tmp_path / "p")
    bar = "from tqdm import tqdm\nfor question in tqdm(range(2556){}): pass"
    sizes = []
    for number, cell in enumerate(("pass", bar.format(""), bar.format(", disable=False, mininterval=0, miniters=1"))):
        copy = tmp_path / f"{number}" / "notebook.ipynb"
        execute(project.notebook(f"{number}_n", cell), copy, {}, project.root, {}, None)
        sizes.append(copy.stat().st_size)
    assert max(sizes) - sizes[0] < 200_000
    assert sizes[1] - sizes[0] < 1_000


def NB_G07():
    """Cells without tags: no parameters cell is found, and nothing is raised."""
    untagged = {
        "cells": [{"cell_type": "code", "source": ["k = 5"], "metadata": {}}, {"cell_type": "code", "source": ""}]
    }
    assert read_parameters(cells_of(untagged)) == {}
