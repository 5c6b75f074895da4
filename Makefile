# Two commands matter: `make demo` and `make test`. Each sets up what it needs first, and downloads nothing twice.
#
#   PYTHON=python3.12 make setup      which Python makes the virtual environment (default: the first of 3.11, 3.12,
#                                     3.13, python3 that works; 3.11 is what the pins are tested with)
#   SYSTEM_PACKAGES=no make setup     leave Debian packages alone

VENV ?= .venv
PYTHON ?=
SYSTEM_PACKAGES ?= yes
# -P: warpgrade comes from the installed wheel, as in the sandbox, and not from the current folder.
RUN := $(VENV)/bin/python -P
WORKERS ?= 2
# The oldest Triton that is supported, and the newest numpy that its interpreter takes.
OLDEST := triton==3.6.0 numpy==2.3.5
OLDEST_VENV := .venv-oldest
# nbgrader starts `alembic` by name.
export PATH := $(abspath $(VENV))/bin:$(PATH)

.PHONY: help setup demo test test-oldest test-gpu check release clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup:  ## virtual environment, pinned packages, warpgrade as a wheel, bubblewrap and g++ where it may
	@VENV="$(VENV)" PYTHON="$(PYTHON)" SYSTEM_PACKAGES="$(SYSTEM_PACKAGES)" bash tools/setup.sh

demo: setup  ## grade invented submissions in a course folder of their own
	@$(VENV)/bin/warpgrade demo

test: setup  ## all tests that need no GPU; ends in pytest's summary
	@$(RUN) -m pytest -n $(WORKERS) -m "not gpu" tests

# Hard links: everything but the two packages is the same, and takes no room.
test-oldest: setup  ## what rests on Triton, with the oldest Triton that is supported
	@rm -rf $(OLDEST_VENV) && cp -al $(VENV) $(OLDEST_VENV)
	@$(OLDEST_VENV)/bin/python -m pip install --quiet --quiet --no-deps $(OLDEST)
	@$(OLDEST_VENV)/bin/python -P -m pytest -n $(WORKERS) -m "not gpu" tests/model tests/worker tests/notebook tests/attacks \
		tests/judge/test_remote_kernels.py tests/judge/test_plugin.py tests/test_course_suites.py

test-gpu: setup  ## the tests that need an NVIDIA GPU
	@$(RUN) -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "no NVIDIA GPU that PyTorch can use here: nothing to test. `$(VENV)/bin/warpgrade doctor` says what is missing.")'
	@$(RUN) -m pytest -m gpu tests

check: setup  ## lint, format, types, notebooks' form, and that release/ is current
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(RUN) -m mypy
	@$(RUN) -m warpgrade.notebook.format --check source/*/*.ipynb
	@$(RUN) -m pytest -q tests/test_release.py

release: setup  ## make release/ again from source/, with nbgrader
	@$(RUN) tools/release.py --write

clean:  ## remove what was built; keeps the virtual environment, and never touches submissions or gradebook
	rm -rf $(OLDEST_VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
