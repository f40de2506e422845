"""Is the judge right: agreement with people, biases of place and length, and win rates corrected by human labels.

Votes are +1 (the first answer is better), 0 (tie), -1 (the second), None (no usable verdict).
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from rag_utils.arena.judging import Pair, win_rates
from rag_utils.indexing import words
from rag_utils.schema import Verdict
from rag_utils.statistics import bootstrap_interval, mcnemar_exact, wilson_interval

Vote = int | None
_OF_VERDICT = {Verdict.WIN: 1, Verdict.TIE: 0, Verdict.LOSS: -1, Verdict.INVALID: None}
_OF_VOTE = {vote: verdict for verdict, vote in _OF_VERDICT.items()}
_UNLIKE = 1 - np.eye(4)
_STEPS = abs(np.subtract.outer(range(3), range(3)))
"""What unequal votes cost, all alike, or by their distance without None; places are those of `_OF_VOTE`."""


def as_votes(verdicts: Sequence[Verdict]) -> list[Vote]:
    """Verdicts as +1, 0, -1; INVALID as None."""
    return [_OF_VERDICT[verdict] for verdict in verdicts]


def as_verdicts(votes: Sequence[Vote]) -> list[Verdict]:
    """Votes as verdicts, as `win_rates` and `length_bias` take them."""
    return [_OF_VOTE[vote] for vote in votes]


def agreement(human: Sequence[int], judge: Sequence[Vote], n_bootstrap: int = 1000, seed: int = 0) -> pd.DataFrame:
    """How well a judge agrees with people about the same pairs.

    `accuracy` is the share of equal votes; `kappa` is Cohen's, `kappa_weighted` his with linear weights (a tie is half
    as far from a win as a loss is); `pearson` is the correlation of the numbers; `alpha` is Krippendorff's for nominal
    data. A None is wrong in `accuracy` and a category of its own in `kappa` and `alpha`; `kappa_weighted` and `pearson`
    leave it out, and their n with it.

    Args:
        human: Votes of people, None not among them.
        judge: Votes of the judge.
        n_bootstrap: Resamples of pairs.
        seed: Of the bootstrap.

    Returns:
        Columns `metric, value, low, high, n`; 95 % intervals by Wilson for the accuracy, else percentiles of the
        bootstrap without resamples where the metric is undefined. Undefined (NaN) are chance-corrected metrics when
        both sides gave one and the same vote throughout, and `pearson` when either did.

    Raises:
        ValueError: Unequal lengths or another vote.

    Source: RAG-QA Arena (arXiv 2407.13998), section 6.2, for Pearson and kappa; Krippendorff, Content Analysis (1980).
    """
    counts = _counts(human, judge)
    n, rated = int(counts.sum()), int(counts[:, :3].sum())
    drawn = np.random.default_rng(seed).multinomial(n, counts.ravel() / max(n, 1), size=n_bootstrap)
    tables = np.concatenate([counts[None], drawn.reshape(-1, 3, 4)]).astype(float)
    square = np.pad(tables, ((0, 0), (0, 1), (0, 0)))  # people never vote None
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {
            "kappa": (_kappas(square, _UNLIKE), n),
            "kappa_weighted": (_kappas(tables[:, :, :3], _STEPS), rated),
            "pearson": (_pearsons(tables[:, :, :3]), rated),
            "alpha": (_alphas(square), n),
        }
    hits = int(np.trace(counts))
    rows = [("accuracy", hits / n if n else math.nan, *wilson_interval(hits, n), n)]
    rows += [(metric, of[0], *_limits(of), count) for metric, (of, count) in values.items()]
    return pd.DataFrame(rows, columns=["metric", "value", "low", "high", "n"])


def confusion(human: Sequence[int], judge: Sequence[Vote]) -> pd.DataFrame:
    """Pairs by human vote (rows) and the judge's (columns): win, tie, loss, and invalid."""
    names = [verdict.value for verdict in _OF_VERDICT]
    return pd.DataFrame(_counts(human, judge), index=names[:3], columns=names)


def majority(*votes: Sequence[Vote]) -> list[Vote]:
    """What more than half of the voters, one sequence each, said of every pair; where there is no such, a tie."""
    result: list[Vote] = []
    for ballot in zip(*votes, strict=True):
        vote, n = Counter(ballot).most_common(1)[0]
        result.append(vote if 2 * n > len(ballot) else 0)
    return result


def ceiling(*annotators: Sequence[int], n_bootstrap: int = 1000, seed: int = 0) -> pd.DataFrame:
    """People against each other, which no judge can be asked to surpass: `agreement` of every two, by `system`."""
    tables = [
        agreement(annotators[a], annotators[b], n_bootstrap, seed).assign(system=f"annotators {a + 1}-{b + 1}")
        for a, b in combinations(range(len(annotators)), 2)
    ]
    return pd.concat(tables, ignore_index=True)[["system", "metric", "value", "low", "high", "n"]]


def position_bias(first: Sequence[Verdict], second: Sequence[Verdict] | None = None, seed: int = 0) -> pd.DataFrame:
    """Whether the judge prefers the place and not the answer.

    Args:
        first: Verdicts as seen, that is, on the answer that was shown first.
        second: The same pairs as seen with the answers swapped; None if each was shown once, in an order by lot.
        seed: Of the bootstrap.

    Returns:
        Columns `metric, value, low, high, n, dropped, p`. `first_slot` is the rate at which the first place won, a tie
        counting half: 0.5 is no bias. Its interval is a bootstrap over pairs, its p an exact sign test over the pairs
        that lean to either place. `inconsistent` (with both orders) is the share of pairs not judged alike in both.
        A pair with an INVALID verdict is dropped.
    """
    orders = [first] if second is None else [first, second]
    seen = [ballot for ballot in zip(*map(as_votes, orders), strict=True) if None not in ballot]
    leans = np.array([sum(ballot) for ballot in seen])  # type: ignore[arg-type]
    rates, dropped = (1 + leans / len(orders)) / 2, len(first) - len(seen)
    value = rates.mean() if len(seen) else math.nan
    p = mcnemar_exact(int((leans > 0).sum()), int((leans < 0).sum()))
    rows = [("first_slot", value, *bootstrap_interval(rates, seed=seed), len(seen), dropped, p)]
    if second is not None:
        unlike, n = int(np.count_nonzero(leans)), len(seen)
        rows.append(("inconsistent", unlike / n if n else math.nan, *wilson_interval(unlike, n), n, dropped, math.nan))
    return pd.DataFrame(rows, columns=["metric", "value", "low", "high", "n", "dropped", "p"])


def length_bias(pairs: Sequence[Pair], verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """`win_rates` of "all" pairs and of four groups, Q1 to Q4, in which the first answer is ever longer.

    The column `ratio` is the median of (1 + words of the first answer) / (1 + words of the second). A rate that rises
    with it may be bias or merit: compare it with that of human votes.
    """
    ratios = np.array([(1 + len(words(first))) / (1 + len(words(second))) for _, first, second in pairs])
    order = np.argsort(ratios, kind="stable")
    quartiles = {f"Q{n}": part for n, part in enumerate(np.array_split(order, 4), 1) if part.size}
    groups = [name for name, part in quartiles.items() for _ in part]
    medians = {name: float(np.median(ratios[part])) for name, part in {"all": order, **quartiles}.items() if part.size}
    table = win_rates([verdicts[i] for i in order], groups)
    return table.assign(ratio=table["group"].map(medians))


def corrected_win_rates(human: Sequence[Vote], judge: Sequence[Vote]) -> pd.DataFrame:
    """Win rates that people would give, from few of their votes and many of a judge's, however biased the judge is.

    Prediction-powered inference: the judge's rate over pairs without a human vote, plus the judge's mean error where
    there is one; the judge weighs as much as it helps. Pairs with a human vote must be a random sample of all. The
    interval is that with one more vote for each combination of human and judge (as Agresti and Coull do for shares),
    since an error that was not seen yet may still exist.

    Args:
        human: Votes of people; None where nobody was asked.
        judge: Votes of the judge on the same pairs; None counts as neither win nor tie, which the correction covers.

    Returns:
        Columns `metric, value, low, high, n` with the metrics `win` and `win_tie`, 95 % intervals.

    Raises:
        ValueError: Unequal lengths, another vote, or fewer than two human votes.

    Source: Angelopoulos, Duchi & Zrnic, PPI++, arXiv 2311.01453; Agresti & Coull, American Statistician 52 (1998).
    """
    people, machine = _numbers(human, judge)
    known = ~np.isnan(people)
    if known.sum() < 2:
        raise ValueError(f"{known.sum()} human votes: at least 2 are needed, and some 50 to be of use")
    rows = []
    for metric, least in (("win", 1), ("win_tie", 0)):
        truth, guess = (people[known] >= least).astype(float), (machine >= least).astype(float)
        rows.append((metric, *_prediction_powered(truth, guess[known], guess[~known]), len(human)))
    return pd.DataFrame(rows, columns=["metric", "value", "low", "high", "n"])


def _prediction_powered(truth: np.ndarray, guess: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Value and limits of the mean truth, from guesses of it where it is known and of the others."""
    from scipy.special import stdtrit

    value, _ = _corrected_mean(truth, guess, others)
    middle, error = _corrected_mean(np.append(truth, [1, 1, 0, 0]), np.append(guess, [1, 0, 1, 0]), others)
    half = error * float(stdtrit(len(truth) + 3, 0.975))
    return min(max(value, 0.0), 1.0), max(0.0, middle - half), min(1.0, middle + half)


def _corrected_mean(truth: np.ndarray, guess: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Estimate and standard error."""
    n, n_others = len(truth), len(others)
    spread = np.append(guess, others).var(ddof=1)
    if n_others and spread:
        weight = min(max(np.cov(truth, guess)[0, 1] / (1 + n / n_others) / spread, 0.0), 1.0)
        shift, variance = weight * others.mean(), weight**2 * spread / n_others
    else:
        weight = shift = variance = 0.0
    errors = truth - weight * guess
    return float(errors.mean() + shift), math.sqrt(variance + errors.var(ddof=1) / n)


def _counts(human: Sequence[int], judge: Sequence[Vote]) -> np.ndarray:
    """Pairs by human vote and the judge's, in the order of `_OF_VOTE`, (3, 4)."""
    people, machine = _numbers(human, judge)
    if np.isnan(people).any():
        raise ValueError(f"{np.isnan(people).sum()} human votes are None: leave those pairs out and count them")
    counts = np.zeros((3, 4), dtype=int)
    np.add.at(counts, ((1 - people).astype(int), np.where(np.isnan(machine), 3, 1 - machine).astype(int)), 1)
    return counts


def _numbers(human: Sequence[Vote], judge: Sequence[Vote]) -> tuple[np.ndarray, np.ndarray]:
    """Votes as arrays, None as NaN."""
    if len(human) != len(judge):
        raise ValueError(f"{len(human)} human votes against {len(judge)} of the judge: give both for every pair")
    people, machine = np.array(human, dtype=float), np.array(judge, dtype=float)
    for votes in (people, machine):
        unknown = votes[~(np.isin(votes, (1, 0, -1)) | np.isnan(votes))]
        if unknown.size:
            raise ValueError(f"vote {unknown[0]:g}: votes are 1 (first answer), 0 (tie), -1 (second) and None")
    return people, machine


def _kappas(tables: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Cohen's kappa of many tables (n, k, k) at once; `statistics.cohen_kappa` is that of two sequences."""
    chance = np.einsum("ni,nj,ij->n", tables.sum(axis=2), tables.sum(axis=1), cost)
    return 1 - (tables * cost).sum(axis=(1, 2)) * tables.sum(axis=(1, 2)) / chance


def _alphas(tables: np.ndarray) -> np.ndarray:
    """Krippendorff's alpha: kappa with each pair of votes counted both ways, corrected for a small sample."""
    coincidences = tables + tables.transpose(0, 2, 1)
    return 1 - (1 - _kappas(coincidences, _UNLIKE)) * (1 - 1 / coincidences.sum(axis=(1, 2)))


def _pearsons(tables: np.ndarray) -> np.ndarray:
    vote, n = np.array([1, 0, -1]), tables.sum(axis=(1, 2))
    rows, columns, both = tables.sum(axis=2), tables.sum(axis=1), np.einsum("nij,i,j->n", tables, vote, vote)
    spread = [n * (side @ vote**2) - (side @ vote) ** 2 for side in (rows, columns)]
    return (n * both - (rows @ vote) * (columns @ vote)) / np.sqrt(spread[0] * spread[1])


def _limits(values: np.ndarray) -> tuple[float, float]:
    """Of a value and its resamples."""
    drawn = values[1:][np.isfinite(values[1:])]
    if np.isnan(values[0]) or not drawn.size:
        return math.nan, math.nan
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return low, high
