# `make help` is the menu. Every target makes what it needs: the virtual environment, then the real binaries.

PYTHON    ?= python3
PROFILE   ?= dev-50
SUBSTRATE ?= embedded
DURATION  ?=
# What prevalidate-kind runs; kind load docker-image puts them into the cluster.
IMAGES    ?= --image bigfleet=bigfleet:dev --image scaletest=bigfleet-scaletest:dev

# Containers and CI set it. Without compiled files each of a thousand processes would compile the project anew.
unexport PYTHONDONTWRITEBYTECODE

VENV   := .venv
READY  := $(VENV)/.ready
BIN    := $(VENV)/bin
RUNNER := $(BIN)/scaletest-runner

.DEFAULT_GOAL := help
.PHONY: help tools kernels scaletest plan prevalidate prevalidate-kind test test-unit test-oracle test-mutants test-integration test-smoke test-long bench bench-hot lint proto schemas dashboards gates-page score golden lock clean

help: ## Show this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PROFILE=$(PROFILE) SUBSTRATE=$(SUBSTRATE) DURATION=$(or $(DURATION),the profile's) can be set for scaletest and plan."

scaletest: tools kernels ## Run a scale test
	@$(RUNNER) --profile $(PROFILE) --substrate $(SUBSTRATE) $(if $(DURATION),--duration $(DURATION))

plan: $(READY) ## Show what a run would install, take and cost
	@$(RUNNER) plan --profile $(PROFILE) --substrate $(SUBSTRATE) $(if $(DURATION),--duration $(DURATION))

test: lint test-unit test-oracle test-mutants test-integration test-smoke ## Run all that CI runs

test-unit: kernels ## Run the fast tests, which need no binaries
	@$(BIN)/pytest -q -n 2 tests/unit

test-oracle: kernels ## Compare the engine with its oracle on random fleets
	@$(BIN)/pytest -q -n 2 tests/oracle tests/agreement

test-mutants: $(READY) ## Check that a named test notices each mistake in the engine
	@$(BIN)/pytest -q tests/mutants
	@$(BIN)/python -m tests.mutants.runner

test-integration: tools kernels ## Run the tests with the real binaries
	@$(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder tests/integration

test-long: tools kernels ## Run the hours of kills, signals, defects and random fleets (resumes)
	@SCALETEST_LONG=1 $(BIN)/pytest -v -m long tests/integration tests/smoke tests/unit tests/agreement $(LONG)

test-smoke: tools kernels ## Run a whole run, and runs with one broken hop each
	@$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder tests/smoke

prevalidate: kernels ## Check what can be known before any cluster starts
	@$(BIN)/python -m tests.prevalidate

prevalidate-kind: $(READY) ## Run dev-50 on the current kind context (IMAGES= names its images)
	@context=$$($$($(RUNNER) tools path kubectl) config current-context 2>/dev/null); \
	case "$$context" in \
	  kind-*) exec $(RUNNER) --profile dev-50 --substrate example-kind-laptop --duration $(or $(DURATION),3m) \
	    --context "$$context" $(IMAGES) ;; \
	  *) echo "there is no kind cluster to run on: the current kube context is $${context:-not set}" >&2; \
	     echo "hint: kind create cluster, then kind load docker-image bigfleet:dev bigfleet-scaletest:dev" >&2; \
	     exit 2 ;; \
	esac

bench: tools kernels ## Run every benchmark but the decision cycle (BENCH= chooses some)
	@$(BIN)/python -m tests.bench $(BENCH)

bench-hot: kernels ## Hold the decision cycle against its bars (BENCH=5k,50k or all)
	@$(BIN)/python -m tests.bench.engine.hot $(BENCH)

lint: $(READY) ## Check style, types, imports and the chart
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy bigfleet scaletest tests
	@$(BIN)/lint-imports --verbose > $(VENV)/imports.log 2>&1 || (cat $(VENV)/imports.log; exit 1)
	@$(BIN)/helm lint --strict --quiet --set runId=lint chart

tools: $(READY) ## Build the real binaries into the user cache, once
	@$(RUNNER) tools install

kernels: $(READY) ## Compile the engine's kernels into the user cache, once
	@$(BIN)/python -m bigfleet.engine.kernels build

proto: $(READY) ## Generate the code of bigfleet/api from its .proto files
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. bigfleet/api/v1alpha1/*.proto

schemas: $(READY) ## Generate docs/schemas from the models
	@for kind in profile substrate catalog summary; do $(RUNNER) schema $$kind > docs/schemas/$$kind.schema.json || exit 1; done

dashboards: $(READY) ## Generate dashboards/ from the gate list
	@$(BIN)/python -m scaletest.report.dashboard.stored

gates-page: $(READY) ## Generate docs/gates.md from the gate list and the mistakes
	@$(BIN)/python -m tests.smoke.mistakes.page

score: tools kernels ## See which mistakes in BigFleet a run notices (hours, resumes; ONLY= chooses some)
	@$(BIN)/python -m tests.smoke.score $(ONLY)

golden: $(READY) ## Store what chart and control planes render now
	@REFRESH_GOLDEN=1 $(BIN)/pytest -q tests/unit/chart/test_golden.py tests/unit/chart/test_schema.py \
	  tests/unit/scaletest/components -k "stored or current"

lock: ## Refresh requirements.lock from pyproject.toml
	@$(BIN)/pip-compile --quiet --extra dev --generate-hashes --no-emit-index-url --no-emit-trusted-host \
	  --no-emit-find-links --strip-extras --allow-unsafe -o requirements.lock pyproject.toml

clean: ## Remove the virtual environment and caches, not results and binaries
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	@find bigfleet scaletest tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  (echo "Python 3.11 or later is needed; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2)
	@echo "preparing $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index \
	  --config-settings editable_mode=compat -e . \
	  > $(VENV)/install.log 2>&1 || (cat $(VENV)/install.log; exit 1)
	@touch $@
