"""One style, one width, one palette; a figure saved twice gives the same bytes.

A page has the size asked for: layout fits the text into it, nothing is cropped. Only where text cannot fit does the
page grow, with a warning that says so.
"""

import sys
import textwrap
import warnings
from typing import TYPE_CHECKING, Any

import pandas as pd

from rag_utils.report.tables import place, span, with_interval, write_numbers

if TYPE_CHECKING:  # matplotlib takes a second to load: only what draws loads it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can tell apart; yellow is left out, being faint on white."""
QUIET = "#767676"
"""Grey for what is compared with: baselines, reference lines, what is not available."""


def use_style(width: float = 4.8, height: float | None = None) -> None:
    """Set the style of all figures from here on; no window is opened, and warnings name no file of this machine.

    Args:
        width: Inches; the width that the figure will have on paper (4.8 in LaTeX's article class), so that its 8 pt
            text stays 8 pt.
        height: Inches; 0.62 of the width when not given.
    """
    import matplotlib as mpl
    from cycler import cycler

    shell = sys.modules["IPython"].get_ipython() if "ipykernel" in sys.modules else None
    if shell:
        shell.run_line_magic("matplotlib", "inline")
    else:
        mpl.use("agg")
    mpl.rc("figure", figsize=(width, height or 0.62 * width), dpi=150)
    mpl.rc("figure.constrained_layout", use=True)
    mpl.rc("font", family="DejaVu Sans", size=8)
    mpl.rc("axes", titlesize=9, titlelocation="left", titleweight="bold", edgecolor=QUIET, linewidth=0.7)
    mpl.rc("axes", axisbelow=True, prop_cycle=cycler(color=PALETTE))
    mpl.rc("axes.spines", top=False, right=False)
    mpl.rc("xtick", color=QUIET, labelcolor="black")
    mpl.rc("ytick", color=QUIET, labelcolor="black")
    mpl.rc("grid", color="#E5E5E5", linewidth=0.6)
    mpl.rc("lines", linewidth=1.4, markersize=4.5)
    mpl.rc("legend", frameon=False)
    mpl.rc("image", cmap="cividis")
    pd.set_option("display.html.use_mathjax", False)  # a $ in a document is a dollar
    pd.set_option("display.max_colwidth", None)
    pd.set_option("display.width", 160)
    warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"


def save_figure(fig: "Figure", name: str, table: pd.DataFrame) -> None:
    """Write `<name>.png`, `.pdf`, `.svg`, and the numbers drawn as `<name>.csv`, into the run's folder.

    Args:
        fig: The figure; Jupyter shows it once, below the cell that made it.
        name: The notebook's number and what is shown: "21_hits_at_k".
        table: What was drawn; a named index is written too.
    """
    import matplotlib as mpl

    path = place(name)
    # some paper systems refuse the default fonts of a PDF, Type 3; 42 is TrueType
    fixed: Any = {"savefig.dpi": 300, "svg.hashsalt": "rag-handbook", "pdf.fonttype": 42}
    with mpl.rc_context(fixed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # the growing page mends it
        page = _page(fig, name)
        for kind, undated in {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}.items():
            fig.savefig(path.with_suffix(f".{kind}"), bbox_inches=page, metadata=undated)
    write_numbers(table, path.with_suffix(".csv"))


def _page(fig: "Figure", name: str) -> "Bbox | None":
    """The page as asked for (None) or, with a warning, the larger one that holds all text."""
    from matplotlib.transforms import Bbox

    if fig.get_layout_engine() is None:
        fig.set_layout_engine("constrained")
    fig.canvas.draw()
    asked, drawn = Bbox.from_bounds(0, 0, *fig.get_size_inches()), fig.get_tightbbox()
    if min(drawn.x0, drawn.y0, asked.x1 - drawn.x1, asked.y1 - drawn.y1) > -0.01:
        return None
    page = Bbox.union([asked, drawn.padded(0.05)])
    old, new = (f"{box.width:.2f} x {box.height:.2f}" for box in (asked, page))
    warnings.warn(f"{name}: its text needs a page of {new} inches, not {old}; shorten the labels", stacklevel=3)
    return page


def interval_plot(
    ax: "Axes", table: pd.DataFrame, metric: str, baseline: str | None = None, kind: str = "forest"
) -> None:
    """One metric of each system with its 95 % interval, first system on top, the numbers written beside.

    Args:
        ax: Where to draw.
        table: With the columns of `results.csv`. A system without a row for this metric keeps its place, marked "n/a".
        metric: The metric to draw.
        baseline: This system is grey, with a line through its value.
        kind: "forest" (points, the axis where the data are) or "bar" (lengths, so the axis starts at 0).

    Raises:
        ValueError: Unknown kind, baseline or metric.
    """
    systems = list(table["system"].unique())
    rows = table[table["metric"] == metric].set_index("system").reindex(systems).assign(y=range(len(systems)))
    if kind not in ("forest", "bar"):
        raise ValueError(f"kind = {kind!r}: choose 'forest' or 'bar'")
    if baseline is not None and baseline not in systems:
        raise ValueError(f"baseline {baseline!r} is not among the systems: {', '.join(systems)}")
    if rows["value"].isna().all():
        raise ValueError(f"no value of {metric!r} to draw; there are: {', '.join(table['metric'].unique())}")
    _draw(ax, rows.dropna(subset="value").astype({"value": float, "low": float, "high": float}), baseline, kind)
    for row in rows.itertuples():
        text = with_interval(row.value, row.low, row.high)
        ax.text(1.02, row.y, text, transform=ax.get_yaxis_transform(), va="center", fontsize=7)
    ax.set_yticks(rows["y"], [textwrap.fill(system, 28) for system in systems])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(f"{metric} (95 % intervals, n = {span(rows['n'].dropna())})")


def _draw(ax: "Axes", rows: pd.DataFrame, baseline: str | None, kind: str) -> None:
    colours = [QUIET if system == baseline else PALETTE[0] for system in rows.index]
    if kind == "bar":
        ax.barh(rows["y"], rows["value"], height=0.6, color=colours, alpha=0.65)
        ax.set_xlim(left=0)
    else:
        ax.scatter(rows["value"], rows["y"], s=20, color=colours)
        ax.grid(axis="x")
        ax.spines["left"].set_visible(False)
    ax.hlines(rows["y"], rows["low"], rows["high"], colors="black" if kind == "bar" else colours, linewidth=1.2)
    if baseline in rows.index:
        ax.axvline(rows.loc[baseline, "value"], color=QUIET, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0.9)
