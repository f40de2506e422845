"""Tables as a reader wants them: three places, the interval beside the value, text never read as markup."""

import html
import re
from typing import Any

import pandas as pd

from rag_utils.provenance import run_folder
from rag_utils.report.results import FLOAT_FORMAT

INTERVAL = "value [95 % interval]"

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def show(table: pd.DataFrame, wide: bool = False) -> pd.DataFrame:
    """The table as text to display: `0.712 [0.690, 0.733]` in place of value, low and high.

    The first column becomes the index. Cells are safe as HTML, since pandas escapes them.

    Args:
        table: Any table; columns `value, low, high` are joined.
        wide: One row a system and one column a metric, for results tables.

    Returns:
        A frame of strings; what is not defined reads "n/a", a p that was not computed is blank.
    """
    text = _texts(table)
    if not wide:
        return text.set_index(text.columns[0]).rename_axis(index=None, columns=text.columns[0])
    grid = text.pivot(index="system", columns="metric", values=INTERVAL)
    grid = grid.reindex(index=table["system"].unique(), columns=table["metric"].unique()).fillna("n/a")
    grid["n"] = table.groupby("system")["n"].agg(span)
    return grid.rename_axis(index=None, columns="system")


def save_table(table: pd.DataFrame, name: str) -> None:
    """Write `<name>.csv` (the numbers), `.md` and `.tex` (as `show` gives them) into the run's folder.

    The LaTeX needs the package booktabs.
    """
    check_name(name)
    folder, text = run_folder(name[:2]), _texts(table)
    table.to_csv(folder / f"{name}.csv", index=False, float_format=FLOAT_FORMAT, lineterminator="\n", encoding="utf-8")
    for suffix, written in ((".md", _markdown(text)), (".tex", _latex(text, _numeric(table)))):
        (folder / f"{name}{suffix}").write_text(written, encoding="utf-8", newline="\n")


def check_name(name: str) -> None:
    """Refuse a name that does not begin with its notebook's number, such as `21_hits_at_k`."""
    if not re.fullmatch(r"\d\d_[a-z0-9_]+", name):
        raise ValueError(f"{name!r}: a figure or table is named like 21_hits_at_k, its notebook's number first")


def with_interval(value: float, low: float, high: float) -> str:
    """`0.712 [0.690, 0.733]`; "n/a" for a value that is not defined."""
    if pd.isna(value):
        return "n/a"
    return number(value) if pd.isna(low) else f"{number(value)} [{number(low)}, {number(high)}]"


def span(counts: pd.Series) -> str:
    """The smallest and the largest count, "600 to 4,840", or the one that all are."""
    least, most = int(counts.min()), int(counts.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def number(value: float) -> str:
    """Three places, with separators from a thousand on."""
    return f"{value:,.3f}"


def _texts(table: pd.DataFrame) -> pd.DataFrame:
    """Every cell as text, value and interval joined, columns in their order."""
    columns = {}
    joined = {"value", "low", "high"} <= set(table.columns)
    for column in table.columns:
        if joined and column == "value":
            triples = zip(table["value"], table["low"], table["high"], strict=True)
            columns[INTERVAL] = [with_interval(*triple) for triple in triples]
        elif not (joined and column in ("low", "high")):
            columns[str(column)] = [_cell(value, column) for value in table[column]]
    return pd.DataFrame(columns)


def _cell(value: Any, column: str) -> str:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "" if column == "p" else "n/a"
    if column == "p":
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if pd.api.types.is_integer(value):
        return f"{value:,}"
    return number(value) if pd.api.types.is_float(value) else str(value)


def _numeric(table: pd.DataFrame) -> set[str]:
    return {INTERVAL, *(str(column) for column in table.select_dtypes("number").columns)}


def _markdown(text: pd.DataFrame) -> str:
    rows = [list(text.columns), ["---"] * len(text.columns), *text.to_numpy().tolist()]
    return "".join("| " + " | ".join(map(_markdown_cell, row)) + " |\n" for row in rows)


def _markdown_cell(text: str) -> str:
    """HTML and Markdown signs as themselves, on one line."""
    return re.sub(r"([\\|`*$])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def _latex(text: pd.DataFrame, right: set[str]) -> str:
    """A booktabs table, numbers to the right."""
    alignment = "".join("r" if column in right else "l" for column in text.columns)
    rows = [list(text.columns), *text.to_numpy().tolist()]
    head, *body = [" & ".join(map(_latex_cell, row)) + r" \\" for row in rows]
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}", ""])


def _latex_cell(text: str) -> str:
    r"""Signs as themselves; a leading [ or * would be read as an argument of the row break `\\` before it."""
    escaped = "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped
