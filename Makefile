# `make` lists the targets. Each of them first installs what it needs into one virtual environment, once:
# the demo what users install, everything else what developers need besides.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Wheels whose hashes stand in requirements/, and nothing else: see docs/decisions/0016-supply.md.
LOCKED := $(PIP) install -qq --require-hashes --no-deps --only-binary :all:
CORE_LOCKS := $(addprefix -r requirements/,core.txt build.txt $(if $(shell command -v npm),,node.txt))
# PyPI's PyTorch asks for CUDA, gigabytes of it. The build for CPUs, 2.13.0+cpu, is taken where pip is offered it.
TORCH := $(LOCKED) -r requirements/torch-cpu.txt 2> /dev/null || echo "No PyTorch for CPUs alone is offered: taking PyPI's"
CUDA := $(BIN)/python -c 'from importlib.metadata import version as v; exit("+" not in v("torch"))' \
	|| $(LOCKED) -r requirements/cuda.txt
PROJECT := $(PIP) install -qq --no-deps --no-build-isolation -e .
LOCKS := $(wildcard requirements/*.txt)
VIEWER := src/duotomo/report/viewer/viewer.js
OUT ?= out

# Waiting threads sleep: where other programs keep the cores busy, spinning OpenMP threads can cost a factor of ten.
# Not for `bench`, which wants the cores to itself.
demo test evidence figures: export OMP_WAIT_POLICY ?= passive

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types layers docs viewer lock bom dist bench evidence figures clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Two targets may want to install into the same environment.
.NOTPARALLEL:

$(BIN)/python:
	@$(PYTHON) -m venv --clear $(VENV)

$(CORE): pyproject.toml hatch_build.py $(LOCKS) | $(BIN)/python
	@echo "Installing duotomo into $(VENV) (minutes, the first time)"
	@$(TORCH)
	@$(LOCKED) $(CORE_LOCKS)
	@$(CUDA)
	@$(PROJECT)
	@$(PIP) check > /dev/null || $(PIP) check
	@touch $@

$(DEV): pyproject.toml hatch_build.py $(LOCKS) | $(BIN)/python
	@echo "Installing duotomo and what its developers need into $(VENV) (minutes, the first time)"
	@$(TORCH)
	@$(LOCKED) $(CORE_LOCKS) -r requirements/dev.txt
	@$(CUDA)
	@$(PROJECT)
	@$(PIP) check > /dev/null || $(PIP) check
	@touch $(CORE) $@

# The installation has built it; here it is built again when its source has changed.
$(VIEWER): $(wildcard viewer/src/* viewer/*.json viewer/*.mjs) | $(CORE)
	@echo "Building the viewer of the report page"
	@$(PROJECT)

demo: $(CORE) $(VIEWER) ## two visits of one breast, from simulated scans to the report in out/demo
	@$(BIN)/duotomo demo --out $(OUT)/demo

test: $(DEV) $(VIEWER) ## run the tests
	@$(BIN)/python -m pytest --quiet

check: lint types layers docs test ## run everything that continuous integration runs

lint: $(DEV) ## check style and formatting, and files that other programs read
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	@$(BIN)/pre-commit validate-config
	@echo "lint: clean"

types: $(DEV) ## check types
	@$(BIN)/mypy

layers: $(DEV) ## check that each layer imports only what stands below it
	@$(BIN)/lint-imports --no-cache --no-logo

docs: $(DEV) ## build the documentation into out/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict --site-dir $(abspath $(OUT))/site && echo "docs: built"

viewer: $(VIEWER) ## build the viewer of the report page

lock: $(DEV) ## write requirements/ anew: the hashes of what constraints.txt names (needs a network)
	@$(BIN)/python -m tools.lock

bom: $(DEV) ## write sboms/duotomo.cdx.json anew: the bill of materials of the wheel
	@$(BIN)/python -m tools.bom

dist: $(DEV) $(VIEWER) ## build a wheel and an sdist into dist
	@$(BIN)/python -m build --no-isolation

bench: $(DEV) ## time the projector and the warps beside their peers
	@$(BIN)/python -m benchmarks.peers

evidence: $(DEV) ## run every test on third-party data, and the slow tests (minutes)
	@$(BIN)/python -m pytest -rA -m "slow or not slow" tests/evidence
	@$(BIN)/python -m pytest --quiet -m slow --ignore tests/evidence || test $$? -eq 5  # 5: there are none

figures: $(DEV) ## draw the figures of the documentation
	@for script in docs/figures/*.py; do $(BIN)/python $$script || exit 1; done

clean: ## remove the virtual environment, outputs and caches
	@rm -rf $(VENV) $(OUT) build dist viewer/node_modules docs/extensions/katex/node_modules docs/extensions/offline/node_modules $(dir $(VIEWER)) .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
