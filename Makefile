# make demo and make test set up .venv by themselves; nothing but Python 3.11+ is needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format bench clean

demo: .venv/installed
	$(BIN)/streambayes reproduce artificial --output build/artificial

test: lint
	$(BIN)/pytest --numprocesses auto --dist loadfile

lint: .venv/installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/installed
	$(BIN)/python benchmarks/step_latency.py

clean:
	rm -rf .venv build

.venv/installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
	touch $@
