"""Arena: verdicts, agreement, win rates and ratings."""

import pytest

from rag_utils.arena import both_orders, bradley_terry, elo, parse_rating, win_rates
from rag_utils.schema import Verdict

WIN, TIE, LOSS, INVALID = Verdict.WIN, Verdict.TIE, Verdict.LOSS, Verdict.INVALID


def _battles(*rows):
    return [{"query": f"q{i}", "model_a": a, "model_b": b, "winner": w} for i, (a, b, w) in enumerate(rows)]


def ARE_G01():
    """The first tag is part of the reasoning, the last one the verdict."""
    said = "At first <rating>1</rating> seems better, but it misses the date. Final verdict: <rating>2</rating>"
    assert parse_rating(said) is LOSS


def ARE_G02():
    """No verdict: four replies are unparsed, none is a tie, and their number is shown."""
    verdicts = [parse_rating(said) for said in ("Both are fine.", "", "<rate>1</rate>", "<rating>3</rating>")]
    assert verdicts == [INVALID] * 4
    assert win_rates(verdicts)[["n", "dropped"]].to_numpy().tolist() == [[0, 4], [0, 4]]


def ARE_G03():
    """A judge that took the first place both times gives a tie."""
    assert both_orders([WIN], [WIN]) == [TIE]


def ARE_G04():
    """A win and a tie are a tie, documented."""
    assert both_orders([WIN], [TIE]) == [TIE]
    assert "be it a win and a tie, is a TIE" in " ".join(both_orders.__doc__.split())


def ARE_G05():
    """Elo by hand: first +16; then expected 0.545922, +14.530."""
    ratings = elo(_battles(("p", "q", "model_a"), ("p", "q", "model_a")), k=32)
    assert ratings == pytest.approx({"p": 1030.530498, "q": 969.469502}, abs=1e-6)


def ARE_G06():
    """The same six battles in reverse give other Elo ratings; the fit that ignores order has an interval."""
    battles = _battles(*[("p", "q", "model_a")] * 3, *[("p", "q", "model_b")] * 3)
    assert elo(battles, k=32)["p"] == pytest.approx(989.104747, abs=1e-6)
    assert elo(battles[::-1], k=32)["p"] == pytest.approx(1010.895253, abs=1e-6)
    table, turned = (bradley_terry(rows, n_bootstrap=100).set_index("model") for rows in (battles, battles[::-1]))
    assert table.rating.to_dict() == pytest.approx({"p": 1000, "q": 1000})
    assert turned.rating.to_dict() == pytest.approx({"p": 1000, "q": 1000})
    assert (table.low < 1000).all() and (table.high > 1000).all()


def ARE_G07():
    """Names do not change ratings, be every pair's one winner in a circle or in a line, which has no finite ratings."""

    def rated(names, pairs):
        table = bradley_terry(_battles(*[(names[a], names[b], "model_a") for a, b in pairs]), n_bootstrap=10)
        return table.set_index("model").loc[names].to_numpy()

    circle, line = [(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2), (0, 2)]
    assert rated(["z", "y", "x"], circle) == pytest.approx(rated(["m1", "m2", "m3"], circle), abs=1e-9)
    with pytest.warns(UserWarning, match="no finite ratings"):
        assert rated(["z", "y", "x"], line) == pytest.approx(rated(["m1", "m2", "m3"], line), abs=1e-9)


def ARE_G08():
    """Ties only: all equal."""
    battles = _battles(*[(a, b, "tie") for a, b in ("pq", "qr", "pr")] * 2)
    assert elo(battles) == {"p": 1000, "q": 1000, "r": 1000}
    table = bradley_terry(battles, n_bootstrap=10)
    assert table[["rating", "low", "high"]].to_numpy() == pytest.approx(1000, abs=1e-9)


def ARE_G09():
    """12 wins, 5 ties, 3 losses, 4 unparsed: 12 and 17 of 20, the 4 apart."""
    table = win_rates([WIN] * 12 + [TIE] * 5 + [LOSS] * 3 + [INVALID] * 4).set_index("metric")
    assert table["value"].to_dict() == pytest.approx({"win": 0.6, "win_tie": 0.85}, abs=1e-6)
    assert table[["n", "dropped"]].to_numpy().tolist() == [[20, 4], [20, 4]]


def ARE_G10():
    """A domain without results stays: the total is over 20, and its row says what is missing."""
    verdicts = [WIN] * 6 + [LOSS] * 4 + [INVALID] * 10 + [WIN] * 9 + [LOSS]
    table = win_rates(verdicts, ["sea"] * 10 + ["law"] * 10 + ["art"] * 10)
    wins = table[table["metric"] == "win"].set_index("group")
    assert wins.loc["all", ["value", "n", "dropped"]].tolist() == [0.75, 20, 10]
    assert wins.loc["law", ["n", "dropped"]].tolist() == [0, 10]


def ARE_G11():
    """A reply that ends with all the template's options is ambiguous, not a verdict."""
    options = "<rating>1</rating>, <rating>2</rating> or <rating>0</rating>"
    assert parse_rating(f"<rating>2</rating> is the verdict. (Options were {options}.)") is INVALID


def ARE_G12():
    """A model against itself: skipped and reported, in both kinds of ratings."""
    alone, other = _battles(("m1", "m1", "model_a"), ("m1", "m2", "model_a"))
    with pytest.warns(UserWarning, match=r"1 battles of a model against itself are left out: \['m1'\]"):
        assert elo([alone, other]) == elo([other])
    balance = {**other, "winner": "model_b"}
    with pytest.warns(UserWarning, match="against itself"):
        table = bradley_terry([alone, other, balance], n_bootstrap=10)
    assert table.rating.to_list() == pytest.approx([1000, 1000])
