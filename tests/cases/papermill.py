"""The runner: what papermill takes silently is refused, and what goes wrong is said and leaves no half results."""

import datetime
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import papermill.clientwrap
import pytest

from rag_utils.runs import StudyError
from rag_utils.runs.execute import execute
from tests.notebook_project import RESULTS, Project, printed


def PM_G01(tmp_path):
    """A value for a notebook without a parameters cell: an error before any work, not the default's result."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "k=5", "print(k)")
    with pytest.raises(StudyError, match=r"'k'.*parameters"):
        project.run(project.study("10_a"), overrides={"k": 9})
    assert not (project.root / "papermill_runs" / "scratch").exists()


def PM_G02(tmp_path):
    """A slip in a name is an error that names it and the nearest."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "# parameters\nk=5", "print(k)")
    with pytest.raises(StudyError, match=r"'kk'.*did you mean 'k'"):
        project.run(project.study("10_a"), overrides={"kk": 9})
    assert not (project.root / "papermill_runs" / "scratch").exists()


def PM_G03(tmp_path):
    """A derived value in the parameters cell would keep its old value: an error that says where it belongs."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "# parameters\nn=10; limit=n*2", "print(n, limit)")
    with pytest.raises(StudyError, match=r"limit is derived.*next cell"):
        project.run(project.study("10_a"), overrides={"n": 3})


def PM_G04(tmp_path):
    """Two tagged cells: an error, since only the first would be filled."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "# parameters\nk=5", "# parameters\nk2=6", "print(k,k2)")
    with pytest.raises(StudyError, match="two tagged cells"):
        project.run(project.study("10_a"), overrides={"k2": 1})


def PM_G05(tmp_path):
    """Words of the command line are read to the type of the parameter."""
    project = Project(tmp_path / "p")
    defaults = "# parameters\nyes=False\nno=True\nsizes=[9]\ncode='0'\nlimit: int | None = 3"
    project.notebook("10_a", defaults, "print([yes, no, sizes, code, limit])")
    words = "yes=true", "no=false", "sizes=[1, 2]", "code=007", "limit=None"
    done = project.command(project.study("10_a"), *(part for word in words for part in ("--set", word)))
    assert done.returncode == 0, done.stderr
    (folder,) = (project.root / "papermill_runs" / "scratch" / "study").iterdir()
    assert printed(folder) == ["[True, False, [1, 2], '007', None]"]


def PM_G06(tmp_path):
    """Python values arrive usable, or are refused by name."""
    project = Project(tmp_path / "p")
    defaults = "# parameters\nplace=''\nday=''\nnames=[]\npair=[0, 0]\ncount=0"
    project.notebook("10_a", defaults, "print([place, day, names, pair, count])")
    values = {
        "place": Path("data") / "squad",
        "day": datetime.date(2023, 10, 1),
        "names": {"b", "a"},
        "pair": (1, 2),
        "count": np.int64(7),
    }
    study = project.study("10_a")
    (outcome,) = project.run(study, overrides=values)
    assert printed(outcome.run.folder) == ["['data/squad', '2023-10-01', ['a', 'b'], [1, 2], 7]"]
    with pytest.raises(StudyError, match="count"):
        project.run(study, overrides={"count": object()})


def PM_G07(tmp_path):
    """A folder for the executed copy that does not exist is made."""
    source = Project(tmp_path / "p").notebook("10_a", "print(1)")
    execute(source, tmp_path / "runs" / "2026" / "notebook.ipynb", {}, tmp_path, {}, None)
    assert printed(tmp_path / "runs" / "2026") == ["1"]


def PM_G08(tmp_path):
    """The source is never its own target."""
    source = Project(tmp_path / "p").notebook("10_a", "print(1)")
    before = source.read_bytes()
    with pytest.raises(ValueError, match="same"):
        execute(source, source.parent / ".." / "notebooks" / source.name, {}, tmp_path, {}, None)
    assert source.read_bytes() == before


def PM_G09(tmp_path):
    """A notebook that names another kernel, or none, runs in the environment of the runner."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "import sys; print(sys.executable)", kernel="my-env")
    project.notebook("11_b", "import sys; print(sys.executable)", kernel=None)
    outcomes = project.run(project.study("10_a", "11_b"))
    assert [printed(outcome.run.folder) for outcome in outcomes] == [[sys.executable]] * 2


def PM_G10(tmp_path):
    """A killed kernel ends the run within a minute, with the cell named and a failing exit."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "print(1)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    start = time.monotonic()
    done = project.command(project.study("10_a"))
    assert time.monotonic() - start < 60
    assert done.returncode == 1
    assert re.search(r"10_a.*cell 2 \(`import os, signal.*Kernel died", done.stdout)


def PM_G11(tmp_path):
    """A failing cell: the copy shows what was printed and the error; no result is left."""
    project = Project(tmp_path / "p")
    save = f"import os, pathlib; (pathlib.Path(os.environ['RAG_RUN_FOLDER']) / 'results.csv').write_text({RESULTS!r})"
    project.notebook("10_a", f"print('first'); {save}", "raise ValueError('planned stop')", "print('last')")
    done = project.command(project.study("10_a"))
    assert done.returncode == 1
    assert "cell 2 (`raise ValueError('planned stop')`): ValueError: planned stop" in done.stdout
    (folder,) = (project.root / "papermill_runs" / "scratch" / "study").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["failed.json", "notebook.ipynb"]
    assert printed(folder) == ["first"]
    assert "planned stop" in (folder / "notebook.ipynb").read_text().split('"outputs"')[-2]


def PM_G12(tmp_path):
    """Eight notebooks on four workers: all finish, none in another's folder."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "# parameters\nseed=0", "import os; print(seed, os.environ['RAG_RUN_FOLDER'])")
    study = project.study({"notebook": "10_a", "matrix": {"seed": list(range(8))}})
    outcomes = project.run(study, workers=4)
    assert [outcome.state for outcome in outcomes] == ["finished"] * 8
    assert [printed(o.run.folder) for o in outcomes] == [[f"{seed} {o.run.folder}"] for seed, o in enumerate(outcomes)]


def PM_G13(tmp_path):
    """A dictionary changed between two calls: each run keeps the values that it was given."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "# parameters\nk=5\nsizes=[1]", "print(k, sizes)")
    study, shared, records = project.study("10_a"), {"k": 1, "sizes": [7]}, []
    for k in (1, 2):
        shared["k"] = k
        shared["sizes"].append(k)
        records += project.run(study, overrides=shared)
    kept = [json.loads((outcome.run.folder / "run.json").read_text())["parameters"] for outcome in records]
    assert kept == [{"k": 1, "sizes": [7, 1]}, {"k": 2, "sizes": [7, 1, 2]}]
    assert [dict(outcome.run.parameters) for outcome in records] == kept


def PM_G14(tmp_path):
    """Six notebooks, the fourth stops; run again, the first three stay and the fourth starts from its beginning."""
    project = Project(tmp_path / "p")
    count = "import pathlib; log = pathlib.Path('log.txt'); log.open('a').write({name!r})"
    for number in range(6):
        name = f"{number}0_n"
        cells = [count.format(name=name + ".start ")]
        if number == 3:
            cells.append("if not pathlib.Path('mended').exists(): raise KeyboardInterrupt")
        project.notebook(name, *cells, count.format(name=name + ".end "))
    study = project.study(*(f"{number}0_n" for number in range(6)))
    first = [outcome.state for outcome in project.run(study)]
    assert first == ["finished"] * 3 + ["failed"] + ["finished"] * 2
    (project.root / "mended").touch()
    (project.root / "log.txt").unlink()
    second = [outcome.state for outcome in project.run(study)]
    assert second == ["finished before"] * 3 + ["finished"] + ["finished before"] * 2
    assert (project.root / "log.txt").read_text() == "30_n.start 30_n.end "


def PM_G15(tmp_path, monkeypatch):
    """No hidden limit; a limit names the cell and the seconds. Scaled: 65 s to 3 s, the limit of 30 s to 1 s."""
    project = Project(tmp_path / "p")
    project.notebook("10_a", "import time; time.sleep(3); print('end')")
    study = project.study("10_a")
    limits, client = [], papermill.clientwrap.PapermillNotebookClient
    started = client.execute
    monkeypatch.setattr(client, "execute", lambda self, **given: limits.append(self.timeout) or started(self, **given))
    (limited,) = project.run(study, timeout=1)
    assert limited.state == "failed"
    assert re.search(r"cell 1 \(`import time.*after 1 seconds", limited.reason)
    (free,) = project.run(study)
    assert free.state == "finished"
    assert printed(free.run.folder) == ["end"]
    assert limits == [1, None]
