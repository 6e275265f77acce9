"""Small models, data and stacks that the tests of nn share."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func import nn

UPDATES = {
    "sgd": nn.SGD(),
    "momentum": nn.SGD(momentum=0.9),
    "nesterov": nn.SGD(momentum=0.9, nesterov=True),
    "adagrad": nn.Adagrad(),
    "rmsprop": nn.RMSprop(),
    "adam": nn.Adam(),
}


def stacks() -> dict[str, Any]:
    """The three stacks of the main job."""
    eager, lazy = nnc.eager(), nnc.lazy()
    return {"eager": eager, "lazy": lazy, "eager over lazy": eager.swap(device=lazy)}


def small_cnn(dtype: str = "float32", dropout: float = 0.0, biased: bool = True) -> Any:
    """Convolution, normalisation, pooling, dense; about 200 parameters.

    A bias before a BatchNorm has no gradient but rounding, which some updates divide by its own size.
    """
    layers = [nn.Conv2D(4, 3, padding="SAME", biased=biased), nn.BatchNorm(), nn.relu, nn.MaxPool2D(2), nn.Flatten()]
    if dropout:
        layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Dense(8), nn.tanh, nn.Dense(3)).init(3, (None, 6, 6, 1), dtype)


def images(count: int = 32, dtype: str = "float32") -> tuple[Any, Any]:
    """Noise with a class number that depends on it."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(count, 6, 6, 1)).astype(dtype)
    return x, (x.mean(axis=(1, 2, 3)) * 20).astype("int64") % 3


def leaves(tree: Any) -> list[Any]:
    """All tensors of a tree, as NumPy arrays."""
    from nnc_func.tree import flatten

    return [np.asarray(x) for x in flatten(tree)[0]]


def same(a: Any, b: Any) -> bool:
    """Two trees have the same bits."""
    return [x.tobytes() for x in leaves(a)] == [x.tobytes() for x in leaves(b)]
