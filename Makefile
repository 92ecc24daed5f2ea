# Every target sets up what it needs: a fresh clone needs only Python 3.11+ and make.
PYTHON ?= python3
PINS   ?=   # versions to install instead of the newest: make test PINS="$$(.ci/lowest)"
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SITE   := build/docs

.PHONY: demo explore test test-uncompiled coverage lint bench docs clean

demo: $(READY)
	$(BIN)/probgeo reproduce --quick --out figures

# DATA=file.csv, or one of the examples: moons, digits, ones, bodies
EXAMPLE ?= moons
explore: $(READY)
	$(BIN)/probgeo explore $(if $(DATA),$(DATA),--example $(EXAMPLE))

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

# the loops alone, as the Python they are written in
test-uncompiled: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 -q -m loops -o addopts=--strict-markers tests

# lines of the package that its own tests run; compiled loops count when they run as Python
COVERED := -m pytest -n 2 -q --cov --cov-append
coverage: $(READY)
	mkdir -p build
	$(BIN)/python -m coverage erase
	$(BIN)/python $(COVERED) --cov-report= --dist loadfile --ignore tests/docs --ignore tests/benchmarks tests
	NUMBA_DISABLE_JIT=1 $(BIN)/python $(COVERED) --cov-report=term-missing:skip-covered -m loops -o addopts=--strict-markers tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready-bench
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.ready-docs
	$(BIN)/python -m sphinx -E -W --keep-going -q docs $(SITE)
	@echo "The site is in $(SITE)/index.html"

clean:
	rm -rf $(VENV) .cache figures build docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(PINS) --editable '.[dev]'
	touch $@

# whom we compare with; the page says so if one of them cannot be had
$(VENV)/.ready-bench: $(READY)
	-$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

$(VENV)/.ready-docs: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@
