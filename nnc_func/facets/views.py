"""Views, effects and randomness: what the Graph and the Engine must know of an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen


@frozen
class View:
    """The result shows memory of one argument.

    Attributes
    ----------
    argument
        Which argument: its position.
    contiguous
        The result of a contiguous argument is contiguous, and whole (reshape is; a slice is not).
    needs_contiguous
        Only a contiguous argument can be viewed (so it is for reshape), or one that lies without gaps in a layout, if
        the operator's layout rule gives the result one too. Any other must be copied.
    """

    argument: int = 0
    contiguous: bool = False
    needs_contiguous: bool = False


@frozen
class Parts:
    """The result is put together: each argument is written, as it is, into a box of it, and the boxes are disjoint.

    So an engine may let an argument be computed right there, and copy nothing.

    Attributes
    ----------
    boxes
        ``boxes(shapes, result_shape, **params)``: the box of each argument.
    fill
        ``fill(**params)``: the number that stands where no argument is written.
    """

    boxes: Callable[..., Any]
    fill: Callable[..., Any]


@frozen
class Cost:
    """Work of one application.

    Attributes
    ----------
    flops
        Arithmetic.
    extra_bytes
        Bytes read and written beyond operands and results.
    threaded
        A library computes it that has threads of its own, as BLAS.
    is_estimate
        How often a loop goes, or which branch is taken, is not known before it runs: as often as it may, all alike.
    launches
        Calls of a library, one after the other: each takes the time of a launch.
    """

    flops: int = 0
    extra_bytes: int = 0
    threaded: bool = False
    is_estimate: bool = False
    launches: int = 1


CostRule = Callable[..., Cost]  # (avals of arguments, avals of results, **params) -> Cost


def per_element(flops: int = 1) -> CostRule:
    """`flops` for each element of the first result."""

    def cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
        return Cost(flops * results[0].size)

    return cost


def per_input_element(flops: int = 1) -> CostRule:
    """`flops` for each element of the first argument: reductions."""

    def cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
        return Cost(flops * args[0].size)

    return cost


def free(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    """No arithmetic at all: movement."""
    return Cost(0)
