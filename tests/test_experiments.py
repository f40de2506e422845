"""One table from named systems: values, intervals and tests against hand counts; the rules on missing gold."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rag_utils.corpora import Corpus
from rag_utils.experiments import COLUMNS, compare, score_queries, summarise
from rag_utils.schema import Answer, Chunk, Document, Hit, Query

TEXTS = {"d1": "The plant opened in May. It employs ten.", "d2": "Vega sold the yard.", "d3": "Fog came."}
CORPUS = Corpus(
    name="hand",
    documents=[Document(id=i, text=t) for i, t in TEXTS.items()],
    queries=[Query(id=q, text=q) for q in ("one", "two", "none", "cut")],
    answers={"one": ("May",), "two": ("Vega",), "none": ("Insufficient information.",)},
    gold_documents={"one": ("d1", "d2"), "two": ("d2",), "cut": ("d1",)},
    facts={
        "one": ("The plant opened in May.", "Vega sold the yard."),
        "two": ("Vega sold the yard.",),
        "cut": ("May. It",),
    },
    types={"one": "multi", "two": "single", "none": "null", "cut": "single"},
)
CHUNKS = [
    Chunk(id="d1#0", document_id="d1", start=0, end=24, fields={"text": "The plant opened in May."}),
    Chunk(id="d1#1", document_id="d1", start=25, end=40, fields={"text": "It employs ten."}),
    Chunk(id="d2#0", document_id="d2", start=0, end=19, fields={"text": "Vega sold the yard."}),
    Chunk(id="d3#0", document_id="d3", start=0, end=9, fields={"text": "Fog came."}),
]


class Fixed:
    """Always the same ranking."""

    def __init__(self, *order):
        self.chunks = CHUNKS
        self.order = order

    def retrieve(self, queries, k):
        return [[Hit(CHUNKS[i], -float(n)) for n, i in enumerate(self.order)][:k] for _ in queries]


class Says:
    def __init__(self, text):
        self.text = text

    def answer(self, queries):
        return [Answer(query_id=q.id, text=self.text) for q in queries]


def _value(table, system, metric):
    return table.set_index(["system", "metric"]).loc[(system, metric)]


def test_values_by_hand():
    table = compare(
        {"a": Fixed(3, 0, 2)},
        CORPUS,
        ["hits@1", "hits@2", "recall@3", "mrr@10", "map@10_standard", "map@10", "facts@10"],
    )
    assert list(table.columns) == COLUMNS
    # "one": gold d1#0 at 2 and d2#0 at 3; "two": d2#0 at 3; "cut": no chunk holds it, 0; "none": no gold, dropped
    assert (table["n"] == 3).all() and (table["dropped"] == 1).all()
    expected = {
        "hits@1": 0,
        "hits@2": 1 / 3,
        "recall@3": 2 / 3,
        "mrr@10": (1 / 2 + 1 / 3) / 3,
        "map@10_standard": ((1 / 2 + 2 / 3) / 2 + 1 / 3) / 3,
        "map@10": ((1 / 2 + 1 / 3) / 2 + 1 / 3) / 3,
        "facts@10": (1 + 1 + 0) / 3,
    }
    assert dict(zip(table["metric"], table["value"], strict=True)) == pytest.approx(expected)
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()


def test_document_level_counts_a_document_once():
    table = compare({"a": Fixed(0, 1, 2)}, CORPUS, ["recall@2", "mrr@10"], level="document")
    # documents d1, d1, d2 become d1, d2: "one" finds both, "two" finds d2 at 2, "cut" finds d1
    assert _value(table, "a", "recall@2")["value"] == pytest.approx(1.0)
    assert _value(table, "a", "mrr@10")["value"] == pytest.approx((1 + 1 / 2 + 1) / 3)


def test_answers_by_hand():
    table = compare(
        {"may": Says("In May"), "vega": Says("vega")}, CORPUS, ["exact_match", "token_f1", "accuracy"], baseline="may"
    )
    assert _value(table, "vega", "exact_match")["value"] == pytest.approx(1 / 3)
    assert _value(table, "may", "token_f1")["value"] == pytest.approx((2 / 3) / 3)
    assert _value(table, "may", "accuracy")[["n", "dropped"]].tolist() == [3, 1]


def test_p_is_exact_mcnemar_with_holm():
    ids = [f"q{i}" for i in range(30)]
    base = [1.0] * 10 + [0.0] * 20
    better = [1.0] * 10 + [1.0] * 8 + [0.0] * 12  # 8 gains, 0 losses
    mixed = [0.0] * 3 + [1.0] * 7 + [1.0] * 4 + [0.0] * 16  # 4 gains, 3 losses
    rows = [
        (q, s, "hits@1", v)
        for s, values in (("base", base), ("better", better), ("mixed", mixed))
        for q, v in zip(ids, values, strict=True)
    ]
    table = summarise(pd.DataFrame(rows, columns=["query_id", "system", "metric", "value"]), baseline="base")
    assert _value(table, "better", "hits@1")["p"] == pytest.approx(2 * stats.binomtest(0, 8).pvalue)
    assert _value(table, "mixed", "hits@1")["p"] == pytest.approx(
        max(2 * stats.binomtest(0, 8).pvalue, stats.binomtest(3, 7).pvalue)
    )
    assert np.isnan(_value(table, "base", "hits@1")["p"])


def test_groups_add_rows_whose_n_sum_up():
    table = compare({"a": Fixed(0, 2)}, CORPUS, ["hits@1"], by=CORPUS.types)
    n = dict(zip(table["metric"], table["n"], strict=True))
    assert n == {"hits@1": 3, "hits@1_multi": 1, "hits@1_single": 2}  # "null" has no gold, so no row


def test_a_question_dropped_by_one_system_is_left_out_of_the_pair_only():
    rows = [("q1", "a", "m", 1.0), ("q2", "a", "m", 0.0), ("q1", "b", "m", np.nan), ("q2", "b", "m", 1.0)]
    table = summarise(pd.DataFrame(rows, columns=["query_id", "system", "metric", "value"]), baseline="a")
    assert _value(table, "b", "m")[["n", "dropped", "p"]].tolist() == [1, 1, 1.0]


@pytest.mark.parametrize("metric", ["hit@1", "map@7", "precision", "hits@"])
def test_an_unknown_metric_is_named(metric):
    with pytest.raises(ValueError, match=metric):
        score_queries({"a": Fixed(0)}, CORPUS, [metric])


def test_an_impossible_metric_is_named():
    with pytest.raises(ValueError, match="token_f1"):
        score_queries({"a": Fixed(0)}, CORPUS, ["hits@1", "token_f1"])


def test_a_wrong_baseline_lists_the_systems():
    with pytest.raises(ValueError, match=r"'c'.*a"):
        compare({"a": Fixed(0)}, CORPUS, ["hits@1"], baseline="c")


def test_a_retriever_without_chunks_names_the_remedy():
    class Bare:
        def retrieve(self, queries, k):
            return [[] for _ in queries]

    with pytest.raises(ValueError, match="level='document'"):
        compare({"a": Bare()}, CORPUS, ["hits@1"])
    assert compare({"a": Bare()}, CORPUS, ["hits@1"], level="document")["value"].tolist() == [0.0]


class Windows(Fixed):
    """Hits of its own making, whose text grows with k, as windows that are merged do."""

    def retrieve(self, queries, k):
        text = "Fog came. " + "Vega sold the yard." * (k > 1)
        hit = Hit(Chunk(id="d2@0-19", document_id="d2", start=0, end=19, fields={"text": text}), 1.0)
        return [[hit][:k] for _ in queries]


def test_hits_that_are_no_chunks_are_not_judged_by_id():
    with pytest.raises(ValueError, match=r"1 hits that are not among its `chunks`, as 'd2@0-19'.*answer@k"):
        compare({"a": Windows()}, CORPUS, ["hits@1"])
    table = compare({"a": Windows()}, CORPUS, ["hits@1"], level="document")
    assert table["value"].tolist() == pytest.approx([2 / 3])  # "cut" has its evidence in another document


def test_an_answer_in_the_text_does_not_depend_on_what_else_is_asked():
    for others in ([], ["answer@2"], ["facts@10"]):
        table = compare({"a": Windows()}, CORPUS, ["answer@1", *others])
        assert table["value"][0] == 0.0  # "Vega" comes into the text with the second hit only
        assert list(table["metric"]) == ["answer@1", *others]


def test_the_same_seed_gives_the_same_table():
    systems = {"a": Fixed(3, 0, 2), "b": Fixed(0, 2)}
    first, second = (compare(systems, CORPUS, ["mrr@10"], baseline="a", seed=7) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_k_counts_documents_at_document_level():
    # eight chunks a document, in document order: the first two documents are the first sixteen chunks
    chunks = [
        Chunk(id=f"d{d}#{i}", document_id=f"d{d}", start=i, end=i + 1, fields={"text": "x"})
        for d in range(1, 4)
        for i in range(8)
    ]

    class InOrder:
        def __init__(self):
            self.chunks = chunks

        def retrieve(self, queries, k):
            return [[Hit(c, -float(n)) for n, c in enumerate(chunks[:k])] for _ in queries]

    table = compare({"s": InOrder()}, CORPUS, ["recall@2"], level="document")
    assert table["value"].tolist() == [1.0]  # d1 and d2 hold all the gold


def test_an_empty_split_is_named():
    empty = Corpus(name="tiny", documents=CORPUS.documents, queries=[], split="dev")
    with pytest.raises(ValueError, match="tiny: no queries in split 'dev'"):
        compare({"a": Fixed(0)}, empty, ["hits@1"])


def test_no_values_give_no_rows():
    table = summarise(pd.DataFrame(columns=["query_id", "system", "metric", "value"]), baseline="a")
    assert list(table.columns) == COLUMNS and table.empty


def test_answers_out_of_order_are_refused():
    class Reversed(Says):
        def answer(self, queries):
            return super().answer(queries)[::-1]

    with pytest.raises(ValueError, match="order of the queries"):
        compare({"a": Reversed("May")}, CORPUS, ["exact_match"])
