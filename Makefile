# The only door. `make help` lists what it opens.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL := .cache/model
REDIS := .cache/redis
CHROMIUM := .cache/chromium
# Settings of demo and run, which read them from the environment: PORT is Envoy's, those of the other parts follow it.
# LLM_BASE_URL and LLM_API_KEY put a real LLM server behind `run`, RUN_DIR is where it keeps
# its data: make run PORT=8080 LLM_BASE_URL=http://host:8000/v1
PYTEST_ARGS ?=
# Four keep two processors busy, and each one more reads all tests for 15 s. All share one Milvus and one Redis; a file's tests
# stay together.
TEST_WORKERS ?= 4
# Compiled modules are kept where the environment says otherwise, too: tests start the service a hundred times.
unexport PYTHONDONTWRITEBYTECODE
# What the benchmark measures: make bench BENCH_ARGS=--quick, or BENCH_ARGS='--only growth --lite 1000'.
BENCH_ARGS ?=
FUZZ_SECONDS ?= 60

.PHONY: help setup model redis chromium demo run test collect coverage faults fuzz check format proto docs screenshots recordings bench wheel fit image clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

# Modules are compiled when they are first imported: most never are, and compiling all takes a third of the time.
setup: $(VENV)/.installed ## create the environment and install everything (done by the others when needed)

$(VENV)/.installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "python3 (3.11 or newer) is needed: set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, this is $$($(PYTHON) --version): set PYTHON=python3.11"; exit 1; }
	@echo "==> creating the environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "==> installing the packages (about a minute the first time)"
	@set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --no-compile --editable '.[dev]' \
	  | sed -u -n 's/^Collecting \([^ ;<>=!~(]*\).*/    \1/p; s/^Installing collected.*/    installing/p'
	@touch $@

model: $(MODEL)/manifest.json ## build the embedding model's file (once)

$(MODEL)/manifest.json: | $(VENV)/.installed
	@echo "==> building the embedding model (once, cached in $(MODEL))"
	@$(BIN)/semrouter-memory model build --directory $(MODEL)

demo: setup model ## play a conversation that is remembered, through the real Envoy
	@$(BIN)/semrouter-memory demo --model $(MODEL)

run: setup model ## the same installation, staying up with its data; prints lines to try
	@$(BIN)/semrouter-memory run --model $(MODEL)

redis: ## find a redis-server for the tests, else unpack Debian's packages (once, without root)
	@command -v redis-server >/dev/null || $(MAKE) --no-print-directory $(REDIS)/redis-server

$(REDIS)/redis-server:
	@.ci/debian-program $(REDIS) usr/bin/redis-server redis-server redis-tools

chromium: ## find a chromium for the tests of the console, else unpack Debian's packages (once, without root)
	@command -v chromium >/dev/null || $(MAKE) --no-print-directory $(CHROMIUM)/chromium

# The font is for the pictures, which are the same on every machine then.
$(CHROMIUM)/chromium:
	@.ci/debian-program $(CHROMIUM) usr/lib/chromium/chromium chromium fonts-inter

test: setup model redis chromium ## all test suites, with the real Envoy, Milvus, Redis and Chromium
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

collect: setup ## find all tests, which also compiles them: otherwise each worker of the first run does
	@set -o pipefail; $(BIN)/python -m pytest --collect-only --quiet | tail -n 1

# Processes that tests start are not measured, so that the shell around the pure modules is covered by more than is shown.
coverage: setup model redis ## branch coverage of the tests without Envoy; the pure modules must have at least 95 %
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder --cov --cov-report= \
	  tests/unit tests/property tests/contract tests/component $(PYTEST_ARGS)
	@$(BIN)/coverage report --skip-covered
	@$(BIN)/coverage report --skip-covered --fail-under=95 \
	  --include="$$($(BIN)/python -c 'from tests.architecture.test_pure import MODULES; print(*MODULES, sep=",")')"

faults: setup model redis ## the fault suite in full (about 20 minutes); `make test` runs a reduced round of each fault
	@SEMROUTER_MEMORY_FAULTS=full $(BIN)/python -m pytest -s tests/faults $(PYTEST_ARGS)

fuzz: setup model ## coverage-guided fuzzing of codecs, wire and exchange (FUZZ_SECONDS=60 for all), then the properties with ten times the examples
	@nice -n 19 $(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)
	@SEMROUTER_MEMORY_PROPERTIES=full nice -n 19 $(BIN)/python -m pytest -n $(TEST_WORKERS) --timeout 1800 tests/property $(PYTEST_ARGS)

check: lint types proto-check docs-check ## format, lint, types, import contracts, generated code, documentation

.PHONY: lint types
lint: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-logo

types: setup
	@$(BIN)/mypy

format: setup ## format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Each description is found where its generated code goes, so that an import in one is an import in the other.
PROTOC = $(BIN)/python -m grpc_tools.protoc -Isemrouter_memory/transport/pb=proto -Isemrouter_memory/replay/pb=proto
PROTOS = transport/pb/ext_proc.proto replay/pb/recording.proto replay/pb/tap.proto

proto: setup ## generate the protobuf code
	@$(PROTOC) --python_out=. --pyi_out=. $(PROTOS:%=semrouter_memory/%)

.PHONY: proto-check
proto-check: setup
	@out=$$(mktemp -d) && trap 'rm -r "$$out"' EXIT \
	  && $(PROTOC) --python_out="$$out" --pyi_out="$$out" $(PROTOS:%=semrouter_memory/%) \
	  && (cd "$$out" && find . -type f) | while read -r file; do cmp -s "$$out/$$file" "$$file" \
	     || { echo "$$file is out of date: run make proto"; exit 1; }; done \
	  && echo "generated code is current"

# The variable silences an announcement of the theme's authors. With --quiet, --strict would count no warnings.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs: setup ## write the references from the code and build the documentation into site/
	@$(BIN)/python -m docs.generate
	@$(MKDOCS)
	@echo "the documentation is in site/index.html"

screenshots: setup chromium ## let the tests of the console take the pictures that `make docs` then shows (docs/images)
	@SEMROUTER_MEMORY_SCREENSHOTS=docs/images $(BIN)/python -m pytest -q tests/console $(PYTEST_ARGS)

# A broken link is an error. That the references are current is a test's to say.
.PHONY: docs-check
docs-check: setup
	@out=$$(mktemp -d) && trap 'rm -r "$$out"' EXIT && $(MKDOCS) --site-dir "$$out" && echo "the documentation's links are good"

# Needs no environment, so that it can run while one is installed: each of the two keeps one processor busy.
wheel: ## build the wheel, install it by name into an empty environment, run it from there; leaves it in dist/
	@$(PYTHON) .ci/wheel.py

fit: setup model ## fit the learned decisions (semrouter_memory/learned) to training/, or with PROFILE=config.yaml for another embedding model
	@$(BIN)/python -m training.fit $(PROFILE)

recordings: setup model ## record the traffic that the integration tests replay anew (tests/recordings)
	@$(BIN)/python -m tests.recordings.make --model $(MODEL)

bench: setup model ## measure what memory adds, as ratios to the floor of the same run (BENCH_ARGS=--quick: less of it)
	@$(BIN)/python -m bench --model $(MODEL) $(BENCH_ARGS)

image: ## build the container image (needs a container engine)
	docker build -f deploy/Dockerfile -t semrouter-memory .

clean: ## remove everything that was made here
	rm -rf $(VENV) .cache .run build dist site *.egg-info
