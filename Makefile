# torchgrad_jax: every task of the project. `make help` lists them.
#
# Needs python3 (3.11 to 3.13) with venv, and make; everything else is installed into .venv. What is
# installed is remembered in .venv/.installed-*, so a second run installs nothing.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Who judges the tests: auto (torch where it is installed), live (torch, or fail) or recorded.
ORACLE ?= auto
# Random programs that `make fuzz` compares with torch.
N      ?= 1000
# Tests that take so many seconds of a core in all: the short ones always, the others in turn, by the day of the commit.
# 0 runs all of them, as `make conformance` does.
BUDGET ?= 240
# More arguments for pytest, for example: make test PYTEST="-k views -x"
PYTEST ?=

BIN  := $(VENV)/bin
PY   := $(BIN)/python
RUN_PYTEST = $(PY) -m pytest -n $(JOBS) --dist=worksteal --oracle=$(ORACLE) --seconds=$(BUDGET) $(PYTEST)

# Every process of this machine shares one cache of compiled kernels, the tiniest included.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
# The tests parallelise themselves, and pip does not share a venv.
.NOTPARALLEL:
.PHONY: help demo test quick short-ways targets few-targets check check-static format-check format lint words types layers doctests fresh \
        site oracle ecosystem bench accelerator conformance faults fuzz stubs docs hooks matrix dist dist-test clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# --- what people run first ---------------------------------------------------------------------

demo: $(VENV)/.installed ## install into .venv, run an unmodified PyTorch script, eager and compiled
	$(PY) -m torchgrad_jax examples/train_cnn.py --plot build/loss-eager.svg
	$(PY) -m torchgrad_jax examples/train_cnn.py --plot build/loss-compiled.svg --compile

test: $(VENV)/.installed-test ## run tests and compat_suite on all cores, with or without torch
	$(RUN_PYTEST) tests compat_suite

quick: BUDGET = 0
quick: $(VENV)/.installed-test ## the first tests of each file, in a minute; the end says what is left out
	$(RUN_PYTEST) --quick tests compat_suite

# Programs that call the same operators again and again; each call is read in its short form and in its general one.
short-ways: export TORCHGRAD_JAX_CHECK_CALLS = 1
short-ways: override BUDGET = 150
short-ways: $(VENV)/.installed-test ## tests in which calls that were met before are compared with the general reading
	$(RUN_PYTEST) compat_suite/test_values.py compat_suite/test_fuzz.py tests/functions tests/autograd

# In one call, `make check test` runs the test-suite once.
check: check-static test ## everything that has to hold before a commit

# --- the parts of check ------------------------------------------------------------------------

check-static: format-check lint words types layers fresh doctests site ## check, less the test-suite

format-check: $(VENV)/.installed-dev ## is every file formatted?
	$(BIN)/ruff format --check .

lint: $(VENV)/.installed-dev ## ruff's lint rules
	$(BIN)/ruff check .

words: $(VENV)/.installed-test ## words that are hard to read or to search for
	$(PY) -m pytest -q tests/test_words.py

types: $(VENV)/.installed-dev $(VENV)/.installed-test ## pyright
	$(BIN)/pyright --pythonpath $(PY) --level error

layers: $(VENV)/.installed-test ## imports point one way
	$(PY) -m pytest -q tests/test_layers.py

fresh: $(VENV)/.installed-test ## generated stubs and pages are those that the op table yields
	$(PY) -m torchgrad_jax._codegen --check
	$(PY) -m compat_suite coverage --check
	$(PY) -m compat_suite saved --check

# Left out is what holds no examples and must not be imported beside them: tensorboardX imports torch where there is one.
doctests: $(VENV)/.installed-test ## examples in docstrings, README and docs
	$(PY) -m pytest -q -n $(JOBS) --doctest-modules --doctest-glob='*.md' \
		--ignore=torchgrad_jax/pytest_alias.py --ignore=torchgrad_jax/pytest_compare.py --ignore=torchgrad_jax/_alias/shim \
		--ignore=torchgrad_jax/classes.py \
		--ignore=torchgrad_jax/utils/tensorboard --ignore=docs/site_hooks.py --ignore=docs/site_gallery.py --ignore=docs/site_notebooks.py --ignore=docs/site_reference.py \
		torchgrad_jax README.md docs

site: $(VENV)/.installed-docs ## docs/ as static files in build/site; every link has to lead somewhere
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

# --- the rest ----------------------------------------------------------------------------------

format: $(VENV)/.installed-dev ## format and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

oracle: $(VENV)/.installed-oracle ## install torch, for live comparison

ecosystem: $(VENV)/.installed-ecosystem ## install libraries for JAX, for the tests that use them

bench: $(VENV)/.installed-oracle $(VENV)/.installed-pictures ## time and memory side by side with torch
	$(PY) -m benchmarks programs
	$(PY) -m benchmarks --write
	$(PY) -m benchmarks operators --write

accelerator: $(VENV)/.installed-test ## what means something on the GPU, TPU or CPU that JAX finds; writes docs/accelerators.md
	$(PY) -m benchmarks.accelerator --write

conformance: ORACLE = live
conformance: BUDGET = 0
conformance: export BATCH_SIZES ?= 2000
# A check keeps a second program, and is one more place to interrupt: left out is what counts these.
conformance: CHECKED = $(addprefix tests/bridge/compile/,program trace) $(wildcard tests/bridge/compile/test_*.py) \
	--deselect=tests/bridge/compile/test_interrupts.py \
	--deselect=tests/bridge/compile/program/test_arguments_given_again.py::test_weights_and_constants_are_held_in_jax_and_writes_to_them_are_seen
conformance: $(VENV)/.installed-oracle $(VENV)/.installed-test ## all tests, compiled steps that check themselves, torch's own table of operators, what has templates
	$(RUN_PYTEST) tests compat_suite
	JAX_ENABLE_X64=1 $(RUN_PYTEST) tests compat_suite
	TORCHGRAD_JAX_VERIFY=1 $(PY) -m pytest -n $(JOBS) $(CHECKED)
	$(PY) -m compat_suite run --oracle live --state build/run.json --html build/run.html
	$(MAKE) targets
	$(PY) -m compat_suite targets --state build/targets.json
	JAX_TRACEBACK_FILTERING=off $(PY) -m compat_suite opinfo --state build/opinfo.json --html build/opinfo.html --jobs $(JOBS)
	$(PY) -m compat_suite templates

# The compilers lie in a folder of their own: JAX would take libtpu for a TPU's driver. In this order a TPU's is there even
# where the other, of 460 MB, can't be fetched.
$(VENV)/.installed-compilers: $(VENV)/.installed-test
	$(PY) -m pip install --quiet --no-deps --target $(VENV)/compilers 'libtpu==0.0.42.*'
	-$(PY) -m pip install --quiet --no-deps --target $(VENV)/compilers jax-cuda12-plugin==0.10.2 jax-cuda12-pjrt==0.10.2
	touch $@

targets: $(VENV)/.installed-compilers ## programs for TPUs and GPUs that are not here; installs their compilers
	$(PY) -m pytest -n 0 tests/targets

few-targets: $(VENV)/.installed-test ## 40 operators compiled for a TPU and a GPU, if their compilers are installed
	$(PY) -m compat_suite targets --sample 40 --seconds 100

matrix: ## the tests with the oldest and the newest Python, JAX and NumPy, each in an environment of its own
	.ci/matrix

faults: $(VENV)/.installed-test ## plant several hundred mistakes, one at a time: which ones do the tests find?
	$(PY) -m tests.faults --jobs $(JOBS)

fuzz: $(VENV)/.installed-oracle $(VENV)/.installed-test ## compare N random programs with torch
	$(PY) -m compat_suite fuzz $(N)

stubs: $(VENV)/.installed ## rewrite the .pyi stubs from the op table
	$(PY) -m torchgrad_jax._codegen

docs: stubs $(VENV)/.installed-test ## rewrite the generated pages of docs/
	$(PY) -m compat_suite coverage

hooks: $(VENV)/.installed-dev $(VENV)/.installed-test ## run the fast checks at every git commit
	$(BIN)/pre-commit install

# --- releases; docs/releasing.md says when ------------------------------------------------------

# The wheel is built from the sdist, so that what is left in build/ from before cannot get into it.
dist: $(VENV)/.installed-release ## build the sdist and the wheel into dist/
	rm -rf dist
	$(PY) -m build --outdir dist .
	$(PY) -m twine check --strict dist/*

dist-test: dist ## use the wheel in an empty environment outside of the clone
	PYTHON=$(PYTHON) JOBS=$(JOBS) .ci/dist-test

clean: ## remove the environment, caches and build outputs
	rm -rf $(VENV) .jax_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environment -------------------------------------------------------------------------------

$(VENV)/.created:
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.created
	$(PY) -m pip install --editable .
	touch $@

$(VENV)/.installed-%: pyproject.toml $(VENV)/.created
	$(PY) -m pip install --editable '.[$*]'
	touch $@ $(VENV)/.installed
