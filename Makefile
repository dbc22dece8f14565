# Each target sets up its virtual environment; Python >= 3.11, a C compiler and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
READY := $(VENV)/.ready
FLOOR := .venv-ort-floor
SPREAD := -n auto --maxprocesses 8 --dist loadfile
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
unexport PYTHONDONTWRITEBYTECODE  # programs that tests start would compile the package each time

.PHONY: demo native agents generate test test-long test-native-zoo test-choice-zoo test-library test-ort-floor test-torch test-litert test-litert-gpu test-gpu test-openvino test-web test-model-explorer test-arm64 test-wheels wheels release-check fuzz onnx-backend lint bench zoo clean

demo: $(PACKAGE)
	$(BIN)/ep-nnapi check models/digits.onnx
	@echo
	$(BIN)/ep-nnapi run models/digits.onnx --input models/digits/samples.npz

# C parts that need no Python, in build/native: for prepared models the plugin for ONNX Runtime and
# nnapi_run; nnapi_agent, behind which another machine uses the NNAPI library of this one.
native:
	$(MAKE) -C native BUILD=$(CURDIR)/build/native

# The same for phones, in build/android/ABI; ANDROID_NDK is the NDK's path.
agents: $(READY)
	@test -n "$(ANDROID_NDK)" || { echo "set ANDROID_NDK to the path of the NDK" >&2; exit 1; }
	$(BIN)/python -m release.android "$(ANDROID_NDK)" build/android

# What is written by programs: a C header, and tables of the documents. Each has a test that holds it.
generate: $(READY)
	for module in native.test_headers epcontext.test_layout capi.test_docs litert.test_lowering \
		test_imports test_readme; do \
		$(BIN)/python -m tests.$$module || exit 1; done

test: $(READY) lint
	$(BIN)/python -m pytest $(SPREAD)

test-long: $(READY)
	$(BIN)/python -m pytest $(SPREAD) -m long

# The zoo with every quantization scheme, prepared at every level, in the C plugin: about ten minutes.
test-native-zoo: $(READY)
	SCHEMES=all $(BIN)/python -m pytest -m long tests/native/test_zoo.py

# One file of each network of the zoo on working, failing, hanging and dying libraries, in C and Python.
test-choice-zoo: $(READY)
	$(PIP) --editable ".[litert]"
	ALTERNATIVES=all $(BIN)/python -m pytest -m long tests/native/test_choice_zoo.py

# What touches onnxruntime, on the oldest one that is supported.
test-ort-floor:
	$(MAKE) VENV=$(FLOOR) ORT="onnxruntime==1.25.*" $(FLOOR)/.ready
	$(FLOOR)/bin/python -m pytest $(SPREAD) tests/ort tests/end_to_end

# The extra `torch`, and stock PyTorch as a client of libneuralnetworks.so, in an environment of its
# own. Where plain `torch` brings CUDA, name a CPU build: make test-torch TORCH=...
TORCH ?= torch==2.13.0
test-torch: $(READY)
	test -x .venv-torch/bin/python || $(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-torch/bin/python -m pip install --quiet "$(TORCH)" --editable ".[onnxruntime,torch,litert]" --group test
	.venv-torch/bin/python -m pytest $(SPREAD) -m torch tests/capi tests/cli tests/partitioner/test_clusters.py tests/test_journeys.py tests/test_documents.py tests/test_examples.py tests/torch

# The extra `litert`: flatbuffers that `prepare` writes, in LiteRT's interpreter.
test-litert: $(READY)
	$(PIP) --editable ".[litert]"
	$(BIN)/python -m pytest $(SPREAD) -m "" tests/diagnostics/test_advice.py tests/litert tests/native/test_litert*.py tests/preparation/test_alternatives.py tests/preparation/test_memory.py tests/preparation/test_tflite.py

# litert-gpu on the same software Vulkan.
test-litert-gpu: $(READY)
	$(PIP) --editable ".[litert]"
	tests/gpu/run.sh $(BIN)/python -m pytest -rs tests/litert/test_gpu.py

# The device host-gpu on a software Vulkan (VULKAN=system: on this machine's GPU), with the conformance
# cases, each of which compiles shaders; ONLY= a part of the tests' names.
test-gpu: $(READY)
	$(PIP) --editable ".[webgpu]"
	tests/gpu/run.sh $(BIN)/python -m pytest -m "" tests/ort_devices/test_gpu.py $(if $(ONLY),-k "$(ONLY)")

# The device host-openvino, on a processor of Intel's.
test-openvino: $(READY)
	$(PIP) --editable ".[openvino]"
	$(BIN)/python -m pytest -m "" tests/ort_devices/test_openvino.py

# The page of `ep-nnapi report`, and Netron, in headless Chromium with real clicks.
test-web: $(READY)
	@command -v chromium && command -v chromedriver || { echo "install Chromium first; on Debian: apt install chromium chromium-driver" >&2; exit 1; }
	$(PIP) --group web
	$(BIN)/python -m pytest -m web tests/html_report tests/report

# Graphs for Google's Model Explorer, read by its own classes; it downloads about 130 MB.
test-model-explorer: $(READY)
	$(PIP) --group model-explorer
	$(BIN)/python -m pytest tests/report

# dist/: the sdist and a wheel for each processor (another than this machine's in a folder of its name),
# each built twice and looked into; with the NDK's path in ANDROID_NDK, ep-nnapi-android too. Then each
# is used in an empty environment without a compiler, that for ARM64 under emulation if there is an
# emulator; CORE= other tests.
RELEASE := .venv-release
wheels: $(RELEASE)/.ready
	$(RELEASE)/bin/python -m release.wheels
	$(MAKE) test-wheels

test-wheels: $(RELEASE)/.ready
	$(RELEASE)/bin/python release/prove.py dist/ep_nnapi-*.whl $(CORE)
	test $(shell uname -m) = aarch64 || $(ON_ARM64) || test $$? -eq 77

# The checklist of a release, in a clean clone.
release-check: $(READY) $(RELEASE)/.ready
	$(RELEASE)/bin/python -m release.check

# The wheel for ARM64 Linux, under emulation.
ON_ARM64 = HOST_PYTHON=$(RELEASE)/bin/python tests/arm64/run.sh dist/aarch64/*.whl $(CORE)
test-arm64: $(RELEASE)/.ready
	$(ON_ARM64)

$(RELEASE)/.ready: pyproject.toml
	test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(RELEASE)/bin/python -m pip install --quiet --group release
	touch $@

# Random calls of the C API, models and contexts that somebody made, sound models fed special values;
# then the C parts under gcc's sanitizers. The seed is printed, SEED= repeats it; ONLY= one of capi,
# models, nodes, values, contexts.
SECONDS ?= 600
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))
	$(BIN)/python -m tests.fuzz.sanitized --seconds 60 $(if $(SEED),--seed $(SEED))

# ONNX's backend node tests in stock sessions; ONLY= a part of their names.
LEVELS ?= 8 4 3 1
onnx-backend: $(READY)
	$(BIN)/python -m tests.onnx_backend --levels $(LEVELS) $(if $(ONLY),--only $(ONLY))

# The tests of operators and sessions once more, on libneuralnetworks.so through NNAPI's C API.
test-library: $(READY)
	$(BIN)/python -m pytest $(SPREAD) --runtime library \
		tests/operators tests/provider tests/capability tests/lowering tests/quantization \
		tests/end_to_end tests/ort tests/onnx_backend tests/nnapi/library

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror native/*.[ch] ep_nnapi/ort/*.[ch] ep_nnapi/nnapi/*.[ch] ep_nnapi/nnapi/capi/shim/*.c
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m bench

zoo: $(READY)
	$(BIN)/python -m models.zoo zoo

# The package, installed when it is missing or when what it is built from is newer.
$(PACKAGE): pyproject.toml setup.py $(shell find ep_nnapi native -name '*.c' -o -name '*.h' ! -path '*/include/*' -o -name _build.py) $(addprefix ep_nnapi/nnapi/,functions.py codes.py spec.py capi/header.py)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	touch $@.begun  # so that a file which changes during the build is built again
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable ".[onnxruntime]" $(ORT)
	mv $@.begun $@

# And what its tests need.
$(READY): $(PACKAGE)
	$(PIP) --group dev $(ORT)
	touch $@

clean:
	rm -rf $(VENV) $(FLOOR) $(RELEASE) build dist *.egg-info
