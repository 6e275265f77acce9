"""Losses: of outputs and targets, reduced to one number by default.

`reduction` is ``"mean"`` or ``"sum"``, over everything that the loss has left, or ``"none"``. Where a loss is of single
elements outputs and targets have one shape: a broadcast here is an error in the model. Losses
of whole numbers are float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

REDUCTIONS = ("mean", "sum", "none")
CLOSE = Tolerance(64.0)
FLOAT64 = np.dtype("float64")


def _some_reduction(shapes: Any, draw: Any) -> dict[str, Any]:
    return {"reduction": draw(REDUCTIONS if shapes[0] and 0 not in shapes[0] else ("none", "sum"))}


def _pairs(**facts: Any) -> Samples:
    return Samples(**{"relation": "equal", "dtypes": FLOATS, "params": _some_reduction, **facts})


def _reduced(o: Ops[Any], losses: Tensor, reduction: str) -> Tensor:
    if reduction not in REDUCTIONS:
        raise OperatorError(f"reduction={reduction!r}: wanted one of {', '.join(map(repr, REDUCTIONS))}")
    return losses if reduction == "none" else getattr(o, reduction)(losses, axis=None, keepdims=False)


def _alike(outputs: Tensor, targets: Tensor) -> None:
    given, wanted = targets.shape, outputs.shape
    if len(given) != len(wanted) or not all(map(same_extent, wanted, given)):
        raise ShapeError(f"wanted outputs and targets of one shape, given {wanted} and {given}")


def _numbers(o: Ops[Any], outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Both, as float64 where they are whole numbers: differences and squares of those may not fit their dtype."""
    _alike(outputs, targets)
    if o.dtype(outputs).kind in "biu" and o.dtype(targets).kind in "biu":
        return o.cast(outputs, dtype=FLOAT64), o.cast(targets, dtype=FLOAT64)
    return outputs, targets


def _difference(o: Ops[Any], outputs: Tensor, targets: Tensor) -> Tensor:
    return o.subtract(*_numbers(o, outputs, targets))


# --- of distances -----------------------------------------------------------------------------------------


@composite(samples=_pairs(distinct=True), tolerance=CLOSE)
def l1_loss(o: Ops[Any], outputs: Tensor, targets: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The absolute differences."""
    return _reduced(o, o.abs(_difference(o, outputs, targets)), reduction)


@composite(samples=_pairs(), tolerance=CLOSE)
def quadratic_loss(o: Ops[Any], outputs: Tensor, targets: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The squared differences; their mean is the mean squared error."""
    return _reduced(o, o.square(_difference(o, outputs, targets)), reduction)


@composite(samples=_pairs(distinct=True, min_rank=1), tolerance=CLOSE)
def l2_loss(
    o: Ops[Any], outputs: Tensor, targets: Tensor, /, *, axis: int = -1, reduction: str = "mean"
) -> Tensor:  # fmt: skip
    """The Euclidean length of the differences along an axis; where it is zero, so is the derivative."""
    square = o.sum(o.square(_difference(o, outputs, targets)), axis=axis, keepdims=False)
    nowhere = o.equal(square, 0)
    return _reduced(o, o.where(nowhere, 0, o.sqrt(o.where(nowhere, 1, square))), reduction)


@composite(samples=_pairs(domain=((-3.0, -1.0), (0.5, 3.0))), tolerance=CLOSE)
def smooth_l1_loss(
    o: Ops[Any], outputs: Tensor, targets: Tensor, /, *, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:  # fmt: skip
    """Half the squared difference over `beta` where that is less than `beta`, elsewhere the absolute one less beta / 2.

    It is smooth. `beta` times it is Huber's loss. Source: Girshick, "Fast R-CNN", 2015.
    """
    if not beta > 0:
        raise OperatorError(f"smooth_l1_loss wants a beta above zero, given {beta!r}; l1_loss is the one for zero")
    difference = _difference(o, outputs, targets)
    size = o.abs(difference)
    near = o.less(size, beta)
    inside = o.where(near, difference, 0)
    losses = o.where(near, o.multiply(o.square(inside), 0.5 / beta), o.subtract(size, 0.5 * beta))
    return _reduced(o, losses, reduction)


# --- of margins -------------------------------------------------------------------------------------------

SIDES = _pairs(domain=((-2.0, -1.5), (0.75, 1.25)))


@composite(samples=SIDES, tolerance=CLOSE)
def hinge_loss(o: Ops[Any], outputs: Tensor, targets: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """``max(0, 1 - outputs targets)`` for targets of -1 and 1; the derivative at the hinge is zero."""
    return _reduced(o, o.relu(o.subtract(1, o.multiply(*_numbers(o, outputs, targets)))), reduction)


@composite(samples=SIDES, tolerance=CLOSE)
def squared_hinge_loss(o: Ops[Any], outputs: Tensor, targets: Tensor, /, *, reduction: str = "mean") -> Tensor:
    """The square of `hinge_loss`, element by element."""
    return _reduced(o, o.square(o.hinge_loss(outputs, targets, reduction="none")), reduction)


# --- of probabilities -------------------------------------------------------------------------------------


@composite(samples=_pairs(domain=((0.1, 0.9), (0.0, 1.0))), tolerance=CLOSE)
def binary_cross_entropy(
    o: Ops[Any], probabilities: Tensor, targets: Tensor, /, *, positive_weight: float = 1.0, reduction: str = "mean"
) -> Tensor:  # fmt: skip
    """``-(w t log p + (1 - t) log(1 - p))`` of probabilities p and targets t between 0 and 1.

    A probability of 0 or 1 that the target agrees with costs nothing, one that it does not is infinitely wrong;
    `sigmoid_binary_cross_entropy` takes logits and has neither trouble. Targets count `positive_weight` times.
    """
    _alike(probabilities, targets)
    hit = o.multiply(o.xlogy(targets, probabilities), positive_weight)
    miss = o.xlogy(o.subtract(1, targets), o.subtract(1, probabilities))
    return _reduced(o, o.negative(o.add(hit, miss)), reduction)


@composite(samples=_pairs(domain=((-3.0, 3.0), (0.0, 1.0))), tolerance=CLOSE)
def sigmoid_binary_cross_entropy(
    o: Ops[Any], logits: Tensor, targets: Tensor, /, *, positive_weight: float = 1.0, reduction: str = "mean"
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of the sigmoid of logits, finite however large they are."""
    _alike(logits, targets)
    hit = o.multiply(o.multiply(o.softplus(o.negative(logits)), targets), positive_weight)
    miss = o.multiply(o.softplus(logits), o.subtract(1, targets))
    return _reduced(o, o.add(hit, miss), reduction)


def _distribution(o: Ops[Any], like: Tensor, labels: Tensor, axis: int) -> Tensor:
    """Labels as probabilities along the axis: class numbers are integers, and their shape lacks it."""
    rank = len(like.shape)
    at = normalise_axis(axis, rank)
    if o.dtype(labels).kind not in "iu":
        _alike(like, labels)
        return labels
    wanted, given = (*like.shape[:at], *like.shape[at + 1 :]), labels.shape
    if len(wanted) != len(given) or not all(map(same_extent, wanted, given)):
        raise ShapeError(f"class numbers for {like.shape} along axis {axis} have shape {wanted}, given {given}")
    chosen = o.one_hot(labels, depth=like.shape[at], dtype=o.dtype(like), checked=True)
    return chosen if at == rank - 1 else o.permute_dims(chosen, axes=(*range(at), rank - 1, *range(at, rank - 1)))


def _smoothed(o: Ops[Any], losses: Tensor, even: Any, smoothing: float) -> Tensor:
    """Of labels `smoothing` of which is spread evenly over the classes: `even` computes the loss of those."""
    if not 0 <= smoothing <= 1:
        raise OperatorError(f"label_smoothing is between 0 and 1, given {smoothing!r}")
    return losses if smoothing == 0 else o.add(o.multiply(losses, 1 - smoothing), o.multiply(even(), smoothing))


CLASSES: Any = tuple(
    (specs, {**params, "label_smoothing": smoothing, "reduction": reduction})
    for specs, params in (
        ((((2, 3), "float64"), ((2,), "int64", (0, 2))), {}),
        ((((2, 3), "float32"), ((2, 3), "float32", (0.0, 1.0))), {}),
        ((((2, 3, 2), "float64"), ((2, 2), "int32", (0, 2))), {"axis": 1}),
    )
    for smoothing, reduction in ((0.0, "mean"), (0.1, "sum"), (0.2, "none"))
)


@composite(samples=Samples(relation="cases", domain=(0.1, 0.9), cases=CLASSES), tolerance=CLOSE)
def categorical_cross_entropy(
    o: Ops[Any], probabilities: Tensor, labels: Tensor, /, *, axis: int = -1, label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``-sum(labels * log(probabilities))`` along an axis: one loss an example, before the reduction.

    Labels are class numbers (integers, whose shape lacks the axis) or probabilities. With `label_smoothing` s they are
    ``(1 - s) labels + s / classes``. A probability of zero whose label is zero costs nothing. A number of no class,
    negative or too large, raises IndexError when it is met.
    """
    chances = _distribution(o, probabilities, labels, axis)
    losses = o.negative(o.sum(o.xlogy(chances, probabilities), axis=axis, keepdims=False))
    even = lambda: o.negative(o.mean(o.log(probabilities), axis=axis, keepdims=False))  # noqa: E731 - if wanted
    return _reduced(o, _smoothed(o, losses, even, label_smoothing), reduction)


@composite(samples=Samples(relation="cases", cases=CLASSES), tolerance=CLOSE)
def softmax_cross_entropy_loss(
    o: Ops[Any], logits: Tensor, labels: Tensor, /, *, axis: int = -1, label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`categorical_cross_entropy` of the softmax of logits, in one go, so that nothing overflows."""
    losses = o.softmax_cross_entropy(logits, _distribution(o, logits, labels, axis), axis=axis)
    even = lambda: o.negative(o.mean(o.log_softmax(logits, axis=axis), axis=axis, keepdims=False))  # noqa: E731
    return _reduced(o, _smoothed(o, losses, even, label_smoothing), reduction)


@composite(samples=_pairs(domain=(0.1, 0.9), min_rank=1), tolerance=CLOSE)
def kl_divergence(
    o: Ops[Any], outputs: Tensor, targets: Tensor, /, *, axis: int = -1, reduction: str = "mean"
) -> Tensor:  # fmt: skip
    """``sum(targets * log(targets / outputs))`` along an axis, of probabilities: how much targets tell beyond outputs.

    A target of zero costs nothing. Source: Kullback and Leibler, "On information and sufficiency", 1951.
    """
    _alike(outputs, targets)
    told = o.subtract(o.xlogy(targets, targets), o.xlogy(targets, outputs))
    return _reduced(o, o.sum(told, axis=axis, keepdims=False), reduction)
