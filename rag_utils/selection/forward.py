"""Stepwise forward selection with paired tests: the outline of MetaGen Blended RAG, section 3.2.2, made exact.

The paper leaves open the test, the level, the order and the split. Here: one-sided exact McNemar on hits, Holm over the
candidates of an iteration, the largest gain first, and test questions that are looked at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rag_utils.selection.comparison import Evaluate, Values, asked_once, compared, passes
from rag_utils.statistics import holm, paired_bootstrap, wilson_interval

Pair = tuple[np.ndarray, np.ndarray]
"""Values of the same questions with a stream and without it."""

PATH = "iteration step stream gain low high b c p p_holm chosen failed cost n".split()
CONFIRMED = "set streams dev test gain_dev gain_test low high p optimism n_dev n_test".split()


class _Rules(NamedTuple):
    alpha: float | None
    min_gain: float
    strategy: str
    backward: bool
    costs: Mapping[str, float]
    correction: str
    n_resamples: int = 10_000


def forward_selection(
    streams: Sequence[str],
    evaluate: Evaluate,
    *,
    alpha: float | None = 0.05,
    min_gain: float = 0.002,
    strategy: str = "best_first",
    backward: bool = False,
    costs: Mapping[str, float] | None = None,
    correction: str = "holm",
) -> "Selection":
    """Starts from no stream and adds streams as long as one brings a significant gain.

    In each iteration every stream left is tried beside those selected. Hits (all values 0 or 1) are compared by the
    one-sided exact McNemar test on the questions won and lost, other scores by the paired bootstrap.

    Args:
        streams: Distinct names of the candidates.
        evaluate: A tuple of streams, in the order of `streams`, to one hit (bool) or score (float) a question. It is
            asked once for a set. `DevRows` makes one; a plain callable will do.
        alpha: Level of the tests; None tests nothing and takes any gain above 0.
        min_gain: Smallest mean gain that counts, in the unit of the values (0.002 = 2 questions in 1,000).
        strategy: "best_first" adds the largest gain, ties by cost, then by name, and goes on; "one_pass" stops after
            the first iteration with all that passed there, each by itself: it does not see what two have in common.
        backward: After each addition drop, weakest first, what is not significantly better than its removal (without a
            test: what gains nothing). A dropped stream does not come back.
        costs: Cost of each stream, in any unit; None = all alike.
        correction: "holm" over the candidates of an iteration; "spending" in addition halves the level at each
            iteration, alpha / 2^i, so that all iterations together keep to alpha; "none".

    Returns:
        The selected streams with the path to them. A stream whose evaluation holds a NaN is reported there as failed,
        and not tried again.

    Raises:
        ValueError: An argument out of range, a stream twice or without a cost, values that are not one a question, or a
            NaN without any stream, which is what everything is compared with.
    """
    if isinstance(streams, str) or len(set(streams)) < len(streams):
        raise ValueError(f"streams = {streams!r}: give a list of distinct names")
    if not (alpha is None or 0 < alpha < 1) or not min_gain >= 0:
        raise ValueError(f"alpha = {alpha}, min_gain = {min_gain}: need 0 < alpha < 1 (None = no test), min_gain >= 0")
    for value, known in ((strategy, ("best_first", "one_pass")), (correction, ("holm", "spending", "none"))):
        if value not in known:
            raise ValueError(f"{value!r} is not known: choose {' or '.join(map(repr, known))}")
    costs = dict.fromkeys(streams, 0.0) if costs is None else costs
    unpriced = [stream for stream in streams if stream not in costs]
    if unpriced:
        raise ValueError(f"costs has no entry for {unpriced[0]!r}: give every stream a cost, or none")
    names, rules = tuple(streams), _Rules(alpha, min_gain, strategy, backward, costs, correction)
    return Selection(names, asked_once(evaluate, names), rules)


class Selection:
    """What `forward_selection` chose, and why.

    Attributes:
        selected: Streams in the order they were added.
        stopped_because: In words.
    """

    def __init__(self, streams: tuple[str, ...], values: Values, rules: _Rules):
        unusable = np.count_nonzero(~np.isfinite(values(())))
        if unusable:
            raise ValueError(f"{unusable} values without any stream are NaN or infinite: leave those questions out")
        self._streams, self._values, self._rules = streams, values, rules
        self.selected: tuple[str, ...] = ()
        self.stopped_because = ""
        self._left, self._confirmed = list(streams), False
        self._iteration, self._rows = 0, list[dict[str, Any]]()
        while not self.stopped_because:
            self._iteration += 1
            if self._add() and rules.backward:
                self._drop()

    def __repr__(self) -> str:
        return f"Selection(selected={self.selected}, stopped_because={self.stopped_because!r})"

    @cached_property
    def path(self) -> pd.DataFrame:
        """Every comparison made, in order.

        Columns: `iteration` from 1; `step`, "forward" (with the stream against without it) or "backward" (what a
        selected stream adds to the others); `stream`; the mean `gain` with its 95 % interval `low`, `high` (paired
        bootstrap); the questions won, `b`, and lost, `c`; the one-sided `p` and, corrected, `p_holm` (NaN where nothing
        was tested); `chosen`, in the set after this step; `failed`, the reason or ""; `cost`; `n` questions.
        """
        return pd.DataFrame(self._rows, columns=PATH)

    def stability(self, n_resamples: int = 200, seed: int = 0) -> pd.DataFrame:
        """How often each stream is selected when the questions are drawn anew, with replacement.

        Hits known are used again; only a set that was never tried is evaluated. Drawing anew repeats the luck of the
        sample, so a stream without effect comes in more often than `alpha`.

        Returns:
            Columns `stream`, `share` of the resamples, its 95 % interval `low`, `high` (Wilson) and `n` resamples.
        """
        rules, n, rng = self._rules._replace(n_resamples=1_000), len(self._values(())), np.random.default_rng(seed)

        def selected(drawn: np.ndarray) -> tuple[str, ...]:
            return Selection(self._usable, lambda streams: self._values(streams)[drawn], rules).selected

        counts = Counter(stream for _ in range(n_resamples) for stream in selected(rng.integers(n, size=n)))
        shares = {stream: counts[stream] / n_resamples for stream in self._streams}
        table = [(s, share, *wilson_interval(counts[s], n_resamples), n_resamples) for s, share in shares.items()]
        return pd.DataFrame(table, columns=["stream", "share", "low", "high", "n"])

    def confirm(self, evaluate_test: Evaluate) -> pd.DataFrame:
        """The one look at the test questions: no streams, the selected ones, and all (that did not fail).

        Args:
            evaluate_test: As `evaluate`, on questions that selection has not seen (`HeldOutRows`).

        Returns:
            A row a set: `set`; `streams`; the means `dev` and `test`; against no streams `gain_dev` and `gain_test`,
            the latter with 95 % interval `low`, `high` and two-sided `p` (paired bootstrap); `optimism`, the gain on
            dev minus that on test; `n_dev` and `n_test` questions.

        Raises:
            RuntimeError: It was called before: a second look would make the test questions dev questions.
        """
        if self._confirmed:
            raise RuntimeError("this selection was confirmed before, and the test questions are to be looked at once")
        dev, test, rows = self._values, asked_once(evaluate_test, self._streams), []
        for name, streams in (("no streams", ()), ("selected", self.selected), ("all streams", self._usable)):
            gain_dev = (dev(streams) - dev(())).mean()
            gain, *interval_and_p = paired_bootstrap(test(streams), test(()))
            means = dev(streams).mean(), test(streams).mean()
            sizes = len(dev(())), len(test(()))
            rows.append((name, ", ".join(streams), *means, gain_dev, gain, *interval_and_p, gain_dev - gain, *sizes))
        self._confirmed = True
        return pd.DataFrame(rows, columns=CONFIRMED)

    @property
    def _usable(self) -> tuple[str, ...]:
        failed = {row["stream"] for row in self._rows if row["failed"]}
        return tuple(stream for stream in self._streams if stream not in failed)

    def _add(self) -> bool:
        """The forward step; whether it added a stream."""
        rules, before = self._rules, self._values(self.selected)
        level = rules.alpha and rules.alpha / (2**self._iteration if rules.correction == "spending" else 1)
        pairs = {stream: (self._values((*self.selected, stream)), before) for stream in self._left}
        tried = self._tried(pairs, level, rules.correction != "none")
        passed = [row["stream"] for row in tried if passes(row, level, rules.min_gain)]
        taken = passed if rules.strategy == "one_pass" else passed[:1]
        self.selected += tuple(taken)
        self._note(tried, "forward")
        self._left = [row["stream"] for row in tried if not row["failed"] and row["stream"] not in taken]
        if not self._left:
            self.stopped_because = "no stream is left to try"
        elif not taken:
            best = "the best, {stream}, gains {gain:+.4f} (p {p_holm:.2g})".format_map(tried[0])
            self.stopped_because = f"none of {len(self._left)} streams helps enough: {best}"
        elif rules.strategy == "one_pass":
            self.stopped_because = "one pass was asked for"
        return bool(taken)

    def _drop(self) -> None:
        """The backward step: drops one stream after the other until each adds something to the others."""
        useless = [""]
        while useless:
            full, alpha = self._values(self.selected), self._rules.alpha
            pairs = {stream: (full, self._values({*self.selected} - {stream})) for stream in self.selected}
            tried = self._tried(pairs, alpha, corrected=False)
            useless = [row["stream"] for row in tried if not (row["failed"] or passes(row, alpha, 0))][-1:]
            self.selected = tuple(stream for stream in self.selected if stream not in useless)
            self._note(tried, "backward")

    def _tried(self, pairs: Mapping[str, Pair], level: float | None, corrected: bool) -> list[dict[str, Any]]:
        """A row for each stream and its values with and without it: largest gain first, what failed last."""
        costs, n_resamples = self._rules.costs, self._rules.n_resamples
        rows = [compared(*pair, n_resamples) | {"stream": s, "cost": costs[s]} for s, pair in pairs.items()]
        p_values = [np.nan if level is None else row["p"] for row in rows]
        for row, p, p_holm in zip(rows, p_values, holm(p_values) if corrected else p_values, strict=True):
            row |= {"p": p, "p_holm": p_holm}
        return sorted(rows, key=lambda r: (r["failed"], -round(np.nan_to_num(r["gain"]), 12), r["cost"], r["stream"]))

    def _note(self, rows: list[dict[str, Any]], step: str) -> None:
        at = {"iteration": self._iteration, "step": step}
        self._rows += [row | at | {"chosen": row["stream"] in self.selected} for row in rows]
