"""The shape of the package: modules in a line, small files, fragile libraries in one place each, light imports."""

import ast
import io
import re
import subprocess
import sys
import tokenize
import warnings
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "rag_utils"
LINE = (
    "schema metrics statistics environment provenance store llm encoders corpora chunking filters enrichment indexing "
    "retrieval raptor answering arena selection experiments report runs"
).split()
FRAGILE = {
    "datasets": "corpora",
    "pypdfium2": "corpora",
    "bs4": "corpora",
    "markdown_it": "corpora",
    "mammoth": "corpora",
    "chromadb": "indexing",
    "rank_bm25": "indexing",
    "sentence_transformers": "encoders",
    "FlagEmbedding": "encoders",
    "transformers": "encoders",
    "spacy": "chunking",
    "keybert": "enrichment",
    "yake": "enrichment",
    "openai": "llm",
    "xllamacpp": "llm",
    "papermill": "runs",
    "distributed": "runs",
}
SHARED = {"transformers": {"llm"}}
"""Modules beside the first that may touch a library, since it runs language models as well as encoders."""

CODE_LINES = 8_500
"""Of the whole package when all chapters stand; CONTRIBUTING says why it is not the 3,500 of the first design."""
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def _module(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _files() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: write imports out in full"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


@pytest.mark.parametrize("path", _files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_its_left(path):
    own = _module(path)
    assert own in LINE, f"{own} has no place in the line"
    for name in _imports(path):
        match = re.match(r"rag_utils\.(\w+)", name)
        if match and match[1] in LINE and match[1] != own:
            assert LINE.index(match[1]) < LINE.index(own), f"{own} imports {match[1]}, which stands to its right"


@pytest.mark.parametrize("library", FRAGILE)
def test_a_fragile_library_is_touched_in_one_module(library):
    touched = {_module(p) for p in _files() if any(i.split(".")[0] == library for i in _imports(p))}
    assert touched <= {FRAGILE[library]} | SHARED.get(library, set())


def _code_lines(path: Path) -> int:
    """Lines that hold code: docstrings, comments and blank lines do not count."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def test_files_stay_small():
    lengths = {str(p.relative_to(PACKAGE)): len(p.read_text(encoding="utf-8").splitlines()) for p in _files()}
    long = {name: n for name, n in lengths.items() if n > 250}
    if long:
        warnings.warn(f"above 250 lines: {long}", stacklevel=1)
    assert max(lengths.values()) <= 350, long
    assert sum(map(_code_lines, _files())) <= CODE_LINES


def test_functions_stay_small():
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                assert lines <= 30, f"{path.name}: {node.name} has {lines} lines"


def test_public_functions_say_what_they_do():
    for path in _files():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path.name}: {node.name} has no docstring"


@pytest.mark.parametrize("module", [m for m in LINE if (PACKAGE / m).exists() or (PACKAGE / f"{m}.py").exists()])
def test_importing_a_module_loads_no_heavy_library(module):
    heavy = (
        "torch",
        "chromadb",
        "spacy",
        "FlagEmbedding",
        "datasets",
        "sentence_transformers",
        "transformers",
        "papermill",
        "numba",
    )
    code = f"import sys, rag_utils.{module}; print(*sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_package_init_holds_the_version_only():
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    assert len(body) == 2 and isinstance(body[0], ast.Expr) and body[1].targets[0].id == "__version__"


def test_dangerous_calls_are_absent():
    banned = {"eval", "exec"}
    for path in _files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not calls & banned, path.name
        assert not {"pickle", "dill", "joblib"} & _imports(path), path.name
        keywords = {k.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for k in node.keywords}
        assert "trust_remote_code" not in keywords, path.name
