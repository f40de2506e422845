"""How good filters are, apart from retrieval: against the outlets that the evidence of a question comes from."""

import math
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rag_utils.corpora import Corpus
from rag_utils.corpora.dates import iso_day
from rag_utils.filters.conditions import Metadata, Where, as_text, matcher, several

if TYPE_CHECKING:
    import pandas as pd

_METRICS = ("exact_set", "precision", "recall", "over_restriction", "empty_rate")
_NULL_METRICS = ("exact_set_null", "empty_rate_null")
_NOT_KNOWN = (math.nan, math.nan)


def named_values(where: Where | None, field: str = "source") -> set[str]:
    """The values that a filter asks for in a field, as texts, dates as ISO days.

    Those of `$in`, `$eq` or bare ones; what the filter rules out does not count.
    """
    condition = (where or {}).get(field)
    asked = [condition.get("$in"), condition.get("$eq")] if isinstance(condition, Mapping) else [condition]
    return {iso_day(one) or as_text(one) for values in asked for one in several(values) if one is not None}


def gold_filters(corpus: Corpus, fields: Sequence[str] = ("source",)) -> dict[str, dict[str, Any] | None]:
    """The filter that each question should have: the oracle, from the metadata of its gold documents.

    Returns:
        Query id -> for each field `$in` with all its values in the gold documents; None for a question without gold
        documents. A question with a gold document that the corpus does not have is not among the ids.
    """
    metadata, unknown = {document.id: document.metadata for document in corpus.documents}, {*corpus.unanswerable()}
    filters = {}
    for id_ in (query.id for query in corpus.queries if query.id not in unknown):
        gold = [metadata[document] for document in corpus.gold_documents.get(id_, ())]
        values = {field: sorted({one[field] for one in gold if field in one}) for field in fields}
        filters[id_] = {field: {"$in": named} for field, named in values.items() if named} or None
    return filters


def filter_quality(filters: Mapping[str, Where | None], corpus: Corpus, field: str = "source") -> "pd.DataFrame":
    """Score filters question by question.

    Args:
        filters: Query id -> filter, None = none.
        corpus: Its queries are scored, on the metadata of its documents.
        field: Whose values are compared with those of the gold documents.

    Returns:
        Columns `query_id, metric, hits, of, value`, where value = hits / of, a share. Of questions with gold:
        `exact_set` (the values asked for are the gold ones), `precision` (of the values asked for) and `recall` (of the
        gold values), `over_restriction` (a gold document is excluded), `empty_rate` (every document is). Of
        the others `exact_set_null` (no value is asked for) and `empty_rate_null`. NaN where there is no filter, or a
        gold document is not in the corpus.

    Raises:
        ValueError: A filter for none of the queries, or one that `matches` refuses.

    Source: exact sets as in Multi-Meta-RAG's repository, where only `$in` names outlets too; the rest is ours.
    """
    import pandas as pd

    if not any(query.id in filters for query in corpus.queries):
        raise ValueError(f"{len(filters)} filters, none for a query of {corpus.name}: give them by query id")
    gold, documents = gold_filters(corpus, [field]), {document.id: document.metadata for document in corpus.documents}
    rows: list[tuple[str, str, float, float]] = []
    for id_ in (query.id for query in corpus.queries):
        evidence = corpus.gold_documents.get(id_, ())
        counts: Mapping[str, tuple[float, float]] = dict.fromkeys(_METRICS if evidence else _NULL_METRICS, _NOT_KNOWN)
        if id_ in filters and id_ in gold:
            counts = _counts(filters[id_], gold[id_], [documents[one] for one in evidence], documents.values(), field)
        rows += [(id_, metric, hits, of) for metric, (hits, of) in counts.items()]
    table = pd.DataFrame(rows, columns=["query_id", "metric", "hits", "of"]).astype({"hits": float, "of": float})
    return table.assign(value=table["hits"] / table["of"])


def _counts(
    where: Where | None,
    gold: Where | None,
    evidence: Sequence[Metadata],
    documents: Collection[Metadata],
    field: str,
) -> dict[str, tuple[float, float]]:
    """By metric, hits and what they are out of."""
    asked, right, passes = named_values(where, field), named_values(gold, field), matcher(where)
    found, empty = len(asked & right), not any(map(passes, documents))
    if not evidence:
        return dict(zip(_NULL_METRICS, ((not asked, 1), (empty, 1)), strict=True))
    shares = ((found, len(asked)), (found, len(right)), (not all(map(passes, evidence)), 1), (empty, 1))
    return dict(zip(_METRICS, ((asked == right, 1), *shares), strict=True))


def micro_averaged(quality: "pd.DataFrame") -> "pd.DataFrame":
    """The same rows with values whose plain mean is the micro-average: all hits by all that they are out of.

    So the intervals and paired tests of `experiments.summarise`, which are those of a mean, hold for precision and
    recall (a ratio of two sums, linearised around itself); shares stay 0 and 1. Whatever rows are left out before, the
    average is that of the rows given; a column `system` keeps systems apart.

    Source: Cochran, Sampling Techniques (1977), chapter 6: the variance of a ratio estimate.
    """
    groups = quality.groupby([key for key in ("system", "metric") if key in quality])[["hits", "of"]]
    mean = groups.transform("mean")
    ratio = mean["hits"] / mean["of"]
    value = ratio + (quality["hits"] - ratio * quality["of"]) / mean["of"]
    return quality.assign(value=value.round(12))  # a share is 0 or 1 to the last digit


def paper_outlets() -> list[str]:
    """The 49 outlets that Multi-Meta-RAG's prompt allows (arXiv 2406.13213, appendix)."""
    text = (files("rag_utils") / "papers" / "multi_meta_rag_outlets.csv").read_text(encoding="utf-8")
    return text.splitlines()[1:]
