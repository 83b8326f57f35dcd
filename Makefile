# Two commands for a newcomer:   make size   (plan the bundled traffic)     make test   (run all tests)
# Both set up .venv the first time and are quick afterwards. Needs Python 3.11+, git and make; nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
OUT := build/size
TRACE ?= weka-agentic-40-sessions
MODEL ?= deepseek-v4-pro
RPS ?= 10

.DEFAULT_GOAL := help
.PHONY: help size test check format lint types cov docs clean

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "pddplan needs Python 3.11 or newer; say which with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# One stamp per set of packages; a change of pyproject.toml installs again.
$(RUN_STAMP): pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (first time only)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(DEV_STAMP): pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) for development (first time only)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(RUN_STAMP)

size: $(RUN_STAMP)  ## Build a workload from the bundled trace sample and size it
	@mkdir -p $(OUT)
	@echo "1. traffic from the trace $(TRACE) -> $(OUT)/workload.yaml" >&2
	@$(BIN)/pddplan workload import $(TRACE) --model $(MODEL) --scale-to-rps $(RPS) \
	  --prefill-cache 20M --decode-cache 20M --ttft-p90 10.5 --ttft-p99 30 --tpot 50 --out $(OUT)/workload.yaml >&2
	@echo "2. plan -> $(OUT)/plan.json, $(OUT)/costs.csv" >&2
	@$(BIN)/pddplan size --workload $(OUT)/workload.yaml --out $(OUT)/plan.json --csv $(OUT)/costs.csv

test: $(DEV_STAMP)  ## Run all tests
	@$(BIN)/python -m pytest -q $(PYTEST_ARGS)

check: lint types  ## Lint and type-check

lint: $(DEV_STAMP)  ## ruff
	@$(BIN)/ruff check pddplan tests docs
	@$(BIN)/ruff format --check --quiet pddplan tests docs

types: $(DEV_STAMP)  ## mypy
	@$(BIN)/mypy

format: $(DEV_STAMP)  ## Put all code into the house format
	@$(BIN)/ruff check --fix --quiet pddplan tests docs
	@$(BIN)/ruff format --quiet pddplan tests docs

docs: $(DEV_STAMP)  ## Write the generated parts of the documentation anew
	@$(BIN)/python docs/generate.py

cov: $(DEV_STAMP)  ## Run all tests with branch coverage
	@$(BIN)/python -m pytest -q --cov --cov-report=term

clean:  ## Remove everything that was built, and .venv
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov *.egg-info
