# Every target sets up what it needs: `make demo` and `make test` only require Python 3.11 to 3.13.
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-slow test-cluster test-notebooks test-lowest golden fuzz fuzz-long lint format check-types layers unit docs docs-serve notebooks bench soak clean

# The first suitable Python on the path; `make PYTHON=/path/to/python ...` selects another.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if $$p -c '$(SUITABLE)' >/dev/null 2>&1; then echo $$p; break; fi; done)

VENV := .venv
# A separate environment, because the other libraries may need other versions of our dependencies.
BENCH := .venv-bench
LOWEST := .venv-lowest
BIN := $(VENV)/bin
# Debian packages Python without ensurepip; then the system's pip installs into the environment from outside.
PIP = $(if $(wildcard $(BIN)/pip),$(BIN)/python -m pip,$(PYTHON) -m pip --python $(BIN)/python)

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11, 3.12 or 3.13 found; install one, or use make PYTHON=..." >&2; exit 1; }
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

demo: $(VENV)/.installed ## Evolve a recurrent network that solves parity
	$(BIN)/tfsm run parity --mutation sm-g-sum

test: lint check-types layers unit ## Run all checks except the slow tests

test-all: lint check-types layers unit test-slow ## Run all checks and all tests (well over an hour)

lint: $(VENV)/.installed-test ## Check the style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-test ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check-types: $(VENV)/.installed-test ## Check the types
	$(BIN)/mypy

layers: $(VENV)/.installed-test ## Check that each layer imports only from the layers below it
	PYTHONPATH=plugins:domains $(BIN)/lint-imports

unit: $(VENV)/.installed-test ## Run the tests except the slow ones
	$(BIN)/pytest -n auto --dist loadfile -m "not slow"

test-slow: $(VENV)/.installed-test ## Run the slow tests: whole experiments and all combinations (over an hour)
	$(BIN)/pytest -m "slow and not cluster"

test-cluster: $(VENV)/.installed-test ## Test a Ray cluster of three nodes in network namespaces (root on Linux; half an hour)
	$(BIN)/pytest -m cluster tests/faults/test_cluster_faults.py

# The lowest versions of all direct dependencies in pyproject.toml, of the extras too. Ray is left out: it is large, and has
# tests of its own. A selection of quick tests touches every library. Old libraries use what newer ones deprecate.
LOWEST_TESTS := tests/settings tests/plugins/test_options.py tests/plugins/test_plugins.py tests/plugins/test_registry.py \
	tests/kernels/test_random.py tests/analysis/test_statistics.py tests/runs/test_records.py tests/runs/test_directory.py \
	tests/observers tests/render tests/report tests/cli/test_watch.py tests/cli/test_progress.py

$(LOWEST)/.installed: pyproject.toml | $(VENV)/.installed-test
	@echo "installing tfsm with the lowest versions of its dependencies into $(LOWEST)"
	@$(PIP) install --quiet --disable-pip-version-check uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		'.[plot,replay,tensorboard,gym,watch]' pytest==8.3.0 hypothesis==6.112.0 playwright==1.49.0
	@touch $@

test-lowest: $(LOWEST)/.installed ## Test with the lowest versions of all dependencies (some minutes)
	$(LOWEST)/bin/python tests/smoke.py
	PYTHONPATH=. $(LOWEST)/bin/python -m pytest -m "not slow" -W ignore::DeprecationWarning $(LOWEST_TESTS)

test-notebooks: $(VENV)/.installed-test ## Run the notebooks as scripts
	$(BIN)/pytest tests/examples/test_notebooks.py

# The digests depend on the processor and on the versions of TensorFlow and NumPy, so this is not part of the tests.
golden: $(VENV)/.installed-test ## Check golden runs bit for bit (only on the machine that recorded them)
	$(BIN)/python tests/golden/golden.py check tests/golden/golden.json --tfsm $(abspath $(BIN)/tfsm)

fuzz: $(VENV)/.installed-test ## Fuzz all inputs with more examples (EXAMPLES=500 per kind: an hour or two)
	TFSM_FUZZ_EXAMPLES=$(or $(EXAMPLES),500) $(BIN)/pytest tests/fuzz

$(VENV)/.installed-fuzz: pyproject.toml | $(VENV)/.installed-test
	@$(PIP) install --quiet --disable-pip-version-check --editable '.[all,fuzz]'
	@touch $(VENV)/.installed $(VENV)/.installed-test $@

fuzz-long: $(VENV)/.installed-fuzz ## Fuzz all files with feedback from coverage (SECONDS=3600 per target, TARGETS: some only)
	$(BIN)/python -m tests.fuzz.long --seconds $(or $(SECONDS),3600) $(TARGETS)

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	@echo "installing tfsm and the tools of its documentation into $(VENV) (this takes a minute or two)"
	@$(PIP) install --quiet --disable-pip-version-check --editable '.[all,docs]'
	@touch $(VENV)/.installed $@

docs: $(VENV)/.installed-docs ## Build the documentation site into build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
	$(BIN)/python -m docs.scripts.check_site build/site

docs-serve: $(VENV)/.installed-docs ## Serve the documentation site on 127.0.0.1, and follow changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

notebooks: $(VENV)/.installed-docs ## Make the notebooks from their scripts, and run them (some minutes)
	$(BIN)/python -m docs.scripts.make_notebooks

# PyTorch's default build for Linux downloads several GB of CUDA; PIP_CONSTRAINT can select another build. If the extra
# cannot be installed, its libraries are installed one by one, so that a missing one does not prevent the others.
$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	@echo "installing tfsm and the libraries it is compared with into $(VENV) (this may take some minutes)"
	@$(PIP) install --quiet --disable-pip-version-check --editable '.[bench]' && touch $@ || { \
		$(PIP) install --quiet --disable-pip-version-check --editable '.[plot]' || exit 1; \
		for library in pygad evosax evotorch; do \
			$(PIP) install --quiet --disable-pip-version-check "$$library" || \
			echo "$$library cannot be installed here: benchmarking without it" >&2; done; }

bench: ## Benchmark against Keras and other libraries (about 13 minutes; QUICK=1: one)
	@$(MAKE) --no-print-directory VENV=$(BENCH) $(BENCH)/.installed-bench
	$(BENCH)/bin/python -m benchmarks $(if $(QUICK),--quick) --plots --markdown build/benchmarks/tables.md --out build/benchmarks

soak: $(VENV)/.installed-test ## Kill runs at random moments for hours (HOURS=6), and append to results/soak
	nice $(BIN)/python -m benchmarks.kill_soak --hours $(or $(HOURS),6)

clean: ## Remove environments and caches
	rm -rf $(VENV) $(BENCH) $(LOWEST) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
