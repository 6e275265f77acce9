"""Settings, lists, trees and callbacks that are not what was wanted (`engine/settings`)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.allocators import BestFit
from nnc_func.engine.planning.kernel_table import KernelTable
from nnc_func.errors import DeviceError, FileFormatError, GraphError, PlanError, RunError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import Kernel
from nnc_func.layer import evolved

LAZY, EAGER = nnc.lazy(), nnc.eager()
LINE = r"test_refusals\.py:\d+ in "


@pytest.mark.parametrize("alignment", [0, -64, 3, 48, 1.5, "64", True, None])
def test_an_alignment_is_a_power_of_two(alignment: Any) -> None:
    with pytest.raises(PlanError, match=r"alignment is a power of two, in bytes \(64 is usual\), given"):
        evolved(LAZY.engine, alignment=alignment)


@pytest.mark.parametrize("alignment", [1, 16, 128, 1 << 20])
def test_programs_of_other_alignments_are_right(alignment: int) -> None:
    stack = LAZY.swap(engine=evolved(LAZY.engine, alignment=alignment))
    x = stack.input("x", (3,), "float64")
    program = stack.compile([x], stack.ops.exp(stack.ops.sum(x * 2)) + 1)
    assert all(b.offset % alignment == 0 for b in program.plan.verify().buffers)
    np.testing.assert_allclose(program(np.ones(3)), np.exp(6.0) + 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: e.with_streams(True), "streams is an integer, given True"),
        (lambda e: e.with_streams(2.0), "streams is an integer, given 2.0"),
        (lambda e: e.with_streams(0), "1 stream or more: .* given 0"),
        (lambda e: e.with_streams(2, "list"), "scheduler is a function.* given 'list'"),
        (lambda e: e.with_kernels("table.json"), r"given 'table.json'; KernelTable.load\(path\) reads one"),
        (lambda e: e.with_kernels(None), "kernels is a KernelTable, given None"),
        (lambda e: e.with_allocator(3), "allocator is a function.* given 3"),
        (lambda e: e.with_allocator("BestFit"), "no allocator named 'BestFit'; there are: best_fit, "),
    ],
)
def test_settings_of_an_engine_are_of_their_kind(change: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        change(LAZY.engine)
    assert LAZY.engine.with_kernels(KernelTable()).with_streams(2).streams == 2
    assert LAZY.engine.with_allocator("best_fit").allocator == BestFit()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s, x: s.compile(x, x), "inputs are a list of tensors, given one, Tensor.*: put it into brackets"),
        (lambda s, x: s.compile(None, x), "inputs are a list of tensors, given None"),
        (lambda s, x: s.compile("x", x), "inputs are a list of tensors, given 'x'"),
        (lambda s, x: s.compile([x], x, updates=x), "updates are a list of tensors, given one"),
        (lambda s, x: s.compile([x], x, updates=3), "updates are a list of tensors, given 3"),
        (
            lambda s, x: s.compile([x], x, updates=[x]),
            r"updates are pairs .*new value.*given Tensor",
        ),
        (lambda s, x: s.compile([x], x, donate=x), "donated inputs are a list of tensors, given one"),
    ],
)
@pytest.mark.parametrize("stack", [LAZY, EAGER], ids=["lazy", "eager"])
def test_what_is_compiled_is_given_in_lists(make: Any, words: str, stack: Any) -> None:
    with pytest.raises(GraphError, match=words):
        make(stack, stack.input("x", (3,)))


@attrs.frozen
class Pair:
    """A class that does not say that it is a tree."""

    left: Any
    right: Any


@dataclasses.dataclass
class Point:
    """Another."""

    left: Any


@pytest.mark.parametrize("stack", [LAZY, EAGER], ids=["lazy", "eager"])
def test_classes_that_are_no_trees_say_how_they_become_one(stack: Any) -> None:
    x = stack.input("x", (3,))
    told = "a Pair, an attrs class; where its fields are tensors, say so in its body: is_tree = True"
    for attempt in (
        lambda: stack.compile([x], Pair(x, x)),
        lambda: stack.jit(lambda y: Pair(y, y))(np.ones(3)),
        lambda: stack.jit(lambda pair: pair.left)(Pair(np.ones(3), np.ones(3))),
    ):
        with pytest.raises(DeviceError, match=told):
            attempt()
    with pytest.raises(
        DeviceError, match="a Point, a dataclass; where its fields are tensors, say so in its body: is_tree = True"
    ):
        stack.compile([x], Point(x))


def broken(*values: Any) -> Any:
    raise ValueError("no such luck")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("stack", [LAZY, EAGER], ids=["lazy", "eager"])
def test_errors_of_callbacks_name_the_users_line(stack: Any, compiled: bool) -> None:
    def calling(x: Any) -> Any:
        return stack.ops.callback(x, function=broken, shapes=((3,),), dtypes=("float64",))[0] + 1

    with pytest.raises(RunError, match=rf"(?s)callback.* failed.*{LINE}calling") as error:
        (stack.jit(calling) if compiled else calling)(stack.asarray(np.ones(3)))
    assert "ValueError: no such luck" in str(error.value)


def test_errors_of_kernels_name_the_users_line_where_programs_are_interpreted() -> None:
    x = EAGER.input("x", (2,), "float64")
    program = EAGER.compile([x], EAGER.ops.take(x, np.array([5]), axis=0))
    with pytest.raises(Exception, match=rf"take.*{LINE}test_errors_of"):
        program(np.ones(2))


@nnc.operator(
    shape=shapes.same,
    dtype=dtypes.first,
    derivative=NOT_DIFFERENTIABLE("it is saved and read"),
    kernels=(Kernel("twice", compute=lambda xp, x: x * 2),),
)
def doubled(x: Any, /) -> Any:
    """Twice that."""


def test_an_operator_that_the_stack_lacks_is_told_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "own.program"
    stack = LAZY.swap(type=LAZY.type.with_ops(doubled))
    x = stack.input("x", (3,))
    stack.compile([x], stack.bind(doubled, x)).save(path)
    np.testing.assert_array_equal(
        nnc.load_program(path, stack, allow="doubled")(np.ones(3, "float32")), np.full(3, 2.0)
    )
    with pytest.raises(FileFormatError, match=rf"{re.escape(str(path))}.*no operator 'doubled' in this stack"):
        nnc.load_program(path)
