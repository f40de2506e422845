"""Bradley-Terry with 1,000 bootstraps of 77,000 battles: the usual logistic regressions against `bradley_terry`.

Run: python tests/benchmarks/ratings.py   (make bench NAME=ratings)

The usual way draws battles, counts them in pivot tables of pandas, and has scikit-learn fit a weighted logistic
regression in which a tie is half a win for each, once a resample. It is timed on `REFITTED` resamples a round and
multiplied. It draws battles and ours questions: as many resamples of another unit. Exit status 1 below the goal, above
`SECONDS` of processor time (the clock's depends on what else runs), or when estimates from all battles differ by more
than a tenth of a point.
"""

import itertools
import math
import sys
import time

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from rag_utils.arena import bradley_terry

MODELS = 11
QUESTIONS = 1_400
RESAMPLES = 1_000
REFITTED = 3
ROUNDS = 5
GOAL = 500
SECONDS = 1.0
POINTS = 0.1


def made_up_battles() -> pd.DataFrame:
    """Every pair on every question, places at random, about an eighth of them ties."""
    rng = np.random.default_rng(0)
    strengths = rng.normal(0, 1, MODELS)
    pairs = np.tile([*itertools.combinations(range(MODELS), 2)], (QUESTIONS, 1))
    a, b = np.where(rng.random(len(pairs)) < 0.5, pairs.T, pairs.T[::-1])
    odds = np.exp((strengths[a] - strengths[b]) / 2)
    chance = rng.random(len(pairs)) * (odds + 1 / odds + 0.3)
    winner = np.select([chance < odds, chance < odds + 0.3], ["model_a", "tie"], "model_b")
    names = np.array([f"model {i}" for i in range(MODELS)])
    query = np.repeat(np.arange(QUESTIONS), len(pairs) // QUESTIONS)
    return pd.DataFrame({"query": query, "model_a": names[a], "model_b": names[b], "winner": winner})


def refitted(battles: pd.DataFrame) -> pd.Series:
    """The peer: pivot tables of wins, then one weighted row for each ordered pair and side."""
    models = sorted({*battles.model_a, *battles.model_b})
    wins = pd.DataFrame(0.0, models, models)
    for winner, loser, outcome, worth in [
        ("model_a", "model_b", "model_a", 1),
        ("model_b", "model_a", "model_b", 1),
        ("model_a", "model_b", "tie", 0.5),
        ("model_b", "model_a", "tie", 0.5),
    ]:
        part = battles[battles.winner == outcome]
        table = pd.pivot_table(part, index=winner, columns=loser, aggfunc="size", fill_value=0)
        wins += worth * table.reindex(index=models, columns=models, fill_value=0)
    rows, labels, weights = [], [], []
    for i, j in itertools.combinations(range(len(models)), 2):
        row = np.zeros(len(models))
        row[i], row[j] = 1, -1
        rows += [row, row]
        labels += [1, 0]
        weights += [wins.iloc[i, j], wins.iloc[j, i]]
    fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-6)
    strengths = fit.fit(np.array(rows), labels, sample_weight=weights).coef_[0]
    return pd.Series(1000 + 400 / math.log(10) * (strengths - strengths.mean()), models)


def bench() -> bool:
    """Interleave the two, print the median ratio, and say whether speed and estimates hold."""
    battles = made_up_battles()
    bradley_terry(battles.head(1_000), n_bootstrap=2)  # imports are not timed
    slow, fast, processor = [], [], []
    for seed in range(ROUNDS):
        begin = time.perf_counter()
        for i in range(REFITTED):
            refitted(battles.sample(frac=1, replace=True, random_state=REFITTED * seed + i))
        slow.append((time.perf_counter() - begin) * RESAMPLES / REFITTED)
        begin, begin_processor = time.perf_counter(), time.process_time()
        ours = bradley_terry(battles, n_bootstrap=RESAMPLES, seed=seed)
        fast.append(time.perf_counter() - begin)
        processor.append(time.process_time() - begin_processor)
    ratio = float(np.median(np.divide(slow, fast)))
    off = float((ours.set_index("model").rating - refitted(battles)).abs().max())
    print(
        f"{len(battles):,} battles, {RESAMPLES:,} bootstraps: logistic regressions {np.median(slow):.0f} s ({REFITTED} "
        f"resamples timed x {RESAMPLES / REFITTED:.0f}), ours {np.median(fast):.2f} s, median ratio {ratio:,.0f} "
        f"(goal {GOAL}, {ROUNDS} rounds)\n"
        f"  processor time of ours {np.median(processor):.2f} s (goal {SECONDS})\n"
        f"  ratings from all battles differ by at most {off:.4f} points (allowed {POINTS})"
    )
    return ratio >= GOAL and np.median(processor) <= SECONDS and off <= POINTS


if __name__ == "__main__":
    sys.exit(0 if bench() else 1)
