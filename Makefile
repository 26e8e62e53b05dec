PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test install benchmark docs release-check mutants
demo: install
	$(BIN)/coca demo

test: install
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m tools.links site

mutants: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.mutants

release-check: install
	$(BIN)/python -m tools.release $(if $(PYTHONS),--python $(PYTHONS))

benchmark: install
	$(BIN)/python -m benchmarks

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[baselines,dev,docs,explore,features,hub,onnx,ray,render]"
	# Without the torchvision that timm asks for, whose build must be that of torch: the one test of timm does without.
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps timm
	touch $@
