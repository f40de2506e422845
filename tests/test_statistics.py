"""Statistics against hand-computed values, statsmodels, scikit-learn, scipy and a plain bootstrap loop."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from rag_utils.statistics import (
    bootstrap_interval,
    cohen_kappa,
    holm,
    mcnemar_exact,
    minimum_detectable_gain,
    paired_bootstrap,
    wilson_interval,
)

# Wilson


@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_agrees_with_statsmodels(n, part, confidence):
    successes = round(part * n)
    expected = proportion_confint(successes, n, alpha=1 - confidence, method="wilson")
    assert wilson_interval(successes, n, confidence) == pytest.approx(expected, abs=1e-12)


def test_wilson_at_the_edges():
    assert wilson_interval(0, 20)[0] == 0.0
    assert wilson_interval(20, 20)[1] == 1.0
    assert all(math.isnan(limit) for limit in wilson_interval(0, 0))
    with pytest.raises(ValueError, match="21 successes of 20"):
        wilson_interval(21, 20)
    with pytest.raises(ValueError, match="confidence is 95"):
        wilson_interval(1, 20, 95)


# Bootstrap: the law is that of the plain loop


def loop_means(values, n_resamples, seed):
    rng = np.random.default_rng(seed)
    return np.array([values[rng.integers(0, len(values), len(values))].mean() for _ in range(n_resamples)])


def reciprocal_ranks(rng, n):
    ranks = rng.geometric(0.4, n)
    return np.where(ranks > 10, 0.0, 1 / ranks)


def samples():
    rng = np.random.default_rng(42)
    n = 700
    return {
        "hit differences": rng.choice([-1.0, 0.0, 1.0], n, p=[0.05, 0.8, 0.15]),
        "few hits": np.repeat([1.0, 0.0], [3, 60]),
        "one far away": np.repeat([0.0, 1.0, 50.0], [600, 300, 1]),
        "twelfths": rng.choice([-1 / 3, 0.0, 1 / 4, 1.0], n),
        "reciprocal ranks": reciprocal_ranks(rng, n) - reciprocal_ranks(rng, n),
        "floats": rng.gamma(0.5, size=n),
        "floats and zeros": np.where(rng.random(n) < 0.6, 0.0, rng.normal(1, 1, n)),
        "two outliers": np.append(np.repeat([0.0, 1.0], [300, 200]), [61.3, 77.9]),
        "two far apart": np.repeat([0.1, 1e6], [400, 300]),
        "tiny": rng.normal(size=3),
    }


@pytest.mark.parametrize("name", samples())
def test_intervals_follow_the_law_of_the_plain_loop(name):
    values = samples()[name]
    loop = loop_means(values, 4000, seed=1)
    low, high = bootstrap_interval(values, n_resamples=20_000, seed=2)
    # A quantile of the loop lies within its own Monte-Carlo error (5 standard errors in probability).
    for limit, share in ((low, 0.025), (high, 0.975)):
        error = 5 * math.sqrt(share * (1 - share) * (1 / 4000 + 1 / 20_000))
        lower, upper = np.quantile(loop, [max(0, share - error), min(1, share + error)])
        assert lower - 1e-9 <= limit <= upper + 1e-9


@pytest.mark.parametrize("name", ["hit differences", "twelfths", "reciprocal ranks", "floats"])
def test_resampled_means_have_the_exact_mean_and_deviation_of_the_bootstrap(name):
    values = samples()[name]
    quarter_to_quarter = [bootstrap_interval(values, confidence=c, n_resamples=50_000, seed=3) for c in (0.5, 0.6827)]
    deviation = values.std() / math.sqrt(len(values))
    widths = [(high - low) / 2 / deviation for low, high in quarter_to_quarter]
    lattice = (
        1 / len(values) / deviation if name == "hit differences" else 0
    )  # limits of a discrete law lie on its grid
    assert widths == pytest.approx([0.6745, 1.0], abs=0.02 + lattice)


def test_small_bootstrap_against_all_resamples_counted_out():
    """Three values have 27 equally likely resamples; the 5th and 95th percentiles follow by counting them."""
    values = np.array([0.0, 1.0, 5.0])
    everything = np.sort([np.mean([a, b, c]) for a in values for b in values for c in values])
    low, high = bootstrap_interval(values, confidence=0.8, n_resamples=50_000)
    assert (low, high) == pytest.approx((everything[2], everything[24]))


def test_bootstrap_agrees_with_scipy():
    rng = np.random.default_rng(7)
    a, b = reciprocal_ranks(rng, 400), reciprocal_ranks(rng, 400)
    peer = stats.bootstrap(
        (a, b), lambda x, y, axis: (x - y).mean(axis), paired=True, method="percentile", n_resamples=10_000, rng=0
    ).confidence_interval
    ours = paired_bootstrap(a, b)
    assert ours.difference == pytest.approx((a - b).mean())
    assert (ours.low, ours.high) == pytest.approx((peer.low, peer.high), abs=0.05 * (peer.high - peer.low))


@given(st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0]), min_size=1, max_size=60), st.integers(0, 5))
def test_bootstrap_invariants(values, seed):
    low, high = bootstrap_interval(values, n_resamples=500, seed=seed)
    assert bootstrap_interval(values, n_resamples=500, seed=seed) == (low, high)
    assert bootstrap_interval(values[::-1], n_resamples=500, seed=seed) == (low, high)
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12


def test_seed_changes_the_draws():
    values = np.random.default_rng(0).normal(size=50)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_equal_values_give_no_width_and_none_gives_nan():
    assert bootstrap_interval([0.1] * 3) == (0.1, 0.1)
    assert all(math.isnan(limit) for limit in bootstrap_interval([]))
    assert all(math.isnan(value) for value in paired_bootstrap([], []))


def test_unusable_values_are_counted_and_unpaired_ones_refused():
    with pytest.raises(ValueError, match="2 of 4 values are NaN"):
        bootstrap_interval([1.0, math.nan, math.inf, 0.0])
    with pytest.raises(ValueError, match="1 of 2 values are NaN"):
        paired_bootstrap([1.0, 0.0], [1.0, math.nan])
    with pytest.raises(ValueError, match="2 values against 1"):
        paired_bootstrap([1.0, 0.0], [1.0])


def test_paired_bootstrap_of_a_system_with_itself_and_of_a_clear_winner():
    values = np.random.default_rng(0).random(200)
    assert paired_bootstrap(values, values) == (0.0, 0.0, 0.0, 1.0)
    better = paired_bootstrap(values + 0.1, values)
    assert better.p == 2 / 10_001
    assert better.low == pytest.approx(0.1)


def test_paired_bootstrap_turned_round_turns_signs_only():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    ours, back = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert ours.difference == -back.difference
    assert (ours.low, ours.high) == pytest.approx((-back.high, -back.low), abs=0.01)
    assert ours.p == pytest.approx(back.p, abs=0.03)


def test_p_is_close_to_mcnemar_on_many_hits_and_uniform_without_a_difference():
    gains, losses, n = 80, 50, 2000
    differences = np.repeat([1.0, -1.0, 0.0], [gains, losses, n - gains - losses])
    p = paired_bootstrap(differences, np.zeros(n)).p
    assert p == pytest.approx(mcnemar_exact(gains, losses), abs=0.006)
    rng = np.random.default_rng(9)
    null = [paired_bootstrap(rng.normal(size=80), np.zeros(80), n_resamples=400).p for _ in range(400)]
    assert 0.02 < np.mean(np.array(null) <= 0.05) < 0.10


def test_p_below_alpha_exactly_when_the_interval_excludes_zero():
    rng = np.random.default_rng(4)
    for shift in np.linspace(-0.4, 0.4, 41):
        result = paired_bootstrap(rng.normal(shift, 1, 100), np.zeros(100), n_resamples=2000)
        if abs(result.p - 0.05) > 0.003:
            assert (result.p < 0.05) == (result.low > 0 or result.high < 0)


def test_10_000_resamples_of_10_000_questions_take_less_than_a_second():
    a, b = np.random.default_rng(0).normal(size=(2, 10_000))

    def seconds():
        begin = time.process_time()
        paired_bootstrap(a, b)
        return time.process_time() - begin

    assert any(seconds() < 1.0 for _ in range(3))  # a busy machine may spoil one


# McNemar, Holm, minimum detectable gain


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_agrees_with_statsmodels_and_exact_fractions(gains, losses):
    assume(gains + losses)
    expected = mcnemar([[0, gains], [losses, 0]], exact=True).pvalue
    assert mcnemar_exact(gains, losses) == pytest.approx(expected, rel=1e-12)
    assert mcnemar_exact(gains, losses) == mcnemar_exact(losses, gains)
    n = gains + losses
    upper = sum(Fraction(math.comb(n, i), 2**n) for i in range(gains, n + 1))
    assert mcnemar_exact(gains, losses, alternative="greater") == pytest.approx(float(upper), rel=1e-12)


def test_mcnemar_edges():
    assert mcnemar_exact(0, 0) == mcnemar_exact(0, 0, alternative="greater") == 1.0
    assert mcnemar_exact(4, 4) == 1.0
    assert mcnemar_exact(4000, 3000, alternative="greater") < 1e-30
    with pytest.raises(ValueError, match="-1 losses"):
        mcnemar_exact(1, -1)
    with pytest.raises(ValueError, match="'less'"):
        mcnemar_exact(1, 1, alternative="less")


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 20])
def test_holm_agrees_with_statsmodels(n):
    p_values = list(np.random.default_rng(n).choice([0.0, 0.001, 0.01, 0.02, 0.03, 0.2, 1.0], n))
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1], abs=1e-12)


def test_holm_leaves_undefined_tests_out():
    adjusted = holm([0.02, math.nan, 0.01])
    assert adjusted[0] == adjusted[2] == 0.02
    assert math.isnan(adjusted[1])
    assert holm([]) == []
    with pytest.raises(ValueError, match=r"p is 1\.2"):
        holm([0.1, 1.2])


def test_minimum_detectable_gain_by_hand():
    assert minimum_detectable_gain(800) == 5 / 800  # (1/2)^5 = .031 but (1/2)^4 = .063
    assert minimum_detectable_gain(800, n_tests=4) == 7 / 800  # .05 / 4 = .0125 and (1/2)^7 = .0078
    assert minimum_detectable_gain(1000, alternative="two-sided") == 6 / 1000
    assert math.isnan(minimum_detectable_gain(4))
    assert math.isnan(minimum_detectable_gain(10, losses=10))
    with pytest.raises(ValueError, match="11 losses of 10"):
        minimum_detectable_gain(10, losses=11)


@given(st.integers(20, 300), st.integers(0, 10), st.integers(1, 8), st.sampled_from(["greater", "two-sided"]))
def test_minimum_detectable_gain_is_the_smallest(n, losses, n_tests, alternative):
    gain = minimum_detectable_gain(n, losses=losses, n_tests=n_tests, alternative=alternative)
    most = n - losses
    if math.isnan(gain):
        assert holm([mcnemar_exact(most, losses, alternative=alternative)] + [1.0] * (n_tests - 1))[0] > 0.05
        return
    gains = round(gain * n) + losses
    by_gains = [mcnemar_exact(g, losses, alternative=alternative) for g in (gains - 1, gains)]
    assert [holm([p] + [1.0] * (n_tests - 1))[0] <= 0.05 for p in by_gains] == [False, True]


# Kappa


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_agrees_with_scikit_learn(weights):
    rng = np.random.default_rng(6)
    for size in (5, 40, 400):
        a, b = rng.integers(1, 5, size), rng.integers(1, 4, size)
        assert cohen_kappa(a, b, weights=weights) == pytest.approx(cohen_kappa_score(a, b, weights=weights))
        order = [3, 1, 2, 4]
        assert cohen_kappa(a, b, weights=weights, labels=order) == pytest.approx(
            cohen_kappa_score(a, b, weights=weights, labels=order)
        )


def test_weighted_kappa_by_hand():
    # One disagreement of cost 1 among 4; by chance, each pair of unequal labels with its cost (counts 2 1 1 by 1 2 1).
    a, b = ["low", "low", "mid", "high"], ["low", "mid", "mid", "high"]
    chance = Fraction(2 * 2 * 1 + 2 * 1 * 2 + 1 * 1 * 1 + 1 * 1 * 1 + 1 * 1 * 2 + 1 * 2 * 1, 16)
    assert cohen_kappa(a, b, weights="linear", labels=["low", "mid", "high"]) == pytest.approx(
        float(1 - Fraction(1, 4) / chance)
    )


def test_kappa_is_undefined_without_variety_and_defined_for_labels_of_any_kind():
    assert math.isnan(cohen_kappa(["A"] * 3, ["A"] * 3))
    assert math.isnan(cohen_kappa([], []))
    assert cohen_kappa(["A", None, 1], ["A", None, 1]) == 1.0
    assert cohen_kappa([1, 2], [2, 1]) == -1.0
    with pytest.raises(ValueError, match=r"\['9'\] are not among \[1, 2\]"):
        cohen_kappa([1, 9], [1, 2], labels=[1, 2])
    with pytest.raises(ValueError, match="1 labels against 2"):
        cohen_kappa([1], [1, 2])
    with pytest.raises(ValueError, match="'cubic'"):
        cohen_kappa([1, 2], [1, 2], weights="cubic")
