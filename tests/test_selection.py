"""Forward selection against hand counts and simulations; its scores against rank-bm25 and `fuse`."""

import os
from collections import Counter
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from rag_utils.chunking import whole
from rag_utils.corpora import Corpus, is_dev, load_corpus
from rag_utils.indexing import words
from rag_utils.retrieval import fuse
from rag_utils.schema import Chunk, Document, Query
from rag_utils.selection import DevRows, FieldScores, HeldOutRows, forward_selection, simulated_evaluate
from rag_utils.statistics import paired_bootstrap, wilson_interval


def _evaluate(n=100, **streams):
    """Hits: the first half without any stream. A stream (first, last, lost) wins first:last of the second half and
    loses the first `lost` questions of all."""

    def hits(chosen):
        found = np.arange(n) < n // 2
        for first, last, lost in (streams[stream] for stream in chosen):
            found[n // 2 + first : n // 2 + last] = True
            found[:lost] = False
        return found

    return hits


def test_path_by_hand():
    selection = forward_selection(["c", "b", "a"], _evaluate(a=(0, 10, 2), b=(10, 17, 0), c=(0, 3, 3)))
    path = selection.path.set_index(["iteration", "stream"])
    first = path.loc[1]
    assert first["b"].to_dict() == {"a": 10, "b": 7, "c": 3}
    assert first["c"].to_dict() == {"a": 2, "b": 0, "c": 3}
    assert first["gain"].to_dict() == pytest.approx({"a": 0.08, "b": 0.07, "c": 0.0})
    # tails of the binomial law, (1 + 12 + 66) / 2^12, 1 / 2^7, (1 + 6 + 15 + 20) / 2^6; Holm multiplies by 2, 3, 1
    assert first["p"].to_dict() == pytest.approx({"a": 79 / 4096, "b": 1 / 128, "c": 42 / 64})
    assert first["p_holm"].to_dict() == pytest.approx({"a": 2 * 79 / 4096, "b": 3 / 128, "c": 42 / 64})
    assert selection.selected == ("a", "b")
    assert path["chosen"].to_dict() == {
        **{(1, "a"): True, (1, "b"): False, (1, "c"): False, (2, "b"): True, (2, "c"): False, (3, "c"): False}
    }
    assert path.loc[(3, "c"), ["b", "c"]].tolist() == [0, 1]  # all it wins is won already
    assert "c, gains -0.0100" in selection.stopped_because
    assert (path["low"] <= path["gain"]).all() and (path["gain"] <= path["high"]).all()
    assert set(path["n"]) == {100}


def test_evaluate_is_asked_once_for_a_set_in_the_order_given():
    asked = []
    evaluate = _evaluate(1_000, z=(0, 40, 0), m=(40, 70, 0), a=(0, 0, 0))

    def recorded(streams):
        asked.append(streams)
        return evaluate(streams)

    selection = forward_selection(["z", "m", "a"], recorded, backward=True)
    assert selection.selected == ("z", "m")
    assert len(selection.stability(20)) == 3
    assert max(Counter(asked).values()) == 1
    assert {("z", "m"), ("z", "m", "a")} <= set(asked)
    assert all(list(streams) == sorted(streams, key="zma".index) for streams in asked)


def test_an_evaluate_that_fills_one_buffer_again_and_again():
    evaluate, buffer = _evaluate(a=(0, 20, 0)), np.zeros(100, bool)

    def refilled(streams):
        buffer[:] = evaluate(streams)
        return buffer

    assert forward_selection(["a"], refilled).selected == ("a",)


def test_ties_go_by_cost_then_by_name():
    evaluate = _evaluate(a=(0, 20, 0), b=(0, 20, 0), c=(0, 20, 0))
    assert forward_selection(["c", "b", "a"], evaluate).selected == ("a",)
    selection = forward_selection(["c", "b", "a"], evaluate, costs={"a": 9, "b": 1, "c": 1})
    assert selection.selected == ("b",)
    assert selection.path.set_index("stream").loc["a", "cost"].tolist() == [9, 9]


def test_level_and_smallest_gain():
    """Five questions won and none lost: p = 1/32."""
    three = {"a": (0, 5, 0), "b": (0, 0, 0), "c": (0, 0, 0)}
    assert forward_selection(["a"], _evaluate(a=(0, 5, 0))).selected == ("a",)
    assert forward_selection(["a"], _evaluate(a=(0, 5, 0)), alpha=0.03).selected == ()
    assert forward_selection(["a"], _evaluate(a=(0, 5, 0)), correction="spending").selected == ()  # .05 / 2 < 1/32
    assert forward_selection(list(three), _evaluate(**three)).selected == ()  # 3/32 after Holm
    assert forward_selection(list(three), _evaluate(**three), correction="none").selected == ("a",)
    assert forward_selection(["a"], _evaluate(a=(0, 5, 0)), min_gain=0.05).selected == ("a",)
    assert forward_selection(["a"], _evaluate(a=(0, 5, 0)), min_gain=0.051).selected == ()


def test_without_a_level_any_gain_counts():
    selection = forward_selection(["a", "b"], _evaluate(1_000, a=(0, 2, 0), b=(0, 1, 0)), alpha=None)
    assert selection.selected == ("a",)
    assert selection.path[["p", "p_holm"]].isna().all(axis=None)


def test_scores_that_are_no_hits_are_bootstrapped():
    rng = np.random.default_rng(0)
    base, noise = rng.random(300), rng.normal(0, 0.1, 300)
    values = {(): base, ("up",): base + 0.05 + noise, ("same",): base + noise - noise.mean(), ("up", "same"): base}
    selection = forward_selection(["up", "same"], values.__getitem__)
    assert selection.selected == ("up",)
    path = selection.path.set_index(["iteration", "stream"])
    expected = paired_bootstrap(values["up",], base)
    assert path.loc[(1, "up"), ["gain", "low", "high", "p"]].tolist() == [*expected[:3], expected.p / 2]
    assert path.loc[(1, "same"), "p"] == pytest.approx(0.5, abs=0.05)
    assert path.loc[(2, "same"), "p"] > 0.99  # clearly worse: the test asks only whether it is better


def test_hits_as_numbers_are_tested_as_hits():
    evaluate = _evaluate(a=(0, 5, 0))
    selection = forward_selection(["a"], lambda streams: evaluate(streams).astype(float))
    assert selection.path.loc[0, "p"] == pytest.approx(1 / 32)


def test_a_failed_stream_is_reported_and_not_tried_again():
    evaluate = _evaluate(a=(0, 10, 0), b=(10, 30, 0))

    def failing(streams):
        return np.where(np.arange(100) < 3, np.nan, 1.0) if streams == ("b",) else evaluate(streams)

    selection = forward_selection(["a", "b"], failing)
    assert selection.selected == ("a",)
    failed = selection.path.set_index("stream").loc["b"]
    assert failed["failed"] == "3 of 100 values are NaN or infinite" and not failed["chosen"]
    assert np.isnan([failed["gain"], failed["p"], failed["p_holm"]]).all()
    assert selection.path.set_index("stream").loc["a", "p_holm"] == pytest.approx(1 / 1024)  # one test, not two
    assert selection.stability(10).set_index("stream")["share"].to_dict() == {"a": 1.0, "b": 0.0}
    assert selection.confirm(evaluate)["streams"].tolist() == ["", "a", "a"]


def test_one_pass_takes_all_that_pass_by_themselves():
    evaluate = _evaluate(a=(0, 20, 0), b=(0, 20, 0), c=(0, 0, 0))
    assert forward_selection(["a", "b", "c"], evaluate).selected == ("a",)
    selection = forward_selection(["a", "b", "c"], evaluate, strategy="one_pass")
    assert selection.selected == ("a", "b") and selection.stopped_because == "one pass was asked for"
    pruned = forward_selection(["a", "b", "c"], evaluate, strategy="one_pass", backward=True)
    assert pruned.selected == ("a",)


def test_backward_drops_what_the_later_ones_made_useless():
    def evaluate(streams):
        won = {"a": {*range(12)}, "b": {*range(6), *range(12, 18)}, "c": {*range(6, 12), *range(18, 24)}}
        return np.isin(np.arange(100), [*set().union(*(won[stream] for stream in streams))])

    assert forward_selection(["a", "b", "c"], evaluate).selected == ("a", "b", "c")
    selection = forward_selection(["a", "b", "c"], evaluate, backward=True)
    assert selection.selected == ("b", "c")
    dropped = selection.path.query("step == 'backward' and stream == 'a'").iloc[-1]
    assert (dropped["b"], dropped["c"], dropped["chosen"]) == (0, 0, False)


def test_confirm_by_hand_and_once():
    selection = forward_selection(["a", "b"], _evaluate(a=(0, 20, 0), b=(0, 0, 10)))
    test = _evaluate(200, a=(0, 30, 0), b=(0, 0, 10))
    table = selection.confirm(test).set_index("set")
    assert table["dev"].tolist() == pytest.approx([0.5, 0.7, 0.6])
    assert table["test"].tolist() == pytest.approx([0.5, 0.65, 0.6])
    assert table["optimism"].tolist() == pytest.approx([0.0, 0.05, 0.0])
    assert table["n_dev"].tolist() == [100] * 3 and table["n_test"].tolist() == [200] * 3
    expected = paired_bootstrap(test(("a",)), test(()))
    assert table.loc["selected", ["gain_test", "low", "high", "p"]].tolist() == list(expected)
    with pytest.raises(RuntimeError, match="once"):
        selection.confirm(test)


def test_stability_tells_the_certain_from_the_lucky():
    evaluate = _evaluate(1_000, sure=(0, 100, 0), lucky=(100, 110, 2))
    selection = forward_selection(["sure", "lucky"], evaluate)
    assert selection.selected == ("sure", "lucky")
    table = selection.stability().set_index("stream")
    assert table.loc["sure", "share"] == 1.0
    assert 0.5 < table.loc["lucky", "share"] < 0.95
    assert table["n"].tolist() == [200, 200]
    assert table.equals(selection.stability(seed=0).set_index("stream"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"streams": "title"}, "list of distinct names"),
        ({"streams": ["a", "a"]}, "list of distinct names"),
        ({"alpha": 5}, "0 < alpha < 1"),
        ({"min_gain": -0.1}, "min_gain >= 0"),
        ({"strategy": "best"}, "'best_first' or 'one_pass'"),
        ({"correction": "bonferroni"}, "'holm' or 'spending' or 'none'"),
        ({"costs": {}}, "no entry for 'a'"),
        ({"evaluate": lambda streams: np.full(5, np.nan)}, "5 values without any stream"),
        ({"evaluate": lambda streams: 0.5}, "one value for each question"),
        ({"evaluate": lambda streams: []}, "one value for each question"),
        ({"evaluate": lambda streams: np.zeros(1 + len(streams))}, "one value for each question"),
    ],
)
def test_errors_name_the_value_and_the_remedy(arguments, message):
    with pytest.raises(ValueError, match=message):
        forward_selection(**{"streams": ["a"], "evaluate": _evaluate(a=(0, 1, 0)), **arguments})


def test_no_streams():
    selection = forward_selection([], _evaluate())
    assert selection.selected == () and selection.path.empty


# Simulations


def _let_in(seeds, **settings):
    """In how many null simulations a stream of pure noise is selected."""
    noise = {f"noise {i}": (0.02, 0.02) for i in range(4)}
    runs = (forward_selection(list(noise), simulated_evaluate(noise, seed=seed), **settings) for seed in seeds)
    return sum(bool(selection.selected) for selection in runs)


def test_planted_streams_are_found():
    planted = {"noise": (0.02, 0.02), "useful": (0.06, 0.01), "harmful": (0.01, 0.04), "useful too": (0.06, 0.01)}
    runs = (forward_selection(list(planted), simulated_evaluate(planted, seed=seed)) for seed in range(100))
    assert sum({"useful", "useful too"} <= set(selection.selected) for selection in runs) >= 95


def test_noise_is_rarely_let_in():
    corrected, uncorrected = _let_in(range(500)), _let_in(range(500), correction="none")
    assert corrected <= 0.07 * 500 and wilson_interval(corrected, 500)[0] <= 0.05
    assert 0.09 * 500 <= uncorrected <= 0.2 * 500  # four tests at .05 would let in 18.5 %, were they not discrete


def test_simulated_shares():
    evaluate = simulated_evaluate({"a": (0.1, 0.03), "b": (0.0, 0.2)}, n=100_000, base=0.6, seed=1)
    base, a, b = evaluate(()), evaluate(("a",)), evaluate(("b",))
    assert base.mean() == pytest.approx(0.6, abs=0.01)
    assert (a & ~base).mean() == pytest.approx(0.1, abs=0.005) and (base & ~a).mean() == pytest.approx(0.03, abs=0.005)
    assert not (b & ~base).any()
    with pytest.raises(ValueError, match=r"at most 0\.4 is missed"):
        simulated_evaluate({"a": (0.5, 0.0)}, base=0.6)


# Rows and scores

DEV, TEST = ([f"q{i}" for i in range(60) if is_dev(f"q{i}") == side] for side in (True, False))
VOCABULARY = [f"w{i}" for i in range(60)]


def _corpus(ids, split):
    """Made-up texts, two of them equal; each question asks for some words of its gold document."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(VOCABULARY, rng.integers(5, 20))) for _ in range(40)]
    texts[7] = texts[3]
    documents = [Document(id=f"d{i:02d}", text=text, title=VOCABULARY[i]) for i, text in enumerate(texts)]
    gold = {id_: documents[rng.integers(40)] for id_ in ids}
    queries = [Query(id=id_, text=" ".join(rng.choice([*words(d.text), d.title], 4))) for id_, d in gold.items()]
    return Corpus("made up", documents, queries, gold_documents={i: (d.id,) for i, d in gold.items()}, split=split)


class _Dense:
    """A dense index of made-up cosines, its columns in an order of its own."""

    def __init__(self, chunks):
        self.chunks = chunks[::-1]

    def scores(self, questions):
        return np.array([[np.sin(crc32((q + chunk.id).encode())) for chunk in self.chunks] for q in questions]).round(5)


class _Lucene(BM25Okapi):
    def _calc_idf(self, nd):
        self.idf = {word: np.log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for word, n in nd.items()}


def _oracle(corpus, chunks, streams, handling, dense):
    """Rank of the gold chunk of each question, from rank-bm25 and `fuse` on complete lists."""
    fields = ["text", *streams]
    if handling == "concatenated":
        chunks = [replace(c, fields={"text": " ".join(c.fields.get(f, "") for f in fields)}) for c in chunks]
        fields = ["text"]
    models = [_Lucene([words(c.fields.get(field, "")) for c in chunks], k1=1.2) for field in fields]
    ranks = []
    for query in corpus.queries:
        scores = np.array([model.get_scores(words(query.text)) for model in models])
        best = 0.7 * scores.max(axis=0) + 0.3 * scores.sum(axis=0)
        lexical = {chunk.id: score for chunk, score in zip(chunks, best, strict=True)}
        cosines = {c.id: s for c, s in zip(dense.chunks, dense.scores([query.text])[0], strict=True)}
        ids = list(fuse([lexical, cosines], "minmax", weights=(0.4, 0.6)))
        ranks.append(1 + ids.index(corpus.gold_documents[query.id][0] + "#0000"))
    return np.array(ranks)


@pytest.mark.parametrize("handling", ["concatenated", "fields"])
@pytest.mark.parametrize("streams", [(), ("title",), ("title", "head")])
def test_ranks_are_those_of_rank_bm25_and_fuse(handling, streams):
    corpus = _corpus(DEV, "dev")
    chunks = [replace(c, fields={**c.fields, "head": c.fields["text"][:10]}) for c in whole(corpus.documents)]
    del chunks[5].fields["title"]
    dense = _Dense(chunks)
    scores = FieldScores(chunks[1:] + chunks[:1], dense=dense, handling=handling, tokenizer=words)
    ranks = _oracle(corpus, chunks, streams, handling, dense)
    assert DevRows(corpus).evaluator(scores, "mrr@1000")(streams) == pytest.approx(1 / ranks)
    assert DevRows(corpus).evaluator(scores, "hits@3")(streams).tolist() == (ranks <= 3).tolist()


def test_several_gold_chunks_by_hand():
    texts = {"a": "fox fox fox", "b": "fox fox and", "c": "fox and or", "d": "hen"}
    documents = [Document(id=id_, text=text) for id_, text in texts.items()]
    gold = {"fox": ("b", "c"), "hen": ("d",), "owl": ("a",)}
    corpus = Corpus("hand", documents, [Query(id=i, text=i) for i in (*gold, "none")], gold_documents=gold, dev_share=1)
    rows, scores = DevRows(corpus), FieldScores(whole(documents), tokenizer=words)
    # "fox" finds a, b, c; nothing holds "owl", so BM25 alone does not find it; "none" has no gold and is left out
    assert rows.evaluator(scores, "hits@1")(()).tolist() == [False, True, False]
    assert rows.evaluator(scores, "recall@2")(()).tolist() == [0.5, 1.0, 0.0]
    assert rows.evaluator(scores, "mrr@4")(()).tolist() == [0.5, 1.0, 0.0]


def test_evidence_that_no_chunk_holds_whole_counts_as_missed():
    documents = [Document(id="d", text="The plant opened in May.")]
    halves = [
        Chunk(id=f"d{i}", document_id="d", start=s, end=e, fields={"text": documents[0].text[s:e]})
        for i, (s, e) in enumerate([(0, 9), (10, 24)])
    ]
    queries = [Query(id="cut", text="plant"), Query(id="whole", text="may")]
    corpus = Corpus(
        "cut",
        documents,
        queries,
        gold_documents={"cut": ("d",), "whole": ("d",)},
        dev_share=1,
        facts={"cut": ("plant opened",), "whole": ("in May",)},
    )
    for criterion in ("hits@5", "recall@5", "mrr@5"):
        evaluate = DevRows(corpus).evaluator(FieldScores(halves, tokenizer=words), criterion)
        assert evaluate(()).tolist() == [0, 1]


def test_selection_from_rows_to_confirmation():
    dev, test = _corpus(DEV, "dev"), _corpus(TEST, "test")
    scores = FieldScores(whole(dev.documents), handling="fields", tokenizer=words)
    selection = forward_selection(["title"], DevRows(dev).evaluator(scores, "recall@1"), alpha=None)
    table = selection.confirm(HeldOutRows(test).evaluator(scores, "recall@1"))
    assert table["n_dev"].tolist() == [len(DEV)] * 3 and table["n_test"].tolist() == [len(TEST)] * 3


def test_rows_of_the_other_side_are_refused():
    both = _corpus([*DEV, *TEST], "all")
    with pytest.raises(ValueError, match=f"{len(TEST)} of 60 questions are no dev rows, as '{TEST[0]}'"):
        DevRows(both)
    with pytest.raises(ValueError, match=f"no test rows, as '{DEV[0]}'"):
        HeldOutRows(both)
    assert DevRows(replace(both, dev_share=1.0)).corpus.queries == both.queries


def test_errors_of_scores_and_criteria():
    corpus = _corpus(DEV, "dev")
    chunks, rows = whole(corpus.documents), DevRows(corpus)
    with pytest.raises(ValueError, match="no chunk has a field 'yake'"):
        rows.evaluator(FieldScores(chunks))(("yake",))
    with pytest.raises(ValueError, match="'ndcg@5' is not known"):
        rows.evaluator(FieldScores(chunks), "ndcg@5")
    with pytest.raises(ValueError, match="handling = 'joined'"):
        FieldScores(chunks, handling="joined")
    with pytest.raises(ValueError, match="weight = 40"):
        FieldScores(chunks, weight=40)
    with pytest.raises(ValueError, match="other chunks"):
        FieldScores(chunks, dense=_Dense(chunks[1:]))
    with pytest.raises(ValueError, match="no chunk is gold"):
        DevRows(replace(corpus, gold_documents={})).evaluator(FieldScores(chunks))


@pytest.mark.skipif(not os.environ.get("RAG_DATA_DIR"), reason="RAG_DATA_DIR is not set")
def test_headings_help_bm25_on_pubmedqa():
    """Counts of an independent implementation: 20 questions won, 2 lost, of the 800 that are handed out."""
    corpus = load_corpus("pubmedqa", split="dev", dev_share=1.0)
    if len(corpus.queries) != 800:
        pytest.skip(f"{len(corpus.queries)} questions: the counts hold for 800")
    evaluate = DevRows(corpus).evaluator(FieldScores(whole(corpus.documents)), "hits@1")
    path = forward_selection(["headings"], evaluate).path
    assert path.loc[0, ["b", "c"]].tolist() == [20, 2] and path.loc[0, "chosen"]
