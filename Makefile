# One word for every task, the same on a laptop and in the workflows: `make help`.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
CARGO_FLAGS ?=
PYTEST_FLAGS ?= -n 2 --dist worksteal
SLOW_CASES ?= 10000
TORTURE_RUNS ?= 1000
POWER_CUTS ?= 20000
LOAD_SECONDS ?= 60
FUZZ_RUNS ?= 4000000
FUZZ_STORES ?= 20000

ifeq ($(OS),Windows_NT)
  BIN := .venv/Scripts
  PY := $(BIN)/python.exe
  PEERS_PY := .venv-peers/Scripts/python.exe
else
  BIN := .venv/bin
  PY := $(BIN)/python
  PEERS_PY := .venv-peers/bin/python
endif
export VIRTUAL_ENV := $(CURDIR)/.venv
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Files whose time tells when a step was last done.
TOOLS := .venv/.tools-installed
INSTALLED := .venv/.siltstone-installed
PEERS := .venv-peers/.peers-installed
# By wildcard, so that no shell is needed to read it.
RUST := Cargo.toml $(wildcard Cargo.lock rust/*/Cargo.toml rust/*/src/*.rs rust/*/src/*/*.rs rust/*/src/*/*/*.rs)
COUNTED := $(PY) scripts/tally.py
# With CI=true the properties of Rust have the same cases in every run, as those of Python have; elsewhere new ones.
SEEDED := $(if $(filter true,$(CI)),PROPTEST_RNG_SEED=20)

.PHONY: help install build format lint test test-adapters real-model test-slow torture torture-postgres faults load sanitize fuzz demo bench bench-felt bench-peers quality evidence requests site docs licences sizes mutants ci clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED) ## Make .venv: the release build, the siltstone command, the tools of lint and test

$(TOOLS): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("siltstone needs CPython 3.11 or later, but $(PYTHON) is %d.%d; say: make PYTHON=/path/to/python3.11 ..." % v[:2])'
	@command -v cargo >/dev/null || { echo "siltstone is built with Rust 1.90 or later, and there is no cargo on PATH: see https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --group dev
	@touch $@

# Python sources are used where they are; only the compiled core has to be made again.
$(INSTALLED): $(TOOLS) $(RUST)
	$(BIN)/maturin develop --release --extras cli $(CARGO_FLAGS)
	@touch $@

build: $(TOOLS) ## Make the wheel and the source distribution in dist/
	$(BIN)/maturin build --release --sdist --out dist $(CARGO_FLAGS)

format: $(TOOLS) ## Put sources into their form
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	cargo fmt --all

lint: install ## Everything that reads the sources and runs none of them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cargo fmt --all --check
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/api.py
	$(BIN)/mypy tests/typing/clients.py
	$(BIN)/pyright --pythonpath $(PY)
	$(PY) -m mypy.stubtest --mypy-config-file pyproject.toml siltstone._native
	PYO3_PYTHON=$(CURDIR)/$(PY) cargo clippy --workspace --all-targets $(CARGO_FLAGS) -- -D warnings
	PYO3_PYTHON=$(CURDIR)/$(PY) RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps $(CARGO_FLAGS)
	$(BIN)/zizmor --offline --pedantic --strict-collection .github
	$(PY) scripts/sizes.py --check
	$(PY) -m pytest -q tests/test_workflows.py

test: install ## Run the tests of Rust and of Python; fails when there were none
	$(SEEDED) $(COUNTED) cargo test --workspace --no-fail-fast $(CARGO_FLAGS)
	$(COUNTED) $(PY) -m pytest $(PYTEST_FLAGS)

test-adapters: install ## Adapters and the MCP server in environments of their own, at the lowest and the newest version
	$(COUNTED) $(PY) scripts/sessions.py --envdir .nox -s adapter server

real-model: install ## A model of 270M parameters in llama.cpp's server: loops, summaries, streams, frameworks; a quarter of an hour
	$(PY) -m nox --envdir .nox -s real_model

test-slow: install ## The same properties over 10,000 examples each; takes a while
	PROPTEST_CASES=$(SLOW_CASES) $(COUNTED) cargo test --workspace --release --no-fail-fast $(CARGO_FLAGS)
	HYPOTHESIS_PROFILE=slow $(COUNTED) $(PY) -m pytest $(PYTEST_FLAGS)

torture: install ## kill -9 at random moments of every write, 1,000 times, and of repairs; ten minutes
	SILTSTONE_TORTURE_RUNS=$(TORTURE_RUNS) $(PY) -m pytest -q -s tests/memory/test_torture.py

torture-postgres: install ## Kill clients and servers, cut connections, delete primaries: 100, 40, 300 and 5 times
	SILTSTONE_TORTURE_POSTGRES=long $(PY) -m pytest -q -s tests/postgres/test_torture.py tests/postgres/test_set_up.py

faults: ## Cut power in 20,000 states, refuse every call to the disk in turn, damage files; takes 15 minutes
	SILTSTONE_POWER_CUTS=$(POWER_CUTS) SILTSTONE_REFUSALS=all \
	  cargo test --release -p siltstone-faults $(CARGO_FLAGS) -- --nocapture --test-threads=1

load: install ## Eight processes on one store for a minute; prints their calls and busy errors
	SILTSTONE_LOAD_SECONDS=$(LOAD_SECONDS) $(PY) -m pytest -q -s tests/memory/test_load.py

# The sanitizers come with the stable compiler, and are switched on by flags that it keeps for itself.
# SQLite is compiled with them too, which needs clang. The standard library is not, so ThreadSanitizer is told
# what it cannot see there; our own locks are compiled from source, and it sees those.
SANITIZED = RUSTC_BOOTSTRAP=1 CC=clang CFLAGS=-fsanitize=$(1) \
	  RUSTFLAGS='-Zsanitizer=$(1) -Cunsafe-allow-abi-mismatch=sanitizer' \
	  CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_STRIP=none CARGO_TARGET_DIR=target/$(1) \
	  cargo test --release --target $$(rustc -vV | sed -n 's/^host: //p') -p $(2) $(CARGO_FLAGS)

sanitize: export TSAN_OPTIONS := exitcode=66 suppressions=$(CURDIR)/scripts/thread-sanitizer.txt
sanitize: ## AddressSanitizer and ThreadSanitizer over the core's tests of threads and damaged files (Linux, clang)
	@command -v clang >/dev/null || { echo "SQLite must be compiled with the sanitizer too, and there is no clang on PATH" >&2; exit 1; }
	$(call SANITIZED,address,siltstone-core) --test threads --test reopen --test lineage
	$(call SANITIZED,thread,siltstone-core) --test threads -- --test-threads=1
	$(call SANITIZED,thread,siltstone-ann) --test recall -- --test-threads=1 while_a_writer_adds

# What cargo-fuzz would pass, so that it need not be installed; `cargo fuzz run text` works as well.
fuzz: ## libFuzzer over texts, histories, files of indexes (FUZZ_RUNS each) and stores with changed bytes
	cd fuzz && RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=target RUSTFLAGS="-Cpasses=sancov-module \
	  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
	  -Ccodegen-units=1 --cfg fuzzing" \
	  cargo build --release --target $$(rustc -vV | sed -n 's/^host: //p')
	cd fuzz && for target in text history indexes; do \
	  target/*/release/$$target -runs=$(FUZZ_RUNS) -max_len=256 -print_final_stats=1; done
	cd fuzz && target/*/release/stored -runs=$(FUZZ_STORES) -max_len=32 -print_final_stats=1

demo: install ## An agent reads the standard library through a small window, and remembers
	$(BIN)/siltstone demo

bench: install ## Measure, beside the slow twins and the run before; each bench checks its answer first
	$(PY) -m pytest -c benches/python/pytest.ini benches/python --benchmark-autosave --benchmark-compare
	set -e; for script in benches/python/bench_*.py; do echo "== $$script"; $(PY) "$$script"; done
	cargo bench -p siltstone-benches $(CARGO_FLAGS)

bench-felt: install $(PEERS) ## What a host feels: the start, each call, what a session waits for others, what many sessions hold
	set -e; for script in python/bench_start felt/turn felt/money felt/isolation felt/memory; do echo "== $$script"; $(PY) "benches/$$script.py"; done
	PYTHONPATH=python $(PEERS_PY) benches/felt/peers.py

# What siltstone is measured beside needs an environment of its own: it is no part of lint and test.
$(PEERS): pyproject.toml
	$(PYTHON) -m venv .venv-peers
	$(PEERS_PY) -m pip install --quiet --upgrade 'pip>=25.1'
	$(PEERS_PY) -m pip install --quiet --group peers
	@touch $@

bench-peers: install $(PEERS) ## The indexes beside hnswlib, usearch, faiss, tantivy, bm25s and others; takes a quarter of an hour
	PYTHONPATH=python $(PEERS_PY) benches/peers --record benches/record --plot docs/design/growth.svg
	PYTHONPATH=python $(PEERS_PY) benches/peers/trims.py

quality: install $(PEERS) ## What rankers and peers find, and what summaries keep, of recorded conversations (SILTSTONE_DATA)
	PYTHONPATH=python $(PEERS_PY) benches/quality --record benches/record
	PYTHONPATH=python $(PEERS_PY) benches/quality/evidence.py --record benches/record
	PYTHONPATH=python $(PEERS_PY) benches/quality/recall.py --record benches/record
	PYTHONPATH=python $(PEERS_PY) benches/quality/probes.py --record benches/record

evidence: install $(PEERS) ## The share of the evidence of recorded questions in the request that asks them (SILTSTONE_DATA)
	PYTHONPATH=python $(PEERS_PY) benches/quality/evidence_sent.py --record benches/record

requests: install ## What a session sends and what its search finds, beside what it was (SILTSTONE_DATA)
	$(PY) benches/quality/sent.py

site: install ## Build the site of the documentation, with its API reference, in target/site/html, and check its links
	$(PY) scripts/build_site.py

docs: site ## The site, the reference of the crates, and the examples of README and docs/
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps $(CARGO_FLAGS)
	$(PY) -m pytest -q tests/test_docs.py tests/test_reference.py

licences: ## Write THIRD-PARTY.txt, the licences of what is linked in; needs cargo-about
	cargo about generate --locked --fail --manifest-path rust/py/Cargo.toml about.hbs --output-file THIRD-PARTY.txt

mutants: install ## Break the code on purpose, place by place, and list the breaks that no test notices; 15 minutes
	$(PY) scripts/mutants.py

sizes: ## Count the lines of each room: code, comments and tests apart
	@$(PYTHON) scripts/sizes.py

ci: lint site test test-adapters ## What the workflows run

clean: ## Remove builds and caches; .venv stays
	cargo clean
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f python/siltstone/_native*.so python/siltstone/_native*.pyd $(INSTALLED)
	find python tests benches scripts -name __pycache__ -type d -prune -exec rm -rf {} +
