"""Branches and loops: operators of ours whose bodies are the inner graphs; or these are written out.

They are written out where a branch is known while the model is traced, where branches give other shapes, and where a
loop carries what changes its shape: then its number of steps must be known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.facets.dims import known, same_extent
from nnc_func.onnx import rolling
from nnc_func.onnx.scopes import Unresolved
from nnc_func.onnx.table import onnx_operator

SINCE = (11, 13, 16, 19, 21, 23, 24, 25)


@onnx_operator("If", since=(1, *SINCE), raw=True, multi_result=True)
def if_(o: Any, condition: Any, *, then_branch: Any, else_branch: Any) -> Any:
    """One of two inner graphs; both are traced where the condition is not known."""
    if not o.is_known(condition):
        found = rolling.branch(o, condition, then_branch, else_branch)
        if found is not None:
            return found
    return (then_branch if _true(o, condition) else else_branch)()


def _true(o: Any, condition: Any) -> bool:
    found = o.known(condition)
    if found.size != 1:
        raise OnnxError(f"a condition is one truth value, given {found.size}")
    return bool(found.ravel()[0])


@onnx_operator("Loop", since=(1, *SINCE), raw=True, multi_result=True)
def loop(o: Any, trips: Any = None, condition: Any = None, *initial: Any, body: Any) -> Any:
    """An inner graph again and again: it is given the number of the step, the condition and what is carried."""
    found = rolling.loop(o, trips, condition, initial, body)
    if found is not None:
        return found
    try:
        return _repeated(o, trips, condition, initial, body)
    except Unresolved as error:
        told = (
            f"how often the loop runs, and so what it gives, is not known before a call ({error}); call it with arrays"
        )
        raise Unresolved(told, error.inputs) from error


def _repeated(o: Any, trips: Any, condition: Any, initial: Sequence[Any], body: Any) -> Any:
    """The steps of a Loop, written out."""
    count: Any = math.inf if trips is None else o.integers(o.known(trips))[0]
    if trips is not None and not known(count):
        raise o.unresolved("how often a loop runs depends on extents that are not known")
    carried, going = list(initial), condition is None or _true(o, condition)
    outputs: list[list[Any]] = [[] for _ in body.outputs[len(initial) + 1 :]]
    step, flag = 0, np.array(True) if condition is None else condition
    while going and step < count:
        o.step()
        flag, *found = body(np.array(step, np.int64), flag, *carried)
        carried = found[: len(initial)]
        for each, value in zip(outputs, found[len(initial) :], strict=True):
            each.append(o.tensor(value))
        step += 1
        going = step < count and _true(o, flag)
    stacked = [o.stack(*each, axis=0) if each else body.empty(len(initial) + 1 + i) for i, each in enumerate(outputs)]
    return (*carried, *stacked)


@onnx_operator("Scan", since=(9, 11, 16, 19, 21, 23, 24, 25), multi_result=True)
def scan(
    o: Any, *values: Any, body: Any, num_scan_inputs: int, scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None, scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """An inner graph for each slice of tensors: it is given what is carried, and the slices."""
    if not 0 < num_scan_inputs <= len(values):
        raise OnnxError(f"num_scan_inputs={num_scan_inputs} of {len(values)} inputs")
    states = len(values) - num_scan_inputs
    axes = o.full_sequence(scan_input_axes or (), num_scan_inputs, 0)
    backwards = o.full_sequence(scan_input_directions or (), num_scan_inputs, 0)
    outputs = len(body.outputs) - states
    to, turned = (o.full_sequence(a or (), outputs, 0) for a in (scan_output_axes, scan_output_directions))
    found = _rolled(o, body, values, states, axes, backwards)
    if found is not None:
        reverse = all(backwards)
        columns = [o.flip(y, axis=0) if bool(t) != reverse else y for y, t in zip(found[states:], turned, strict=True)]
        return (*found[:states], *(_moved(o, y, axis) for y, axis in zip(columns, to, strict=True)))
    steps, slices = _slices(o, values[states:], axes, backwards)
    carried, written = _steps(o, body, list(values[:states]), slices, steps)
    stacked = []
    for i, (column, axis, reverse) in enumerate(zip(written, to, turned, strict=True)):
        listed = column[::-1] if reverse else column
        stacked.append(o.stack(*listed, axis=axis) if listed else body.empty(states + i))
    return (*carried, *stacked)


def _rolled(
    o: Any, body: Any, values: Sequence[Any], states: int, axes: Sequence[int], backwards: Sequence[int]
) -> list[Any] | None:
    """The last states, and the rows along the first axis, in the order of the slices; None: steps are written out."""
    slices, extents = [], []
    for x, axis, reverse in zip(values[states:], axes, backwards, strict=True):
        rank = len(x.shape)
        at = o.axis(axis, rank)
        extents.append(x.shape[at])
        first = o.permute_dims(x, axes=(at, *(n for n in range(rank) if n != at))) if at else x
        slices.append(o.flip(first, axis=0) if bool(reverse) != all(backwards) else first)
    if not all(same_extent(n, extents[0]) for n in extents):
        return None  # which says what is wrong
    return rolling.scan(o, body, values[:states], slices, all(backwards), extents[0])


def _moved(o: Any, y: Any, axis: int) -> Any:
    """A tensor with its first axis moved to where it belongs."""
    rank = len(y.shape)
    at = o.axis(axis, rank)
    return o.permute_dims(y, axes=(*range(1, at + 1), 0, *range(at + 1, rank))) if at else y


@onnx_operator("Scan", since=8, multi_result=True)
def scan_batches(
    o: Any, lengths: Any = None, *values: Any, body: Any, num_scan_inputs: int, directions: Sequence[int] | None = None
) -> Any:
    """An inner graph for each slice of the second axis, of each element of the first one by itself."""
    if lengths is not None:
        raise OnnxError("lengths of sequences are not supported")
    states = len(values) - num_scan_inputs
    rows = [o.unstack(v, axis=0) for v in values]
    found = []
    for row in zip(*rows, strict=True):
        backwards = o.full_sequence(directions or (), num_scan_inputs, 0)
        steps, slices = _slices(o, row[states:], (0,) * num_scan_inputs, backwards)
        carried, columns = _steps(o, body, list(row[:states]), slices, steps)
        found.append([*carried, *(o.stack(*column, axis=0) for column in columns)])
    return [o.stack(*each, axis=0) for each in zip(*found, strict=True)]


def _slices(o: Any, tensors: Sequence[Any], axes: Sequence[int], backwards: Sequence[int]) -> tuple[int, list[Any]]:
    """How many steps there are, and the slices of each tensor."""
    found, extents = [], set()
    for x, axis, reverse in zip(tensors, axes, backwards, strict=True):
        at = o.axis(axis, len(x.shape))
        extents.add(o.extents(x)[at])
        parts = o.unstack(x, axis=at)
        found.append(parts[::-1] if reverse else parts)
    if len(extents) != 1:
        raise OnnxError(f"tensors that are scanned have one extent, given {sorted(extents)}")
    return extents.pop(), found


def _steps(o: Any, body: Any, carried: list[Any], slices: list[Any], steps: int) -> tuple[list[Any], list[list[Any]]]:
    states = len(carried)
    columns: list[list[Any]] = [[] for _ in body.outputs[states:]]
    for step in range(steps):
        o.step()
        found = body(*carried, *(each[step] for each in slices))
        carried = list(found[:states])
        for column, value in zip(columns, found[states:], strict=True):
            column.append(o.tensor(value))
    return carried, columns
