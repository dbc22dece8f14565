# Each target sets up .venv by itself; only Python >= 3.11, a C compiler and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-long test-ort-floor lint bench zoo clean

demo: $(READY)
	$(BIN)/ep-nnapi check models/digits.onnx
	@echo
	$(BIN)/ep-nnapi run models/digits.onnx --input models/digits/samples.npz

test: $(READY) lint
	$(BIN)/python -m pytest -m "not long and not torch"

test-long: $(READY)
	$(BIN)/python -m pytest -m long

# The whole short suite on the oldest onnxruntime that is supported.
test-ort-floor: $(READY)
	$(MAKE) VENV=.venv-ort-floor ORT="onnxruntime==1.25.*" .venv-ort-floor/.ready
	.venv-ort-floor/bin/python -m pytest -m "not long and not torch" tests/ort tests/end_to_end

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m bench

zoo: $(READY)
	$(BIN)/python -m models.zoo zoo

# Installed when missing or when what it is made from is newer.
$(READY): pyproject.toml setup.py $(wildcard ep_nnapi/ort/*.[ch] ep_nnapi/*/_build.py)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev $(ORT)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

clean:
	rm -rf $(VENV) .venv-ort-floor build *.egg-info
