"""Sessions of files with alternatives, in C and in Python, and what they chose."""

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from tests.native.sessions import devices, of_contexts, settings

Feeds = Mapping[str, np.ndarray]
Answer = list[np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """What became of a session: its results, and for each cluster what was chosen.

    clusters   of each the alternative that computes, and those tried before it with their reasons
    """

    results: Answer
    clusters: list[tuple[str, list[tuple[str, str]]]]

    @property
    def names(self) -> list[tuple[str, list[str]]]:
        """The same without reasons."""
        return [(chosen, [name for name, _ in tried]) for chosen, tried in self.clusters]


def in_c(path: Path, **options: object) -> onnxruntime.InferenceSession:
    """A session with the plugin in C; no device is named unless the options do."""
    config = settings()
    config.add_provider_for_devices(devices(), {k: str(v) for k, v in options.items()})
    return onnxruntime.InferenceSession(str(path), config)


MAKERS = {"c": in_c, "python": of_contexts}


@contextmanager
def young() -> Iterator[None]:
    """Collects at the end what was made and left, which is young, as nothing is collected before.

    To look through all objects of the tests' process would take several times what a session takes.
    """
    gc.disable()
    try:
        yield
        gc.collect(0)
    finally:
        gc.enable()


def outcome(maker: str, path: Path, feeds: Feeds, folder: Path, **options: object) -> Outcome:
    """Two runs of a session, of which the second one's results count, and its end."""
    receipt = folder / "receipt.json"
    with young():
        made = MAKERS[maker](path, receipt=str(receipt), **options)
        results = [made.run(None, dict(feeds)) for _ in range(2)][1]
        del made
    clusters = json.loads(receipt.read_text())["clusters"]
    receipt.unlink()
    chosen = [
        (c["alternative"], [(t["alternative"], t["reason"]) for t in c["tried"]]) for c in clusters
    ]
    return Outcome(results, chosen)


def both(path: Path, feeds: Feeds, folder: Path, **options: object) -> Outcome:
    """The outcome in C, which is that in Python: the same is chosen and computes the same bits.

    With `cache_dir`, each has a folder of its own in it.
    """
    found = []
    for maker in MAKERS:
        own = dict(options)
        if "cache_dir" in own:
            own["cache_dir"] = str(Path(str(own["cache_dir"]), maker))
            Path(own["cache_dir"]).mkdir(parents=True, exist_ok=True)
        found.append(outcome(maker, path, feeds, folder, **own))
    one, other = found
    assert one.names == other.names, (one.clusters, other.clusters)
    for ours, theirs in zip(one.results, other.results, strict=True):
        assert ours.tobytes() == theirs.tobytes(), one.names
    return one
