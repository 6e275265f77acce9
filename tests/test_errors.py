"""Bad input is refused with words: operator, shapes or dtypes, and the user's line (`errors`, `graph/origin`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import (
    DerivativeError,
    DeviceError,
    DTypeError,
    GraphError,
    LayerError,
    NncError,
    NumericsError,
    OperatorError,
    RunError,
    ShapeError,
    TracingError,
    UnboundError,
)

LINE = r"test_errors\.py:\d+ in \w+"
Case = tuple[str, Callable[[Any], Any], type[Exception], str]


def x_of(s: Any, *shape: Any) -> Any:
    return s.input("x", shape or (2,), "float64")


def ones(s: Any, *shape: int) -> Any:
    return s.asarray(np.ones(shape or (2,)))


def assigned(s: Any) -> None:
    s.variable("w", [1.0])[0] = 1


CASES: list[Case] = [
    # shapes
    ("shapes, at once", lambda s: ones(s, 2) + ones(s, 3), ShapeError,
     r"add\(float64\[2\], float64\[3\]\): shapes \(2,\) and \(3,\) do not broadcast: 2 against 3"),
    ("shapes, of an input", lambda s: x_of(s) + ones(s, 3), ShapeError,
     r"add\(float64\[2\], float64\[3\]\): shapes \(2,\) and \(3,\) do not broadcast"),
    ("columns and rows", lambda s: ones(s, 2, 3) @ ones(s, 2, 3), ShapeError,
     r"matmul\(float64\[2, 3\], float64\[2, 3\].*as many columns as rows.*3 columns.*2 rows"),
    ("vectors", lambda s: s.ops.matmul(ones(s, 3), ones(s, 3)), ShapeError,
     r"matmul.*wants matrices.*\(3,\) and \(3,\).*expand_dims"),
    ("an axis", lambda s: s.ops.sum(ones(s), axis=1), ShapeError,
     r"sum\(float64\[2\], axis=1.*axis 1 is outside.*rank 1"),
    ("an axis twice", lambda s: s.ops.sum(ones(s, 2, 2), axis=(0, -2)), ShapeError, r"sum.*name one axis twice"),
    ("a reshape", lambda s: ones(s, 2, 3).reshape((4,)), ShapeError,
     r"reshape.*cannot reshape \(2, 3\), 6 elements, into \(4,\)"),
    ("an index", lambda s: ones(s)[5], ShapeError, r"index 5 is outside of axis 0 of shape \(2,\)"),
    ("too many indices", lambda s: ones(s)[0, 0], ShapeError, r"2 indices for a tensor of rank 1"),
    ("labels", lambda s: s.ops.softmax_cross_entropy(ones(s, 2, 2, 1), ones(s, 2, 1)), ShapeError,
     r"softmax_cross_entropy.*labels of the logits' shape \(2, 2, 1\), given \(2, 1\).*one_hot"),
    ("tensordot", lambda s: s.ops.tensordot(ones(s, 1, 2), ones(s, 3, 2), axes=((0,), (0,))), ShapeError,
     r"tensordot.*axis 0 of \(1, 2\).*1 is not 3"),
    ("an extent", lambda s: s.input("x", (-2,), "float64"), ShapeError, r"input 'x'.*negative.*-2"),
    # dtypes
    ("booleans", lambda s: s.asarray([True]) + s.asarray([True]), DTypeError,
     r"add\(bool\[1\], bool\[1\]\).*wanted numbers"),
    ("a condition", lambda s: s.ops.where(ones(s), 1.0, 2.0), DTypeError,
     r"where\(float64\[2\].*condition of booleans, given float64"),
    ("indices", lambda s: s.ops.take(ones(s), ones(s)), DTypeError, r"take.*indices are integers, given float64; cast"),
    ("a value", lambda s: s.ops.full(shape=(2,), value=0.5, dtype="int32"), DTypeError, r"full.*value=0.5 is no int32"),
    ("a large scalar", lambda s: s.asarray(np.uint8([1])) + 300, (DTypeError, OverflowError), r"300"),
    ("an unknown dtype", lambda s: s.input("x", (2,), "float63"), DTypeError, r"float63"),
    ("words", lambda s: s.asarray("abc"), DeviceError, r"holds numbers and booleans, given.*dtype <U3"),
    # operators
    ("an unknown operator", lambda s: s.ops.sinus, AttributeError, r"no operator 'sinus'"),
    ("an unknown parameter", lambda s: s.bind(s.type.ops["sum"], ones(s), axes=0), OperatorError,
     r"sum has no parameter 'axes'; it has: axis, keepdims"),
    ("a parameter missing", lambda s: s.bind(s.type.ops["reshape"], ones(s)), OperatorError,
     r"reshape needs the parameter 'shape'; call reshape\(x, \*, shape\)"),
    ("a parameter of another kind", lambda s: s.ops.sum(ones(s), axis="rows"), OperatorError,
     r"sum: axis='rows' is not usable"),
    ("too few tensors", lambda s: s.bind(s.type.ops["add"], ones(s)), OperatorError,
     r"add takes 2 tensors, given 1; call add\(a, b\)"),
    ("no tensors to join", lambda s: s.ops.concat(axis=0), NncError, r"concat.*at least one tensor"),
    ("an object", lambda s: s.ops.add(object(), ones(s)), DeviceError, r"object"),
    # programs
    ("no input", lambda s: s.compile([], x_of(s) + 1), GraphError,
     rf"depend on the input 'x' \(made at {LINE}\).*not among"),
    ("too many arrays", lambda s: s.compile([x := x_of(s)], x)(1, 2), OperatorError,
     r"'program' takes 1 inputs \('x'\), given 2"),
    ("an array's shape", lambda s: s.compile([x := x_of(s)], x)(np.ones(3)), ShapeError,
     r"input 'x' wants shape \(2,\), given \(3,\)"),
    ("an array's dtype", lambda s: s.compile([x := x_of(s)], x)(np.ones(2, "float32")), DTypeError,
     r"input 'x' wants float64, given float32; cast it"),
    ("extents that differ",
     lambda s: s.compile([x := x_of(s, "n"), y := s.input("y", ("n",), "float64")], x + y)(np.ones(2), np.ones(3)),
     ShapeError, r"input 'y' wants shape \(2,\), given \(3,\)"),
    ("two inputs of a name", lambda s: s.compile([x := x_of(s), y := x_of(s)], x + y), GraphError,
     r"two inputs named 'x' in one graph"),
    ("two variables of a name", lambda s: s.compile([], s.variable("w", 1.0) + s.variable("w", 2.0)), GraphError,
     r"two variables named 'w' in one graph"),
    ("an input twice", lambda s: s.compile([x := x_of(s), x], x), GraphError, r"an input is given twice.*'x'"),
    ("what is no input", lambda s: s.compile([x_of(s) + 1], 1.0), GraphError,
     r"is no input; make inputs with stack.input"),
    ("a number as input", lambda s: s.compile([3], 1.0), GraphError, r"3 is no input"),
    ("a name", lambda s: s.input("", (2,)), GraphError, r"non-empty string, given ''"),
    ("a variable's value", lambda s: s.variable("w", np.ones(2)).value.assign(np.ones(3)), ShapeError,
     r"variable 'w' has shape \(2,\), given a value of \(3,\)"),
    ("a variable's dtype", lambda s: s.variable("w", np.ones(2, int)).value.assign(np.ones(2)), DTypeError,
     r"variable 'w' is int64, given float64"),
    ("another stack's input", lambda s: other(s).ops.exp(x_of(s)), GraphError,
     r"belongs to another stack.*graph.to\(stack\)"),
    ("a foreign node", lambda s: s.operator.bind(s.type.ops["exp"], other(s).input("x", (2,)).value), GraphError,
     r"is a node of another stack.*graph.to"),
    ("a layer", lambda s: s.swap(motor=1), LayerError, r"no layer motor to swap; this stack has: nn, autodiff, engine"),
    # values
    ("an input's value", lambda s: x_of(s).numpy(), UnboundError, rf"depends on the input 'x' \(made at {LINE}\)"),
    ("truth of an input", lambda s: bool(x_of(s).sum() > 0), UnboundError, r"depends on the input 'x'"),
    ("several elements as one", lambda s: float(ones(s)), ShapeError,
     r"float\(\) wants a tensor of one element, given shape \(2,\)"),
    ("writing into a variable", assigned, GraphError, r"Variable\('w', .*is a name for a place.*assign"),
    ("NumPy's functions", lambda s: np.linalg.eig(ones(s)), OperatorError,
     r"numpy.linalg.eig does not work on tensors.*stack.ops"),
    # kernels
    ("a kernel, at once", lambda s: s.ops.take(ones(s), s.asarray([5])).numpy(), RunError,
     r"take\(float64\[2\], int64\[1\], axis=0\) failed.*index 5 is outside of an axis of extent 2"),
    # derivatives
    ("a gradient of many", lambda s: s.grad(lambda q: q)(np.ones(2)), DerivativeError,
     r"one number, shape \(\), given \(2,\)"),
    ("a gradient by integers", lambda s: s.grad(lambda q: s.ops.sum(q))(np.ones(2, int)), DerivativeError,
     r"floating tensors, given int64\[2\]"),
    ("tangents", lambda s: s.jvp(lambda q: q, (np.ones(2),), (np.ones(3),)), DerivativeError,
     r"primal's shape \(2,\), given \(3,\)"),
    ("a number, under grad", lambda s: s.grad(lambda q: q * float(q))(1.0), TracingError,
     r"float\(\) needs.*being traced"),
    ("if, under grad", lambda s: s.grad(lambda q: -q if q else q)(1.0), TracingError,
     r"bool\(\), if.*traced.*ops.where"),
    ("if, under jit", lambda s: s.jit(lambda q: q if q.sum() > 0 else -q)(np.ones(2)), TracingError,
     r"while jit traced.*ops.where.*static"),
]  # fmt: skip


def extra() -> Any:
    """An operator that makes another catalogue, hence another stack."""
    from nnc_func.facets import dtypes, shapes
    from nnc_func.facets.derivatives import Constant
    from nnc_func.facets.kernels import reference
    from nnc_func.op import operator

    plain = reference(lambda xp, x: x + 0)

    @operator(shape=shapes.same, dtype=dtypes.first, derivative=Constant("a test"), kernels=plain)
    def same_again(x: Any, /) -> Any:
        """The same."""

    return same_again


def other(stack: Any) -> Any:
    """A stack with another catalogue, hence other nodes."""
    return stack.swap(type=stack.type.with_ops(extra()))


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
@pytest.mark.parametrize(("said", "do", "kind", "pattern"), CASES, ids=[c[0] for c in CASES])
def test_it_is_refused_in_words(make: Any, said: str, do: Any, kind: Any, pattern: str) -> None:
    with pytest.raises(kind) as caught:
        do(make())
    text = str(caught.value)
    assert re.search(pattern, text, re.DOTALL), text
    assert len(text.splitlines()) <= 3


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_kernel_that_fails_inside_a_program_names_the_users_line(make: Any) -> None:
    stack = make()
    i = stack.input("i", (1,), "int64")
    taken = stack.ops.take(stack.asarray(np.ones(2)), i)
    program = stack.compile([i], stack.ops.exp(taken) * 2)
    with pytest.raises(RunError, match=r"take\(float64\[2\], int64\[1\], axis=0\) failed.*index 5") as caught:
        program(np.array([5]))
    told = str(caught.value) + " ".join(getattr(caught.value, "__notes__", ()))
    assert re.search(rf"built at {LINE}", told), told


def test_the_line_is_where_it_was_built_also_where_the_graph_was_built_anew() -> None:
    """With unknown extents bound, moved to another stack, or forced."""
    stack = nnc.lazy()
    x, i = stack.input("x", ("n",), "float64"), stack.input("i", (1,), "int64")
    taken = build_it(stack, x, i)
    program = stack.compile([x, i], taken + 1)
    with pytest.raises(RunError, match=r"take.*built at test_errors.py:\d+ in build_it"):
        program(np.ones(3), np.array([7]))
    moved = stack.engine.compile(program.source.to(stack.swap(engine=stack.engine.with_orders("as_written"))))
    with pytest.raises(RunError, match=r"take.*built at test_errors.py:\d+ in build_it"):
        moved(np.ones(3), np.array([7]))
    forced = build_it(stack, stack.asarray(np.ones(100)), stack.asarray([700]))
    with pytest.raises(RunError, match=r"take.*built at test_errors.py:\d+ in build_it"):
        forced.numpy()


def test_extents_that_were_assumed_equal_and_are_not_name_the_users_line() -> None:
    stack = nnc.lazy()
    x, y = stack.input("x", ("n",), "float64"), stack.input("y", ("m",), "float64")
    program = stack.compile([x, y], x + y)
    np.testing.assert_array_equal(program(np.ones(2), np.ones(2)), 2.0)
    with pytest.raises(ShapeError, match=rf"add\(float64\[2\], float64\[3\]\).*2 against 3 \(built at {LINE}\)"):
        program(np.ones(2), np.ones(3))


def build_it(stack: Any, x: Any, i: Any) -> Any:
    """On a line of its own."""
    return stack.ops.take(x, i)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_nan_where_a_check_was_asked_for_names_the_operator_and_the_line(make: Any) -> None:
    stack = make()
    checking = stack.swap(engine=stack.engine.checking_numerics())
    x = checking.input("x", (3,), "float64")
    program = checking.compile([x], checking.ops.exp(checking.ops.log(x)))
    np.testing.assert_allclose(program(np.ones(3)), 1.0)
    with np.errstate(all="ignore"):
        with pytest.raises(NumericsError, match=rf"log \(built at {LINE}\) gave nan at \[1\], 1 of 3 elements are not"):
            program(np.array([1.0, -1.0, 1.0]))
        with pytest.raises(NumericsError, match=r"divide.*gave inf"):
            (checking.asarray(np.ones(100)) / checking.asarray(np.zeros(100))).numpy()
        assert np.isnan(stack.ops.log(stack.asarray(-1.0)).numpy())  # where none was asked for there is none


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_augmented_assignment_binds_a_new_value(make: Any) -> None:
    stack = make()
    x = stack.asarray(np.ones(3))
    before = x
    x += 1
    x *= 3
    np.testing.assert_array_equal(before.numpy(), 1.0)
    np.testing.assert_array_equal(x.numpy(), 6.0)


def test_a_sentence_for_each_misplaced_call() -> None:
    from nnc_func.graph.ops.binary import add

    with pytest.raises(OperatorError, match=r"add: none of the arguments is a tensor of a stack; use stack.ops.add"):
        add(1, 2)
    with pytest.raises(TypeError, match="built on"):
        nnc.stacks.Type(3)  # type: ignore[arg-type]
