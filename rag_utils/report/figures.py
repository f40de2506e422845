"""One style, one width, one palette; a figure saved twice gives the same bytes.

A page has the size asked for: layout fits the text into it, nothing is cropped. Only where text cannot fit does the
page grow, with a warning that says so.
"""

import sys
import textwrap
import warnings
from typing import Any

import matplotlib
import pandas as pd
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rag_utils.provenance import project_root, run_folder
from rag_utils.report.results import FLOAT_FORMAT
from rag_utils.report.tables import check_name, span, with_interval

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can tell apart; yellow is left out, being faint on white."""
QUIET = "#767676"
"""Grey for what is compared with: baselines, reference lines, what is not available."""
COLUMN_WIDTH = 4.8
"""Inches: the text width of LaTeX's article class."""

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "figure.dpi": 150,
    "image.cmap": "cividis",
}
_FIXED: dict[Any, Any] = {
    "savefig.bbox": None,
    "savefig.dpi": 300,
    "savefig.facecolor": "white",
    "svg.hashsalt": "rag-handbook",
    "svg.fonttype": "path",  # looks the same everywhere; the PDF holds the text to search and copy
    "pdf.fonttype": 42,  # TrueType: some paper systems refuse Type 3
    "pdf.use14corefonts": False,
}
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": "rag-handbook"},
    "pdf": {"Creator": "rag-handbook", "Producer": "Matplotlib", "CreationDate": None},
    "svg": {"Creator": "rag-handbook", "Date": None},
}


def use_style(width: float = COLUMN_WIDTH, height: float | None = None) -> None:
    """Set the style of all figures from here on, and a backend that needs no screen.

    Args:
        width: Inches; the width that the figure will have on paper, so that its 8 pt text stays 8 pt.
        height: Inches; 0.62 of the width when not given.
    """
    _use_quiet_backend()
    matplotlib.rcParams.update({**_STYLE, **_FIXED, "figure.figsize": (width, height or 0.62 * width)})
    pd.set_option("display.html.use_mathjax", False)  # a $ in a document is a dollar
    pd.set_option("display.max_colwidth", None)
    pd.set_option("display.width", 160)


def save_figure(fig: Figure, name: str, table: pd.DataFrame) -> None:
    """Write `<name>.png`, `.pdf`, `.svg`, and the numbers drawn as `<name>.csv`, into the run's folder.

    Args:
        fig: The figure; Jupyter shows it once, below the cell that made it.
        name: The notebook's number and what is shown: "21_hits_at_k".
        table: What was drawn; a named index is written too.
    """
    check_name(name)
    folder = run_folder(_notebook(name[:2]))
    with matplotlib.rc_context(_FIXED):
        _fit_page(fig, name)
        for kind, metadata in _METADATA.items():
            fig.savefig(folder / f"{name}.{kind}", metadata=metadata)
    named = not isinstance(table.index, pd.RangeIndex)
    table.to_csv(folder / f"{name}.csv", index=named, float_format=FLOAT_FORMAT, lineterminator="\n", encoding="utf-8")


def interval_plot(
    ax: Axes, table: pd.DataFrame, metric: str, baseline: str | None = None, kind: str = "forest"
) -> None:
    """One metric of each system with its 95 % interval, first system on top, the numbers written beside.

    Args:
        ax: Where to draw.
        table: With the columns of `results.csv`. A system without a row for this metric keeps its place and is marked
            "n/a".
        metric: The metric to draw.
        baseline: This system is grey, with a line through its value.
        kind: "forest" (points, the axis where the data are) or "bar" (lengths, so the axis starts at 0).

    Raises:
        ValueError: Unknown kind, baseline or metric.
    """
    rows = _rows_to_draw(table, metric, baseline, kind)
    colours = [QUIET if system == baseline else PALETTE[0] for system in rows.index]
    for y, (row, colour) in enumerate(zip(rows.itertuples(), colours, strict=True)):
        _draw_row(ax, y, row, colour, kind)
    if baseline is not None and pd.notna(rows.loc[baseline, "value"]):
        ax.axvline(rows.loc[baseline, "value"], color=QUIET, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    _dress(ax, rows, metric, kind)


def _rows_to_draw(table: pd.DataFrame, metric: str, baseline: str | None, kind: str) -> pd.DataFrame:
    systems = list(dict.fromkeys(table["system"]))
    rows = table[table["metric"] == metric].set_index("system").reindex(systems)
    if kind not in ("forest", "bar"):
        raise ValueError(f"kind = {kind!r}: choose 'forest' or 'bar'")
    if baseline is not None and baseline not in systems:
        raise ValueError(f"baseline {baseline!r} is not among the systems: {', '.join(systems)}")
    if rows["value"].isna().all():
        raise ValueError(f"no value of {metric!r} to draw; there are: {', '.join(table['metric'].unique())}")
    return rows.astype({"value": float, "low": float, "high": float})


def _draw_row(ax: Axes, y: int, row: Any, colour: str, kind: str) -> None:
    beside: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 7}
    if pd.isna(row.value):
        ax.text(0.01, y, "n/a", color=QUIET, style="italic", **beside)
        return
    ax.text(1.02, y, with_interval(row.value, row.low, row.high), **beside)
    if kind == "bar":
        ax.barh(y, row.value, height=0.6, color=colour, alpha=0.65, linewidth=0)
    else:
        ax.plot(row.value, y, "o", color=colour)
    if pd.notna(row.low):
        ink = "black" if kind == "bar" else colour
        reach = [[row.value - row.low], [row.high - row.value]]
        ax.errorbar(row.value, y, xerr=reach, color=ink, elinewidth=1.2, capsize=2)


def _dress(ax: Axes, rows: pd.DataFrame, metric: str, kind: str) -> None:
    ax.set_yticks(range(len(rows)), [textwrap.fill(system, 28) for system in rows.index])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.spines["left"].set_visible(kind == "bar")
    if kind == "bar":
        ax.set_xlim(left=0)
    else:
        ax.grid(axis="x")
    ax.set_xlabel(f"{metric} (95 % intervals, n = {span(rows['n'].dropna())})")


def _use_quiet_backend() -> None:
    """Inline in a notebook, Agg elsewhere, whatever MPLBACKEND says; a backend chosen from outside Matplotlib stays."""
    from matplotlib.backends.registry import BackendFilter, backend_registry

    kernel = getattr(_shell(), "kernel", None)
    chosen = matplotlib.get_backend(auto_select=False)
    opens_windows = chosen is None or chosen.lower() in backend_registry.list_builtin(BackendFilter.INTERACTIVE)
    if opens_windows and kernel is not None:
        _shell().run_line_magic("matplotlib", "inline")
    elif opens_windows:
        matplotlib.use("agg")


def _shell() -> Any:
    """IPython's shell, if there is one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _fit_page(fig: Figure, name: str) -> None:
    """Lay the figure out, and let the page grow by what still sticks out."""
    if fig.get_layout_engine() is None:
        fig.set_layout_engine("constrained")
    asked = tuple(fig.get_size_inches())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # the growing page mends it
        for _ in range(5):
            fig.canvas.draw()
            width, height = fig.get_size_inches()
            box = fig.get_tightbbox()
            across = max(0, -box.x0) + max(0, box.x1 - width)
            down = max(0, -box.y0) + max(0, box.y1 - height)
            if max(across, down) < 0.01:
                break
            fig.set_size_inches(width + 1.05 * across, height + 1.05 * down)
    if tuple(fig.get_size_inches()) != asked:
        old, new = (" x ".join(f"{side:.2f}" for side in size) for size in (asked, fig.get_size_inches()))
        warnings.warn(f"{name}: its text needs a page of {new} inches, not {old}; shorten the labels", stacklevel=3)


def _notebook(number: str) -> str:
    """The notebook that carries this number; the number itself if there is none."""
    found = sorted((project_root() / "notebooks").glob(f"{number}_*.ipynb"))
    return found[0].stem if found else number
