"""`results.csv` and `per_query.parquet`: what a run found, checked before it is written."""

from pathlib import Path

import numpy as np
import pandas as pd

from rag_utils.provenance import run_folder

COLUMNS = ["system", "metric", "value", "low", "high", "n", "dropped", "p"]
PER_QUERY_COLUMNS = ["query_id", "system", "metric", "value"]
FLOAT_FORMAT = "%.8g"
"""Eight significant digits: small p values survive, noise in the last bits of a float does not."""


def save_results(table: pd.DataFrame, per_query: pd.DataFrame | None = None, notebook: str | None = None) -> Path:
    """Write `results.csv` and, if given, `per_query.parquet` into the run's folder.

    Args:
        table: One row per (system, metric), columns `system, metric, value, low, high, n, dropped, p`. Shares are
            fractions; `low` and `high` are the 95 % interval; `n` counts the queries judged and `dropped` those left
            out; `p` is empty where nothing was tested.
        per_query: Columns `query_id, system, metric, value`; queries without a value are left out, as they are from n.
        notebook: Name of the notebook, needed only outside Jupyter and the runner.

    Returns:
        The path of `results.csv`.

    Raises:
        ValueError: Naming the rows that break a rule, and the remedy.
    """
    _refuse(_faults(table))
    if per_query is not None:
        _refuse(_per_query_faults(per_query))
    folder = run_folder(notebook or "untitled")
    if per_query is not None:
        _write_parquet(per_query, folder / "per_query.parquet")
    whole = table[COLUMNS].astype({"n": "int64", "dropped": "int64"})
    path = folder / "results.csv"
    whole.to_csv(path, index=False, float_format=FLOAT_FORMAT, lineterminator="\n", encoding="utf-8")
    return path


def _faults(table: pd.DataFrame) -> list[str]:
    """What is wrong with a results table, in words; nothing if it may be saved."""
    if set(table.columns) != set(COLUMNS) or len(table.columns) != len(COLUMNS):
        return [f"columns are {list(table.columns)}, must be {COLUMNS}"]
    value, low, high, p = (_numbers(table[column]) for column in ("value", "low", "high", "p"))
    n, dropped = _numbers(table["n"]), _numbers(table["dropped"])
    bare = (low.isna() | high.isna()) & (n > 1)
    slack = 1e-9 * (1 + value.abs())
    rules = {
        "is there twice: put the breakdown into the metric's name": table.duplicated(["system", "metric"], keep=False),
        "has no finite value: leave the row out": ~np.isfinite(value),
        "is a bare mean: add the interval's low and high": bare,
        "lies outside its interval": (value < low - slack) | (value > high + slack),
        "has an n or dropped that is not a whole number >= 0": ~(_is_count(n) & _is_count(dropped)),
        "has a p outside 0 to 1": (p < 0) | (p > 1),
    }
    return _worded(table, rules)


def _per_query_faults(table: pd.DataFrame) -> list[str]:
    if list(table.columns) != PER_QUERY_COLUMNS:
        return [f"per_query has columns {list(table.columns)}, must be {PER_QUERY_COLUMNS}"]
    twice = table.duplicated(["query_id", "system", "metric"], keep=False)
    return _worded(table, {"has a query twice: keep one value per query": twice})


def _worded(table: pd.DataFrame, rules: dict[str, pd.Series]) -> list[str]:
    faults = []
    for fault, broken in rules.items():
        pairs = table.loc[broken, ["system", "metric"]].drop_duplicates()
        faults += [f"({system}, {metric}) {fault}" for system, metric in pairs.itertuples(index=False)]
    return faults


def _refuse(faults: list[str]) -> None:
    if faults:
        more = f"\n... and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise ValueError("results not saved:\n" + "\n".join(faults[:5]) + more)


def _numbers(column: pd.Series) -> pd.Series:
    return pd.to_numeric(column, errors="coerce").astype("float64")


def _is_count(numbers: pd.Series) -> pd.Series:
    return (numbers >= 0) & (numbers == numbers.round())


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Rows in one order and no pandas metadata: equal values give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = table.dropna(subset=["value"]).sort_values(["metric", "system", "query_id"], kind="stable")
    types = dict.fromkeys(PER_QUERY_COLUMNS[:3], pa.string()) | {"value": pa.float64()}
    columns = {name: pa.array(rows[name].tolist(), kind) for name, kind in types.items()}
    pq.write_table(pa.table(columns), path, compression="snappy")
