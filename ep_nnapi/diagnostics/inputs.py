"""Model inputs, read from .npy, .npz and image files or generated at random."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from ep_nnapi.diagnostics.model_sources import Inputs, arrays_of, paths_of
from ep_nnapi.errors import valid_names
from ep_nnapi.graph.value import Dim, DType
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.options import values
from ep_nnapi.options.fixed import Contents
from ep_nnapi.sizes.symbols import (
    Shapes,
    fixed_symbols,
    input_shapes,
    size_named,
    substitute_symbols,
    symbol_values,
)

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}
LABELS = "labels"
_UNNAMED = "arr_{}"  # numpy.savez's name for unnamed arrays, counted from 0
NUMPY_TYPES = {f"tensor({kind.name.lower()})": kind.numpy for kind in DType if kind.readable}
"""By ONNX Runtime's names of types."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input of the model: in `dims`, a name is a symbolic dimension, None an unknown one."""

    name: str
    dtype: np.dtype[np.generic]
    dims: tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Feeds:
    """One dictionary of inputs for each run, and the class labels of the rows (or None)."""

    runs: tuple[Mapping[str, Array], ...]
    labels: Array | None = None


def spec_of(name: str, type_name: str, dims: Sequence[int | str | None]) -> InputSpec:
    """Returns the spec of an ONNX Runtime input; raises OptionError for types not in numpy."""
    if type_name not in NUMPY_TYPES:
        raise OptionError(
            f"input {name} is {type_name}: only tensors of numbers are read or drawn here; "
            "check needs none"
        )
    return InputSpec(name, NUMPY_TYPES[type_name], tuple(dims))


def fixed_specs(inputs: Sequence[InputSpec], fixed: Shapes) -> list[InputSpec]:
    """Returns the inputs with the shapes of `fixed`; raises OptionError if these do not fit."""
    shapes = input_shapes(inputs, fixed)
    of_no_rank = {s.name for s in inputs if not s.dims}  # sessions show an unknown rank as 0
    asked = {n: sizes for n, sizes in fixed.items() if n not in of_no_rank & shapes.keys()}
    sizes = fixed_symbols([s for s in inputs if s.dims], asked)
    return [replace(s, dims=shapes.get(s.name) or _with_sizes(s.dims, sizes)) for s in inputs]


def _with_sizes(dims: Sequence[Dim], known: Mapping[str, int]) -> tuple[Dim, ...]:
    """Returns the dimensions with known sizes, also of those named as sums of symbols."""
    found = substitute_symbols(dims, known)
    return tuple((size_named(d, known) or d) if isinstance(d, str) else d for d in found)


def frozen_array(spec: InputSpec, to: Contents) -> Array:
    """Returns what an input is frozen to; one number is for all its elements.

    Raises OptionError for numbers that it cannot hold, and shapes that it does not have.
    """
    numbers, dims, floats = np.array(to.numbers), spec.dims, spec.dtype.kind == "f"
    with np.errstate(over="ignore", invalid="ignore"):
        cast = numbers.astype(spec.dtype)
    same = np.isfinite(cast) == np.isfinite(numbers) if floats else cast == numbers
    if not same.all():
        raise OptionError(f"fix: {spec.name} of {spec.dtype} cannot be {numbers[~same].item(0)}")
    free = len(numbers) if len(dims) == 1 else 1
    shape = to.shape or tuple(d if isinstance(d, int) else free for d in dims)
    symbol_values([spec], {spec.name: shape})  # raises OptionError for one that it cannot have
    if len(numbers) not in (1, prod(shape)):
        raise OptionError(f"fix: {spec.name} of {list(shape)} cannot be {len(numbers)} numbers")
    return np.array(np.broadcast_to(cast.reshape(shape if len(numbers) > 1 else ()), shape))


def random_feeds(inputs: Sequence[InputSpec], seed: int, size: int = 1) -> Feeds:
    """Returns random inputs for one run: standard normal floats, integers 0 and 1.

    size    of symbolic and unknown dimensions after the first, which becomes 1
    Raises ModelError for shapes that exceed memory, and OptionError for a negative seed.
    """
    rng = np.random.default_rng(values.seed("seed", seed))
    return Feeds(({spec.name: _random(spec, rng, size) for spec in inputs},))


def _random(spec: InputSpec, rng: np.random.Generator, size: int) -> Array:
    sizes = [1, *[size] * len(spec.dims)]
    shape = [d if isinstance(d, int) else s for d, s in zip(spec.dims, sizes, strict=False)]
    try:
        if spec.dtype.kind == "f":
            return rng.standard_normal(shape).astype(spec.dtype)
        return rng.integers(0, 2, shape).astype(spec.dtype)
    except (MemoryError, ValueError):
        raise ModelError(f"input {spec.name} has shape {shape}, which no memory holds") from None


def read_feeds(paths: Sequence[str], inputs: Sequence[InputSpec]) -> Feeds:
    """Returns the model's inputs read from files.

    paths       `x.npy`, `x.npz`, `x.png`, or `name=x.npy` for one of several inputs. Arrays in an
                .npz have the inputs' names or numpy's (arr_0, in the order of the inputs), and a
                single input may have the plural of its name. `labels` may hold class labels
    More rows than the model's fixed first dimension become several runs. Raises OptionError.
    """
    labels: Array | None = None
    arrays: dict[str, Array] = {}
    for given in paths:
        name, path = _split(given, inputs)
        found = _read(path, name, inputs)
        labels = found.pop(LABELS, labels) if LABELS not in {s.name for s in inputs} else labels
        arrays.update(_by_input_name(found, name, inputs, path))
    missing = [s.name for s in inputs if s.name not in arrays]
    if missing:
        raise OptionError(f"input {missing[0]} is not given; pass --input {missing[0]}=FILE")
    return Feeds(_split_runs(arrays, inputs), labels)


def given_feeds(given: Inputs, inputs: Sequence[InputSpec], seed: int) -> Feeds:
    """Returns the given inputs, read from files or taken from arrays; random if none are given.

    Arrays are a dictionary by name, a list in the order of the inputs, or one array for a single
    input; extra rows become several runs, as in `read_feeds`. Raises OptionError.
    """
    paths = paths_of(given)
    if paths is not None:
        return read_feeds(paths, inputs) if paths else random_feeds(inputs, seed)
    arrays = arrays_of(given)
    names = [s.name for s in inputs]
    if isinstance(arrays, tuple):
        if len(arrays) != len(names):
            there = ", ".join(names) or "none"
            raise OptionError(f"{len(arrays)} inputs are given; the model's are {there}")
        arrays = dict(zip(names, arrays, strict=True))
    for name in [*arrays, *names]:
        if name not in names:
            there = valid_names(name, names)
            raise OptionError(f"the model has no input {name!r}; its inputs are {there}")
        if name not in arrays:
            raise OptionError(f"input {name} is not given")
    return Feeds(_split_runs(arrays, inputs))


def _split(given: str, inputs: Sequence[InputSpec]) -> tuple[str | None, Path]:
    name, equals, rest = given.partition("=")
    if equals and any(s.name == name for s in inputs):
        return name, Path(rest)
    if equals and not Path(given).is_file() and Path(rest).is_file():
        names = valid_names(name, (s.name for s in inputs))
        raise OptionError(f"the model has no input {name!r}; its inputs are {names}")
    return None, Path(given)


def _read(path: Path, name: str | None, inputs: Sequence[InputSpec]) -> dict[str, Array]:
    if not path.is_file():
        what = "a directory, no input file" if path.is_dir() else "no such input file"
        raise OptionError(f"{path}: {what}")
    if path.suffix.lower() in IMAGES and inputs:
        spec = next((s for s in inputs if s.name == name), inputs[0])
        return {spec.name: _image(path, spec)}
    try:
        return _arrays(path)
    except OptionError:
        raise
    except Exception:  # numpy and zipfile raise many kinds for malformed files
        raise OptionError(f"{path}: not a .npy, .npz or image file") from None


def _arrays(path: Path) -> dict[str, Array]:
    """Returns the arrays of an .npy (under the name "") or .npz file.

    Maps an .npy file first, which fails if its header claims more data than the file has. Raises
    exceptions that `_read` catches.
    """
    with np.errstate(all="ignore"):  # the product of malformed sizes overflows
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"": np.array(loaded)}
    with loaded:
        size = sum(member.file_size for member in loaded.zip.infolist())
        if size > _memory() // 2:
            raise OptionError(
                f"{path}: unpacked it has {size} bytes, more than half of this machine's memory"
            )
        arrays = {key: loaded[key] for key in loaded.files}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("a file of the archive is no array")
    return arrays


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _by_input_name(
    found: Mapping[str, Array], name: str | None, inputs: Sequence[InputSpec], path: Path
) -> dict[str, Array]:
    """Returns the arrays by input name."""
    names = {s.name for s in inputs}
    if set(found) <= names:
        return dict(found)
    if set(found) == {_UNNAMED.format(i) for i in range(len(inputs))}:
        return {s.name: found[_UNNAMED.format(i)] for i, s in enumerate(inputs)}
    unknown = next(k for k in found if k not in names)
    if len(found) == 1:
        only = inputs[0].name if len(inputs) == 1 else None
        if name or (only and unknown in ("", f"{only}s")):
            return {name or inputs[0].name: found[unknown]}
    called = f"array {unknown!r}" if unknown else "the array"
    there = valid_names(unknown, sorted(names))
    raise OptionError(f"{path}: {called} is no input; the model's are {there}")


def _image(path: Path, spec: InputSpec) -> Array:
    """Returns an image as NCHW or NHWC with N = 1, resized; floats 0 to 1, integers 0 to 255."""
    try:
        from PIL import Image
    except ImportError:
        raise OptionError(f"{path}: reading images needs pillow (pip install pillow)") from None
    if len(spec.dims) != 4:
        raise OptionError(f"{path}: input {spec.name} has rank {len(spec.dims)}, an image needs 4")
    last = spec.dims[3] in (1, 3) and spec.dims[1] not in (1, 3)
    channels, height, width = (spec.dims[i] for i in ((3, 1, 2) if last else (1, 2, 3)))
    try:
        with Image.open(path) as opened:
            image = opened.convert("L" if channels == 1 else "RGB")
    except Image.DecompressionBombError:
        raise OptionError(f"{path}: an image of more pixels than pillow reads") from None
    except (OSError, SyntaxError, ValueError):
        raise OptionError(f"{path}: not an image that pillow can read") from None
    if isinstance(height, int) and isinstance(width, int) and image.size != (width, height):
        image = image.resize((width, height))
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    pixels = pixels if last else pixels.transpose(2, 0, 1)
    scale = 255 if spec.dtype.kind == "f" else 1
    return np.ascontiguousarray((pixels[None] / scale).astype(spec.dtype))


def _split_runs(
    arrays: Mapping[str, Array], inputs: Sequence[InputSpec]
) -> tuple[Mapping[str, Array], ...]:
    """Returns the inputs of each run, splitting rows by the model's fixed first dimension.

    An input whose first dimension is not fixed is used whole in every run.
    """
    specs = {s.name: s for s in inputs}
    typed = {name: _as_dtype(array, specs[name]) for name, array in arrays.items()}
    counts = {
        name: len(a) // first
        for name, a in typed.items()
        if specs[name].dims and isinstance(first := specs[name].dims[0], int) and first
    }
    if len(set(counts.values())) > 1:
        raise OptionError(
            f"the inputs have rows for {sorted(counts.values())} runs; give as many of each"
        )
    count = max(counts.values(), default=1)
    parts = {n: np.split(a, count) if n in counts else [a] * count for n, a in typed.items()}
    return tuple({name: rows[i] for name, rows in parts.items()} for i in range(count))


def _as_dtype(array: Array, spec: InputSpec) -> Array:
    """Returns the array in the input's dtype; raises OptionError if it does not fit."""
    fits = array.ndim == len(spec.dims) and all(
        not isinstance(want, int) or have == want or (i == 0 and want and have % want == 0)
        for i, (have, want) in enumerate(zip(array.shape, spec.dims, strict=True))
    )
    if spec.dims and not fits:  # sessions show an unknown rank as 0
        wanted = ", ".join(str(d or "?") for d in spec.dims)
        raise OptionError(
            f"input {spec.name} has shape {list(array.shape)}; the model takes [{wanted}]"
        )
    if array.dtype.kind not in "biuf":
        raise OptionError(f"input {spec.name} is given as {array.dtype}; it takes {spec.dtype}")
    return np.asarray(array, spec.dtype, order="C")
