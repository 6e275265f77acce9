"""What is said where control flow of Python is left to it, or refused (`control_flow/conversion`, `errors`)."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import (
    ControlFlowError,
    ControlFlowWarning,
    ShapeError,
    UndefinedVariableError,
)  # fmt: skip

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
OFFSET = 10.0
seen: list[Any] = []


def line_of(f: Callable[..., Any], offset: int) -> int:
    return f.__code__.co_firstlineno + offset


def in_one_branch(x: Any) -> Any:
    if x > 0:
        y = x * 2
    return y


@each_stack
def test_a_variable_of_one_branch_is_named(stack: Any) -> None:
    with pytest.raises(UndefinedVariableError, match=r"variable y has no value: only the branch at line \d+") as error:
        stack.jit(in_one_branch, control_flow=True)(np.asarray(1.0))
    assert str(line_of(in_one_branch, 2)) in str(error.value)
    assert isinstance(error.value, UnboundLocalError)
    last = traceback.extract_tb(error.value.__traceback__)
    assert ("test_conversion_messages.py", line_of(in_one_branch, 3)) in [
        (f.filename.split("/")[-1], f.lineno) for f in last
    ]


@each_stack
def test_tracebacks_show_the_line_of_the_user(stack: Any) -> None:
    def f(x: Any) -> Any:
        for row in x:
            if row > 0:
                raise_here = np.ones(3) @ [1, 2]
                x = x + raise_here
        return x

    with pytest.raises(ValueError, match="matmul") as error:
        stack.jit(f, control_flow=True)(np.ones(2))
    found = [(frame.lineno, frame.line) for frame in traceback.extract_tb(error.value.__traceback__)]
    assert (line_of(f, 3), "raise_here = np.ones(3) @ [1, 2]") in found


def refused(stack: Any, f: Callable[..., Any], match: str, x: Any = 1.0, error: Any = ControlFlowError) -> None:
    with pytest.raises(error, match=match):
        stack.jit(f, control_flow=True)(np.asarray(x))


@each_stack
def test_what_cannot_be_an_operator_is_refused_by_name(stack: Any) -> None:
    def grows(x: Any) -> Any:
        while x.sum() < 9:
            x = stack.ops.concat(x, x)
        return x

    def becomes(x: Any) -> Any:
        best = None
        for row in x:
            best = [row]
        return best

    def differs(x: Any) -> Any:
        if x > 0:
            return x, x
        return x

    def shapes(x: Any) -> Any:
        if x > 0:
            y = stack.ops.full(shape=(2,), value=1.0, dtype="float64")
        else:
            y = x
        return y

    def raises(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        return x

    def appends(x: Any) -> Any:
        outs = []
        while x < 9:
            x = x + 1
            outs.append(x)
        return outs

    def reads(x: Any) -> Any:
        outs = [0.0]
        for row in x:
            outs.append(outs[-1] + row)
        return outs

    def elements(x: Any) -> Any:
        if x > 0:
            return x
        return -x

    refused(
        stack, grows, r"test_conversion_messages.py:\d+ is one of operators, and .*shape: the variable at x", [1.0, 2.0]
    )
    refused(stack, becomes, "carries best: it is Structure.None. before", [1.0, 2.0])
    refused(stack, differs, "what is returned differs")
    said = r"decides what the variable y is, and no tensor is both: y has shape \(2,\) where the condition"
    refused(stack, shapes, said, error=UndefinedVariableError)
    refused(stack, raises, r"raise at line \d+ is in a block that the tensor at")
    refused(stack, appends, "appends to outs, and how often it goes depends on a tensor")
    refused(stack, reads, "a list is read in the loop that appends to it", [1.0, 2.0])
    refused(stack, elements, "one truth value, given shape", [1.0, 2.0], ShapeError)


def with_else(x: Any) -> Any:
    for k in range(3):
        x = x + k
    else:
        x = x * 2
    if x > 0:
        x = -x
    return x


def generator(x: Any) -> Any:
    yield x


def leaves_try(x: Any) -> Any:
    try:
        return x * 2
    finally:
        seen.append(1)


def deletes(x: Any) -> Any:
    y = x
    del x
    return y


def writes_global(x: Any) -> Any:
    global OFFSET
    OFFSET = 10.0
    return x


def writes_nonlocal(x: Any) -> Any:
    def more() -> None:
        nonlocal x
        x = x + 1

    more()
    return x


LEFT = [
    (with_else, "for … else", 1), (generator, "generator", 1), (leaves_try, "leaves a try", 1),
    (deletes, "del of a variable", 2), (writes_global, "writes to the global variable OFFSET", 1),
    (writes_nonlocal, "a function in it writes to its variable x", 2), (lambda x: x + 1, "lambdas are left alone", 0),
]  # fmt: skip


@pytest.mark.parametrize(("f", "why", "offset"), LEFT, ids=lambda v: getattr(v, "__name__", None))
def test_what_is_left_to_python_is_told(f: Any, why: str, offset: int) -> None:
    stack = nnc.lazy()
    with pytest.warns(ControlFlowWarning, match=why) as told:
        jitted = stack.jit(f, control_flow=True)
    assert (told[0].filename, told[0].lineno) == (__file__, line_of(f, offset))
    if f is not generator:
        np.testing.assert_allclose(jitted(np.asarray(2.0)).item(), f(2.0))
    with pytest.raises(ControlFlowError, match=why):
        stack.jit(f, control_flow=True, strict=True)


def test_what_has_no_source() -> None:
    names: dict[str, Any] = {}
    exec(compile("def f(x):\n    return x + 1\n", "nowhere.py", "exec"), names)  # 3.13 knows "<string>"
    with pytest.warns(ControlFlowWarning, match="its source cannot be found"):
        jitted = nnc.lazy().jit(names["f"], control_flow=True)
    assert jitted(np.asarray(1.0)).item() == 2.0
