"""The provider is selected, asked, and gets its nodes."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ep_nnapi.ort.session as nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.report.report import Notice
from tests.end_to_end.sessions import nnapi_session
from tests.ort.conftest import NAME, Install, settings, start
from tests.ort.fake import FakeProvider
from tests.ort.models import abs_add, if_abs_add

DIGITS = str(Path(__file__).parents[2] / "models" / "digits.onnx")
INFO, WARNING, ERROR = 1, 2, 3  # severities of ONNX Runtime's log
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def test_library_names_its_provider():
    assert nnapi.get_ep_names() == [nnapi.get_ep_name()] == [NAME]
    path = Path(nnapi.get_library_path())
    assert path.is_absolute()
    assert path.name == "libonnxruntime_providers_nnapi.so"  # as ONNX Runtime's plugin packages do


def test_register_twice_is_harmless():
    nnapi.register()
    nnapi.register()
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]
    assert [d.device.type.name for d in devices] == ["CPU"]
    assert devices[0].ep_vendor == "ep-nnapi"


def test_append_execution_provider_runs_on_the_plugin(install: Install):
    fake = install("Abs", "Add", together=True)
    options = settings()
    nnapi.append_execution_provider(options, 1, feature_level=4)
    session = onnxruntime.InferenceSession(abs_add(), options)
    assert session.get_providers() == [NAME, "CPUExecutionProvider"]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.abs(X) + X)
    assert fake.entries == {"flags": "USE_FP16", "feature_level": "4"}
    assert len(fake.runners) == 1


@pytest.mark.parametrize(
    ("given", "duration"),
    [
        ({}, "1000"),
        ({"session.intra_op.spin_duration_us": "7"}, "7"),
        ({"session.intra_op.allow_spinning": "1"}, None),
        ({"session.force_spinning_stop": "1"}, None),
    ],
)
def test_threads_of_the_session_spin_briefly_unless_it_says_how(given, duration):
    options = settings()
    for name, value in given.items():
        options.add_session_config_entry(name, value)
    nnapi.append_execution_provider(options)
    try:
        found = options.get_session_config_entry("session.intra_op.spin_duration_us")
    except RuntimeError:
        found = None
    assert found == duration


def test_providers_argument_runs_on_the_plugin(install: Install):
    fake = install("Abs", "Add", together=True)
    providers = [(NAME, {"flags": "1", "device": "x"}), "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(abs_add(), settings(), providers=providers)
    assert session.get_providers() == [NAME, "CPUExecutionProvider"]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.abs(X) + X)
    assert fake.entries == {"flags": "1", "device": "x"}


@pytest.mark.parametrize(
    ("line", "severity", "logged"),
    [
        (Notice("half: 1 of 2"), INFO, 1),
        (Notice("half: 1 of 2"), WARNING, 0),
        (Notice("few: 1 of 3", warning=True), WARNING, 1),
        (Notice("few: 1 of 3", warning=True), ERROR, 0),
    ],
)
def test_one_line_for_each_session_at_the_severity_of_its_log(
    install: Install, capfd: pytest.CaptureFixture[str], line: Notice, severity: int, logged: int
):
    """The main graph has two inner ones."""
    install(provider=FakeProvider(["Abs"], line=line))
    nnapi_session(if_abs_add(), severity=severity)
    assert capfd.readouterr().err.count(line.text) == logged


def test_the_line_counts_nodes_and_names_operators_left_to_the_cpu(capfd):
    nnapi_session(DIGITS, severity=WARNING, exclude="Conv,Relu,MaxPool")
    (line,) = [x for x in capfd.readouterr().err.splitlines() if "NnapiPlugin" in x]
    said = "NNAPI takes 2 of 8 nodes in 1 cluster at feature level 8; Conv, Relu …"
    assert f"{said}: `ep-nnapi check` says why" in line


def test_nobody_gets_the_plugin_unasked(install: Install):
    install("Abs")
    session = onnxruntime.InferenceSession(abs_add(), settings())
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_profile_shows_only_the_fused_node(install: Install, tmp_path: Path):
    install("Abs", "Add", together=True)
    session = start(abs_add(), enable_profiling=True, profile_file_prefix=str(tmp_path / "p"))
    session.run(None, {"x": X})
    events = json.loads(Path(session.end_profiling()).read_text())
    kernels = [e["args"] for e in events if e["name"].endswith("_kernel_time")]
    assert [k["provider"] for k in kernels] == [NAME]


def test_assignment_info_names_the_original_nodes(install: Install):
    install("Abs")
    options = settings()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    nnapi.append_execution_provider(options)
    session = onnxruntime.InferenceSession(abs_add(), options)
    assigned = {
        part.ep_name: [n.name for n in part.get_nodes()]
        for part in session.get_provider_graph_assignment_info()
    }
    assert assigned == {NAME: ["abs"], "CPUExecutionProvider": ["add"]}


LEVEL = onnxruntime.GraphOptimizationLevel


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((16,), {}, "flags is 16"),
        ((4 | 8,), {}, "CPU_DISABLED and CPU_ONLY exclude each other"),
        ((1,), {"flags": 2}, "flags is given twice"),
        ((), {"colour": "red"}, "option 'colour' is unknown"),
        ((), {"feature_level": 9}, "feature_level is 9"),
        ((), {"device": "vpu"}, "device 'vpu' is unknown"),
        ((), {"custom_ops_library": "ops.so"}, "register_custom_ops_library"),
        ((), {"fix": "rate:=16000"}, "fix freezes rate, and a session has all inputs of its model"),
    ],
)
def test_append_refuses_at_once(arguments, options, message):
    chosen = settings()
    with pytest.raises(OptionError, match=message):
        nnapi.append_execution_provider(chosen, *arguments, **options)
    assert not chosen.has_providers()


def test_append_twice_is_refused():
    options = settings()
    nnapi.append_execution_provider(options)
    with pytest.raises(OptionError, match="appended to these session options already"):
        nnapi.append_execution_provider(options)


def test_append_opens_no_provider(install: Install):
    """It checks the options; the session opens the provider."""
    fake = install("Abs")
    fake.entries = {"never": "opened"}
    nnapi.append_execution_provider(settings(), feature_level=4)
    assert fake.entries == {"never": "opened"}


def tuned(folder: Path, **changes: object) -> Path:
    """A file of settings with the provider on, which a test may change."""
    data = {
        "format": "ep-nnapi settings",
        "version": 1,
        "provider": "NNAPI",
        "optimization_level": "basic",
        "options": {"feature_level": 4},
        **changes,
    }
    path = folder / "settings.json"
    path.write_text(json.dumps(data))
    return path


def test_settings_are_applied_and_options_take_precedence(install: Install, tmp_path: Path):
    fake, options = install("Abs"), settings()
    nnapi.append_execution_provider(options, 1, settings=tuned(tmp_path), device="host-cpu")
    assert options.graph_optimization_level == LEVEL.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(abs_add(), options)
    assert fake.entries == {"flags": "USE_FP16", "feature_level": "4", "device": "host-cpu"}


@pytest.mark.parametrize(
    ("level", "of_session"),
    [
        ("basic", LEVEL.ORT_ENABLE_BASIC),
        ("extended", LEVEL.ORT_ENABLE_EXTENDED),
        ("all", LEVEL.ORT_ENABLE_ALL),
        ("nnapi-aware", LEVEL.ORT_ENABLE_EXTENDED),
    ],
)
def test_settings_that_choose_the_cpu_append_nothing(tmp_path, level: str, of_session: object):
    options, threads = settings(), {"intra_op_num_threads": "1"}
    path = tuned(tmp_path, provider="CPU", optimization_level=level, options=threads)
    nnapi.append_execution_provider(options, settings=path)
    assert not options.has_providers()
    assert options.graph_optimization_level == of_session
    assert options.intra_op_num_threads == 1


def test_settings_that_name_a_library_are_refused(tmp_path: Path):
    options, path = settings(), tuned(tmp_path, options={"runtime": "/tmp/x.so"})
    with pytest.raises(OptionError, match="runtime names a file or a library, which settings may"):
        nnapi.append_execution_provider(options, settings=path)
    assert not options.has_providers()
