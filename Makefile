# make demo and make test set up .venv by themselves; nothing but Python 3.11+ is needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo reproduce test test-all crash lint format bench clean

demo: .venv/installed
	$(BIN)/streambayes demo --output build/demo

# the paper's experiments; finance needs LOANS=path, a file of loans of Lending Club
reproduce: .venv/installed
	$(BIN)/streambayes reproduce artificial --output build/artificial
	$(BIN)/streambayes reproduce electricity --output build/electricity
	$(BIN)/streambayes reproduce electricity --protocol text --output build/electricity-text
	$(BIN)/streambayes reproduce electricity --protocol paper --output build/electricity-paper
	$(BIN)/streambayes reproduce gps --output build/gps
	$(if $(LOANS),$(BIN)/streambayes reproduce finance --data $(LOANS) --output build/finance)

test: lint
	$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# the same with all combinations of models and policies, and a hundred kills of every source
test-all: lint
	STREAMBAYES_TESTS=all STREAMBAYES_KILLS=100 $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# a run is killed a hundred times and has to end as one that was never killed
crash: .venv/installed
	STREAMBAYES_KILLS=100 $(BIN)/pytest tests/sources/test_crash.py

lint: .venv/installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# beside peers, in an environment of its own; writes benchmarks/results.json, results.md and docs/figures/speed
bench: .venv-bench/installed
	.venv-bench/bin/python benchmarks/step_latency.py
	.venv-bench/bin/python -m benchmarks.speed

.venv-bench/installed: pyproject.toml requirements.lock benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --constraint requirements.lock --requirement benchmarks/requirements.txt --editable '.[all,data]'
	touch $@

clean:
	rm -rf .venv .venv-bench build

.venv/installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements.lock --editable '.[dev]'
	touch $@
