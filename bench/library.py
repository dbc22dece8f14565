"""Cost of the C API: MobileNetV2 on nnapi-reference in this process and through the library.

Both compute with the same kernels, so the difference is what the client, the C functions and their
Python cost. Runs alternate, and each is compared with the one beside it: a busy machine slows both.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import onnxruntime

import ep_nnapi
from models import zoo

RUNS = 40
LIMIT = 0.03
"""Greatest share of a run that the C API may take."""


def session(model: bytes, runtime: str) -> onnxruntime.InferenceSession:
    """A stock session on a runtime's nnapi-reference."""
    options = onnxruntime.SessionOptions()
    chosen = {"runtime": runtime, "device": "nnapi-reference", "fallback": "none"}
    ep_nnapi.append_execution_provider(options, **chosen)
    return onnxruntime.InferenceSession(model, options)


def main() -> None:
    """Prints one line."""
    model = zoo.MODELS["mobilenet_v2"]()
    data, feeds = model.SerializeToString(), zoo.sample_inputs(model)
    runtimes = {"host": "host", "library": ep_nnapi.libneuralnetworks_path()}
    sessions = {name: session(data, path) for name, path in runtimes.items()}
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for number in range(RUNS + 2):
        for name, opened in sessions.items():
            began = perf_counter()
            opened.run(None, feeds)
            if number >= 2:  # after warm-up
                times[name].append(1000 * (perf_counter() - began))
    in_process, through_c = median(times["host"]), median(times["library"])
    pairs = zip(times["host"], times["library"], strict=True)
    share = median(c / host for host, c in pairs) - 1
    verdict = "within" if share <= LIMIT else "beyond"
    print(
        f"mobilenet_v2: {in_process:.1f} ms in process, {through_c:.1f} ms through the C API: "
        f"{share:+.1%}, {verdict} {LIMIT:.0%}"
    )


if __name__ == "__main__":
    main()
