# tegg: `make` lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help run test test-long bench bench-peers lint clean

help:            ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.models  ## embed sentences with the real MiniLM, compiled for this machine
	$(BIN)/python examples/minilm.py

test: $(VENV)/.dev  ## the tests (under 8 minutes on 2 cores)
	$(BIN)/python -m pytest -n $(JOBS) -m "not long"

test-long: $(VENV)/.dev  ## every test, with many more examples
	$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile=long

bench: $(VENV)/.dev  ## times against NumPy, and PyTorch where it is installed
	$(BIN)/python benchmarks/run.py

bench-peers: $(VENV)/.peers  ## times against PyTorch, JAX, ONNX Runtime, Numba, NumPy: slow
	$(BIN)/python benchmarks/peers/run.py

lint: $(VENV)/.dev  ## ruff, and mypy on the package
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:           ## remove the virtual environment and what was built
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "tegg needs Python 3.11 or later, and $(PYTHON) is older; run make PYTHON=python3.11"; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.models: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[models]'
	@touch $@

$(VENV)/.peers: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[peers]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.models
