"""Runs and relevance grades in the text format of trec_eval."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # only for the annotations: importing the metrics takes milliseconds
    from rag_utils.schema import Qrels, Run


def trec_run(run: "Run", tag: str) -> str:
    """A run as trec_eval's text: `query Q0 id rank score tag`, best first, ties by id.

    trec_eval reads the scores only, breaks ties its own way, and skips queries without a line unless told `-c`.

    Raises:
        ValueError: An id or the tag is empty or holds white space, or a score is NaN.
    """
    lines = []
    for query, scores in run.items():
        if any(math.isnan(score) for score in scores.values()):
            raise ValueError(f"a score of query {query!r} is NaN: leave that hit out of the run")
        best_first = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))
        for rank, (item, score) in enumerate(best_first, start=1):
            lines.append(_trec_line(query, "Q0", item, rank, repr(float(score)), tag))
    return "".join(lines)


def trec_qrels(qrels: "Qrels") -> str:
    """Relevance grades as trec_eval's text: `query 0 id grade`; ids as in `trec_run`."""
    return "".join(_trec_line(query, 0, item, grade) for query, items in qrels.items() for item, grade in items.items())


def _trec_line(*columns: str | int) -> str:
    texts = [str(column) for column in columns]
    for text in texts:
        if text.split() != [text]:
            raise ValueError(f"{text!r} is empty or holds white space, which separates TREC's columns: rename it")
    return " ".join(texts) + "\n"
