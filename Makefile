# `make help` lists the targets. The README and CI call these, verbatim.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The Python that makes the virtual environment, and where that lies. An environment that is already there is kept.
PYTHON ?= python3
unexport PYTHON  # scripts take the environment's "python" where it is not set
VENV ?= .venv
VENV_FLAGS ?=
# Another torch than the tested one: cpu (its CPU build), a version, a requirement, or the path of a wheel.
TORCH ?=
# What is installed: this checkout, or the path of a wheel.
PACKAGE ?= -e .
TOY_SEED ?= 1
DEVICE ?= cpu
# What `make test-pythons` tries.
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
TEST_JOBS ?= 2
PYTEST_ARGS ?=
MUTANTS ?=
# Another checkout for `make tree`.
ROOT ?= .
BENCH_ARGS ?=

# Paths and names of the user reach the shell through the environment, as they were typed: make expands no $(…) in them.
TYPED := SRC TGT OUT MLM MODEL STUDY DATA TATOEBA TOY_SEED ROOT
$(foreach name,$(TYPED),$(if $(filter undefined,$(origin $(name))),,$(eval override $(name) := $$(value $(name)))$(eval export $(name))))

PY := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps
CONSTRAINTS := $(STAMPS)/constraints.txt
TORCH_STAMP := $(STAMPS)/torch$(if $(TORCH),-$(notdir $(TORCH)))
# Outside Linux the plain wheel is the CPU build.
TESTED_TORCH := $(shell grep '^torch==' constraints.txt)
WANTED_TORCH := $(shell case "$(TORCH),$$(uname)" in (,*|cpu,Darwin) echo '$(TESTED_TORCH)';; (cpu,*) echo '$(TESTED_TORCH)+cpu';; \
  (*.whl,*) echo '$(TORCH)';; ([0-9]*) echo 'torch==$(TORCH)';; (*) echo '$(TORCH)';; esac)
# Not quiet: pip names what it downloads and what it builds, which takes minutes. What is there already is no news.
PIP_INSTALL := PIP_DISABLE_PIP_VERSION_CHECK=1 $(PY) -m pip install
NEWS := | { grep --line-buffered -v '^Requirement already satisfied' || true; }
# Compiles without debugging symbols (they take 40 % of the time) and without nvcc. One extension at a time: two at once share
# torch's build.ninja and sometimes destroy each other's build.
COMPILING := env -u CUDA_HOME CFLAGS="-g0 $${CFLAGS:-}" CXXFLAGS="-g0 $${CXXFLAGS:-}"
SAY := printf '[install] %s\n'
# Python 3.10 gets fairseq 0.12.2, the tested torch, and whatever versions suit them: the rest of the tested set needs 3.11.
TESTED_PYTHON := $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))'
# fairseq requires torchaudio, for speech only, and the index has it for one CUDA build of torch. transformers imports it wherever
# it is installed: one that cannot be loaded beside this torch goes again, after every step that can bring it.
DROP_TORCHAUDIO := ! $(PY) -m pip --quiet show torchaudio >/dev/null 2>&1 || $(PY) -W ignore -c 'import torchaudio' >/dev/null 2>&1 || { \
	$(PY) -m pip --quiet uninstall --yes torchaudio; \
	if $(PY) -m pip --quiet show torchaudio >/dev/null 2>&1; then \
	  $(SAY) "torchaudio cannot be loaded beside this torch and lies outside $(VENV): transformers will not import either; remove it there"; \
	else \
	  $(SAY) "removed torchaudio, which cannot be loaded beside this torch: fairseq needs it for speech only (pip check says it is missing)"; \
	fi; }

# Snakemake has an environment of its own: it wants older versions of some packages.
RECIPES := $(VENV)-recipes
RECIPES_TESTED := $(if $(shell $(PYTHON) -c 'import sys; print("yes" * (sys.version_info >= (3, 11)))'),$(RECIPES)/.stamp)

BENCHMARKS_ON_GPU := vocab_losses sga_training_step decoding free_decoding deltalm veco
BENCHMARKS_ON_CPU := deployment data_path nlu_data_path csr_data_path veco_data_path

.PHONY: help install quickstart recipes translator serve public-encoder study test test-pythons test-cluster defects mutants tree check format docs package bench gpu results publish hydra evidence clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "options: PYTHON=$(PYTHON) TORCH=<cpu, version or wheel> TOY_SEED=$(TOY_SEED) DEVICE=$(DEVICE) PYTEST_ARGS='-k sga'"

install: $(STAMPS)/package  ## make .venv if it is missing and install the package with what it needs

quickstart: install  ## the whole job at tiny size: toy corpus, training, BLEU table (TOY_SEED=1)
	@PATH="$(abspath $(VENV))/bin:$$PATH" bash examples/quickstart/run.sh

recipes: $(RECIPES)/.stamp  ## what the workflow of examples/ needs: Snakemake, in $(VENV)-recipes (Python 3.11 or newer)

translator: $(STAMPS)/recipes recipes  ## two text files to a translator: SRC=my.en TGT=my.cs OUT=DIR [HOURS=2] [MLM=DIR] [SEED=1]
	@for name in SRC TGT OUT; do [ -n "$${!name:-}" ] || { \
	  echo "make translator: $$name is missing, as in: make translator SRC=my.en TGT=my.cs OUT=runs/en-cs" >&2; exit 2; }; done
	@PATH="$(abspath $(VENV))/bin:$$PATH" SNAKEMAKE="$(abspath $(RECIPES))/bin/snakemake" \
	  bash examples/translator.sh "$$SRC" "$$TGT" "$$OUT" "$${HOURS:-2}" "$${SEED:-1}" "$${MLM:-}"

serve:  ## a model over HTTP and as a page: MODEL=DIR [PORT=5000] [PRECISION=int8] [SYSTEM=at]
	@[ -n "$${MODEL:-}" ] || { echo "make serve: MODEL is missing, as in: make serve MODEL=runs/quickstart-1" >&2; exit 2; }
	@if [ -f "$$MODEL/model.json" ]; then needed=runtime; else needed=onnx; fi; $(MAKE) --no-print-directory "$(STAMPS)/$$needed"
	@PATH="$(abspath $(VENV))/bin:$$PATH" bash examples/serve.sh "$$MODEL"

public-encoder: install  ## a real multilingual encoder (92 MB are fetched): OUT=DIR [TATOEBA=DIR, to check it]
	@[ -n "$${OUT:-}" ] || { echo "make public-encoder: OUT is missing, as in: make public-encoder OUT=models/e5" >&2; exit 2; }
	@PATH="$(abspath $(VENV))/bin:$$PATH" bash examples/public_encoder/fetch.sh "$$OUT" "$${TATOEBA:-}"

study: $(STAMPS)/study recipes  ## a study of examples/studies: STUDY=own DATA=DIR OUT=DIR [SIZE=paper] [DRY_RUN=1] [JOBS=1] [DEVICE=cpu] [PUBLISHED=1]
	@for name in STUDY DATA OUT; do [ -n "$${!name:-}" ] || { \
	  echo "make study: $$name is missing, as in: make study STUDY=sga_plateau DATA=data/multi30k OUT=runs/sga_plateau" >&2; exit 2; }; done
	@PATH="$(abspath $(VENV))/bin:$$PATH" SNAKEMAKE="$(abspath $(RECIPES))/bin/snakemake" \
	  bash examples/study.sh "$$STUDY" "$$DATA" "$$OUT" "$${JOBS:-1}" "$${DEVICE:-cpu}"

test: $(STAMPS)/test $(RECIPES_TESTED)  ## run the tests (DEVICE=cuda for the GPU, DEVICE=pretend for a pretend one, PYTEST_ARGS for a part)
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder --device $(DEVICE) $(PYTEST_ARGS)

test-pythons:  ## install and test in a fresh clone with each of PYTHONS="python3.10 python3.12" (12 minutes each): the table of docs/running.md
	bash tests/pythons.sh $(PYTHONS)

test-cluster: $(STAMPS)/test $(RECIPES)/.stamp  ## Slurm with two nodes and torchrun on this machine (root; Debian's slurm-wlm, munge; 30 minutes)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(RECIPES)/bin/python -m pip install -r examples/slurm/requirements.txt $(NEWS)
	mkdir -p runs && rm -f runs/cluster.jsonl
	OMP_NUM_THREADS=1 FACTS=$(CURDIR)/runs/cluster.jsonl bash tests/cluster/with_slurm.sh $(abspath $(PY)) -m pytest -q -s \
	  tests/cluster/slurm.py tests/cluster/processes.py $(PYTEST_ARGS)
	@[ -n "$(PYTEST_ARGS)" ] || { mv runs/cluster.jsonl tests/cluster/log.jsonl; $(PY) -m tests.what_was_run; $(MAKE) --no-print-directory evidence; }

defects: $(STAMPS)/test  ## put the traps of the design in, one at a time: each must turn a test red (a minute)
	$(PY) tests/mutants/defects.py

mutants: $(STAMPS)/mutants  ## mutation testing: 400 mutants drawn with a seed (1 to 2 hours; MUTANTS='--count 20')
	$(PY) tests/mutants/random_mutants.py --jobs $(TEST_JOBS) $(MUTANTS)

tree:  ## lines and files of package and tests, import closures of the loaders, share of docstrings (ROOT=other/checkout)
	$(PYTHON) tests/tree.py "$$ROOT"

check: $(STAMPS)/check  ## ruff (lint and format) and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(STAMPS)/check  ## let ruff fix and format the code
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

docs: $(STAMPS)/docs  ## the documentation site, docs/_build/html: any warning and any broken local link is an error
	@rm -rf docs/_build/html  # sphinx leaves pages that are gone
	$(PY) -m sphinx --builder html --nitpicky --fail-on-warning --keep-going --jobs auto docs docs/_build/html
	$(PY) docs/check_links.py docs/_build/html

package: $(STAMPS)/release  ## sdist and wheel into dist/, checked, installed into an empty environment and used there
	bash tests/package.sh $(abspath $(PY))

bench: $(STAMPS)/peers  ## speed and memory against peers: ratios in one run, tables and JSON in benchmarks/ (about an hour; a quiet machine)
	for name in $(BENCHMARKS_ON_GPU); do $(PY) -m benchmarks.$$name $(BENCH_ARGS) || exit; done
	for name in $(BENCHMARKS_ON_CPU); do $(PY) -m benchmarks.$$name || exit; done
	$(PY) -m benchmarks.results

gpu: $(STAMPS)/plots  ## on a GPU: the benchmarks that need no trained model (BENCH_ARGS='--rounds 5')
	for name in $(BENCHMARKS_ON_GPU); do $(PY) -m benchmarks.$$name --device cuda $(BENCH_ARGS) || exit; done
	$(PY) -m benchmarks.results

results: $(STAMPS)/plots  ## rebuild docs/results and the page of benchmarks from the committed ledgers, archives and JSON
	$(PY) -m examples.recipes.results
	$(PY) -m benchmarks.results
	$(PY) -m tests.what_was_run

hydra: install  ## configurations for fairseq-hydra-train from examples/systems: OUT=DIR
	@[ -n "$${OUT:-}" ] || { echo "make hydra: OUT is missing, as in: make hydra OUT=runs/hydra" >&2; exit 2; }
	$(PY) -m examples.recipes.hydra --output="$$OUT"

publish: $(STAMPS)/plots  ## store a study in examples/results and docs/results: OUT=DIR of make study [PARTIAL=1]
	@[ -n "$${OUT:-}" ] || { echo "make publish: OUT is missing, as in: make publish OUT=runs/sga" >&2; exit 2; }
	$(PY) -m examples.recipes.results --publish="$$OUT" $(if $(PARTIAL),--partial)
	$(MAKE) --no-print-directory evidence

evidence:  ## after new runs: write the hashes of ledgers, archives, plots of analyses and measurements
	git ls-files -z --cached --others --exclude-standard 'examples/results/*' 'docs/results/*_analysis/*' benchmarks/results tests/cluster/log.jsonl tests/run_log.jsonl | \
	  LC_ALL=C sort -z | xargs -0 sha256sum >examples/evidence.sha256

clean:  ## remove caches and build folders (not .venv, not runs/)
	rm -rf build dist runtime/build docs/_build fairseq_plugins.egg-info runtime/*.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name .git -prune -o -path './.venv*' -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf

# ---- Installation, one stamp a step: a finished step is not repeated, an interrupted one starts again. ----

$(STAMPS)/venv:
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  version=$$($(PYTHON) -c 'import platform; print(platform.python_version())') || { \
	    echo "make install: PYTHON=$(PYTHON) cannot be started; give another, as in: make install PYTHON=python3.11" >&2; exit 1; }; \
	  case $$version in 2.*|3.[0-9].*) \
	    echo "make install: Python $$version is too old, 3.10 or newer is needed, as in: make install PYTHON=python3.11" >&2; exit 1;; \
	    3.1[0-3].*) ;; *) $(SAY) "Python $$version is newer than any that was tried: fairseq may not be built, and gensim (data_prep/lexicon.sh) is left out";; esac; \
	  clear=; $(PY) -c '' >/dev/null 2>&1 || clear=--clear; \
	  $(SAY) "making $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv $$clear $(VENV_FLAGS) $(VENV) || { \
	    echo "make install: $(PYTHON) cannot make a virtual environment (Debian and Ubuntu: install python3-venv)" >&2; exit 1; }; \
	fi
	@$(PY) -c 'import os, sys, sysconfig; sys.exit(not os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { \
	  echo "make install: Python.h is missing, fairseq is compiled here (Debian and Ubuntu: install python3-dev)" >&2; exit 1; }
	@command -v "$${CXX:-c++}" >/dev/null || { \
	  echo "make install: no C++ compiler $${CXX:-c++}, fairseq is compiled here (Debian and Ubuntu: install g++)" >&2; exit 1; }
	@mkdir -p $(STAMPS) && touch $@

# torch comes first and alone: fairseq is compiled against it and must not bring a second one. Sizes are those of torch 2.13.0;
# pip takes a CPU build of the version before the plain wheel where its index has one.
$(TORCH_STAMP): | $(STAMPS)/venv
	@if [ -z "$(TORCH)" ] && there=$$($(PY) -W ignore -c 'import torch; print(torch.__version__)' 2>/dev/null); then \
	  $(SAY) "1/3 keeping torch $$there; to download: 0.1 GB"; \
	else \
	  if [[ "$(WANTED_TORCH)" == *+cpu ]]; then size="0.2 GB, the CPU build"; \
	  elif [ "$(WANTED_TORCH)" != "$(TESTED_TORCH)" ]; then size="0.2 GB as a CPU build, about 3 GB as a CUDA build"; \
	  elif [ "$$(uname)" = Darwin ]; then size="0.1 GB, the CPU build"; \
	  elif $(PY) -m pip index versions torch 2>/dev/null | grep -qF " $(TESTED_TORCH:torch==%=%)+cpu"; then size="0.2 GB, the CPU build"; \
	  else size="2.7 GB, the CUDA build with its libraries (TORCH=cpu: the CPU build, 0.2 GB, where pip's index has it)"; fi; \
	  $(SAY) "1/3 $(WANTED_TORCH); to download: $$size, then 0.1 GB of other packages"; \
	  $(PIP_INSTALL) "$(WANTED_TORCH)" $(NEWS) || { \
	    [ "$(TORCH)" != cpu ] || echo "make install: pip finds no $(WANTED_TORCH) for this Python. Give pip the index that PyTorch's" \
	      "'Get started' page names for CPU, or leave TORCH=cpu out: the CUDA build (2.7 GB) runs without a GPU, too" >&2; \
	    exit 1; }; \
	fi
	@$(PY) -W ignore -c 'import sys, torch; sys.exit(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6))' || { \
	  echo "make install: torch 2.6 or newer is needed; give one, as in: make install TORCH=2.13.0" >&2; exit 1; }
	@touch $@

$(CONSTRAINTS): constraints.txt $(TORCH_STAMP)
	@{ if $(TESTED_PYTHON); then grep -v '^torch==' constraints.txt; fi; \
	  $(PY) -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))'; } >$@.new && mv $@.new $@

$(STAMPS)/builders: $(CONSTRAINTS)
	@$(SAY) "2/3 what fairseq and fastBPE need to be compiled"
	@$(TESTED_PYTHON) || $(PIP_INSTALL) 'pip<24.1' $(NEWS)  # newer ones refuse the metadata of fairseq 0.12.2's omegaconf
	@$(PIP_INSTALL) -c $(CONSTRAINTS) numpy cython setuptools wheel $(NEWS)
	@touch $@

# fairseq 0.12.2 (Python 3.10) alone is built in isolation: beside torch it asks for sources that its release lacks.
$(STAMPS)/package: setup.py $(STAMPS)/builders
	@$(SAY) "3/3 fairseq, fastBPE (both compiled: a minute or two on two cores), sentencepiece, sacrebleu, gensim, fairseq_plugins"
	@$(TESTED_PYTHON) || $(COMPILING) $(PIP_INSTALL) -c $(CONSTRAINTS) "$$(grep -o 'fairseq==[0-9.]*' setup.py)" $(NEWS)
	@$(COMPILING) $(PIP_INSTALL) --no-build-isolation -c $(CONSTRAINTS) $(PACKAGE) $(NEWS)
	@$(DROP_TORCHAUDIO)
	@$(SAY) "done: $$(cd / && '$(abspath $(PY))' -c 'import fairseq, torch; print("fairseq", fairseq.__version__, "torch", torch.__version__)' 2>/dev/null)"
	@touch $@

$(RECIPES)/.stamp: examples/recipes/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make recipes: Snakemake needs Python 3.11 or newer; give one, as in: make recipes PYTHON=python3.12" >&2; exit 1; }
	@$(SAY) "Snakemake, in $(RECIPES)"
	@$(PYTHON) -m venv $(RECIPES)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(RECIPES)/bin/python -m pip install -r $< $(NEWS)
	@touch $@

# A folder that was exported needs neither torch nor fairseq.
$(STAMPS)/runtime: runtime/pyproject.toml | $(STAMPS)/venv
	@$(SAY) "onnxruntime, sentencepiece, FastAPI and uvicorn"
	@tested=; ! $(TESTED_PYTHON) || tested='-c constraints.txt'; $(PIP_INSTALL) $$tested -e './runtime[serve]' $(NEWS)
	@touch $@

$(STAMPS)/test $(STAMPS)/check $(STAMPS)/plots $(STAMPS)/peers $(STAMPS)/mutants $(STAMPS)/docs $(STAMPS)/onnx $(STAMPS)/release $(STAMPS)/recipes $(STAMPS)/study: $(STAMPS)/package
	@$(SAY) "what the extra '$(@F)' of setup.py names"
	@$(PIP_INSTALL) --no-build-isolation -c $(CONSTRAINTS) -e '.[$(@F)]' -e './runtime[serve]' $(NEWS)
	@$(DROP_TORCHAUDIO)
	@touch $@
