# make run    the main job: attention at sequence 8192 (on the GPU where there is one, else in the simulator)
# make test   everything that needs no GPU, and the GPU tests where there is one
# make lint   format, lint (functions more complex than 10 are refused), types
# make mutants breaks the kernels' synchronisation in every single place and asks what notices (docs/mutants.md)
# make golden rewrites the recorded outputs that tests compare with; look at the diff before you keep it
# make timelines draws the pictures of docs/timelines.md again
# make clean  removes what these commands made
#
# Each makes .venv and installs what it needs on first use. PYTHON=python3.12 picks another interpreter;
# ARGS="--seq 4096" is handed to `croq run`, TESTS="tests/passes -k events" to pytest, MUTANTS="--kernel v4" to
# tools/mutate.py.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?= --seq 8192
TESTS ?=
MUTANTS ?=
WORKERS ?= auto

.DELETE_ON_ERROR:
.PHONY: run test lint golden timelines clean

run: $(VENV)/.for-run
	$(BIN)/croq run $(ARGS)

test: $(VENV)/.for-test
	$(BIN)/python -m pytest -n $(WORKERS) $(TESTS)

lint: $(VENV)/.for-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

mutants: $(VENV)/.for-test
	$(BIN)/python -m tools.mutate $(MUTANTS)

golden: $(VENV)/.for-test
	$(BIN)/python -m pytest -n $(WORKERS) --update-golden $(TESTS)
	git --no-pager diff --stat

timelines: $(VENV)/.for-run
	$(BIN)/python -m tools.timelines

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find croq tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "croq needs Python 3.11 or newer, and '$(PYTHON)' is not that: say which, e.g. make PYTHON=python3.12" >&2; \
	  exit 3; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# An editable install: a change of croq/, grammar/, runtime/ or kernels/ needs no second one.
$(VENV)/.for-run: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.for-test: $(VENV)/.made pyproject.toml tools/dev-constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint tools/dev-constraints.txt --editable '.[dev,plot]'
	touch $@ $(VENV)/.for-run
