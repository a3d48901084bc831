# The only door. `make help` lists what it opens.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL := .cache/model
# Settings of demo and run: Envoy's port, and a real LLM server behind it (make run LLM_BASE_URL=http://host:8000/v1).
PORT ?= 10000
LLM_BASE_URL ?=
LLM_API_KEY ?=
PYTEST_ARGS ?=

export LLM_BASE_URL LLM_API_KEY

.PHONY: help setup model demo run test check format proto bench image clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## create the environment and install everything (done by the others when needed)

$(VENV)/.installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "python3 (3.11 or newer) is needed: set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, this is $$($(PYTHON) --version): set PYTHON=python3.11"; exit 1; }
	@echo "==> creating the environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "==> installing the packages (about a minute the first time)"
	@set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --editable '.[dev]' \
	  | sed -u -n 's/^Collecting \([^ ;<>=!~(]*\).*/    \1/p; s/^Installing collected.*/    installing/p'
	@touch $@

model: $(MODEL)/manifest.json ## build the embedding model's file (once)

$(MODEL)/manifest.json: | $(VENV)/.installed
	@echo "==> building the embedding model (once, cached in $(MODEL))"
	@$(BIN)/semrouter-memory model build --directory $(MODEL)

demo: setup model ## play a conversation that is remembered, through the real Envoy
	@$(BIN)/semrouter-memory demo --port $(PORT) --model $(MODEL)

run: setup model ## the same installation, staying up; prints curl lines to try
	@$(BIN)/semrouter-memory run --port $(PORT) --model $(MODEL)

test: setup model ## all test suites, with the real Envoy and the real Milvus
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check: setup ## format, lint, types, import contracts, generated code
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory proto-check

format: setup ## format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

PROTOC = $(BIN)/python -m grpc_tools.protoc -Iproto

proto: setup ## generate the protobuf code
	@$(PROTOC) --python_out=semrouter_memory/transport/pb --pyi_out=semrouter_memory/transport/pb proto/ext_proc.proto

.PHONY: proto-check
proto-check:
	@out=$$(mktemp -d) && trap 'rm -r "$$out"' EXIT \
	  && $(PROTOC) --python_out="$$out" --pyi_out="$$out" proto/ext_proc.proto \
	  && for file in "$$out"/*; do diff -q "$$file" semrouter_memory/transport/pb/ >/dev/null \
	     || { echo "generated code is out of date: run make proto"; exit 1; }; done \
	  && echo "generated code is current"

bench: setup model ## measure what memory adds, as ratios to the floor of the same run
	@$(BIN)/semrouter-memory bench --model $(MODEL)

image: ## build the container image (needs a container engine)
	docker build -f deploy/Dockerfile -t semrouter-memory .

clean: ## remove everything that was made here
	rm -rf $(VENV) .cache .run build dist *.egg-info
