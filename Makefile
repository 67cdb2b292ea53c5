# Everything a fresh machine needs: `make demo` and `make test` set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help demo docs test test-all mutants fuzz check format bench lock sbom clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)  ## train four methods on built-in digits, one to two minutes on two free cores
	$(BIN)/duotone demo

docs: $(READY)  ## build the site into docs/_build; open docs/_build/index.html
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build

test: check  ## everything the default suite has
	$(BIN)/python -m pytest -n 2

test-all: check  ## the slow tests too
	$(BIN)/python -m pytest -n 2 -m 'slow or not slow'

mutants: $(READY)  ## break the code on purpose and see which test notices (slow)
	$(BIN)/python tests/mutants/run.py

fuzz: $(READY)  ## give every reader 20,400 damaged files (about 15 minutes)
	$(BIN)/python tests/fuzz/fuzz.py --count 2000 --seed 0

check: $(READY)  ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## speed and memory, written to benchmarks/results
	$(BIN)/python benchmarks/run.py

lock: $(READY)  ## write requirements.lock with hashes, and docs/licences.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed \
	  --report .venv/report.json -c constraints.txt '.[dev]'
	$(BIN)/python scripts/lock.py .venv/report.json

sbom: $(READY)  ## write dist/sbom.json, a bill of materials in CycloneDX
	test -x .venv-sbom/bin/cyclonedx-py || $(PYTHON) -m venv .venv-sbom
	.venv-sbom/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom
	mkdir -p dist
	.venv-sbom/bin/cyclonedx-py environment --of JSON -o dist/sbom.json $(BIN)/python

clean:  ## remove what the targets made
	rm -rf docs/_build .venv .venv-sbom .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
