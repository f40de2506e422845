"""Everything that leaves a notebook: results, tables, figures, the papers' numbers beside ours, the README's table.

All files go to `provenance.run_folder()`; only `make publish` copies them further.
"""

from rag_utils.report.figures import PALETTE, QUIET, interval_plot, save_figure, use_style
from rag_utils.report.papers import beside_paper, paper_table
from rag_utils.report.tables import save_results, save_table, show

__all__ = [
    "PALETTE",
    "QUIET",
    "beside_paper",
    "interval_plot",
    "paper_table",
    "save_figure",
    "save_results",
    "save_table",
    "show",
    "use_style",
]
