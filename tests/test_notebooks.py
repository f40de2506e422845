"""The form of the notebooks: parts in order, prose before code, parameters that are read, no outputs in git."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HEADINGS = ["What you will learn", "Beside the paper", "When it fails", "Take-aways", "Exercises"]
BANNED = {"sys.path": r"sys\.path", "pip": r"^\s*[!%]\s*pip", "star import": r"import \*", "shell": r"^\s*!"}


def _cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def _source(cell: dict) -> str:
    return "".join(cell["source"])


def _code(path: Path) -> list[str]:
    return [_source(c) for c in _cells(path) if c["cell_type"] == "code"]


def _prose(path: Path) -> list[str]:
    return [_source(c) for c in _cells(path) if c["cell_type"] == "markdown"]


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def path(request):
    return request.param


def test_there_are_notebooks():
    assert NOTEBOOKS
    assert all(re.fullmatch(r"\d\d_[a-z_]+", p.stem) for p in NOTEBOOKS)


def test_title_names_the_number_and_the_paper(path):
    title = _source(_cells(path)[0])
    assert re.match(rf"# {path.stem[:2]} · \S", title)
    assert "Paper:" in title and re.search(r"[Rr]un time", title)


def test_the_parts_stand_in_order(path):
    text = "\n".join(_prose(path))
    places = [
        text.find(f"## {heading}")
        for heading in HEADINGS
        if path.stem[:2] != "00" or heading in ("What you will learn", "Take-aways", "Exercises")
    ]
    assert -1 not in places, f"missing: {[h for h, p in zip(HEADINGS, places, strict=False) if p == -1]}"
    assert places == sorted(places)


def test_exercises_have_folded_solutions(path):
    exercises = _prose(path)[-1]
    assert exercises.count("<details>") >= 3 == len(re.findall(r"^\d\. ", exercises, re.MULTILINE))


def test_parameters_are_few_literals_with_a_comment_each_and_all_are_read(path):
    cells = [c for c in _cells(path) if "parameters" in c["metadata"].get("tags", [])]
    assert len(cells) == 1
    assert _cells(path).index(cells[0]) == 2
    source = _source(cells[0])
    names = []
    for node in ast.parse(source).body:
        assert isinstance(node, ast.Assign | ast.AnnAssign)
        ast.literal_eval(node.value)
        names.append(node.target.id if isinstance(node, ast.AnnAssign) else node.targets[0].id)
        assert "#" in source.splitlines()[node.lineno - 1], f"{names[-1]} has no comment"
    assert 4 <= len(names) <= 10
    later = "\n".join(_code(path)).replace(source, "")
    assert [n for n in names if not re.search(rf"\b{n}\b", later)] == []


def test_prose_outweighs_code(path):
    assert len(_prose(path)) > len(_code(path))
    assert max(len(code.splitlines()) for code in _code(path)) <= 25
    definitions = [
        n for code in _code(path) for n in ast.walk(ast.parse(code)) if isinstance(n, ast.FunctionDef | ast.ClassDef)
    ]
    assert len(definitions) <= 2


def test_nothing_banned_and_nothing_unused(path):
    for code in _code(path):
        for name, pattern in BANNED.items():
            assert not re.search(pattern, code, re.MULTILINE), f"{name} in {code[:60]!r}"


def test_sources_are_committed_without_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        assert cell.get("id")
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


def test_results_and_a_figure_leave_the_notebook(path):
    code = "\n".join(_code(path))
    assert re.search(rf'save_figure\(\s*\w+,\s*"{path.stem[:2]}_', code)
    if path.stem[:2] != "00":
        assert "save_results(" in code and "beside_paper(" in code


def test_imports_stand_in_one_cell(path):
    with_imports = [code for code in _code(path) if re.search(r"^(import|from) ", code, re.MULTILINE)]
    assert len(with_imports) == 1
    assert "use_style()" in with_imports[0]
