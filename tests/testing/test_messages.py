"""What is said of a rule that is badly written: name, line, what to write (`testing/rules`, `testing/registration`)."""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import OperatorError, RuleError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import that
from nnc_func.graph.rules.pattern import computed
from nnc_func.testing import Program, check_rule, differential, strategies
from nnc_func.testing.programs import Leaf, Step

EAGER = nnc.eager()


def nan_on_the_left(x):
    """NaN added."""
    return nnc.rewrite(x + float("nan")).to(x * 2)


def complex_on_the_left(x):
    """A complex factor."""
    return nnc.rewrite(x * 1j).to(x)


def too_many_tensors(x):
    """An exponential of two."""
    return nnc.rewrite(OPS["exp"](x, x)).to(x)


def no_such_operator(x):
    """It has a slip of the pen."""
    return nnc.rewrite(OPS["summ"](x)).to(x)


def dtype_of_a_pattern(x):
    """It asks before there is an answer."""
    return nnc.rewrite(OPS["exp"](x)).to(x).when(x.dtype == "float32")


def rank_of_a_pattern(x):
    """It asks before there is an answer."""
    return nnc.rewrite(OPS["exp"](x)).to(x).when(x.ndim == 2)


BADLY_WRITTEN = [
    (nan_on_the_left, "NaN on the left side equals no number", "take a Constant"),
    (complex_on_the_left, "numbers of a pattern are real", "take a Constant"),
    (too_many_tensors, "exp takes 1 tensor, given 2", "call exp(x)"),
    (no_such_operator, "no operator named 'summ'", "did you mean 'sum'?"),
    (dtype_of_a_pattern, "the dtype of x is not known before it is matched", ".when(of_kinds(x, 'f')"),
    (rank_of_a_pattern, "the ndim of x is not known before it is matched", "that(lambda x: len(x.shape) == 2, x)"),
]


@pytest.mark.parametrize(("function", "why", "instead"), BADLY_WRITTEN, ids=lambda f: getattr(f, "__name__", ""))
def test_a_rule_that_is_badly_written_is_told_with_its_line(function: Any, why: str, instead: str) -> None:
    with pytest.raises(RuleError) as raised:
        nnc.rule(function)
    said = str(raised.value)
    assert said.startswith(f"rule {function.__name__}, test_messages.py:")
    first = function.__code__.co_firstlineno
    assert first <= int(re.findall(r"py:(\d+)", said)[0]) <= first + 3
    assert why in said
    assert instead in said
    assert "\n" not in said


def test_a_function_is_no_rule() -> None:
    def plain(x):
        return nnc.rewrite(x + 0).to(x)

    functions: Any = (plain, lambda x: x)
    for function in functions:
        with pytest.raises(
            RuleError, match=r"check_rule takes a rule, given the function .*test_messages.py:\d+.*@nnc.rule"
        ):
            check_rule(function, EAGER)
    three: Any = 3
    with pytest.raises(RuleError, match="given 3; write it with a docstring"):
        check_rule(three, EAGER)


def refused(each: Any) -> str:
    with pytest.raises(RuleError) as raised:
        check_rule(each, EAGER)
    return str(raised.value)


def test_a_condition_that_raises_is_told_with_its_line() -> None:
    def asks_wrongly(x: Any) -> bool:
        return bool(x.extents == 3)

    @nnc.rule
    def asked(x):
        """It asks for what there is not."""
        return nnc.rewrite(OPS["exp"](x)).to(OPS["exp2"](x)).when(that(asks_wrongly, x))

    said = refused(asked)
    line = asks_wrongly.__code__.co_firstlineno + 1
    assert "the condition 'asks wrongly(x)' raises AttributeError: 'Node' object has no attribute 'extents' (" in said
    assert f"(test_messages.py:{line})" in said
    assert "a value with shape, dtype, aval and node" in said


def test_a_function_on_the_right_side_that_raises_is_told_with_its_line() -> None:
    @computed
    def half(x):
        return x.elements / 2

    @nnc.rule
    def scaled(x):
        """It computes with what there is not."""
        return nnc.rewrite(OPS["exp"](x)).to(OPS["exp2"](x) * half(x))

    assert re.search(r"half\(x\) on the right side raises AttributeError: .*\(test_messages.py:\d+\)", refused(scaled))


def test_a_right_side_of_another_shape_or_dtype_is_told_with_what_to_write() -> None:
    @nnc.rule
    def sum_is_all(x):
        """A sum is what is summed."""
        return nnc.rewrite(OPS["max"](x, axis=0)).to(x)

    @nnc.rule
    def whole_sum(x):
        """A sum of one element is the element."""
        summed = OPS["sum"](x, axis=())
        return nnc.rewrite(summed).to(x)

    for each, wanted in ((sum_is_all, "same_shape(x, all)"), (whole_sum, "same_dtype(x, all)")):
        said = refused(each)
        assert f"({Path(__file__).name}:{each.where.rpartition(':')[2]})" in said
        assert "became" in said
        assert wanted in said


def test_a_rule_that_grows_is_told_in_one_line() -> None:
    @nnc.rule
    def grow(x):
        """A function is applied once more, and once more."""
        return (
            nnc.rewrite(OPS["tanh"](x)).to(OPS["tanh"](OPS["sin"](OPS["asin"](x)))).up_to("rounding").with_fast_math()
        )

    lazy = nnc.lazy()
    mine = lazy.swap(optimiser=lazy.optimiser.with_rules(grow).with_numerics("reassociation", fast_math=True))
    x = mine.input("x", (2,), "float32")
    with pytest.raises(RuleError) as raised:
        mine.compile([x], mine.ops.tanh(x))
    said = str(raised.value)
    assert "rewriting does not end: grow" in said
    assert "\n" not in said
    assert len(said) < 300


@settings(max_examples=3, deadline=None)
@given(st.integers(1, 3))
def test_differential_works_inside_given(most: int) -> None:
    assert differential(strategies.programs(most_steps=most), {"eager": EAGER}, examples=2) == 2


FLOAT64 = np.dtype("float64")
HUGE = Program(
    (Leaf("constant", "c", (2,), "float64", "ones"),),
    (Step(OPS["multiply"], (0, 0), {}), Step(OPS["full"], (), {"shape": (2,), "value": 1e300, "dtype": FLOAT64})),
    (2,), (),
)  # fmt: skip


@settings(max_examples=3, deadline=None)
@given(strategies.programs(most_steps=3))
@example(HUGE)
def test_differential_takes_what_given_draws(program: Any) -> None:
    assert differential(program, {"eager": EAGER}) in (0, 1)


def test_an_operator_that_a_catalogue_lacks_is_an_error_of_the_library() -> None:
    with pytest.raises(
        OperatorError, match=r"^no operator named 'summ' in this catalogue of \d+; did you mean 'sum'\?$"
    ):
        OPS["summ"]
    assert OPS.get("summ") is None
