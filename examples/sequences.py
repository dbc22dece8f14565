"""Networks whose sizes change from run to run, on NNAPI and on the CPU provider.

`python -m examples.sequences` in the folder of the repository. The networks are small and have
random weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import numpy as np
import onnx
import onnxruntime

import ep_nnapi
from bench.open_networks import DECODERS, detector
from models import zoo

Arrays = Mapping[str, np.ndarray]


@dataclass
class Session:
    """A session, and milliseconds of its runs."""

    model: onnx.ModelProto
    nnapi: bool
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Creates it; the provider needs no word about sizes."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if self.nnapi:
            ep_nnapi.append_execution_provider(options)
        self.session = onnxruntime.InferenceSession(self.model.SerializeToString(), options)

    def run(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """Returns the outputs by name."""
        names = [output.name for output in self.session.get_outputs()]
        began = perf_counter()
        outputs = self.session.run(names, feeds)
        self.times.append(1e3 * (perf_counter() - began))
        return dict(zip(names, outputs, strict=True))


def generate(session: Session, more: Arrays) -> list[np.ndarray]:
    """Decodes 40 tokens after a prompt, one by one; returns the scores of each."""
    inputs = {i.name: i.shape for i in session.session.get_inputs()}
    caches = {name: shape for name, shape in inputs.items() if name not in ("ids", *more)}
    past = {n: np.zeros([0 if d == "past" else d for d in s], "f4") for n, s in caches.items()}
    tokens, scores = [3, 1, 4, 1, 5, 9], []
    for _ in range(40):
        outputs = session.run({"ids": np.array([tokens]), **past, **more})
        past = {name: outputs[f"new_{name}"] for name in caches}  # longer by these tokens
        scores.append(outputs["logits"][0, -1])
        tokens = [int(scores[-1].argmax())]
    return scores


def each(session: Session, sizes: Sequence[Mapping[str, int]]) -> list[np.ndarray]:
    """Runs inputs of each of these sizes; returns the first output of each run."""
    drawn = (zoo.sample_inputs(session.model, seed, **s) for seed, s in enumerate(sizes))
    return [next(iter(session.run(feeds).values())) for feeds in drawn]


def compare(name: str, model: onnx.ModelProto, work: Callable[[Session], list]) -> None:
    """Prints whether both providers compute the same, the median times of a run, and receipts."""
    ours = Session(model, nnapi=True)
    got = work(ours)
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    taken = f"{len(cluster['nodes'])} nodes on {cluster['device']}"
    fallbacks = [f"{f['runs']} run on the CPU: {f['reason']}" for f in cluster["fallbacks"]]
    del ours.session  # whose threads would be in the way
    cpu = Session(model, nnapi=False)
    same = all(np.allclose(a, b, atol=1e-3) for a, b in zip(got, work(cpu), strict=True))
    times = f"{median(ours.times):.2g} ms a run, the CPU provider {median(cpu.times):.2g} ms"
    print(
        f"{name}: {len(got)} runs {'agree' if same else 'DIFFER'}, {taken}, {times}",
        *fallbacks,
        sep="\n  ",
    )


def main() -> None:
    """Compares a decoder, Whisper's decoder, BERT in batches and a detector."""
    rng = np.random.default_rng(0)
    compare("decoder", DECODERS["llama"].model(), lambda s: generate(s, {}))
    speech = {"states": rng.standard_normal((1, 50, 256), np.float32)}
    compare("Whisper", DECODERS["whisper"].model(), lambda s: generate(s, speech))
    texts = [{"batch": 1 + i % 4, "tokens": int(rng.integers(2, 64))} for i in range(40)]
    bert = zoo.MODELS["transformer_encoder"](dynamic=("batch", "size"))
    compare("BERT", bert, lambda s: each(s, texts))
    sides = 16 * rng.integers(4, 12, (20, 2))
    images = [{"height": int(h), "width": int(w)} for h, w in sides]
    compare("detector", detector(), lambda s: each(s, images))


if __name__ == "__main__":
    main()
