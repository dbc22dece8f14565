"""Composites are LiteRT's own operators, and give what their members give."""

import pytest

from ep_nnapi.litert.package import schema
from ep_nnapi.litert.to_tflite import convert
from ep_nnapi.nnapi.model import Model
from tests.litert.needs import LITERT
from tests.litert.test_to_tflite import matches
from tests.ort_devices.test_composites import ROUNDED, built, without

pytestmark = LITERT


def operators(model: Model) -> list[str]:
    """Names of the flatbuffer's operators."""
    names = {code: name for name, code in vars(schema().BuiltinOperator).items()}
    found = schema().ModelT.InitFromPackedBuf(convert(model), 0)
    codes = [found.operatorCodes[o.opcodeIndex].builtinCode for o in found.subgraphs[0].operators]
    return [names[code] for code in codes]


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("Gelu(x)", "GELU"),
        ('Gelu<approximate: string = "tanh">(x)', "GELU"),
        ("com.microsoft.Gelu(x)", "GELU"),
        ("com.microsoft.FastGelu(x)", "GELU"),
        ("Ceil(x)", "CEIL"),
        ("Cos(x)", "COS"),
        ("Round(x)", "ROUND"),
        ("Sign(x)", "SIGN"),
    ],
)
def test_an_operator_of_one_tensor_is_one(text: str, operator: str) -> None:
    model = built(f"y = {text}")
    assert operators(model) == [operator]
    matches(model, ROUNDED)
    assert len(operators(without(model))) > 1


@pytest.mark.parametrize(
    "text", ["Erf(x)", "com.microsoft.FastGelu(x, x)", "Relu(z)", "Softplus(x)"]
)
def test_others_are_computed_by_their_members(text: str) -> None:
    """What LiteRT has no operator for, of two tensors, and with an activation fused into it."""
    model = built(f"z = Cos(x) y = {text}" if "z" in text else f"y = {text}", "5")
    assert model.composites
    assert len(operators(model)) > 1
    matches(model, 2 * ROUNDED)
