"""Pairs of answers to verdicts, in which order they are shown, and win rates."""

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rag_utils.arena.texts import NO_ANSWER, process_response
from rag_utils.corpora import strip_citations
from rag_utils.provenance import note, recorded
from rag_utils.schema import Judge, Verdict
from rag_utils.statistics import wilson_interval

Pair = tuple[str, str, str]
"""Question, first answer, second answer."""

_TURNED = {Verdict.WIN: Verdict.LOSS, Verdict.LOSS: Verdict.WIN}


def judge_pairs(pairs: Sequence[Pair], judge: Judge, order: str = "both", seed: int = 0) -> list[Verdict]:
    """Verdicts on the first answers.

    Clean answers before, by `process_response` and `strip_citations`: marks that only one side has are warned of.

    Args:
        pairs: Question, answer and opponent, in RAG-QA Arena a system's answer and the human one.
        judge: What compares them.
        order: "both" shows every pair twice, the answers swapped, and combines by `both_orders`; "paper" once, by the
            authors' `paper_order`; "shuffled" once, the answers swapped or not by lot.
        seed: Of the lot.

    Source: RAG-QA Arena (arXiv 2407.13998), section 4; the authors' code for "paper".
    """
    if order == "both":
        return both_orders(*shown_both_ways(pairs, judge))
    if order == "paper":
        turn = [not paper_order(question) for question, _, _ in pairs]
    elif order == "shuffled":
        turn = (np.random.default_rng(seed).random(len(pairs)) < 0.5).tolist()
    else:
        raise ValueError(f"order = {order!r}: choose 'both', 'paper' or 'shuffled'")
    _warn_of_citations(pairs)
    shown = judge([_swapped(pair) if turned else pair for pair, turned in zip(pairs, turn, strict=True)])
    return [_TURNED.get(v, v) if turned else v for v, turned in zip(shown, turn, strict=True)]


def shown_both_ways(pairs: Sequence[Pair], judge: Judge) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts with the pairs as given, and with the answers swapped, each on the answer that was shown first.

    They are what `both_orders` combines and `position_bias` tests.
    """
    _warn_of_citations(pairs)
    shown = judge([*pairs, *map(_swapped, pairs)])
    return shown[: len(pairs)], shown[len(pairs) :]


def both_orders(first: Sequence[Verdict], second: Sequence[Verdict]) -> list[Verdict]:
    """One verdict a pair, from the first answer's side: kept if the judge kept to it when the answers were swapped.

    A pair judged differently, be it a win and a tie, is a TIE; INVALID in either order gives INVALID. How many there
    were of both kinds is noted for the run.

    Args:
        first: Verdicts in the first order.
        second: In the second order, as seen there (a WIN is one of the second answer).
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} verdicts against {len(second)}: every pair needs one in each order")
    combined, inconsistent = [], 0
    for one, other in zip(map(Verdict, first), map(Verdict, second), strict=True):
        invalid = Verdict.INVALID in (one, other)
        consistent = one is _TURNED.get(other, other)
        inconsistent += not (invalid or consistent)
        combined.append(Verdict.INVALID if invalid else one if consistent else Verdict.TIE)
    counts = {"pairs": len(combined), "inconsistent": inconsistent, "invalid": combined.count(Verdict.INVALID)}
    note("judgements", **counts, batch=len(recorded()))  # a number, since equal notes are kept once
    return combined


def paper_order(query: str) -> bool:
    """Whether the authors show the system's answer first: if the question, split at single blanks, has even parts.

    About every second question has, but long and short ones not alike, and each pair is seen in one order only.
    """
    return len(query.split(" ")) % 2 == 0


def win_rates(verdicts: Sequence[Verdict], groups: Sequence[str] | None = None) -> pd.DataFrame:
    """How often the first answer won ("win"), and how often it was at least as good ("win_tie").

    A question that was to be judged and was not is INVALID: it stands in `dropped` of its group, which does not vanish.

    Args:
        verdicts: One a question, on the first answer.
        groups: Domain of each; None = no breakdown.

    Returns:
        Columns `group, metric, value, low, high, n, dropped`, first of "all" questions pooled, then of each group;
        95 % intervals by Wilson, which a bootstrap over questions reproduces, as each has one verdict. Without a usable
        verdict the value is NaN.

    Source: RAG-QA Arena (arXiv 2407.13998), section 6.3.
    """
    counted = {"win": (Verdict.WIN,), "win_tie": (Verdict.WIN, Verdict.TIE)}
    flags = {
        metric: [None if verdict is Verdict.INVALID else verdict in wanted for verdict in map(Verdict, verdicts)]
        for metric, wanted in counted.items()
    }
    return _shares(flags, groups)


def no_answer_ratio(answers: Sequence[str], groups: Sequence[str] | None = None) -> pd.DataFrame:
    """How often answers, after `process_response`, hold "I couldn't find an answer"; columns as of `win_rates`."""
    mark = NO_ANSWER.rstrip(".")
    return _shares({"no_answer": [mark in process_response(text).replace("’", "'") for text in answers]}, groups)


def _shares(flags: Mapping[str, Sequence[bool | None]], groups: Sequence[str] | None) -> pd.DataFrame:
    group_of = [] if groups is None else [None if pd.isna(group) else group for group in groups]
    n = len(next(iter(flags.values())))
    if groups is not None and len(group_of) != n:
        raise ValueError(f"{len(group_of)} groups for {n} questions: give one each")
    names = list(dict.fromkeys(group_of))
    if "all" in names:
        raise ValueError("a group is named 'all', as the pooled row is: rename it")
    rows = []
    for group in ["all", *names]:
        for metric, column in flags.items():
            members = column if group == "all" else [f for f, g in zip(column, group_of, strict=True) if g == group]
            used = [flag for flag in members if flag is not None]
            value = sum(used) / len(used) if used else math.nan
            limits = wilson_interval(sum(used), len(used))
            rows.append((group, metric, value, *limits, len(used), len(members) - len(used)))
    return pd.DataFrame(rows, columns=["group", "metric", "value", "low", "high", "n", "dropped"])


def _swapped(pair: Pair) -> Pair:
    question, first, second = pair
    return question, second, first


def _warn_of_citations(pairs: Sequence[Pair]) -> None:
    """A judge could tell the sides apart by them."""
    marked = [sum(strip_citations(pair[side]) != pair[side] for pair in pairs) for side in (1, 2)]
    if abs(marked[0] - marked[1]) > len(pairs) / 10:
        counts = f"{marked[0]} first and {marked[1]} second answers of {len(pairs)}"
        warnings.warn(f"{counts} have citation marks, which tell the sides apart: use strip_citations", stacklevel=3)
