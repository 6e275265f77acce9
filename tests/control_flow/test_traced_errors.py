"""Errors of Python in functions that are traced and not taken (`control_flow/messages`, `control_flow/branches`)."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import TracedFunctionError

STACKS = pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy()], ids=["eager", "lazy"])


UNTAKEN = [
    (lambda s, x: s.cond(x > 0, lambda: x, lambda: [][0]), IndexError, "all branches of cond are traced"),
    (lambda s, x: s.case_of(0, [lambda: x, lambda: None.y]), AttributeError, "all branches of case_of are traced"),
    (lambda s, x: s.while_loop(lambda i: i < 0, lambda i: (None, {}["k"]), x), KeyError, "the body of while_loop is"),
]


def with_an_if(x: Any) -> Any:
    found: list[Any] = []
    y = x
    if x > 100:
        y = found[0]
    return y


def with_a_while(x: Any) -> Any:
    sizes: dict[str, Any] = {}
    while x > 100:
        x = x - sizes["step"]
    return x


def with_a_choice(x: Any) -> Any:
    nothing = None
    return nothing.y if x > 100 else x  # type: ignore[attr-defined]


@STACKS
def test_errors_of_python_on_a_way_that_is_not_taken_say_so(stack: Any) -> None:
    """They were bare, and their line was not told: an error of this library, of the same class, from the first one."""
    for f, kind, said in UNTAKEN:
        with pytest.raises(TracedFunctionError, match=rf"\(at test_traced_errors.py:\d+\): {said}.*") as caught:
            f(stack, stack.asarray(1.0))
        assert isinstance(caught.value, kind)
        assert type(caught.value.__cause__) is kind
    for f, kind, line in ((with_an_if, IndexError, 4), (with_a_while, KeyError, 3), (with_a_choice, AttributeError, 2)):
        where = f.__code__.co_firstlineno + line
        with pytest.raises(
            kind, match=rf"{kind.__name__}: .* \(at test_traced_errors.py:{where}\): (both sides|the body of)"
        ) as caught:
            stack.jit(f, control_flow=True)(np.asarray(1.0))
        assert isinstance(caught.value, TracedFunctionError)
        assert type(pickle.loads(pickle.dumps(caught.value))) is TracedFunctionError


@STACKS
def test_errors_where_a_body_surely_runs_stay_as_they_are(stack: Any) -> None:
    with pytest.raises(ZeroDivisionError, match=r"^integer division"):
        stack.foreach(lambda x, c: (x, c + 1 // 0), np.ones(2), 0.0)

    class OwnError(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a + b)

    def mine() -> Any:
        raise OwnError(1, 2)

    with pytest.raises(TracedFunctionError, match="OwnError: 3"):
        stack.cond(stack.asarray(1.0) > 0, mine, lambda: 1.0)
