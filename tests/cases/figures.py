"""Cases FIG-*: figures that a report can use, from a machine without a screen."""

import os
import re
import struct
import subprocess
import sys
import time

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from rag_utils.report import interval_plot, save_figure, use_style

KINDS = ("png", "pdf", "svg")


def results(values: dict[str, float | None], metric: str, reach: float) -> pd.DataFrame:
    values = {name: float("nan") if value is None else value for name, value in values.items()}
    rows = [(name, metric, value, value - reach, value + reach, 200) for name, value in values.items()]
    return pd.DataFrame(rows, columns=["system", "metric", "value", "low", "high", "n"])


def page_inches(folder, name):
    """Width and height of the written PNG (at 300 dpi) and PDF (at 72 points an inch)."""
    png = struct.unpack(">II", (folder / f"{name}.png").read_bytes()[16:24])
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", (folder / f"{name}.pdf").read_bytes())
    return (png[0] / 300, png[1] / 300), (float(box[1]) / 72, float(box[2]) / 72)


def needed_inches(fig, monkeypatch):
    """Width and height that hold the figure and all texts drawn (not those of ticks beyond the axis)."""
    boxes = [fig.bbox]
    draw = Text.draw

    def watched(text, renderer, *args, **kwargs):
        if text.get_visible() and text.get_text():
            boxes.append(text.get_window_extent(renderer))
        return draw(text, renderer, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", watched)
        fig.canvas.draw()
    assert len(boxes) > 1
    return Bbox.union(boxes).size / fig.dpi


def is_cut(folder, name):
    """Whether anything but white touches the picture's edge."""
    pixels = plt.imread(folder / f"{name}.png")
    return not all((edge == 1).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))


def FIG_G01(tmp_path, monkeypatch):
    """The same figure saved twice, a second apart, has the same bytes as PNG, PDF and SVG."""
    saved = []
    for run in ("first", "second"):
        monkeypatch.setenv("RAG_RUN_FOLDER", str(tmp_path / run))
        use_style()
        table = results({"base": 0.31, "yake": 0.36}, "map@10", 0.02)
        fig, ax = plt.subplots()
        interval_plot(ax, table, "map@10")
        save_figure(fig, "40_twice", table)
        plt.close(fig)
        saved.append({kind: (tmp_path / run / f"40_twice.{kind}").read_bytes() for kind in KINDS})
        time.sleep(1.1)
    assert saved[0] == saved[1]


def FIG_G02(tmp_path, monkeypatch):
    """The PDF embeds TrueType fonts, none of Type 3, also when matplotlib's own default is set."""
    monkeypatch.setenv("RAG_RUN_FOLDER", str(tmp_path))
    fig, ax = plt.subplots()
    ax.set_title("Größe ≥ 0.5")
    with plt.rc_context({"pdf.fonttype": 3}):
        save_figure(fig, "40_fonts", pd.DataFrame({"value": [1.0]}))
    plt.close(fig)
    fonts = set(re.findall(rb"/Subtype /(Type\d|TrueType|CIDFontType\d)", (tmp_path / "40_fonts.pdf").read_bytes()))
    assert fonts and b"Type3" not in fonts


def FIG_G03(tmp_path, monkeypatch):
    """40-letter labels and a legend beside the axes: no text off the page, and a page that had to grow says so."""
    monkeypatch.setenv("RAG_RUN_FOLDER", str(tmp_path))
    use_style()
    labels = [f"hybrid retrieval with forty letters, no. {i}" for i in range(3)]
    table = pd.DataFrame({"system": labels, "value": [0.5, 0.6, 0.7]})

    fig, ax = plt.subplots()
    ax.bar(range(3), table["value"], label=["one", "two", "three"])
    ax.set_xticks(range(3), labels, rotation=60, ha="right")
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    save_figure(fig, "40_fits", table)
    asked = pytest.approx((4.8, 0.62 * 4.8), abs=0.01)
    assert [asked] * 3 == [*page_inches(tmp_path, "40_fits"), needed_inches(fig, monkeypatch)]
    assert not is_cut(tmp_path, "40_fits")

    fig, ax = plt.subplots()
    ax.barh(labels, table["value"], label=labels)
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    with pytest.warns(UserWarning, match=r"40_grows: its text needs a page of .* inches, not 4\.80 x 2\.98"):
        save_figure(fig, "40_grows", table)
    width, height = needed_inches(fig, monkeypatch)
    assert width > 4.9 and not is_cut(tmp_path, "40_grows")
    assert all(size[0] > width and size[1] > height - 0.01 for size in page_inches(tmp_path, "40_grows"))
    plt.close("all")


def FIG_G04(tmp_path):
    """A fresh process, no display, an interactive MPLBACKEND: files are written and no window is asked for."""
    program = (
        "import matplotlib, matplotlib.pyplot as plt, pandas as pd\n"
        "from rag_utils.report import save_figure, use_style\n"
        "use_style(); fig, ax = plt.subplots(); ax.plot([1, 2])\n"
        "save_figure(fig, '00_flow', pd.DataFrame({'x': [1, 2]})); plt.show()\n"
        "print(matplotlib.get_backend().lower())"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment |= {"MPLBACKEND": "TkAgg", "RAG_RUN_FOLDER": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[-1] == "agg"
    assert {path.name for path in tmp_path.iterdir()} == {f"00_flow.{kind}" for kind in (*KINDS, "csv")}


def FIG_G05():
    """Bars of 0.712, 0.715, 0.719: intervals drawn, the axis from 0, values with three places."""
    fig, ax = plt.subplots()
    table = results({"a": 0.712, "b": 0.715, "c": 0.719}, "hits@10", 0.02)
    interval_plot(ax, table, "hits@10", kind="bar")
    assert ax.get_xlim()[0] == 0
    assert [bar.get_width() for bar in ax.patches] == [0.712, 0.715, 0.719]
    reach = [segment[:, 0].tolist() for lines in ax.collections for segment in lines.get_segments()]
    assert reach == [pytest.approx([value - 0.02, value + 0.02]) for value in (0.712, 0.715, 0.719)]
    written = " ".join(text.get_text() for text in ax.texts)
    assert all(value in written for value in ("0.712 [0.692, 0.732]", "0.715", "0.719"))
    plt.close(fig)


def FIG_G06():
    """A system without a value keeps its place, marked n/a, and has no bar."""
    fig, ax = plt.subplots()
    interval_plot(ax, results({"base": 0.31, "kb": None, "yk": 0.36}, "map@10", 0.02), "map@10", kind="bar")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["base", "kb", "yk"]
    assert [round(bar.get_y() + bar.get_height() / 2) for bar in ax.patches] == [0, 2]
    assert [(text.get_position()[1], text.get_text()) for text in ax.texts if "n/a" in text.get_text()] == [(1, "n/a")]
    plt.close(fig)
