"""One random graph, run by the provider and by the CPU provider."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import onnx
from onnx import defs

import ep_nnapi
from ep_nnapi.diagnostics.compare import ClusterErrors, Comparison
from ep_nnapi.sessions.cpu import session_of
from tests.onnx_backend.trial import delegated, provider_session, quiet, require_sound
from tests.random_graphs.drawing import Drawing, Unfit
from tests.random_graphs.recipes import CONTRIBUTED, RECIPES
from tests.random_graphs.values import Values, fed

OPSETS = (7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 21, 21, 22, 23, 24)
LEVELS = (8, 8, 8, 7, 6, 5, 4, 3, 3, 2, 1)
FLAGS = ("", "", "", "USE_NCHW", "USE_FP16")
TRIES = 40  # of nodes that do not fit, before a graph is as large as it gets

# Of the largest number of a tensor: float32 sums reordered through ten nodes; half rounded there.
CLOSE, CLOSE_HALF = 2e-5, 2e-2
# How far inputs are moved to see how much a graph magnifies what rounding does to them.
MOVED, MOVED_HALF = 1e-6, 1e-3
# What magnifies too much for half precision, or leaves its range.
NOT_IN_HALF = {"Exp", "Cosh", "Sinh", "ReduceProd", "ReduceSumSquare", "ReduceLogSumExp", "Pow"}


ZERO = "NNAPI does not define the sign of zero"
"""A cause that `compare` does not tell, as no difference of numbers comes of it."""


class Ended(StrEnum):
    """Outcome of a graph."""

    SAME = "same"
    KNOWN = "differs as listed in diagnostics.output_traits"
    DIFFERS = "differs"
    CPU_FAILS = "not for the CPU provider"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Result:
    """Result of one seed; `operators` were delegated, `causes` are those of a known difference."""

    seed: int
    ended: Ended
    detail: str = ""
    operators: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    causes: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Subject:
    """A graph to run, with options for the provider."""

    model: onnx.ModelProto
    feeds: Mapping[str, np.ndarray]
    options: Mapping[str, object]
    half: bool


def draw(seed: int, values: Values = Values.ORDINARY) -> Subject:
    """The graph of a seed; the same for the same operators, and whatever it is fed."""
    g = Drawing(seed)
    g.opset, g.half = g.random.choice(OPSETS), g.chance(0.12)
    g.opset = max(g.opset, 13) if g.half else g.opset
    flags = g.random.choice(FLAGS)
    relaxed = flags == "USE_FP16"
    size, tries = g.random.choice((1, 2, 3, 5, 8, 12)), TRIES
    names = sorted(n for n in RECIPES if _known(n, g.opset))
    if g.half or relaxed:
        names = [n for n in names if n not in NOT_IN_HALF]
    while len(g.nodes) < size and tries:
        tries -= 1
        try:
            if g.chance(0.03):
                op = g.random.choice(sorted(CONTRIBUTED))
                CONTRIBUTED[op](g, op)
            else:
                op = g.random.choice(names)
                RECIPES[op](g, op)
        except Unfit:
            continue
    options: dict[str, object] = {"feature_level": g.random.choice(LEVELS)}
    if flags:
        options["flags"] = flags
    if g.nodes and g.chance(0.2):
        options["exclude"] = g.random.choice(g.nodes).op_type  # left to the CPU: more clusters
    half = g.half or relaxed
    return Subject(g.model(), fed(g.feeds, values, seed, half=half), options, half)


def _known(op_type: str, opset: int) -> bool:
    try:
        return not defs.get_schema(op_type, opset, "").deprecated
    except defs.SchemaError:
        return False


def attempt(seed: int, values: Values = Values.ORDINARY, **options: object) -> Result:
    """Draws and compares the graph of a seed; `options` of the provider beside those drawn."""
    subject = draw(seed, values)
    subject = replace(subject, options={**subject.options, **options})
    if not subject.model.graph.output:
        return Result(seed, Ended.CPU_FAILS, "no node fitted")
    content = subject.model.SerializeToString()
    feeds = dict(subject.feeds)
    try:
        session = session_of(content, quiet())
        want = session.run(None, feeds)
        times = 2 if values is Values.ORDINARY else 6
        moved = [session.run(None, f) for f in moved_feeds(feeds, subject.half, times)]
    except Exception as error:  # whatever ONNX Runtime raises
        return Result(seed, Ended.CPU_FAILS, str(error)[:300])
    try:
        tried, provider = provider_session(content, quiet(), subject.options)
        got = tried.run(None, feeds)
        require_sound(provider)
        operators = frozenset(delegated(subject.model, tried, provider))
        assert_same(got, want, moved, subject)
        if values is not Values.ORDINARY and not _same_zeros(got, want, moved):
            return Result(seed, Ended.KNOWN, operators=operators, causes=frozenset((ZERO,)))
    except Exception as error:
        causes = _causes(content, subject) if values is not Values.ORDINARY else frozenset()
        if isinstance(error, AssertionError) and causes:
            return Result(seed, Ended.KNOWN, operators=operators, causes=causes)
        detail = f"{dict(subject.options)} {type(error).__name__}: {' '.join(str(error).split())}"
        return Result(seed, Ended.DIFFERS, detail[:600])
    return Result(seed, Ended.SAME, operators=operators)


def _causes(model: bytes, subject: Subject) -> frozenset[str]:
    """Known causes that `compare` tells of all nodes that differ; none if one has no such cause.

    Nodes that differ by no more than results may are left out.
    """
    logger = logging.getLogger("ep_nnapi")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        found = ep_nnapi.compare(model, dict(subject.feeds), by_node=True, **subject.options)
    finally:
        logger.setLevel(level)
    differ = [n.verdict for n in (*found.nodes.values(), *_culprits(found)) if n.negative]
    wrong = [v for v in differ if v.worst > (CLOSE_HALF if subject.half else CLOSE)]
    known = all(v.note for v in wrong)
    return frozenset(v.note for v in wrong) if known else frozenset()


def _culprits(found: Comparison) -> list[ClusterErrors]:
    return [] if found.culprit is None else [found.culprit.errors]


def moved_feeds(
    feeds: Mapping[str, np.ndarray], half: bool, times: int
) -> list[dict[str, np.ndarray]]:
    """The feeds some times, with each float a little nearer to 0 or farther from it."""
    rng, by = np.random.default_rng(0), MOVED_HALF if half else MOVED

    def shifted(array: np.ndarray, sign: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "f":
            return array
        return np.asarray(array * (1 + by * sign), array.dtype)

    signs = [{n: rng.choice((-1.0, 1.0), a.shape) for n, a in feeds.items()} for _ in range(times)]
    return [{n: shifted(a, s[n]) for n, a in feeds.items()} for s in signs]


def _same_zeros(
    got: Sequence[np.ndarray], want: Sequence[np.ndarray], moved: Sequence[Sequence[np.ndarray]]
) -> bool:
    """True if zeros that are none by rounding have their signs."""
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        zeros = np.logical_and.reduce([each == 0 for each in (a, b, *(m[i] for m in moved))])
        if b.dtype.kind == "f" and (np.signbit(a) != np.signbit(b))[zeros].any():
            return False
    return True


def _kind(array: np.ndarray, largest: float) -> np.ndarray:
    """By element: 2 for NaN, 1 and -1 from the largest finite number on, else 0.

    `compare` takes that number for infinity, too: ONNX Runtime's MaxPool begins with it, and its
    Clip ends there.
    """
    large = np.abs(array) >= largest
    return np.where(np.isnan(array), 2, np.where(large, np.sign(array), 0))


def assert_same(
    got: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
    moved: Sequence[Sequence[np.ndarray]],
    subject: Subject,
) -> None:
    """Results are those wanted, but for what results of inputs `moved` a little differ by."""
    close = CLOSE_HALF if subject.half else CLOSE
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        called = subject.model.graph.output[i].name
        np.testing.assert_equal(a.dtype, b.dtype, err_msg=called)
        np.testing.assert_array_equal(a.shape, b.shape, err_msg=called)
        if b.dtype.kind != "f":
            sure = np.logical_and.reduce([m[i] == b for m in moved])
            np.testing.assert_array_equal(a[sure], b[sure], err_msg=called)
        largest = float(np.finfo(b.dtype).max) if b.dtype.kind == "f" else np.inf
        mine, numbers = a.astype(np.float64), b.astype(np.float64)
        others = [m[i].astype(np.float64) for m in moved]
        kinds = _kind(numbers, largest)
        kept = np.logical_and.reduce([_kind(m, largest) == kinds for m in others])
        np.testing.assert_array_equal(_kind(mine, largest)[kept], kinds[kept], err_msg=called)
        sound = (kinds == 0) & kept
        numbers = numbers[sound]
        spread = max((float(np.abs(m[sound] - numbers).max(initial=0)) for m in others), default=0)
        atol = close * max(1.0, float(np.abs(numbers).max(initial=0))) + 8 * spread
        np.testing.assert_allclose(mine[sound], numbers, rtol=0, atol=atol, err_msg=called)
