"""Results checked before they are written, and tables as a reader wants them, where text is never read as markup."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rag_utils.experiments import COLUMNS
from rag_utils.provenance import project_root, run_folder

INTERVAL = "value [95 % interval]"
_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **{sign: "\\" + sign for sign in "\\|`*$"}})


def save_results(table: pd.DataFrame, per_query: pd.DataFrame | None = None) -> Path:
    """Write `results.csv` and, if given, `per_query.parquet` into the run's folder; the path of the first comes back.

    Args:
        table: One row per (system, metric), with the columns that `experiments.compare` gives.
        per_query: Columns `query_id, system, metric, value`; queries without a value are left out, as they are from n.

    Raises:
        ValueError: Naming what breaks a rule, and the remedy.
    """
    _check(table)
    path = run_folder() / "results.csv"
    if per_query is not None:
        keys = ["query_id", "system", "metric"]
        if sorted(per_query.columns) != sorted([*keys, "value"]):
            raise ValueError(f"per_query has columns {list(per_query.columns)}, must be {[*keys, 'value']}")
        twice = per_query.loc[per_query.duplicated(keys), keys].to_numpy().tolist()
        if twice:
            raise ValueError(f"per_query has a query twice, {twice[0]}: keep one value per query")
        rows = per_query[[*keys, "value"]].dropna(subset="value").sort_values(keys[::-1])  # equal values, equal bytes
        plain = rows.astype({**dict.fromkeys(keys, str), "value": float})
        endless = plain.loc[np.isinf(plain["value"]), keys].to_numpy().tolist()
        if endless:
            raise ValueError(f"per_query has an infinite value, {endless[0]}: leave the query out")
        plain.to_parquet(path.with_name("per_query.parquet"), index=False)
    write_numbers(table[COLUMNS].reset_index(drop=True).astype({"n": int, "dropped": int}), path)
    return path


def read_results(path: Path) -> pd.DataFrame:
    """What `save_results` wrote; names stay text, also "NA" and "128", and only an empty number is missing."""
    names = dict.fromkeys(COLUMNS[:2], str)
    return pd.read_csv(path, dtype=names, keep_default_na=False, na_values={name: [""] for name in COLUMNS[2:]})


def show(table: pd.DataFrame, wide: bool = False) -> pd.DataFrame:
    """The table as text to display, `0.712 [0.690, 0.733]` in place of value, low and high, its first column as index.

    With `wide`, results have one row a system and one column a metric. What is not defined reads "n/a", a p that was
    not computed is blank. Cells are safe as HTML, since pandas escapes them.
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

    The name begins with the notebook's number: "40_errors". The LaTeX needs the package booktabs.
    """
    path = place(name)
    write_numbers(table.reset_index(drop=True), path.with_suffix(".csv"))
    text = _texts(table).map(lambda cell: " ".join(cell.split()))
    rows = [list(text.columns), ["---"] * text.shape[1], *text.to_numpy().tolist()]
    lines = [" | ".join(cell.translate(_MARKDOWN) for cell in row) for row in rows]
    path.with_suffix(".md").write_text("".join(f"| {line} |\n" for line in lines), encoding="utf-8", newline="\n")
    numbers = {INTERVAL, *table.select_dtypes("number")}
    sides = "".join("r" if column in numbers else "l" for column in text.columns)
    latex = text.to_latex(index=False, escape=True, column_format=sides)
    latex = latex.replace("<", r"\textless{}").replace(">", r"\textgreater{}")
    latex = re.sub(r"\n(?=[\[*])", r"\n{}", latex)  # else LaTeX takes [...] and * for arguments of the row break before
    path.with_suffix(".tex").write_text(latex, encoding="utf-8", newline="\n")


def place(name: str) -> Path:
    """Where the files of a figure or table go, without their suffix: with the notebook whose number the name has."""
    if not re.fullmatch(r"\d\d_[a-z0-9_]+", name):
        raise ValueError(f"{name!r}: a figure or table is named like 21_hits_at_k, its notebook's number first")
    notebooks = sorted(project_root().glob(f"notebooks/{name[:2]}_*.ipynb"))
    return run_folder(notebooks[0].stem if notebooks else name[:2]) / name


def write_numbers(table: pd.DataFrame, path: Path) -> None:
    """As CSV with eight significant digits: small p survive, noise in the last bits does not; a named index is kept."""
    named = not isinstance(table.index, pd.RangeIndex)
    table.to_csv(path, index=named, float_format="%.8g", lineterminator="\n", encoding="utf-8")


def with_interval(value: float, low: float, high: float) -> str:
    """`0.712 [0.690, 0.733]`; "n/a" for a value that is not defined."""
    return "n/a" if pd.isna(value) else f"{value:,.3f} {interval(low, high)}".rstrip()


def interval(low: float, high: float) -> str:
    """`[0.690, 0.733]`, blank where there is none."""
    return "" if pd.isna(low) else f"[{low:,.3f}, {high:,.3f}]"


def span(counts: pd.Series) -> str:
    """The smallest and the largest count, "600 to 4,840", or the one that all are."""
    return " to ".join(dict.fromkeys(f"{int(count):,}" for count in (counts.min(), counts.max())))


def _texts(table: pd.DataFrame) -> pd.DataFrame:
    """Every cell as text, value and interval joined, columns in their order."""
    if {"value", "low", "high"} <= set(table.columns):
        triples = zip(table["value"], table["low"], table["high"], strict=True)
        table = table.assign(value=[with_interval(*triple) for triple in triples]).drop(columns=["low", "high"])
        table = table.rename(columns={"value": INTERVAL})
    return pd.DataFrame({str(column): [_cell(value, column) for value in table[column]] for column in table.columns})


def _cell(value: Any, column: str) -> str:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "" if column == "p" else "n/a"
    if column == "p":
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    if pd.api.types.is_integer(value):
        return f"{value:,}"
    return f"{value:,.3f}" if pd.api.types.is_float(value) else str(value)


def _check(table: pd.DataFrame) -> None:
    """Refuse a results table with other columns, or with rows that break a rule."""
    if sorted(table.columns) != sorted(COLUMNS):
        raise ValueError(f"results not saved: columns are {list(table.columns)}, must be {COLUMNS}")
    names, numbers = table[COLUMNS[:2]], table[COLUMNS[2:]].apply(pd.to_numeric, errors="coerce")
    value, low, high, n, dropped, p = (numbers[name] for name in COLUMNS[2:])
    garbled = {name: table[name].notna() & numbers[name].isna() for name in ("low", "high", "p")}
    slack = 1e-9 * (1 + value.abs())
    rules = {
        "lacks a name: say which system and metric it is": (names.isna() | (names == "")).any(axis=1),
        "is there twice: put the breakdown into the metric's name": table.duplicated(["system", "metric"]),
        "has no finite value: leave the row out": ~np.isfinite(value),
        "is a bare mean: add the interval's low and high": (low.isna() | high.isna()) & (n > 1),
        "lies outside its interval": (value < low - slack) | (value > high + slack),
        **{f"has a {name} that is no number: give one, or None": broken for name, broken in garbled.items()},
        "has an n that is not a whole number >= 0": (n < 0) | (n % 1 != 0),
        "has a dropped that is not a whole number >= 0": (dropped < 0) | (dropped % 1 != 0),
        "has a p outside 0 to 1": (p < 0) | (p > 1),
    }
    faults = []
    for fault, broken in rules.items():
        faults += [f"({system}, {metric}) {fault}" for system, metric in table.loc[broken, COLUMNS[:2]].to_numpy()]
    if faults:
        raise ValueError("\n".join([f"results not saved, {len(faults)} faults:", *faults[:5]]))
