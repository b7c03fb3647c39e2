# Everything sets itself up: `make demo` and `make test` need Python 3.11 to 3.13 and nothing else.
.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz lint format check-types layers unit bench clean

# The first Python on the path that is new enough; `make PYTHON=/path/to/python ...` insists on one.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if $$p -c '$(SUITABLE)' >/dev/null 2>&1; then echo $$p; break; fi; done)

VENV := .venv
# Of its own, because the other libraries may want other versions of what tfsm needs.
BENCH := .venv-bench
BIN := $(VENV)/bin
# Debian splits ensurepip off its Python; then the pip that came with it installs into the environment from outside.
PIP = $(if $(wildcard $(BIN)/pip),$(BIN)/python -m pip,$(PYTHON) -m pip --python $(BIN)/python)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11, 3.12 or 3.13 found; install one, or say make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --without-pip --clear $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m pip --version >/dev/null 2>&1 || \
		{ rm -rf $(VENV); echo "error: $(PYTHON) has neither ensurepip nor pip; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing tfsm into $(VENV) (TensorFlow is large: this takes a minute or two)"
	@$(PIP) install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	@echo "installing tfsm and its test tools into $(VENV) (TensorFlow is large: this takes a minute or two)"
	@$(PIP) install --quiet --disable-pip-version-check --editable '.[all,test]'
	@touch $(VENV)/.installed $@

demo: $(VENV)/.installed ## Set up, then evolve a recurrent network that solves parity
	$(BIN)/tfsm run parity --mutation sm-g-sum

test: lint check-types layers unit ## Set up, then run every check but the slow ones

lint: $(VENV)/.installed-test ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-test ## Put style right where that can be done by a tool
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check-types: $(VENV)/.installed-test ## Check types
	$(BIN)/mypy

layers: $(VENV)/.installed-test ## Check that every layer imports only from those below it
	PYTHONPATH=plugins:domains $(BIN)/lint-imports

unit: $(VENV)/.installed-test ## Run the tests alone
	$(BIN)/pytest -n auto -m "not slow"

test-slow: $(VENV)/.installed-test ## Run whole experiments and every combination as tests (well over an hour)
	$(BIN)/pytest -m slow

fuzz: $(VENV)/.installed-test ## Fuzz all inputs with many more examples (EXAMPLES=500 for each kind: an hour or two)
	TFSM_FUZZ_EXAMPLES=$(or $(EXAMPLES),500) $(BIN)/pytest tests/fuzz

# PyTorch's default build for Linux brings some GB of CUDA; PIP_CONSTRAINT may name another one. Where the extra cannot
# be installed, its libraries are tried one by one: one that is not to be had here does not cost the others.
$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	@echo "installing tfsm and the libraries it is measured beside into $(VENV) (this may take some minutes)"
	@$(PIP) install --quiet --disable-pip-version-check --editable '.[bench]' && touch $@ || { \
		$(PIP) install --quiet --disable-pip-version-check --editable '.[plot]' || exit 1; \
		for library in pygad evosax evotorch; do \
			$(PIP) install --quiet --disable-pip-version-check "$$library" || \
			echo "$$library cannot be installed here: tfsm is measured without it" >&2; done; }

bench: ## Measure tfsm beside plain Keras and other libraries (about 13 minutes; QUICK=1: a minute)
	@$(MAKE) --no-print-directory VENV=$(BENCH) $(BENCH)/.installed-bench
	$(BENCH)/bin/python -m benchmarks $(if $(QUICK),--quick) --plots --out build/benchmarks

clean: ## Remove the environments and caches
	rm -rf $(VENV) $(BENCH) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
