"""Ratings: against other libraries, planted truths, hand computation, and inputs without a finite answer."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import root
from scipy.stats import beta, spearmanr

from rag_utils.arena import bradley_terry, budget_curve, elo, length_controlled

POINTS = 400 / math.log(10)
A, B, TIE = "model_a", "model_b", "tie"


def _battles(*rows):
    return [{"query": f"q{i}", "model_a": a, "model_b": b, "winner": w} for i, (a, b, w) in enumerate(rows)]


def _arena(strengths, questions, seed, tie=0.0, copies=1):
    """Every pair on every question, places at random, winners by Davidson's model; `copies` equal verdicts of each."""
    rng = np.random.default_rng(seed)
    pairs = np.tile(np.column_stack(np.triu_indices(len(strengths), 1)), (questions, 1))
    a, b = np.where(rng.random(len(pairs)) < 0.5, pairs.T, pairs.T[::-1])
    odds = np.exp((np.array(strengths)[a] - np.array(strengths)[b]) / 2)
    chance = rng.random(len(pairs)) * (odds + 1 / odds + tie)
    winner = np.select([chance < odds, chance < odds + tie], [A, TIE], B)
    query = np.repeat(np.arange(questions), len(pairs) // questions)
    names = np.array([f"m{i}" for i in range(len(strengths))])
    frame = pd.DataFrame({"query": query, "model_a": names[a], "model_b": names[b], "winner": winner})
    return pd.concat([frame] * copies, ignore_index=True)


def _ratings(table, names=None):
    by_name = table.set_index("model").rating
    return by_name[names or sorted(by_name.index)].to_numpy()


def _truth(strengths):
    return 1000 + POINTS * (np.array(strengths) - np.mean(strengths))


STRENGTHS = [1.2, 0.6, 0.0, -0.2, -0.9]


# --- the estimate ---


def test_two_models_by_hand():
    """3 wins of 4 are odds of 3: 400 log10(3) = 190.85 points."""
    table = bradley_terry(_battles(("p", "q", A), ("q", "p", B), ("p", "q", A), ("q", "p", A)))
    assert list(table.columns) == ["model", "rating", "low", "high", "rank_low", "rank_high"]
    assert list(table.model) == ["p", "q"]
    assert table.rating.to_list() == pytest.approx([1000 + 95.4242509, 1000 - 95.4242509], abs=1e-6)


@pytest.mark.parametrize("tie", [0.0, 0.7])
def test_the_estimate_is_choix_and_statsmodels(tie):
    choix, sm = pytest.importorskip("choix"), pytest.importorskip("statsmodels.api")
    battles = _arena(STRENGTHS, 30, 1, tie)
    ours = _ratings(bradley_terry(battles, n_bootstrap=1))
    place = {f"m{i}": i for i in range(5)}
    a, b = battles.model_a.map(place).to_numpy(), battles.model_b.map(place).to_numpy()
    wins = battles.winner.map({A: 1, TIE: 0.5, B: 0}).to_numpy()
    twice = [
        pair for i, j, w in zip(a, b, wins, strict=True) for pair in [(i, j)] * int(2 * w) + [(j, i)] * int(2 - 2 * w)
    ]
    assert ours == pytest.approx(_truth(choix.opt_pairwise(5, twice, tol=1e-12)), abs=1e-4)
    assert ours == pytest.approx(_truth(choix.ilsr_pairwise(5, twice, tol=1e-12)), abs=1e-6)
    design = np.eye(5)[a] - np.eye(5)[b]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels on half wins
        glm = sm.GLM(wins, design[:, 1:], family=sm.families.Binomial()).fit(tol=1e-14)
    assert ours == pytest.approx(_truth([0, *glm.params]), abs=1e-6)


def test_davidson_solves_his_likelihood_equations():
    battles = _arena(STRENGTHS, 40, 2, tie=0.8)
    names = [f"m{i}" for i in range(5)]

    def equations(parameters):
        """Wins plus half the ties of each model, and all ties: observed less expected (Davidson 1970, section 3)."""
        strength, tie = dict(zip(names, np.exp([0, *parameters[:-1]]), strict=True)), np.exp(parameters[-1])
        left = dict.fromkeys([*names, TIE], 0.0)
        for row in battles.itertuples():
            first, second = strength[row.model_a], strength[row.model_b]
            weights = np.array([first, tie * math.sqrt(first * second), second])
            off = np.array([row.winner == A, row.winner == TIE, row.winner == B]) - weights / weights.sum()
            left[row.model_a] += off[0] + off[1] / 2
            left[row.model_b] += off[2] + off[1] / 2
            left[TIE] += off[1]
        return [left[name] for name in [*names[1:], TIE]]

    solved = root(equations, np.zeros(5), tol=1e-13).x
    ours = _ratings(bradley_terry(battles, n_bootstrap=1, ties="davidson"))
    assert ours == pytest.approx(_truth([0, *solved[:-1]]), abs=1e-6)


def test_without_ties_both_tie_models_are_one():
    battles = _arena(STRENGTHS, 20, 3)
    half, davidson = (bradley_terry(battles, n_bootstrap=20, ties=ties) for ties in ("half", "davidson"))
    pd.testing.assert_frame_equal(half, davidson)


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_a_planted_order_is_recovered(ties):
    table = bradley_terry(_arena(STRENGTHS, 400, 4, tie=0.5), n_bootstrap=200, ties=ties)
    assert list(table.model) == ["m0", "m1", "m2", "m3", "m4"]
    if ties == "davidson":
        assert table.rating.to_numpy() == pytest.approx(_truth(STRENGTHS), abs=40)


def test_order_of_battles_and_places_do_not_matter():
    battles = _arena(STRENGTHS, 30, 5, tie=0.3)
    turned = battles.rename(columns={"model_a": "model_b", "model_b": "model_a"})
    turned["winner"] = turned.winner.map({A: B, B: A, TIE: TIE})
    other = bradley_terry(turned.sample(frac=1, random_state=0), n_bootstrap=1)
    assert _ratings(other) == pytest.approx(_ratings(bradley_terry(battles, n_bootstrap=1)), abs=1e-9)


def test_strong_imbalance_converges():
    """Odds of 100,000 along a chain: 400 x 5 points apart."""
    rows = [(a, b, w) for a, b in ("pq", "qr") for w in [A] * 100_000 + [B]]
    table = bradley_terry(_battles(*rows), n_bootstrap=2)
    assert table.rating.to_list() == pytest.approx([3000, 1000, -1000], abs=1e-6)


# --- intervals and ranks ---


def test_intervals_cover_the_truth_though_battles_of_a_question_repeat():
    """Every verdict counted twice: intervals that drew battles would be too narrow by the square root of 2."""
    strengths = [0.8, 0.2, -0.3, -0.7]
    truth = dict(zip(["m0", "m1", "m2", "m3"], _truth(strengths), strict=True))
    inside = []
    for seed in range(100):
        table = bradley_terry(_arena(strengths, 60, seed, copies=2), n_bootstrap=200, seed=seed)
        inside += [row.low <= truth[row.model] <= row.high for row in table.itertuples()]
    assert 0.91 <= np.mean(inside) <= 0.985  # 100 arenas: standard error about 0.013


def test_davidson_intervals_cover_the_truth():
    truth = dict(zip(["m0", "m1", "m2"], _truth([0.8, 0.0, -0.8]), strict=True))
    inside = []
    for seed in range(100):
        table = bradley_terry(_arena([0.8, 0.0, -0.8], 80, seed, tie=0.6), n_bootstrap=200, ties="davidson")
        inside += [row.low <= truth[row.model] <= row.high for row in table.itertuples()]
    assert 0.91 <= np.mean(inside) <= 0.985  # 100 arenas: standard error about 0.013


def test_intervals_are_those_of_drawing_questions():
    """300 resamples drawn and refitted one by one; widths agree within Monte-Carlo error."""
    choix = pytest.importorskip("choix")
    battles = _arena([0.7, 0.0, -0.7], 150, 6)
    won, lost = np.where(battles.winner == A, battles[["model_a", "model_b"]].T, battles[["model_b", "model_a"]].T)
    outcomes = [[(int(w[1:]), int(x[1:])) for w, x in zip(won, lost, strict=True)][i : i + 3] for i in range(0, 450, 3)]
    rng = np.random.default_rng(0)
    draws = [[pair for i in rng.integers(0, 150, 150) for pair in outcomes[i]] for _ in range(300)]
    points = 1000 + POINTS * np.array([choix.ilsr_pairwise(3, drawn) for drawn in draws])
    table = bradley_terry(battles, n_bootstrap=4000).set_index("model").sort_index()
    widths = np.ptp(np.quantile(points, [0.025, 0.975], axis=0), axis=0)
    assert (table.high - table.low).to_numpy() == pytest.approx(widths, rel=0.2)


def test_equal_seeds_give_equal_tables():
    battles = _arena(STRENGTHS, 20, 7)
    one, again, other = (bradley_terry(battles, n_bootstrap=50, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, again)
    assert not one.low.equals(other.low)


def test_ranks_of_clear_and_of_equal_models():
    """Two equal models above a far weaker one: places 1-2, 1-2, 3."""
    equal = [("p", "q", w) for w in (A, B)] * 20
    table = bradley_terry(_battles(*equal, *[(m, "r", w) for m in "pq" for w in [A] * 19 + [B]]), n_bootstrap=300)
    ranks = table.set_index("model")[["rank_low", "rank_high"]]
    assert ranks.loc["p"].to_list() == ranks.loc["q"].to_list() == [1, 2]
    assert ranks.loc["r"].to_list() == [3, 3]


def test_an_anchor_stands_at_1000_and_moves_only_the_zero():
    battles = _arena(STRENGTHS, 30, 8)
    free, held = bradley_terry(battles, n_bootstrap=20), bradley_terry(battles, n_bootstrap=20, anchor="m3")
    anchor = held.set_index("model").loc["m3"]
    assert (anchor.rating, anchor.low, anchor.high) == (1000, 1000, 1000)
    assert free.rating.mean() == pytest.approx(1000)
    assert np.ptp(free.rating - held.rating) == pytest.approx(0, abs=1e-9)
    assert free[["model", "rank_low", "rank_high"]].equals(held[["model", "rank_low", "rank_high"]])


# --- no finite rating, no chain, bad input ---


def test_an_undefeated_model_has_jeffreys_interval():
    """12 wins of 12: odds 12.5 to 0.5, and the chance of a win within the quantiles of Beta(12.5, 0.5)."""
    with pytest.warns(UserWarning, match=r"\['p'\].*half a win"):
        table = bradley_terry(_battles(*[("p", "q", A)] * 12), n_bootstrap=20_000, anchor="q")
    best = table.iloc[0]
    assert best.rating == pytest.approx(1000 + 400 * math.log10(25), abs=1e-6)
    chance = 1 / (1 + 10 ** (-(best.low - 1000) / 400))
    assert chance == pytest.approx(beta.ppf(0.025, 12.5, 0.5), abs=0.005)


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_undefeated_and_winless_models_are_named(ties):
    battles = _arena([0.4, 0.0, -0.4], 20, 9)
    for best in ("m0", "m1", "m2"):
        battles = pd.concat([battles, pd.DataFrame(_battles((best, "loser", A), ("top", best, A)))])
    with pytest.warns(UserWarning, match=r"\['loser'\].*\['top'\]|\['top'\].*\['loser'\]"):
        table = bradley_terry(battles, n_bootstrap=50, ties=ties)
    assert table.model.iloc[[0, -1]].to_list() == ["top", "loser"]
    assert np.isfinite(table[["rating", "low", "high"]].to_numpy()).all()


def test_davidson_needs_wins_that_contradict():
    """A win and a tie are fully explained at infinity by ties of their own; half a win has no such trouble."""
    rows = _battles(("p", "q", A), ("p", "q", TIE))
    assert bradley_terry(rows, n_bootstrap=5).rating[0] == pytest.approx(1000 + 200 * math.log10(3))
    with pytest.warns(UserWarning, match="none of"):
        assert np.isfinite(bradley_terry(rows, n_bootstrap=5, ties="davidson").rating).all()


def test_ties_only_are_equal_in_davidsons_model_too():
    rows = _battles(*[(a, b, TIE) for a, b in ("pq", "qr", "pr")] * 2)
    with pytest.warns(UserWarning, match="none of"):
        assert bradley_terry(rows, n_bootstrap=5, ties="davidson").rating.to_list() == pytest.approx([1000] * 3)


def test_models_that_never_met_are_named():
    rows = _battles(("p", "q", A), ("q", "p", A), ("r", "s", A), ("s", "r", A))
    for rate in (bradley_terry, lambda battles: budget_curve(battles, [2])):
        with pytest.raises(ValueError, match=r"\['p', 'q'\], \['r', 's'\]"):
            rate(rows)


@pytest.mark.parametrize("rate", [elo, bradley_terry])
@pytest.mark.parametrize(
    ("battles", "message"),
    [
        ([], "0 battles"),
        (_battles(("p", "p", A)), "two models"),
        (_battles(("p", "q", "INVALID")), "1 winners like 'INVALID'"),
        (_battles(("p", "q", None)), "1 winners like None"),
        (_battles(("p", None, A)), "1 battles have missing values"),
        ([{"model_a": "p", "winner": A}], "model_b"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*against itself")
def test_unusable_battles(rate, battles, message):
    with pytest.raises(ValueError, match=message):
        rate(battles)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"ties": "drop"}, "'drop'"), ({"anchor": "x"}, r"'x'.*\['p', 'q'\]"), ({"n_bootstrap": 0}, "n_bootstrap is 0")],
)
def test_unusable_options(options, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(_battles(("p", "q", A), ("q", "p", A)), **options)


def test_the_input_is_left_as_it_was():
    battles = _arena(STRENGTHS, 5, 10)
    before = battles.copy()
    bradley_terry(battles, n_bootstrap=2)
    pd.testing.assert_frame_equal(battles, before)


# --- Elo ---


def test_elo_constants_and_ties():
    """Equal models tie: nothing moves. Then k = 4 gives the winner 2 points."""
    assert elo(_battles(("p", "q", TIE))) == {"p": 1000, "q": 1000}
    assert elo(_battles(("p", "q", TIE), ("p", "q", B))) == {"p": 998, "q": 1002}


def test_elo_depends_on_the_order_and_keeps_its_sum():
    battles = _arena(STRENGTHS, 40, 11)
    shuffles = [elo(battles.sample(frac=1, random_state=seed), k=32) for seed in range(20)]
    assert np.ptp([ratings["m0"] for ratings in shuffles]) > 20
    assert [sum(ratings.values()) for ratings in shuffles] == pytest.approx([5000] * 20)


# --- length and position ---


def _with_lengths(seed, points_per_doubling, points_first, questions=300):
    """Equal models of which m1 writes twice as long as m0, judged by length and place only."""
    rng = np.random.default_rng(seed)
    frame = _arena([0.0, 0.0, 0.0], questions, seed)
    typical = {"m0": 50, "m1": 100, "m2": 70}
    for side in "ab":
        frame[f"length_{side}"] = frame[f"model_{side}"].map(typical) * np.exp(rng.normal(0, 0.5, len(frame)))
    logit = (points_per_doubling * np.log2(frame.length_a / frame.length_b) + points_first) / POINTS
    return frame.assign(winner=np.where(rng.random(len(frame)) < 1 / (1 + np.exp(-logit)), A, B))


def test_length_control_undoes_planted_biases():
    """Means over 20 arenas, whose standard errors are about 3 points each."""
    arenas = [_with_lengths(seed, points_per_doubling=150, points_first=60) for seed in range(20)]
    assert np.ptp(bradley_terry(arenas[0], n_bootstrap=1).rating) > 80
    fitted = [length_controlled(battles, n_bootstrap=1, terms=("length", "position")) for battles in arenas]
    assert list(fitted[0].terms.term) == ["length", "position"]
    assert np.mean([terms.points for _, terms in fitted], axis=0) == pytest.approx([150, 60], abs=12)
    assert np.mean([_ratings(ratings) for ratings, _ in fitted], axis=0) == pytest.approx([1000] * 3, abs=12)


def test_length_control_is_the_logistic_regression_with_errors_by_question():
    sm = pytest.importorskip("statsmodels.api")
    battles = _with_lengths(1, points_per_doubling=100, points_first=0)
    place = {"m0": 0, "m1": 1, "m2": 2}
    models = np.eye(3)[battles.model_a.map(place)] - np.eye(3)[battles.model_b.map(place)]
    design = np.column_stack([models[:, 1:], np.log2(battles.length_a / battles.length_b)])
    fitted = sm.GLM((battles.winner == A).astype(float), design, family=sm.families.Binomial()).fit(
        tol=1e-14, cov_type="cluster", cov_kwds={"groups": battles["query"].to_numpy()}
    )
    ratings, terms = length_controlled(battles, n_bootstrap=1000)
    assert _ratings(ratings) == pytest.approx(_truth([0, *fitted.params[:2]]), abs=1e-6)
    assert terms.points[0] == pytest.approx(POINTS * fitted.params.iloc[2], abs=1e-6)
    assert terms.high[0] - terms.low[0] == pytest.approx(2 * 1.96 * POINTS * fitted.bse.iloc[2], rel=0.1)


def test_without_terms_length_control_is_bradley_terry():
    battles = _with_lengths(2, 50, 0, questions=20)
    ratings = length_controlled(battles, n_bootstrap=1, terms=()).ratings
    assert _ratings(ratings) == pytest.approx(_ratings(bradley_terry(battles, n_bootstrap=1)), abs=1e-6)


def test_what_length_control_cannot_do():
    battles = _with_lengths(3, 50, 0, questions=20)
    with pytest.raises(ValueError, match="length_b"):
        length_controlled(battles.drop(columns="length_b"))
    with pytest.raises(ValueError, match="1 lengths are not above 0"):
        length_controlled(battles.assign(length_a=[0, *battles.length_a[1:]]))
    with pytest.raises(ValueError, match="'style'"):
        length_controlled(battles, terms=("style",))
    with pytest.raises(ValueError, match="cannot be told"):
        length_controlled(battles.assign(length_a=battles.length_b))
    with pytest.raises(ValueError, match="explain every battle"):
        length_controlled(battles.assign(winner=np.where(battles.length_a > battles.length_b, A, B)))
    with pytest.raises(ValueError, match=r"\['p'\].*leave"):
        length_controlled([{**row, "length_a": 1, "length_b": 2} for row in _battles(("p", "q", A))])


# --- budget ---


def test_the_budget_curve_rises_to_1():
    curve = budget_curve(_arena(STRENGTHS, 100, 12, tie=0.3), [10, 100, 1000], n_repeats=100)
    assert list(curve.columns) == ["n", "correlation", "low", "high"]
    assert list(curve.n) == [10, 100, 1000]
    assert curve.correlation.is_monotonic_increasing and curve.correlation[0] < 0.8
    assert curve.iloc[2, 1:].to_list() == pytest.approx([1, 1, 1])


def test_the_budget_curve_of_one_judgement_by_hand():
    """p beat q, q beat r, p beat r; of each only half is left by one tie more.

    One judgement, p over q say, gives p > r > q against p > q > r: correlation 0.5; q over r likewise 0.5 (q = p level
    off otherwise); p over r gives the right order, 1. Which of three is drawn has equal chances.
    """
    rows = _battles(("p", "q", A), ("q", "r", A), ("p", "r", A))
    expected = np.mean([spearmanr([3, 2, 1], drawn).statistic for drawn in ([3, 1, 2], [2, 3, 1], [3, 2, 1])])
    curve = budget_curve(rows, [1], n_repeats=3000)
    assert curve.correlation[0] == pytest.approx(expected, abs=0.02)
    assert (curve.low[0], curve.high[0]) == pytest.approx((0.5, 1))


def test_nothing_but_ties_correlates_0():
    curve = budget_curve(_battles(("p", "q", TIE), ("q", "p", TIE)), [1, 2], n_repeats=5)
    assert curve.correlation.to_list() == [0, 0]


@pytest.mark.parametrize("sizes", [[0], [3, 2, 1]])
def test_sizes_out_of_range(sizes):
    with pytest.raises(ValueError, match=r"sizes \[(0|3)\].*2 battles"):
        budget_curve(_battles(("p", "q", A), ("q", "p", A)), sizes)


def test_columns_may_be_categories():
    battles = pd.DataFrame({"query": [1, 2, 3], "model_a": ["a"] * 3, "model_b": ["b"] * 3})
    battles["winner"] = ["model_a", "model_b", "model_a"]
    categories = battles.astype(dict.fromkeys(["model_a", "model_b", "winner"], "category"))
    assert elo(categories) == elo(battles)
    pd.testing.assert_frame_equal(bradley_terry(categories, 50), bradley_terry(battles, 50), check_dtype=False)
