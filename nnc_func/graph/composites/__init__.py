"""The composites: every function of operators that has a name in the field, one entry each, by family."""

from __future__ import annotations

from nnc_func.graph.composite import members
from nnc_func.graph.composites import (
    activations,
    attention,
    contraction,
    convolution,
    creation,
    detection,
    distances,
    elementwise,
    fourier,
    indexing,
    linear_algebra,
    losses,
    manipulation,
    normalisation,
    pooling,
    recurrent,
    resampling,
    resizing,
    searching,
    signals,
    statistics,
)

COMPOSITES = members(
    elementwise,
    activations,
    losses,
    distances,
    convolution,
    pooling,
    indexing,
    searching,
    linear_algebra,
    fourier,
    resizing,
    resampling,
    normalisation,
    attention,
    recurrent,
    detection,
    creation,
    manipulation,
    statistics,
    signals,
    contraction,
)
