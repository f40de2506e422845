"""Which streams of metadata to keep: stepwise forward selection, tested, on dev rows only (MetaGen, section 3.2.2)."""

from rag_utils.selection.forward import Selection, forward_selection
from rag_utils.selection.rows import DevRows, HeldOutRows
from rag_utils.selection.scores import FieldScores
from rag_utils.selection.simulation import simulated_evaluate

__all__ = ["DevRows", "FieldScores", "HeldOutRows", "Selection", "forward_selection", "simulated_evaluate"]
