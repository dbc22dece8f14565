"""The zoo: published sizes, sound models, answers that depend on the input."""

import numpy as np
import onnx
import pytest

from ep_nnapi.sessions.cpu import exact_options, session_of
from models import zoo
from models.builder import Graph
from models.layers import batch_norm
from models.sizes import running_statistics
from models.statistics import measured

# Learnable parameters as published: torchvision's model pages (mobilenet_v2, mobilenet_v3_large,
# resnet18, resnet50, squeezenet1_1), Keras' mobilenet (trainable), timm's tf_efficientnet_lite0,
# Google's BERT-tiny, MLPerf Tiny's keyword spotting (24,908 with 1,152 running statistics), the
# Keras introduction's MLP; ESPCN counted from its paper: 25*64+64 + 9*64*32+32 + 9*32*9+9.
# Nodes: convolution, norm and activation are one each, a residual sum, pooling, Flatten, Gemm.
PUBLISHED = {
    "mobilenet_v1": (4_231_976, 3 * 27 + 3),
    "mobilenet_v2": (3_504_872, 2 * 52 + 35 + 10 + 3),
    "mobilenet_v3_large": (5_483_032, 186),
    "efficientnet_lite0": (4_652_008, 143),
    "resnet18": (11_689_512, 2 * 20 + 17 + 8 + 4),
    "resnet50": (25_557_032, 2 * 53 + 49 + 16 + 4),
    "squeezenet1_1": (1_235_496, 2 * 26 + 3 + 8 + 2),
    "mlp": (669_706, 5),
    "espcn": (22_729, 6),
    "kws_dscnn": (24_908 - 1_152, 3 * 9 + 4),
    "transformer_encoder": (4_385_920, 81),
}
SMALL = {
    "mobilenet_v1": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_large": 64,
    "efficientnet_lite0": 64,
    "resnet18": 64,
    "resnet50": 64,
    "squeezenet1_1": 64,
    "vgg_small": 32,
    "mlp": 784,
    "espcn": 32,
    "segmentation": 64,
    "detector": 64,
    "detector_roialign": 64,
    "kws_dscnn": 49,
    "denoiser": 12,
    "denoiser_lstm": 12,
    "transformer_encoder": 24,
}
HEAVY = {"resnet18", "resnet50"}
NAMES = [pytest.param(n, marks=[pytest.mark.long] if n in HEAVY else []) for n in zoo.MODELS]


def small(name, **more):
    return zoo.MODELS[name](size=SMALL[name], **more)


def answers(model, inputs):
    options = exact_options()
    options.intra_op_num_threads = 1
    session = session_of(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def close(ours, theirs):
    # float32 sums in another order, once per layer of up to 175
    return np.allclose(ours, theirs, rtol=0, atol=1e-4 * max(1, np.abs(theirs).max()))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_parameters_and_nodes(name):
    model = zoo.MODELS[name]()
    assert (zoo.parameters(model), len(model.graph.node)) == PUBLISHED[name]


@pytest.mark.parametrize("name", NAMES)
def test_sound_and_responsive(name):
    model = small(name)
    onnx.checker.check_model(model, full_check=True)
    sound_and_responsive(model)


@pytest.mark.long
@pytest.mark.parametrize("name", zoo.MODELS)
def test_sound_and_responsive_at_published_size(name):
    model = zoo.MODELS[name]()
    onnx.checker.check_model(model, full_check=True)
    sound_and_responsive(model)


def sound_and_responsive(model):
    """Outputs are finite, have their declared shapes, and differ for another input.

    An output that hardly depends on the input would pass any comparison: between two inputs it has
    to move by a twentieth of what it varies in itself.
    """
    first = answers(model, zoo.sample_inputs(model, seed=1))
    second = answers(model, zoo.sample_inputs(model, seed=2))
    for output in model.graph.output:
        ours, theirs = first[output.name], second[output.name]
        declared = [dim.dim_value for dim in output.type.tensor_type.shape.dim]
        assert all(want in (0, have) for want, have in zip(declared, ours.shape, strict=True))
        assert np.isfinite(ours).all()
        assert np.std(ours) > 1e-2
        assert np.abs(ours).max() < 1e3 or ours.dtype == np.int64
        if ours.shape == theirs.shape:
            assert np.abs(ours - theirs).mean() > 0.05 * np.std(ours)


@pytest.mark.parametrize("name", NAMES)
def test_batch_norm_is_left_in_place(name):
    model = small(name)
    makers = {output: node.op_type for node in model.graph.node for output in node.output}
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert {makers[node.input[0]] for node in norms} <= {"Conv", "ConvTranspose"}
    without = {"squeezenet1_1", "vgg_small", "mlp", "espcn", "transformer_encoder"}
    assert bool(norms) == (name not in without)


OPERATORS = {
    "mobilenet_v2": {"Clip"},
    "mobilenet_v3_large": {"HardSwish", "HardSigmoid", "Mul"},
    "vgg_small": {"Flatten", "Gemm", "MaxPool"},
    "espcn": {"DepthToSpace", "Tanh"},
    "segmentation": {"Resize", "ConvTranspose", "Sigmoid", "Concat"},
    "detector": {"NonMaxSuppression", "Softmax", "Exp"},
    "detector_roialign": {"RoiAlign", "TopK", "Gather"},
    "kws_dscnn": {"AveragePool", "Softmax"},
    "denoiser": {"GRU", "ConvTranspose"},
    "denoiser_lstm": {"LSTM", "ConvTranspose"},
    "transformer_encoder": {"LayerNormalization", "MatMul", "Softmax", "Erf", "Gather", "Cast"},
}


@pytest.mark.parametrize("name", OPERATORS)
def test_characteristic_operators(name):
    assert OPERATORS[name] <= {node.op_type for node in small(name).graph.node}


def test_espcn_shuffles_as_pytorch():
    node = next(n for n in small("espcn").graph.node if n.op_type == "DepthToSpace")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes == {"blocksize": 3, "mode": b"CRD"}


@pytest.mark.parametrize("name", ["mobilenet_v2", "mlp", "denoiser", "transformer_encoder"])
def test_seed_decides_the_weights(name):
    first = small(name, seed=3).SerializeToString()
    running_statistics.cache_clear()  # so that they are measured again
    assert small(name, seed=3).SerializeToString() == first
    assert small(name, seed=4).SerializeToString() != first


DYNAMIC = [
    (name, what)
    for name, recipe in zoo.MODELS.items()
    for what in ({"batch"}, {"batch", "size"})
    if what <= recipe.dynamic and name not in HEAVY
]


@pytest.mark.parametrize(
    ("name", "what"), DYNAMIC, ids=lambda x: x if isinstance(x, str) else len(x)
)
def test_symbolic_dimensions_change_nothing_else(name, what):
    fixed, symbolic = small(name, batch=2), small(name, dynamic=what)
    inputs = zoo.sample_inputs(fixed)
    symbols = {
        dim.dim_param for value in symbolic.graph.input for dim in value.type.tensor_type.shape.dim
    }
    assert "batch" in symbols
    assert (len(symbols - {""}) > 1) == ("size" in what)
    ours, theirs = answers(symbolic, inputs), answers(fixed, inputs)
    assert all(close(ours[output], theirs[output]) for output in theirs)


@pytest.mark.parametrize(
    "name", ["squeezenet1_1", "segmentation", "transformer_encoder", "kws_dscnn"]
)
def test_batch_is_independent_samples(name):
    pair, one = small(name, batch=2), small(name)
    inputs = zoo.sample_inputs(pair)
    together = answers(pair, inputs)
    for index in range(2):
        alone = answers(one, {key: value[index : index + 1] for key, value in inputs.items()})
        assert all(close(together[key][index], alone[key][0]) for key in alone)


@pytest.mark.parametrize("name", ["denoiser", "denoiser_lstm"])
def test_denoiser_never_looks_ahead(name):
    model = small(name)
    inputs = zoo.sample_inputs(model)
    before = answers(model, inputs)["cleaned"]
    inputs["frames"][:, :, 7:] += 1
    after = answers(model, inputs)["cleaned"]
    assert np.array_equal(before[:, :, :7], after[:, :, :7])
    assert not np.allclose(before[:, :, 7:], after[:, :, 7:])


@pytest.mark.parametrize("name", ["denoiser", "denoiser_lstm"])
def test_denoiser_uses_its_state(name):
    model = small(name)
    inputs = zoo.sample_inputs(model)
    first = answers(model, inputs)
    second = answers(model, inputs | {"state": first["new_state"]})
    assert not np.allclose(first["cleaned"], second["cleaned"])


def test_transformer_ignores_masked_tokens():
    model = small("transformer_encoder")
    inputs = zoo.sample_inputs(model)
    inputs["attention_mask"][:] = 1
    inputs["attention_mask"][:, 20:] = 0
    before = answers(model, inputs)["last_hidden_state"]
    inputs["input_ids"][:, 20:] += 1
    after = answers(model, inputs)["last_hidden_state"]
    # exp(-10000) is 0 in float32, so masked tokens weigh exactly nothing
    assert np.array_equal(before[:, :20], after[:, :20])
    assert not np.allclose(before[:, 20:], after[:, 20:])


def test_detector_keeps_boxes_that_hardly_overlap():
    found = answers(model := small("detector"), zoo.sample_inputs(model))
    image, kind, box = found["selected"].T
    assert len(box) > 10
    assert (found["probabilities"][image, kind, box] > 0.15).all()
    assert np.bincount(kind).max() <= 10


def test_roi_align_boxes_are_inside_the_image():
    found = answers(model := small("detector_roialign"), zoo.sample_inputs(model))
    assert found["boxes"].min() >= 0
    assert found["boxes"].max() <= 64
    assert np.allclose(found["probabilities"].sum(1), 1, atol=1e-5)  # 21 float32 of a softmax


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("mlp", {"dynamic": ["size"]}, "mlp: size cannot be dynamic here, only batch"),
        ("segmentation", {"size": 40}, "segmentation: size 40 is not one of 16, 32, ... 65520"),
        ("squeezenet1_1", {"size": 16}, "squeezenet1_1: size 16 is not one of 17, 18, ... 65535"),
        ("transformer_encoder", {"size": 513}, "size 513 is not one of 1, 2, ... 512"),
        ("detector_roialign", {"batch": 2}, "detector_roialign: batch 2 is not 1"),
        ("resnet18", {"batch": 0}, "resnet18: batch 0 is not one of 1, 2, ... 65535"),
    ],
)
def test_impossible_sizes_are_refused(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        zoo.MODELS[name](**arguments)


@pytest.mark.parametrize(
    ("name", "size"),
    [("segmentation", 16), ("squeezenet1_1", 17), ("transformer_encoder", 512), ("kws_dscnn", 1)],
)
def test_sizes_at_the_limit_run(name, size):
    model = zoo.MODELS[name](size=size)
    assert all(np.isfinite(y).all() for y in answers(model, zoo.sample_inputs(model)).values())


def test_sample_inputs_are_seeded():
    model = small("transformer_encoder", dynamic=["batch", "size"])
    inputs = zoo.sample_inputs(model, seed=3, batch=2, tokens=5)
    assert {key: value.shape for key, value in inputs.items()} == dict.fromkeys(inputs, (2, 5))
    assert {value.dtype for value in inputs.values()} == {np.dtype(np.int64)}
    again = zoo.sample_inputs(model, seed=3, batch=2, tokens=5)
    assert all(np.array_equal(inputs[key], again[key]) for key in inputs)
    other = zoo.sample_inputs(model, seed=4, batch=2, tokens=5)
    assert any(not np.array_equal(inputs[key], other[key]) for key in inputs)


def test_sample_pictures_have_unit_variance():
    picture = zoo.sample_inputs(zoo.MODELS["espcn"](size=64, batch=200))["image"]
    assert abs(picture.mean()) < 0.1  # 200 offsets of deviation 0.5: 0.035
    assert 0.9 < picture.var() < 1.1


def test_statistics_are_those_of_the_data():
    g = Graph("twice")
    x = g.input("image", (4, 3, 32, 32))
    y = batch_norm(g, x)
    g.output(batch_norm(g, y), "y")
    model = g.model()
    found = list(measured(model).values())
    image = zoo.sample_inputs(model)["image"]
    weights = [onnx.numpy_helper.to_array(w) for w in model.graph.initializer]
    scale, bias = weights[0], weights[1]
    assert np.allclose(found[0], image.mean((0, 2, 3)), atol=1e-5)  # 4096 float32 summed
    assert np.allclose(found[1], image.var((0, 2, 3)), atol=1e-4)  # as a difference of squares
    assert np.allclose(found[2], bias, atol=1e-4)
    assert np.allclose(found[3], scale**2, rtol=1e-3)  # epsilon 1e-5 against variances about 1


def test_writes_named_models(tmp_path, capsys):
    assert zoo.main([str(tmp_path / "deep" / "er"), "mlp", "espcn"]) == 0
    files = sorted(path.name for path in (tmp_path / "deep" / "er").iterdir())
    assert files == ["espcn.onnx", "mlp.onnx"]
    assert onnx.load(tmp_path / "deep/er/mlp.onnx") == zoo.MODELS["mlp"]()
    assert capsys.readouterr().out.splitlines() == [
        "mlp                     5 nodes     669,706 parameters    2.7 MB",
        "espcn                   6 nodes      22,729 parameters    0.1 MB",
    ]


def test_writes_everything_when_no_name_is_given(tmp_path, monkeypatch):
    few = {name: zoo.MODELS[name] for name in ("mlp", "espcn", "kws_dscnn")}
    monkeypatch.setattr(zoo, "MODELS", few)
    assert zoo.main([str(tmp_path)]) == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(few)


def test_writes_nothing_when_one_fails(tmp_path, monkeypatch):
    def fails():
        raise RuntimeError("no memory left")

    monkeypatch.setitem(zoo.MODELS, "fails", fails)
    with pytest.raises(RuntimeError, match="no memory left"):
        zoo.main([str(tmp_path), "mlp", "fails"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: python -m models.zoo DIRECTORY [NAME ...]"),
        (["--help"], "usage: python -m models.zoo DIRECTORY [NAME ...]"),
        (["somewhere", "resnet"], "no model is called 'resnet'; there are mobilenet_v1, "),
    ],
)
def test_refuses_arguments(arguments, message, capsys):
    assert zoo.main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)


def test_refuses_a_directory_that_cannot_be(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert zoo.main([str(tmp_path / "file"), "mlp"]) == 2
    assert capsys.readouterr().err == f"cannot write to {tmp_path / 'file'}: File exists\n"
