# Thin targets: each is one line into Python. `make help` lists them.

PYTHON ?= python3
RUN := .venv/bin/python

# What MODEL=, LAYER=, TOKENS= (or SEQ=), PRESET=, TEXT= (or INPUT=) and the like say to `bertha sim` and `bertha speed`.
option = $(if $($(1)),--$(2) '$($(1))')
preset = $(call option,PRESET,preset)
options = $(call option,MODEL,model) $(call option,LAYER,layer) $(preset) \
  $(if $(or $(TOKENS),$(SEQ)),--seq '$(or $(TOKENS),$(SEQ))') \
  $(call option,LATENCY,latency) $(call option,BANDWIDTH,bandwidth) $(call option,DUPLICATES,duplicates) \
  $(if $(or $(TEXT),$(INPUT)),--text '$(or $(TEXT),$(INPUT))') $(if $(filter-out 0,$(WAVES)),--waves)
whole = $(call option,RECIPE,recipe) $(call option,PACKING,packing) $(if $(filter-out 0,$(PAIRS)),--pairs)

.PHONY: help environment setup sim test coverage test-long accuracy verilog bench bench-sim fpga-report scalesim lint clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1 	/p' $(MAKEFILE_LIST) | expand -t 22
	@echo '  Variables of sim and bench-sim: MODEL= LAYER= TOKENS= (or SEQ=) PRESET= TEXT= (or INPUT=) LATENCY= BANDWIDTH=; of sim RECIPE= PACKING= PAIRS=1 WAVES=1; with LAYER= DUPLICATES='

setup: environment ## install everything into .venv (every target does so first)

sim: environment ## run a real model (LAYER=n: a layer of it) in RTL simulation and compare every byte
	@$(RUN) -m bertha sim $(options) $(whole)

test: environment ## run all tests (ARGS= are pytest's)
	@$(RUN) -m pytest -n auto --dist worksteal $(ARGS)

coverage: environment ## run all tests and say which lines they ran: build/coverage/index.html (ARGS= are pytest's)
	@mkdir -p build/coverage
	@COVERAGE_FILE=build/coverage/data $(RUN) -m pytest -n auto --dist worksteal --cov --cov-report=html:build/coverage \
	  --cov-report=term:skip-covered $(ARGS)

test-long: environment ## run 10,000 random programs, 150 random models, 10 pruned ones and 60 predictions on the simulated chip (ARGS='--seed N')
	@$(RUN) -m tests.fuzz --programs 10000 $(ARGS)
	@$(RUN) -m tests.sim.random_models --draws 150 $(ARGS)
	@$(RUN) -m tests.sim.random_models --pruned --draws 10 $(ARGS)
	@$(RUN) -m tests.sim.predicted --cases 60 $(ARGS)

accuracy: environment ## measure whole models beside PyTorch: embeddings, tasks (MODEL=, TASKS=folders, ARGS=)
	@$(RUN) -m bertha accuracy $(call option,MODEL,model) $(if $(TASKS),--tasks $(TASKS)) $(ARGS)

verilog: environment ## write the accelerator's Verilog, manifest and C header (PRESET=)
	@$(RUN) -m bertha verilog $(preset)

bench: environment ## measure all figures that have a target, and put them into docs/results.md (ARGS='--only NAME', --predicted, --list)
	@$(RUN) -m bertha bench $(ARGS)

bench-sim: environment ## measure the simulation's speed under cocotb against a bare C++ loop
	@$(RUN) -m bertha speed $(options)

fpga-report: environment ## place and route the accelerator for an ECP5-85F (PRESET=, PACK_ONLY=1)
	@$(RUN) -m bertha fpga report $(preset) $(if $(filter-out 0,$(PACK_ONLY)),--pack-only)

scalesim: environment ## cycles of the layers' matrix products according to SCALE-Sim
	@$(RUN) -m bertha scalesim

lint: environment ## check the format and the style of the Python sources (as the tests do)
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .

clean: ## remove everything that was built (but not .venv)
	rm -rf build

environment:
	@$(PYTHON) bertha/environment.py $(if $(filter file,$(origin PYTHON)),,--exactly)
