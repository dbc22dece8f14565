"""Stock sessions with runtime=litert beside the CPU provider: networks, sizes, random graphs."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.litert import package
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.settings import Chosen, Settings
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.cli.command import DIGITS
from tests.end_to_end import test_quantized as quantized
from tests.end_to_end import test_zoo as networks
from tests.end_to_end.sessions import nnapi_session
from tests.litert.needs import LITERT
from tests.random_graphs.suite import run

pytestmark = LITERT
SYMBOLIC = ("espcn", "segmentation", "mlp", "transformer_encoder")


def model(name: str, form: str) -> onnx.ModelProto:
    if form == "float":
        return networks.built(name, published=False)
    if form == "symbolic":
        return networks.symbolic(name, tuple(sorted(zoo.MODELS[name].dynamic)))
    pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    return quantized.built(name, form)


def cases() -> Iterator[tuple[str, str]]:
    yield from ((name, "float") for name in zoo.MODELS)
    yield from (("squeezenet1_1", "u8u8"), ("segmentation", "u8s8"), ("mlp", "s8s8"))
    yield from ((name, "symbolic") for name in SYMBOLIC)


@pytest.mark.parametrize(("name", "form"), list(cases()))
def test_networks_run_on_litert_and_match_the_cpu(name: str, form: str, tmp_path: Path) -> None:
    assert matching_nodes(name, form, "litert-cpu", tmp_path / "receipt.json")


def matching_nodes(name: str, form: str, device: str, receipt: Path) -> int:
    """The nodes that a session runs on the device, by its receipt, equal to the CPU provider."""
    made = model(name, form)
    feeds = networks.drawn(name, made, 3) if form == "symbolic" else [zoo.sample_inputs(made)]
    options = {"runtime": "litert", "device": device, "receipt": receipt, "new_sizes": len(feeds)}
    cpu, session = session_of(made.SerializeToString()), nnapi_session(made, **options)
    runs = [
        [dict(zip(names, s.run(names, fed), strict=True)) for fed in (*feeds, *feeds)]
        for s, names in ((s, [o.name for o in cpu.get_outputs()]) for s in (session, cpu))
    ]
    verdict = compared(made.SerializeToString(), [*feeds, *feeds], (runs[0], runs[1]), None)
    assert not verdict.negative, verdict
    del session
    clusters = json.loads(receipt.read_text())["clusters"]
    for cluster in clusters:
        assert (cluster["device"], cluster["fallbacks"]) == (device, [])
        assert cluster["runs"] == cluster["device_runs"] == 2 * len(feeds)
    return sum(len(cluster["nodes"]) for cluster in clusters)


def test_random_graphs_match_the_cpu() -> None:
    first = int(os.environ.get("EP_NNAPI_SEED", "200000"))
    tally = run(range(first, first + 200), runtime="litert")
    report = "\n".join(tally.lines())
    assert not tally.failures, report
    assert len(tally.operators) > 100, report


def test_eight_threads_run_one_session() -> None:
    cpu = session_of(DIGITS)
    images = np.random.default_rng(0).random((8, 1, 1, 8, 8), np.float32)
    wanted = [cpu.run(None, {"image": x})[0] for x in images]
    for instances in (1, 3):
        session = nnapi_session(DIGITS, runtime="litert", instances=instances)

        def right(n: int, of: onnxruntime.InferenceSession = session) -> bool:
            got = (of.run(None, {"image": images[n]})[0] for _ in range(100))
            return all(np.allclose(found, wanted[n], 0, 1e-5) for found in got)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(right, range(8)))


def test_a_path_is_the_callers_alone(tmp_path: Path) -> None:
    path = package.library()[0]
    assert {c.device for c in ep_nnapi.check(DIGITS, runtime=path).clusters} == {"litert-cpu"}
    settings = tmp_path / "settings.json"
    with pytest.raises(OptionError, match="runtime"):
        Settings(Chosen.NNAPI, "basic", {"runtime": path}).write(settings)
    Settings(Chosen.NNAPI, "basic", {"device": "litert-cpu"}).write(settings)
    assert {c.device for c in ep_nnapi.check(DIGITS, settings=settings).clusters} == {"litert-cpu"}
    settings.write_text(settings.read_text().replace('"device"', '"runtime"'))
    with pytest.raises(OptionError, match="runtime"):
        ep_nnapi.check(DIGITS, settings=settings)
