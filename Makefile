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
.PHONY: help size test check format lint types cov docs lock locked audit clean

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
	@$(BIN)/ruff check pddplan tests docs benchmarks
	@$(BIN)/ruff format --check --quiet pddplan tests docs benchmarks

types: $(DEV_STAMP)  ## mypy
	@$(BIN)/mypy

format: $(DEV_STAMP)  ## Put all code into the house format
	@$(BIN)/ruff check --fix --quiet pddplan tests docs benchmarks
	@$(BIN)/ruff format --quiet pddplan tests docs benchmarks

docs: $(DEV_STAMP)  ## Write the generated parts of the documentation anew
	@$(BIN)/python docs/generate.py

cov: $(DEV_STAMP)  ## Run all tests with branch coverage
	@$(BIN)/python -m pytest -q --cov --cov-report=term

lock:  ## Write requirements-dev.lock anew: newest versions within the bounds, with hashes
	@$(PYTHON) -m venv $(VENV)-lock
	@$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check 'pip-tools>=7.4,<8'
	@$(VENV)-lock/bin/pip-compile --quiet --upgrade --extra dev --generate-hashes --strip-extras --allow-unsafe \
	  --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements-dev.lock pyproject.toml

locked: | $(BIN)/python  ## Set .venv up from requirements-dev.lock, every package by its hash
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(RUN_STAMP) $(DEV_STAMP)

audit:  ## Known vulnerabilities of the locked packages (needs a network; without one it says so and passes)
	@$(PYTHON) -m venv $(VENV)-audit
	@if $(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7,<3' 2>/dev/null; then \
	  $(VENV)-audit/bin/pip-audit --require-hashes --disable-pip -r requirements-dev.lock > $(VENV)-audit/report 2>&1; \
	  code=$$?; cat $(VENV)-audit/report; \
	  if [ $$code -ne 0 ] && ! grep -q 'known vulnerabilit' $(VENV)-audit/report; then \
	    echo "audit: the service cannot be reached from here; nothing was checked"; code=0; fi; \
	  echo "audit: $$(grep -c 'could not be audited' $(VENV)-audit/report) of $$(grep -c '^[a-z].*==' requirements-dev.lock)" \
	    "locked packages are unknown to the service and were not checked"; exit $$code; \
	else echo "audit: pip-audit cannot be installed from here; nothing was checked"; fi

clean:  ## Remove everything that was built, and .venv
	rm -rf $(VENV) $(VENV)-lock $(VENV)-audit build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov *.egg-info
