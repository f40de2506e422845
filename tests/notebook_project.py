"""A project of tiny notebooks in a temporary folder, for the tests of the runner."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

from rag_utils.runs import run_study

RESULTS = "system,metric,value,low,high,n,dropped,p\n"


def notebook(*cells, kernel="python3"):
    """Code cells; one that begins with `# parameters` is tagged; `kernel=None` names none."""
    made = []
    for number, source in enumerate(cells):
        metadata = {"tags": ["parameters"]} if source.startswith("# parameters") else {}
        cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": metadata, "source": source}
        made.append(cell | {"outputs": [], "execution_count": None})
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}} if kernel else {}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made}


class Project:
    def __init__(self, root: Path):
        self.root = root
        (root / "notebooks").mkdir(parents=True)
        (root / "papermill_runs").mkdir()
        (root / "pyproject.toml").touch()

    def notebook(self, name, *cells, **settings):
        path = self.root / "notebooks" / f"{name}.ipynb"
        path.write_text(json.dumps(notebook(*cells, **settings)))
        return path

    def study(self, *entries, name="study", **keys):
        """Entries are names of notebooks or mappings."""
        runs = [{"notebook": entry} if isinstance(entry, str) else entry for entry in entries]
        path = self.root / "papermill_runs" / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"study": name, "runs": runs} | keys))
        return path

    def run(self, path, **settings):
        return run_study(path, root=self.root, **settings)

    def command(self, *arguments, **settings):
        """The command line in a process of its own, started in the project."""
        command = [sys.executable, "-m", "rag_utils.runs", *map(str, arguments)]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, timeout=120, **settings)

    def git(self, *arguments):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self):
        (self.root / ".gitignore").write_text("papermill_runs/scratch/\n.cache/\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "state", "--allow-empty")


def printed(folder: Path) -> list[str]:
    """What the cells of the executed notebook printed, cell by cell; silent cells are left out."""
    cells = json.loads((folder / "notebook.ipynb").read_text())["cells"]
    outputs = [[o for o in cell.get("outputs", []) if o["output_type"] == "stream"] for cell in cells]
    return ["".join("".join(output["text"]) for output in group).strip() for group in outputs if group]
