# make demo    a simulated pendulum learns its swing-up through ROS 2
# make test    all checks and the fast tests
# make test-long  the tests that take seconds, nodes' most of all
# The environment is made in .venv at first use; PYTHON=/path/to/python3 chooses the interpreter.

RUN ?= runs/demo-$(shell date +%Y%m%d-%H%M%S-%3N)
ARGS ?=
WORKERS ?= 3
FUZZ_SECONDS ?= 600
BIN := .venv/bin
SPREAD = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# A shell inside another environment with ROS wheels must not tell ours that it is set up.
unexport _ROS_WHEELS_BOOTSTRAP_COMPLETE
# Tests start hundreds of processes, each of which would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help env demo doctor test test-long test-slow test-gpu fuzz pytest lint format docs lock clean

help:
	@echo "make demo       teach a simulated pendulum its swing-up (RUN=folder, ARGS='--seed 1')"
	@echo "make doctor     say what is installed and what works on this machine"
	@echo "make test       all checks and the fast tests (WORKERS=processes)"
	@echo "make test-long  the tests that take seconds each, of nodes above all"
	@echo "make test-slow  the tests that take minutes"
	@echo "make test-gpu   the tests that need an NVIDIA GPU and a torch with CUDA"
	@echo "make fuzz       hostile input, FUZZ_SECONDS=600 for each fuzzer"
	@echo "make lint       ruff, mypy, codespell"
	@echo "make format     let ruff rewrite the files"
	@echo "make docs       build the documentation's site into build/site"
	@echo "make env        make or update .venv"
	@echo "make lock       choose new versions for requirements*.txt"
	@echo "make clean      remove .venv and build outputs; runs/ stays"

env:
	@.ci/environment

demo: env
	$(BIN)/hucrl up pendulum --action-penalty 0.2 --out $(RUN) $(ARGS)

doctor: env
	$(BIN)/hucrl doctor

test: lint pytest

# Tests of one file run in one process, so that they share what takes long to make. More processes
# than processors, since half of the time nodes wait for each other; test/conftest.py orders files.
pytest: env
	$(BIN)/python -m pytest -m "not long and not slow and not gpu" $(SPREAD) $(ARGS)

test-long: env
	$(BIN)/python -m pytest -m "long and not slow and not gpu" $(SPREAD) $(ARGS)

test-slow: env
	$(BIN)/python -m pytest -m "slow and not gpu" --timeout 1800 $(ARGS)

test-gpu: env
	$(BIN)/python -m pytest -m gpu $(ARGS)

fuzz: env
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -m fuzz -n logical $(ARGS)

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: env
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lock:
	.ci/lock

clean:
	rm -rf .venv build install log *.egg-info
