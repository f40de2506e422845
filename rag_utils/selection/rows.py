"""The questions that a selection may look at, and those that it may not."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from rag_utils.chunking import gold_chunks
from rag_utils.corpora import Corpus, require_side
from rag_utils.provenance import note
from rag_utils.selection.scores import FieldScores, Ranker


class _Rows:
    _side: str

    def __init__(self, corpus: Corpus):
        require_side(corpus, self._side)
        self.corpus = corpus

    def evaluator(self, scores: FieldScores, criterion: str = "hits@5") -> Callable[[Sequence[str]], np.ndarray]:
        """`evaluate` of these rows: a set of streams to one value a question, in the order of the queries.

        Args:
            scores: Of the chunks that are searched.
            criterion: "hits@k", "recall@k" or "mrr@k", against `gold_chunks`. A question without gold is left out and
                counted in the run's provenance; where no chunk holds the evidence whole, the value is 0.

        Raises:
            ValueError: An unknown criterion, or no chunk is gold for any question.
        """
        known = re.fullmatch(r"(hits|recall|mrr)@([1-9]\d*)", criterion)
        if not known:
            raise ValueError(f"criterion {criterion!r} is not known: choose hits@k, recall@k or mrr@k")
        gold = gold_chunks(self.corpus, scores.chunks)
        judged = [query for query in self.corpus.queries if query.id in gold]
        if not any(gold.values()):
            raise ValueError(f"{self.corpus.name}: no chunk is gold for any of {len(self.corpus.queries)} questions")
        if n := len(self.corpus.queries) - len(judged):
            note("dropped", what=f"{self.corpus.name}: questions without gold, in selection", n=n)
        ranks = Ranker(scores, [query.text for query in judged], [gold[query.id] for query in judged])
        return lambda streams: _values(known[1], ranks(streams), int(known[2]))


class DevRows(_Rows):
    """The dev questions of a corpus, by the handbook's one split (`corpora.is_dev`): all that a selection may look at.

    Raises:
        ValueError: A question of the corpus is a test row; one is named.
    """

    _side = "dev"


class HeldOutRows(_Rows):
    """The test questions of a corpus, for the one look of `Selection.confirm`.

    Raises:
        ValueError: A question of the corpus is a dev row; one is named.
    """

    _side = "test"


def _values(criterion: str, ranks: np.ndarray, k: int) -> np.ndarray:
    """Ranks of gold chunks (questions, most of one question; NaN where one has fewer) to one value a question."""
    found = ranks <= k
    if criterion == "hits":
        return np.any(found, axis=1)
    if criterion == "recall":
        return found.sum(axis=1) / np.maximum((ranks > 0).sum(axis=1), 1)
    return np.where(found, 1 / ranks, 0.0).max(axis=1)
