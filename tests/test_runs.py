"""The runner: parameters, studies, runs that end well or badly, resuming, collecting and publishing."""

import ast
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_utils.runs import StudyError, differing_outputs, execute, execution_order, main, studies
from rag_utils.runs.notebooks import cells_of
from rag_utils.runs.parameters import Typed, fit, read_parameters
from rag_utils.runs.publish import collect
from rag_utils.runs.studies import plan
from tests.notebook_project import RESULTS, Project, notebook, printed

SAVE = f"""
import os, pathlib
folder = pathlib.Path(os.environ["RAG_RUN_FOLDER"])
(folder / "results.csv").write_text({RESULTS!r} + f"ours,hits@4,{{value}},0,1,9,0,\\n")
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "PACKAGE", tmp_path / "package")  # part of the names of runs, and may be under edit
    return Project(tmp_path / "a project {1}")  # a space and braces, as paths may have them


def read(parameters):
    return read_parameters(cells_of(notebook(f"# parameters\n{parameters}")))


def pretend(run, value, *names):
    """Leave what a finished run leaves, without the run."""
    run.folder.mkdir(parents=True)
    (run.folder / "run.json").write_text('{"incomplete": "", "git": {"dirty": false}}')
    (run.folder / "results.csv").write_text(f"{RESULTS}ours,hits@4,{value},0,1,9,0,\n")
    for name in names:
        (run.folder / name).write_text(name)


# Parameters


def test_parameters_have_name_type_default_and_comment():
    source = """
k: int | None = None  # how many
weight = -0.5
sizes = [64,  # in tokens
         128]
names: list[str] = []
boosts = {"title": 2.0}
"""
    assert [(p.name, p.kind, p.default, p.comment) for p in read(source).values()] == [
        ("k", "int | None", None, "how many"),
        ("weight", "float", -0.5, ""),
        ("sizes", "list[int]", [64, 128], "in tokens"),
        ("names", "list[str]", [], ""),
        ("boosts", "dict", {"title": 2.0}, ""),
    ]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("n = 10\nlimit = n * 2", "limit is derived"),
        ("n = int('3')", "n is derived"),
        ("import os", "`import os` is not `name = literal`"),
        ("a, b = 1, 2", "is not `name = literal`"),
        ("n: int", "is not `name = literal`"),
        ("n: int = 'x'", "n = 'x': it is a str, int is expected"),
        ("n: Path = 'x'", "n = 'x': it is a str, Path is expected"),
        ("n = 1j", "n is derived"),
    ],
)
def test_a_parameters_cell_holds_literals_only(source, problem):
    with pytest.raises(StudyError, match=re.escape(problem)):
        read(source)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("str", "007", "007"),
        ("str", "true", "true"),
        ("str | None", "None", None),
        ("int | None", "null", None),
        ("int", "1_000", 1000),
        ("float", "1e-5", 1e-5),
        ("float", "2", 2.0),
        ("bool", "false", False),
        ("list[int]", "[1, 2]", [1, 2]),
        ("list[float]", "[1, 0.5]", [1.0, 0.5]),
        ("list[str]", "[a, b]", ["a", "b"]),
        ("dict", "{title: 2}", {"title": 2}),
        ("dict[str, float] | None", "{title: 2}", {"title": 2}),
    ],
)
def test_command_line_text_becomes_the_type_of_the_default(kind, text, value):
    fitted = fit("k", Typed(text), kind)
    assert fitted == value
    assert type(fitted) is type(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", True),
        ("bool", 1),
        ("int", 2.0),
        ("int", "3"),
        ("str", None),
        ("str", 7),
        ("float", float("nan")),
        ("list[int]", ["a"]),
        ("list[int]", 3),
        ("dict", {1: 2}),
        ("str", Typed("null")),
        ("list", Typed("[1,")),
        ("int | None", b"x"),
    ],
)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises(StudyError, match=re.escape(f"k = {value!r}: ")):
        fit("k", value, kind)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(json_values)
def test_a_value_survives_the_way_into_the_notebook(value):
    from papermill.translators import PythonTranslator

    line = PythonTranslator.codify({"k": fit("k", value, "any")}).splitlines()[1:]
    assert ast.literal_eval("\n".join(line).removeprefix("k = ")) == value


# Studies


def test_a_matrix_is_expanded_in_the_order_of_notebooks(project):
    project.notebook("2_b", "# parameters\nseed=0", "seed")
    project.notebook("10_a", "# parameters\nseed=0\nk=1", "seed, k")
    entry = {"notebook": "10_a", "matrix": {"k": [1, 2], "seed": [0, 1, 2]}}
    runs = plan(project.study(entry, "2_b", defaults={"seed": 5}), root=project.root)
    assert [(run.notebook, dict(run.parameters)) for run in runs] == [("2_b", {"seed": 5})] + [
        ("10_a", {"seed": seed, "k": k}) for k in (1, 2) for seed in (0, 1, 2)
    ]
    assert runs[1].changed == {} and runs[2].changed == {"seed": 1}
    assert len({run.run_id for run in runs}) == 7


def test_overrides_beat_all_and_equal_runs_run_once(project):
    project.notebook("10_a", "# parameters\nseed=0\nweight=1.0", "seed, weight")
    project.notebook("20_b", "# parameters\nk=1", "k")
    entry = {"notebook": "10_a", "matrix": {"seed": [0, 1], "weight": [1, 1.0]}, "publish": {"seed": 1}}
    study = project.study(entry, "20_b")
    runs = plan(study, root=project.root, overrides={"seed": 7})
    assert [dict(run.parameters) for run in runs] == [{"seed": 7, "weight": 1.0}, {"k": 1}]
    assert runs[0].publish
    with pytest.raises(StudyError, match="'k'"):
        plan(study, root=project.root, overrides={"k": 2}, only="10")
    assert [run.notebook for run in plan(study, root=project.root, only="20_b")] == ["20_b"]


@pytest.mark.parametrize(
    ("entry", "settings", "problem"),
    [
        ({"matrix": {"kk": [1]}}, {}, "10_a: matrix: 'kk' is not among the parameters: k, name; did you mean 'k'?"),
        ({"matrix": {"name": [3]}}, {}, "10_a: name = 3: it is a int, str is expected"),
        ({"matrix": {"k": [1]}, "publish": {"k": 5}}, {}, "10_a: publish: {'k': 5} is not in the matrix"),
        ({}, {"defaults": {"sed": 1}}, "defaults: 'sed'"),
        ({}, {"overrides": {"k": "many"}}, "10_a: k = 'many': it is a str, int is expected"),
        ({}, {"only": "20"}, "study.yaml: no notebook 20 among those under runs: 10_a"),
    ],
)
def test_a_slip_is_said_before_anything_runs(project, entry, settings, problem):
    project.notebook("10_a", "# parameters\nk=1\nname='x'", "k, name")
    study = project.study({"notebook": "10_a", **entry}, defaults=settings.pop("defaults", {}))
    with pytest.raises(StudyError, match=re.escape(problem)):
        project.run(study, **settings)
    assert not (project.root / "papermill_runs" / "scratch").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("study: other\nruns: [{notebook: 10_a}]", "'other' must be the file's name, 'study'"),
        (
            "study: study\nruns: [{notebook: 10_a}]\ndefault: {}",
            "study.yaml: 'default' is not among the keys: study, defaults, .*did you mean 'defaults'",
        ),
        (
            "study: study\nruns: [{notebook: 10_a, matrx: {}}]",
            "entry 1: 'matrx' is not among the keys: .*did you mean 'matrix'",
        ),
        ("study: study\nruns: [{notebook: ../10_a}]", "'../10_a' is not among the notebooks: 10_a"),
        ("study: study\nruns: [{matrix: {}}]", "'' is not among the notebooks: 10_a"),
        ("study: study\nruns: [{notebook: 10_b}]", "'10_b' is not among the notebooks: 10_a; did you mean '10_a'?"),
        ("study: study\nruns: [{notebook: 10_a, matrix: {k: 3}}]", "needs a list"),
        ("study: study\nruns: []", "no notebook"),
        ("study: [", "cannot be read as YAML"),
        ("study: !!python/object/apply:os.getcwd []", "cannot be read as YAML"),
        ("- 1", "a mapping"),
    ],
)
def test_a_study_file_is_checked(project, text, problem):
    project.notebook("10_a", "# parameters\nk=1", "k")
    path = project.study("10_a")
    path.write_text(text)
    with pytest.raises(StudyError, match="(?s)" + problem.replace("(", r"\(").replace("[", r"\[")):
        plan(path, root=project.root)


def test_a_study_cannot_leave_its_folder(project):
    project.notebook("10_a", "1")
    with pytest.raises(StudyError, match=r"study: '\.\.' must be .* letters, digits, - and _ only"):
        plan(project.study("10_a", name=".."), root=project.root)


def test_data_is_looked_for_where_it_is_read(project, tmp_path, monkeypatch):
    """A catalogue's name is never a folder of the project, a folder of the user's own never built in."""
    monkeypatch.delenv("RAG_DATA_DIR", raising=False)
    project.notebook("10_a", "# parameters\ndataset='squad'\ndata_dir=''", "dataset, data_dir")
    study = project.study("10_a")

    def data(name, **overrides):
        return plan(study, root=project.root, overrides={"dataset": name, **overrides})[0].data[name]

    for name in ("squad", "builtin_mine"):
        (project.root / name).mkdir()
        (project.root / name / "corpus.jsonl").write_text(name)
    assert (data("squad"), data("builtin_news")) == ("hub", "package")
    here = data("builtin_mine")
    assert len(here) == 64
    shutil.move(project.root / "builtin_mine", tmp_path / "builtin_mine")
    assert data("builtin_mine") == "hub" and data("builtin_mine", data_dir=str(tmp_path)) == here
    assert len(data("squad", data_dir=".")) == 64
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path))
    assert data("builtin_mine") == here


def test_keys_have_no_place_among_parameters(project):
    project.notebook("10_a", "# parameters\nopenai_api_key=''", "openai_api_key")
    with pytest.raises(StudyError, match="environment only"):
        plan(project.study("10_a"), root=project.root)


def test_a_run_is_named_by_what_it_is_made_from(project, tmp_path, monkeypatch):
    data = tmp_path / "data"
    (data / "squad").mkdir(parents=True)
    (data / "squad" / "rows.jsonl").write_text("1")
    monkeypatch.setenv("RAG_DATA_DIR", str(data))
    path = project.notebook("10_a", "# parameters\ndataset='squad'\nembedder=''", "dataset, embedder")
    study = project.study("10_a")

    def name(root=project.root, **overrides):
        return plan(root / study.relative_to(project.root), root=root, overrides=overrides)[0].run_id

    first = name()
    assert first.startswith("10_a-") and len(first) == len("10_a-") + 8
    saved = json.loads(path.read_text())
    saved["cells"][1] |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}], "execution_count": 3}
    path.write_text(json.dumps(saved))
    shutil.copytree(project.root, tmp_path / "elsewhere")
    assert name() == first == name(tmp_path / "elsewhere"), "saved outputs and places do not count"

    model = project.root / "model"
    model.mkdir()
    (model / "weights").write_text("1")
    names = [first, name(dataset="builtin_news"), name(embedder="model")]
    (model / "weights").write_text("other")
    names.append(name(embedder="model"))
    (data / "squad" / "rows.jsonl").write_text("other")
    names.append(name())
    (project.root / "requirements.lock").write_text("numpy==2")
    names.append(name())
    saved["cells"][1]["source"] = "embedder, dataset"
    path.write_text(json.dumps(saved))
    names.append(name())
    monkeypatch.setattr(studies, "PACKAGE", project.root / "model")
    names.append(name())
    assert len(set(names)) == 8


def test_missing_models_are_an_error_or_left_out(project, monkeypatch, capsys):
    monkeypatch.setattr(execute, "_is_available", lambda parameter, model, root: model != "org/away")
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "# parameters\nembedder='org/here'", "embedder")
    entry = {"notebook": "10_a", "matrix": {"embedder": ["org/here", "org/away"]}}
    with pytest.raises(StudyError, match="embedder org/away: neither here nor within reach"):
        project.run(project.study(entry))
    study = project.study(entry, missing_models="skip")
    pretend(plan(study, root=project.root)[0], 0.5)
    assert main([str(study)]) == 0
    printed = capsys.readouterr().out
    assert "not run: embedder org/away" in printed and "1 finished before, 1 not run" in printed


# Runs


def test_a_finished_run_records_what_it_was(project, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    variables = ("RAG_RUN_FOLDER", "PYTHONHASHSEED", "IPYTHONDIR")
    project.notebook(
        "10_a",
        "# parameters\nk=1\nname=''",
        "import os\nfrom rag_utils.provenance import note, stage\nnote('model', name='m', revision='abc')",
        "with stage('encode'): note('llm', calls=2, tokens_in=30, cache_hits=1, key=os.environ['OPENAI_API_KEY'])",
        "note('llm', calls=1, tokens_in=5); note('truncation', texts=4); (k, name)",
        f"print(os.getcwd(), *(os.environ[name] for name in {variables}))",
    )
    project.commit()
    (outcome,) = project.run(project.study("10_a", defaults={"name": "sk-very-secret-value"}))
    folder = outcome.run.folder
    text = (folder / "run.json").read_text()
    record = json.loads(text)
    assert "secret" not in text
    assert sorted(path.name for path in folder.iterdir()) == ["notebook.ipynb", "run.json"]
    assert (record["study"], record["notebook"]) == ("study", "10_a")
    assert record["parameters"] == {"k": 1, "name": "***"}
    assert len(record["git"]["commit"]) == 40 and record["git"]["dirty"]  # the study came after the commit
    assert record["models"] == [{"name": "m", "revision": "abc"}]
    assert record["llm"] == {"calls": 3, "tokens_in": 35, "tokens_out": 0, "cache_hits": 1, "invalid_replies": 0} | {
        "errors": {}
    }
    assert [stage["name"] for stage in record["stages"]] == ["encode"]
    assert record["notes"] == {"truncation": [{"texts": 4}]}
    assert record["python"] == sys.version.split()[0] and "papermill" in record["packages"]
    assert 0 < record["seconds"] < 60

    (line,) = printed(folder)  # the kernel is told its folder, and nothing of the user
    assert line.startswith(f"{project.root} {folder} 0 ")
    assert not line.endswith(str(Path.home() / ".ipython"))


def test_a_failure_is_recorded_and_does_not_stop_the_others(project, monkeypatch, capsys):
    monkeypatch.setenv("SERVICE_TOKEN", "tok-very-secret-value")
    monkeypatch.chdir(project.root)
    project.notebook(
        "10_a",
        "# parameters\nvalue=1.0",
        SAVE,
        "import os\n\nraise RuntimeError('with ' + os.environ['SERVICE_TOKEN'])",
    )
    project.notebook("20_b", "1 + 1")
    assert main([str(project.study("10_a", "20_b"))]) == 1
    (folder,) = (project.root / "papermill_runs" / "scratch" / "study").glob("10_a-*")
    failed = json.loads((folder / "failed.json").read_text())
    assert (failed["notebook"], failed["cell"], failed["line"], failed["error"]) == (
        "10_a",
        3,
        "import os",
        "RuntimeError",
    )
    assert (
        failed["message"] == "with ***" and "RuntimeError" in failed["traceback"] and "\x1b" not in failed["traceback"]
    )
    assert not (folder / "results.csv").exists() and not (folder / "run.json").exists()
    out = capsys.readouterr().out
    assert "10_a" in out and "cell 3 (`import os`): RuntimeError" in out and "1 failed, 1 finished" in out
    assert "secret" not in out


def test_a_notebook_that_leaves_early_is_not_finished(project):
    project.notebook("10_a", "import sys; sys.exit(0)", "print('never')")
    (outcome,) = project.run(project.study("10_a"))
    assert re.search(r"cell 1 \(`import sys; sys.exit\(0\)`\).*ended the notebook", outcome.reason)


def test_a_burst_of_output_is_kept_whole(project):
    """Beyond some thousand unread messages a kernel drops what follows, unless the reader sets no limit."""
    project.notebook("10_a", "for n in range(3000): print(n, flush=True)")
    (outcome,) = project.run(project.study("10_a"))
    assert printed(outcome.run.folder)[0].split() == [str(n) for n in range(3000)]


def test_a_killed_study_is_taken_up_where_it_was(project):
    """`kill -9` half-way: finished runs stay, the cut one starts afresh, its kernel is gone."""
    cell = "import os, pathlib, time\nwith open('log.txt', 'a') as log: log.write(f'{seed} {os.getpid()}\\n')"
    wait = "while seed == 1 and not pathlib.Path('go').exists(): time.sleep(0.05)"
    project.notebook("10_a", "# parameters\nseed=0\nvalue=1.0", cell, SAVE, wait)
    study = project.study({"notebook": "10_a", "matrix": {"seed": [0, 1]}})
    code = "import pathlib, sys; from rag_utils.runs import main, studies; studies.PACKAGE = pathlib.Path(sys.argv[1])"
    command = [sys.executable, "-c", f"{code}; main(sys.argv[2:])", studies.PACKAGE, study]
    process = subprocess.Popen(command, cwd=project.root, stdout=subprocess.DEVNULL)
    log = project.root / "log.txt"
    _until(lambda: log.exists() and len(log.read_text().splitlines()) == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    cut = int(log.read_text().splitlines()[1].split()[1])
    _until(lambda: not psutil.pid_exists(cut) or psutil.Process(cut).status() == psutil.STATUS_ZOMBIE)
    (project.root / "go").touch()
    assert [outcome.state for outcome in project.run(study)] == ["finished before", "finished"]
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["0", "1", "1"]


def test_two_runners_do_each_run_once(project):
    """The second waits for the first, then finds the run finished."""
    note = "open('log.txt', 'a').write('x')"
    project.notebook("10_a", f"import pathlib, time\n{note}\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)")
    study = project.study("10_a")
    with ThreadPoolExecutor(2) as pool:
        runners = [pool.submit(execute.carry_out, plan(study, root=project.root)[0], None) for _ in range(2)]
        _until((project.root / "log.txt").exists)
        time.sleep(0.5)
        (project.root / "go").touch()
        assert sorted(runner.result().state for runner in runners) == ["finished", "finished before"]
    assert (project.root / "log.txt").read_text() == "x"


def _until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def test_a_dask_scheduler_can_carry_out_the_runs(project):
    from distributed import LocalCluster

    project.notebook("10_a", "# parameters\nseed=0", "if seed: raise KeyError('seed')")
    study = project.study({"notebook": "10_a", "matrix": {"seed": [0, 1]}})
    with LocalCluster(n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address=None) as cluster:
        outcomes = project.run(study, scheduler=cluster.scheduler_address)
    assert [outcome.state for outcome in outcomes] == ["finished", "failed"]
    assert "KeyError: 'seed'" in outcomes[1].reason
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(StudyError, match="no Dask sch"):
        project.run(study, scheduler="tcp://127.0.0.1:9")


# What is said


def test_parameters_and_runs_are_listed(project, monkeypatch, capsys):
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "# parameters\nk: int | None = None  # how many", "k")
    study = str(project.study({"notebook": "10_a", "matrix": {"k": [None, 2]}}))
    assert main([study, "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == ["10_a", "  k: int | None = None  # how many"]
    assert main([study, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == ["to run", "to run  k=2"]
    assert not (project.root / "papermill_runs" / "scratch").exists()
    assert main([study, "--set", "q=1"]) == 2
    assert "'q'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([study, "--set", "k"])
    for option, value in [("--workers", "0"), ("--workers", "-1"), ("--timeout", "0"), ("--timeout", "-5")]:
        with pytest.raises(SystemExit):
            main([study, option, value])
        assert "is not a whole number above 0" in capsys.readouterr().err


def test_results_are_collected_over_seeds(project, monkeypatch, capsys):
    """Means and sample deviations by hand: (0.2, 0.4, 0.9) -> 0.5, sqrt(0.13); one seed has no deviation."""
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "# parameters\nseed=0\nk=1\nname='x'")
    project.notebook("20_b", "# parameters\nlimit: int | None = None")
    entries = {"notebook": "10_a", "matrix": {"seed": [0, 1, 2]}}, {"notebook": "10_a", "matrix": {"k": [2]}}
    study = project.study(*entries, "20_b")
    assert main([str(study), "--collect"]) == 2
    assert "no run has results yet" in capsys.readouterr().err
    for run, value in zip(plan(study, root=project.root), (0.2, 0.4, 0.9, 0.1, 0.5), strict=True):
        pretend(run, value)
    assert main([str(study), "--collect"]) == 0
    assert "5 of 5 runs are finished" in capsys.readouterr().out
    folder = project.root / "papermill_runs" / "scratch" / "study"
    assert (folder / "collected.csv").read_text().splitlines() == [
        "notebook,k,system,metric,mean,sd,seeds",
        "10_a,1,ours,hits@4,0.5,0.36055513,3",
        "10_a,2,ours,hits@4,0.1,,1",
        "20_b,,ours,hits@4,0.5,,1",
    ]
    assert r"10\_a & 1 & ours & hits@4 & 0.500 & 0.361 & 3 \\" in (folder / "collected.tex").read_text()


def test_systems_named_like_missing_values_are_collected(project, monkeypatch):
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "1")
    (run,) = plan(project.study("10_a"), root=project.root)
    pretend(run, 0.5)
    rows = "".join(f"{system},hits@4,0.5,0,1,9,0,\n" for system in ("NA", "None", "nan"))
    (run.folder / "results.csv").write_text(RESULTS + rows)
    lines = collect([run]).read_text().splitlines()[1:]
    assert lines == [f"10_a,{system},hits@4,0.5,,1" for system in ("NA", "None", "nan")]


# Publishing

DRAW = """
import os, pathlib
folder = pathlib.Path(os.environ["RAG_RUN_FOLDER"])
for suffix in ("png", "pdf", "svg", "csv"):
    (folder / f"10_hits.{suffix}").write_text(suffix)
(folder / "10_table.md").write_text("table")
(folder / "index").mkdir()
print(folder, pathlib.Path.home() / "x", pathlib.Path.home(), "/etc/hosts")
"""


def _published(root):
    folders = root / "papermill_runs" / "published", root / "figures"
    return {path.relative_to(root).as_posix(): path.read_bytes() for folder in folders for path in folder.rglob("*.*")}


def test_publishing_needs_a_clean_tree_and_repeats_itself(project, monkeypatch, capsys):
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "# parameters\ndataset='builtin_news'\nvalue=0.5", "dataset", SAVE, DRAW)
    study = project.study({"notebook": "10_a", "matrix": {"value": [0.7]}, "publish": {"value": 0.7}})
    project.run(study)  # from a tree that no commit has
    project.commit()
    (project.root / "notebooks" / "stray.py").touch()
    assert main([str(study), "--publish"]) == 2
    assert "stray.py" in capsys.readouterr().err and _published(project.root) == {}
    (project.root / "notebooks" / "stray.py").unlink()

    assert main([str(study), "--publish"]) == 0
    first = _published(project.root)
    assert sorted(first) == [
        *(f"figures/10_hits.{suffix}" for suffix in ("csv", "pdf", "png", "svg")),
        "papermill_runs/published/10_a.csv",
        "papermill_runs/published/10_a.ipynb",
        "papermill_runs/published/10_a.run.json",
        "papermill_runs/published/10_table.md",
    ]
    record = json.loads(first["papermill_runs/published/10_a.run.json"])
    assert record["git"]["dirty"] is False and record["parameters"]["value"] == 0.7
    text = first["papermill_runs/published/10_a.ipynb"].decode()
    assert str(project.root) not in text and '"papermill"' not in text
    assert re.search(r"\./papermill_runs/scratch/study/10_a-\w{8} ~/x ~ /etc/hosts", text)
    saved = json.loads(text)
    assert execution_order(saved) == "clean"
    assert main([str(study), "--publish"]) == 0
    assert _published(project.root) == first

    shutil.rmtree(project.root / "papermill_runs" / "scratch")
    assert main([str(study), "--publish"]) == 0
    again = _published(project.root)
    assert differing_outputs(json.loads(again["papermill_runs/published/10_a.ipynb"]), saved) == []
    assert {name for name in again if again[name] != first[name]} == {"papermill_runs/published/10_a.run.json"}


def test_of_other_data_only_numbers_are_published(project, monkeypatch):
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "# parameters\ndataset='squad'")
    study = project.study({"notebook": "10_a", "matrix": {"dataset": ["squad", "mine/my_set", "builtin_mine"]}})
    project.commit()
    files = [f"10_hits.{suffix}" for suffix in ("csv", "pdf", "png", "svg")] + ["10_table.md"]
    for run in plan(study, root=project.root):
        pretend(run, 0.5, *files, "notebook.ipynb", "per_query.parquet")
    assert main([str(study), "--publish"]) == 0
    assert sorted(Path(name).name for name in _published(project.root)) == sorted(
        name.replace(".", f".{dataset}.")
        for dataset in ("my_set", "squad", "builtin_mine")
        for name in ("10_a.csv", *files)
    )


def test_the_study_says_which_run_is_published(project, monkeypatch, capsys):
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "# parameters\nvalue=0.5\ndataset='squad'")
    entry = {"notebook": "10_a", "matrix": {"value": [0.5, 0.7]}}
    study = project.study(entry)
    project.commit()
    for run in plan(study, root=project.root):
        pretend(run, run.parameters["value"])
    assert main([str(study), "--publish"]) == 2
    assert "several files" in capsys.readouterr().err
    assert _published(project.root) == {}
    project.study(entry | {"publish": {"value": 0.7}})
    project.commit()
    assert main([str(study), "--publish"]) == 0
    (published,) = _published(project.root).values()
    assert b"ours,hits@4,0.7," in published


def test_a_run_of_another_entry_is_published_beside_the_first(project, monkeypatch):
    monkeypatch.chdir(project.root)
    project.notebook("10_a", "# parameters\nvalue=0.5\ndataset='squad'")
    first, second = ({"notebook": "10_a", "matrix": {"value": [value]}} for value in (0.5, 0.7))
    study = project.study(first, second)
    project.commit()
    for run in plan(study, root=project.root):
        pretend(run, run.parameters["value"])
    assert main([str(study), "--publish"]) == 0
    found = {Path(name).name: content for name, content in _published(project.root).items()}
    assert b"ours,hits@4,0.5," in found["10_a.squad.csv"]
    assert b"ours,hits@4,0.7," in found["10_a.squad.value=0.7.csv"]


def test_the_import_is_light():
    code = "import sys, rag_utils.runs; print({'pandas', 'papermill', 'distributed', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
