"""Digests of models, which name them in compilation caches."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions


def model_digest(model: Model) -> bytes:
    """The SHA-256 of everything in a model that determines its results; origins are not part.

    Submodels are digested once each.
    """
    return _digest(model, {})


def with_token(options: CompileOptions, model: Model) -> CompileOptions:
    """Return the options with the model's digest as token, if its cache has no token yet."""
    if options.cache_dir is None or options.token is not None:
        return options
    return replace(options, token=model_digest(model))


def _digest(model: Model, done: dict[int, bytes]) -> bytes:
    if id(model) not in done:
        operations = [(o.spec.code, o.inputs, o.outputs) for o in model.operations]
        ends = (model.inputs, model.outputs, model.relaxed)
        whole = hashlib.sha256(repr((operations, ends)).encode())
        for operand in model.operands:
            whole.update(_described(operand, done))
        done[id(model)] = whole.digest()
    return done[id(model)]


def _described(operand: Operand, done: dict[int, bytes]) -> bytes:
    value, channels = operand.value, operand.channels
    about = (int(operand.type), operand.dimensions, operand.scale, operand.zero_point)
    scales = None if channels is None else (channels.dim, channels.scales)
    text = repr((about, scales, type(value).__name__)).encode()
    if isinstance(value, Data):
        return text + hashlib.sha256(value.bytes.data).digest()
    return text + (_digest(value, done) if isinstance(value, Model) else b"")
