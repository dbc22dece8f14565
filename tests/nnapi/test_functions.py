"""The list of NNAPI's C functions: complete by the facts, and what is generated from a row."""

import json
import re
from pathlib import Path

import pytest

from ep_nnapi.nnapi import functions
from ep_nnapi.nnapi.codes import feature_level_of_code
from ep_nnapi.nnapi.functions import FUNCTIONS, OBJECTS, Function, Parameter, public_type

FACTS = Path(__file__).parents[3] / "shared" / "nnapi_facts.json"
BY_NAME = {f.c_name: f for f in FUNCTIONS}


@pytest.mark.skipif(not FACTS.exists(), reason="the facts are not here")
def test_the_list_is_that_of_the_facts() -> None:
    """Names, types, parameters and the level that added each."""
    wanted = {
        f["name"]: (
            feature_level_of_code(f["api_level"]),
            f["returns"],
            [(p["type"], p["name"]) for p in f["params"]],
        )
        for f in json.loads(FACTS.read_text())["functions"]
    }
    found = {
        f.c_name: (f.level, f.returns, [(public_type(p.type), p.name) for p in f.parameters])
        for f in FUNCTIONS
    }
    assert found == wanted


def test_prototypes_are_those_of_the_ndk() -> None:
    for prototype in (
        "uint64_t ANeuralNetworks_getDefaultLoopTimeout(void)",
        "void ANeuralNetworksModel_free(ANeuralNetworksModel* model)",
        "int ANeuralNetworksModel_addOperation(ANeuralNetworksModel* model,"
        " ANeuralNetworksOperationType type, uint32_t inputCount, const uint32_t* inputs,"
        " uint32_t outputCount, const uint32_t* outputs)",
        "int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel* model,"
        " const ANeuralNetworksDevice* const* devices, uint32_t numDevices,"
        " ANeuralNetworksCompilation** compilation)",
        "int ANeuralNetworksMemory_createFromAHardwareBuffer(const AHardwareBuffer* ahwb,"
        " ANeuralNetworksMemory** memory)",
    ):
        name = re.search(r"(\w+)\(", prototype)[1]
        assert BY_NAME[name].prototype == prototype


def test_names_in_python() -> None:
    assert BY_NAME["ANeuralNetworks_getDeviceCount"].python_name == "getDeviceCount"
    assert BY_NAME["ANeuralNetworksModel_create"].python_name == "Model_create"
    assert len({f.python_name for f in FUNCTIONS}) == len(FUNCTIONS)


@pytest.mark.parametrize(
    ("type_", "adapter"),
    [
        ("Model*", "uintptr_t"),
        ("const Model*", "uintptr_t"),
        ("Compilation**", "uintptr_t*"),
        ("const Device* const*", "uintptr_t*"),
        ("const AHardwareBuffer*", "uintptr_t"),
        ("OperationType", "int32_t"),
        ("const OperandType*", "const ANeuralNetworksOperandType*"),  # a struct is read
        ("const uint32_t*", "const uint32_t*"),
        ("uint16_t", "uint16_t"),
    ],
)
def test_handles_are_integers_to_callbacks(type_: str, adapter: str) -> None:
    assert Parameter(type_, "x").adapter_type == adapter


@pytest.mark.parametrize(
    ("function", "name", "optional"),
    [
        ("Execution_setInput", "type", True),
        ("Execution_setOutput", "buffer", True),
        ("MemoryDesc_setDimensions", "dimensions", True),
        ("Execution_getOutputOperandDimensions", "dimensions", False),
    ],
)
def test_arguments_that_may_be_null(function: str, name: str, optional: bool) -> None:
    parameters = {p.name: p for p in BY_NAME[f"ANeuralNetworks{function}"].parameters}
    assert parameters[name].optional is optional


def test_public_types_have_the_prefix_once() -> None:
    assert public_type("MemoryDesc**") == "ANeuralNetworksMemoryDesc**"
    assert public_type("const SymmPerChannelQuantParams*").count("ANeuralNetworks") == 1
    assert public_type("AHardwareBuffer*") == "AHardwareBuffer*"
    assert public_type("uint32_t") == "uint32_t"


def test_every_kind_of_object_is_made_and_freed() -> None:
    """But devices, which the runtime owns."""
    freed = {f.name.removesuffix("_free") for f in FUNCTIONS if f.name.endswith("_free")}
    assert freed == set(OBJECTS) - {"Device"}
    made = {f.parameters[-1].type for f in FUNCTIONS if f.parameters}
    assert {f"{kind}**" for kind in OBJECTS} <= made


def test_a_malformed_row_is_refused() -> None:
    with pytest.raises(ValueError, match="malformed declaration: int Model_create"):
        functions._parse("int Model_create(Model** model)")  # without a level


def test_the_build_can_execute_the_file_by_its_path() -> None:
    """It imports nothing of the package."""
    scope: dict[str, object] = {"__name__": "elsewhere"}
    exec(compile(Path(functions.__file__).read_text(), "functions.py", "exec"), scope)
    assert [tuple(f) for f in scope["FUNCTIONS"]] == [tuple(f) for f in FUNCTIONS]
    assert isinstance(FUNCTIONS[0], Function)
