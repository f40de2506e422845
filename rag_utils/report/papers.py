"""The papers' tables, and ours beside them.

`rag_utils/papers/<study>_table<n>.csv` holds the cells (row, metric, value, mark, note, n) with evidence marks: F read
in the authors' repository, S stated in the paper, T stated by a third party, C computed from these, M from memory and
unverified, ? not known. Shares are fractions, with n where an interval can be computed.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pandas as pd

from rag_utils.report.tables import interval
from rag_utils.statistics import wilson_interval

_REPORTED = ["row", "metric", "reported", "reported interval"]
_BESIDE = [*_REPORTED, "ours", "ours interval", "n ours", "difference", "same data?", "same model?", "mark"]


def paper_table(study: str, n: int) -> pd.DataFrame:
    """The cells of table n of a study's paper, as text, in the paper's order.

    Raises:
        ValueError: There is no such table; the message lists those there are.
    """
    folder = files("rag_utils") / "papers"
    path = folder / f"{study}_table{n}.csv"
    if not path.is_file():
        known = sorted(file.name.removesuffix(".csv") for file in folder.iterdir() if "_table" in file.name)
        raise ValueError(f"no table {n} of {study!r}; there are: {', '.join(known)}")
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, dtype=str, keep_default_na=False)


def beside_paper(
    table: pd.DataFrame,
    study: str,
    n: int,
    *,
    rows: Mapping[str, str] | None = None,
    data: str = "",
    same_data: bool = False,
    same_model: bool = False,
) -> pd.DataFrame:
    """Each reported cell beside ours; cells that we have nothing for keep their row.

    Only equal metrics meet: a paper's cell is compared with our row of the same metric name.

    Args:
        table: Our results (columns of `results.csv`).
        study: "multi_meta_rag", "multihop_rag", "metagen_blended_rag", "qa_rag" or "rag_qa_arena".
        n: The number of the paper's table.
        rows: The paper's row -> our system; rows of equal name when not given.
        data: Our data set's name, shown where it is another than the paper's.
        same_data: Ours was measured on the paper's data.
        same_model: Ours was measured with the paper's model.

    Returns:
        A frame of text. Reported numbers that are unverified (M) stand in brackets, unknown ones (?) read "n/a"; their
        interval is Wilson's 95 %, computed from n for shares; the difference is ours minus reported.

    Raises:
        ValueError: Unknown study, table, row or system, a result of ours given twice, or metrics of which none is in
            the paper's table.
    """
    cells = paper_table(study, n)
    partner = {name: name for name in {*cells["row"]} & {*table["system"]}} if rows is None else rows
    _check(partner, cells, table)
    ours = table.set_index(["system", "metric"])
    data_flag = "yes" if same_data else f"no: {data}" if data else "no"
    model_flag = "yes" if same_model else "no"
    lines = []
    for cell in cells.to_dict("records"):
        line = {"row": cell["row"], "metric": cell["metric"], **reported(cell), "mark": cell["mark"]}
        key = (partner.get(cell["row"]), cell["metric"])
        if key in ours.index:
            value, low, high, judged = ours.loc[key, ["value", "low", "high", "n"]]
            difference = f"{value - float(cell['value']):+.3f}" if cell["value"] else ""
            line |= {"ours": f"{value:,.3f}", "ours interval": interval(low, high), "n ours": f"{int(judged):,}"}
            line |= {"difference": _bracketed(difference, cell), "same data?": data_flag, "same model?": model_flag}
        lines.append(line)
    return pd.DataFrame(lines, columns=_BESIDE).fillna("")


def reported(cell: Mapping[str, Any]) -> dict[str, str]:
    """The paper's number with its own digits, "0.7920", "(0.6574)" if unverified, "n/a" if unknown; and its interval.

    The interval is Wilson's; blank where n is not known or the number is no share.
    """
    limits = ""
    if cell["value"] and cell["n"]:
        limits = interval(*wilson_interval(float(cell["value"]) * int(cell["n"]), int(cell["n"])))
    return {"reported": _bracketed(cell["value"], cell) or "n/a", "reported interval": _bracketed(limits, cell)}


def _bracketed(text: str, cell: Mapping[str, str]) -> str:
    return f"({text})" if text and cell["mark"] == "M" else text


def _check(partner: Mapping[str, str], cells: pd.DataFrame, table: pd.DataFrame) -> None:
    """Refuse names that are in neither table (a typo would look like a missing result), and a result given twice."""
    twice = table.loc[table.duplicated(["system", "metric"]), ["system", "metric"]].to_numpy().tolist()
    if twice:
        raise ValueError(f"our table has {twice[0]} twice: keep one row per system and metric")
    known_names = {"the paper's row": (partner, cells["row"]), "our system": (partner.values(), table["system"])}
    for what, (asked, known) in known_names.items():
        unknown = sorted(set(asked) - set(known))
        if unknown:
            raise ValueError(f"{what} {', '.join(map(repr, unknown))} is not there; known: {', '.join(known.unique())}")
    if partner and not set(cells["metric"]) & set(table["metric"]):
        raise ValueError(f"no metric in common: the paper has {', '.join(cells['metric'].unique())}")
