# Two commands do everything: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
# Most modules that are installed are never imported: Python compiles the others when they are, once.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE
# With PYTHON=... given, a .venv of another Python is made anew: what is tested is what was asked for.
VERSION := -c 'import sys; print(sys.version.replace("\n", " "))'
ifneq ($(origin PYTHON),file)
ASKED := $(shell $(PYTHON) $(VERSION))
ifeq ($(ASKED),)
$(error PYTHON=$(PYTHON) does not run: name a Python of 3.11 or newer, such as PYTHON=python3.13)
endif
ifneq ($(ASKED),$(shell cat .venv/created 2>/dev/null))
$(shell rm -f .venv/created)
endif
endif

.PHONY: demo test check pytest docs quick coverage wheel-test dist tag-check fuzz lock audit bench-smoke speed clean



demo: .venv/installed  ## adapt a small trained model to images of three unseen scanners
	@echo "demo: adapts a model to phantom images of three unseen sites and draws the result"
	@$(BIN)/sitta demo

test: .venv/created  ## all checks and all tests; what does not wait for the other goes side by side
	@$(MAKE) --no-print-directory -j2 .venv/installed-dev .venv/browser
	@$(MAKE) --no-print-directory .venv/nnunet
	@$(MAKE) --no-print-directory -j2 check pytest

check: .venv/installed-dev
	@echo "check: style, types, layers, spelling"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	git ls-files -z | xargs -0 $(BIN)/codespell

pytest: .venv/nnunet
	@echo "test: runs every test and every example in the documentation"
	$(BIN)/pytest

quick: .venv/installed-dev  ## the tests that start no process, train nothing and open no browser
	@$(BIN)/pytest -m quick

coverage: .venv/installed-dev  ## lines that the tests run; writes the number that docs show
	@echo "coverage: runs every test and measures the lines of src that they reach"
	@$(BIN)/python scripts/measure_coverage.py

TORCH ?=
wheel-test:  ## install the package outside the clone, with PYTHON and TORCH=2.8.0 or newest, and use it
	@echo "wheel-test: builds, installs and uses the package in a clean environment"
	@$(PYTHON) scripts/wheel_test.py --torch '$(TORCH)'

dist: .venv/installed-dev  ## the sdist and the wheel of a release
	@rm -rf dist
	@$(BIN)/hatchling build -d dist

tag-check: .venv/installed-dev  ## whether TAG=v1.2.3 is the version of the package and of the changelog
	@$(BIN)/python scripts/tag_check.py "$$TAG"


docs: .venv/installed-dev  ## the documentation as a site; make test builds it, too
	@echo "docs: builds the site into docs/_build/site; a warning is an error"
	@$(BIN)/python scripts/build_docs.py

FUZZ_SECONDS ?= 600
FUZZ_SEED ?= 0
fuzz: .venv/installed-dev  ## damage files of every format, read them, keep what is no clear error
	@echo "fuzz: reads damaged files of every format for $(FUZZ_SECONDS) seconds"
	@$(BIN)/python -m tests.data.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)
	@echo "fuzz: reads damaged profiles, calibrations, decisions, sessions and records, too"
	@$(BIN)/python -m tests.data.fuzz_tables --seconds $$(($(FUZZ_SECONDS) / 4)) --seed $(FUZZ_SEED)

# torch is not locked: whether its CPU or its CUDA build is right depends on the machine.
LOCKED := bench dicom-seg docs nnunet onnx ray serve
lock: .venv/created  ## versions and SHA-256 of all packages of a release, from constraints.txt
	@$(INSTALL) uv
	@echo "torch; python_version < '0'" | $(BIN)/uv pip compile pyproject.toml $(LOCKED:%=--extra %) \
	  -c constraints.txt --override /dev/stdin --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header --quiet --upgrade -o requirements.lock

audit: .venv/created  ## known vulnerabilities of the locked packages; asks an advisory service
	@$(INSTALL) pip-audit
	@$(BIN)/pip-audit --strict --require-hashes --disable-pip -r requirements.lock

bench-smoke: .venv/installed-dev
	@echo "bench-smoke: a benchmark of phantoms, on this machine and on Ray, must come to the same"
	@$(BIN)/python benchmarks/smoke.py

speed: .venv/installed-dev  ## measure what benchmarks/ claims
	@echo "speed: measures ratios of run times and memory on this machine"
	@$(BIN)/python benchmarks/speed.py

.venv/created:
	@echo "set-up: makes .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sitta needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv --clear .venv
	@$(PYTHON) $(VERSION) > $@

.venv/installed: .venv/created pyproject.toml constraints.txt
	@echo "set-up: installs sitta into .venv"
	@$(INSTALL) -e .
	@touch $@

.venv/installed-dev: .venv/created pyproject.toml constraints.txt
	@echo "set-up: installs sitta and its development tools into .venv"
	@$(INSTALL) -e '.[dev]'
	@touch $@ .venv/installed

# nnU-Net without its dependencies, since they bring torchvision and timm: all that prediction needs
# is in the extra. Where it cannot be installed its tests are skipped, visibly.
.venv/nnunet: .venv/installed-dev
	@echo "set-up: installs nnU-Net into .venv"
	@$(INSTALL) -e '.[nnunet]' \
	  && $(INSTALL) --no-deps nnunetv2 dynamic_network_architectures acvl_utils \
	  || echo "set-up: no nnU-Net here; its tests will be skipped"
	@touch $@

# Pages are tested in Debian's chromium. Where it cannot be installed those tests are skipped, visibly.
.venv/browser: .venv/created
	@echo "set-up: finds or installs chromium for the tests of pages"
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium >/dev/null; } \
	  || echo "set-up: no chromium here; the tests of pages will be skipped"
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
