# One command sets up and runs; another sets up and tests. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run test test-all lint mutants oracle docs clean

run: $(VENV)/.run
	$(BIN)/roofline estimate llama70b --hw h100

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(VENV)/.test
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy

# `make mutants N=45 SEED=7`: breaks the package in N places and prints what no test notices.
N ?= 60
SEED ?= 1
mutants: $(VENV)/.test
	$(BIN)/python -m pip install -q -e '.[mutants]'
	$(BIN)/python tests/mutants/run.py -n $(N) --seed $(SEED)

oracle: $(VENV)/.test
	$(BIN)/python -m pip install -q -e '.[oracle]'
	$(BIN)/python tests/oracle/refresh.py
	$(BIN)/python tests/oracle/hybrids.py
	$(BIN)/python tests/oracle/encoder_families.py
	$(BIN)/python tests/oracle/images.py
	$(BIN)/python tests/oracle/decoders.py
	$(BIN)/python tests/oracle/dense_families.py

docs: $(VENV)/.test
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/exercises/generate.py

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e .
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/python -m pip install -q -e '.[test,lint]'
	touch $@

clean:
	rm -rf $(VENV) dist build .mutants .pytest_cache .ruff_cache .mypy_cache .hypothesis
