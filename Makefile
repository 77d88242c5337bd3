# tegg: `make` lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.DEFAULT_GOAL := help
BUNDLE ?= build/gpu
GPU_TESTS = $(patsubst %,tests/test_%.py,gpu cuda_kernels cuda_contraction cuda_mma cuda_wgmma \
  cuda_attention cuda_attention_wgmma keeping simt_kept simt_rows simt_wide simt_scatter simt_indices \
  simt_tiles simt_turned)
.PHONY: help run test test-gpu test-long bench bench-peers metal pycuda-wheel cuda-report gpu-bundle gpu lint clean

help:            ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.models  ## embed sentences with the real MiniLM, compiled for this machine
	$(BIN)/python examples/minilm.py

test: $(VENV)/.dev  ## the tests (10 to 20 minutes on 2 cores; half of it CUDA and Metal)
	$(BIN)/python -m pytest -n $(JOBS) -m "not long"

test-long: $(VENV)/.dev  ## every test, with ten times the examples, new ones in each run (hours on 2 cores)
	$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile=long

bench: $(VENV)/.dev  ## times against NumPy and PyTorch, and the error of halves
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/run.py --suite along --no-compile
	$(BIN)/python benchmarks/run.py --suite wide --no-compile
	$(BIN)/python benchmarks/halves.py

bench-peers: $(VENV)/.peers  ## times against PyTorch, JAX, ONNX Runtime, Numba, NumPy: slow
	$(BIN)/python benchmarks/peers/run.py

metal: $(VENV)/.metal  ## on a Mac: are the kernels right on its GPU, and how fast
	$(BIN)/python benchmarks/metal.py

pycuda-wheel: $(VENV)/.dev  ## a wheel of PyCUDA in dist/, without a GPU: minutes, once
	$(BIN)/python tools/pycuda_wheel.py dist

cuda-report: $(VENV)/.nvdisasm  ## registers, spills, widths of accesses, bytes moved of CUDA kernels: minutes
	$(BIN)/python tools/cuda_report.py

gpu-bundle: $(VENV)/.dev  ## programs and a runner for a machine with a GPU, in build/gpu
	$(BIN)/python benchmarks/gpu_bundle/make.py $(BUNDLE) --wheels dist

gpu:             ## run build/gpu on this machine's GPU: results, then times
	@test -f $(BUNDLE)/run.py || { \
	  echo "$(BUNDLE) is not there; run make gpu-bundle first, on any machine"; exit 1; }
	$(PYTHON) $(BUNDLE)

test-gpu: $(VENV)/.dev  ## the tests of CUDA whose kernels can run on this machine's GPU, there
	$(BIN)/python -m pytest -n $(JOBS) --gpu $(GPU_TESTS)

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

$(VENV)/.nvdisasm: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[nvdisasm]'
	@touch $@

$(VENV)/.metal: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[metal]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.models
