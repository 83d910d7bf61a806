# make demo, make test: each does all of its own set-up. `make help` lists the rest.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SIZE ?= small
CASE ?=
WORKERS ?= 2
# Coverage.py sees no compiled code: these tests take minutes, not hours, with the compiler off.
INTERPRETED := tests/reference tests/lang tests/distribution tests/optimizer/test_rumor.py tests/operators/pattern/test_automaton.py tests/operators/pattern/test_disjunctive_keys.py tests/operators/documents/test_join_graphs.py tests/scenarios $(addprefix \
  tests/properties/test_,buffers.py document_law.py interpreted.py join_graphs.py law.py live.py)

# Spark's workers must run the interpreter that has Braid in it.
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(abspath $(BIN)/python)
WITH_JAVA := java_home="$$(tools/ensure_java.sh)" || exit 1; export JAVA_HOME="$$java_home";
# The JVMs of tests live for seconds: Java's second compiler would take more time than it saves.
SHORT_LIVED := export SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";

.DEFAULT_GOAL := help
.PHONY: help setup kernels wheel hooks demo check format test test-all coverage bench clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: kernels  ## a virtual environment with everything in it, pinned, and all kernels compiled

$(STAMP): pyproject.toml requirements.lock tools/find_python.sh
	@python="$$(tools/find_python.sh)" || exit 1; \
	echo "Setting up $(VENV) with $$python ..."; \
	"$$python" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

kernels: $(STAMP)  ## compile what has changed of all kernels, for the processor of this machine
	@$(BIN)/python -m braid.build

wheel: $(STAMP)  ## a wheel in dist/, with kernels compiled for all processors of this architecture
	$(BIN)/python -m braid.build --target all
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist .

hooks: $(STAMP)  ## run the checks on every commit; needs the command pre-commit
	@command -v pre-commit >/dev/null || { echo "Install pre-commit first: https://pre-commit.com" >&2; exit 1; }
	pre-commit install

demo: $(STAMP)  ## 1,000 standing queries over a stock stream on local Spark; files in demo-output/
	@$(WITH_JAVA) $(BIN)/python -m braid.demo

check: $(STAMP)  ## format, lint, types, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/project/test_imports.py

format: $(STAMP)  ## rewrite the sources in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check kernels  ## every check and test but the slow ones
	@$(WITH_JAVA) $(SHORT_LIVED) set -e; \
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not spark"; \
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "spark and not slow"

test-all: check kernels  ## the slow ones too
	@$(WITH_JAVA) $(SHORT_LIVED) set -e; \
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -q -n $(WORKERS) -m "not spark"; \
	$(BIN)/pytest -q -m "spark"

coverage: $(STAMP)  ## what the tests of the interpreted lane reach; a report in build/coverage
	@rm -rf build/coverage; mkdir -p build/coverage/data; status=0; \
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=few $(BIN)/coverage run -m pytest -q --disable-warnings -n $(WORKERS) \
	  --dist worksteal -m "not slow and not spark" $(INTERPRETED) || status=1; \
	$(BIN)/coverage combine --quiet && $(BIN)/coverage report && $(BIN)/coverage html --quiet || status=1; \
	exit $$status

bench: kernels  ## measure; CASE=name (all without), SIZE=small|full
	@$(WITH_JAVA) $(BIN)/python -m benchmarks $(CASE) --size $(SIZE)

clean:  ## remove everything that was made
	rm -rf $(VENV) build dist demo-output benchmarks/results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	rm -f src/braid/jit/compiled/packs/*.pack src/braid/lang/parse/*.tables
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
