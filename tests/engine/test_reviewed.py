"""What reading the engines as a stranger found: each case once computed a wrong value or failed (`engine`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import DerivativeError, DTypeError, NumericsError, OperatorError, PlanError, ShapeError
from nnc_func.layer import PassThrough, layer
from nnc_func.op import Op

BOTH = [nnc.eager(), nnc.lazy()]


def test_an_update_through_another_shape_is_right_and_leaves_nothing_half_written() -> None:
    s = nnc.lazy()
    w, g = s.variable("w", np.arange(6.0).reshape(2, 3)), s.input("g", (6,), "float64")
    o = s.ops
    new = o.reshape(o.reshape(w, shape=(6,)) - g * 0.1, shape=(2, 3)) * 0.99
    s.compile([g], [], [(w, new)])(np.ones(6))
    np.testing.assert_allclose(w.numpy(), (np.arange(6.0).reshape(2, 3) - 0.1) * 0.99, rtol=1e-15)


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_static_arguments_are_told_apart_by_type_and_bits(stack: nnc.Stack) -> None:
    f = stack.jit(lambda x, n: x * n, static=(1,))
    x = np.arange(3)
    assert f(x, 1).dtype == np.int64
    assert f(x, 1.0).dtype == np.float64
    inverse = stack.jit(lambda x, n: 1 / (x * n), static=("n",))
    assert inverse(np.ones(1), n=0.0).item() == np.inf
    assert inverse(np.ones(1), n=-0.0).item() == -np.inf


class Sub(np.ndarray):
    """An array class of somebody's own."""


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
@pytest.mark.parametrize("wrap", [lambda a: a.view(Sub), memoryview], ids=["subclass", "memoryview"])
def test_a_tensor_does_not_change_with_memory_it_was_made_of(stack: nnc.Stack, wrap: Any) -> None:
    a = np.ones(1000)
    made = stack.asarray(wrap(a))
    a[:] = 7
    assert made.numpy().max() == 1


def test_forcing_a_value_leaves_compiled_programs_as_they_were() -> None:
    s = nnc.lazy(nnc.Strict())
    y = s.ops.exp(s.asarray(np.linspace(0, 1, 1000)))
    x = s.input("x", (1000,), "float64")
    program = s.compile([x], [y * x])
    y.numpy()
    found = s.device.to_numpy(program(np.ones(1000))[0])
    np.testing.assert_allclose(found, np.exp(np.linspace(0, 1, 1000)), rtol=1e-15)


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_unknown_extents_that_meet_must_be_equal(stack: nnc.Stack) -> None:
    x, y = stack.input("x", ("n",), "float64"), stack.input("y", ("m",), "float64")
    program = stack.compile([x, y], [x + y])
    assert program(np.ones(3), np.ones(3))[0].tolist() == [2, 2, 2]
    with pytest.raises(ShapeError, match=r"add.*n = 1.*test_reviewed"):
        program(np.ones(1), np.ones(3))


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_parameters_may_have_unknown_extents(stack: nnc.Stack) -> None:
    x = stack.input("x", ("n", 2), "float64")
    program = stack.compile(
        [x], [stack.grad(lambda v: (v * v).mean())(x), stack.ops.full(shape=x.shape, value=1, dtype="float64")]
    )
    gradient, ones = program(np.ones((3, 2)))
    np.testing.assert_allclose(gradient, np.full((3, 2), 1 / 3), rtol=1e-15)
    assert ones.shape == (3, 2)


@pytest.mark.parametrize("seen", [lambda a: a, lambda a: a[::-1]], ids=["whole", "as a view"])
def test_an_input_may_be_the_array_of_a_variable_that_is_written(seen: Any) -> None:
    s = nnc.lazy()
    w, v, x = s.variable("w", np.arange(4.0)), s.variable("v", np.zeros(4)), s.input("x", (4,), "float64")
    wanted = seen(np.arange(4.0))
    s.compile([x], [], [(w, w + 1), (v, v + x)])(seen(w.value.array))
    np.testing.assert_array_equal(v.numpy(), wanted)
    np.testing.assert_array_equal(w.numpy(), np.arange(4.0) + 1)


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_fractions_are_not_cut_to_integers(stack: nnc.Stack) -> None:
    x = stack.input("x", (2,), "int64")
    program = stack.compile([x], [x + 0])
    assert program([1, 2])[0].tolist() == [1, 2]
    with pytest.raises(DTypeError, match="x"):
        program([1.7, 2.9])


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_jit_inside_of_grad_may_close_over_what_is_differentiated(stack: nnc.Stack) -> None:
    outer = stack.grad(lambda x: stack.jit(lambda y: y * x)(np.array(3.0)))
    assert outer(2.0).item() == 3


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_a_refusal_does_not_depend_on_what_came_before(stack: nnc.Stack) -> None:
    a = stack.asarray(np.ones((2, 2)))
    stack.ops.sum(a, axis=1)
    with pytest.raises(OperatorError, match="axis"):
        stack.ops.sum(a, axis=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_cotangents_and_results_of_grad_are_checked(stack: nnc.Stack) -> None:
    _, back = stack.vjp(lambda x: x * 2, np.ones(3))
    with pytest.raises(DerivativeError, match=r"\(3,\), given \(2, 3\)"):
        back(np.ones((2, 3)))
    with pytest.raises(DerivativeError, match="int64"):
        stack.grad(lambda x: stack.ops.argmax(x))(np.ones(3))


noted: list[str] = []


@layer(on=("device", "operator", "optimiser", "graph", "engine"))
class Noting(PassThrough):
    """Notes what passes `bind`."""

    lower: Any

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        noted.append(op.name)
        return self.lower.bind(op, *args, **params)


@pytest.mark.parametrize("role", ["device", "operator", "optimiser", "graph", "engine"])
@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_a_layer_of_ones_own_is_asked_wherever_it_stands(stack: nnc.Stack, role: str) -> None:
    mine = stack.swap(**{role: lambda lower, r=role: Noting(getattr(stack, r))})
    x = mine.input("x", (2,), "float64")
    noted.clear()
    program = mine.compile([x], [mine.ops.exp(x)])
    program(np.ones(2))
    assert "exp" in noted


def arena_program(stack: nnc.Stack) -> Any:
    x = stack.input("x", (8, 8), "float64")
    a = stack.ops.tanh(x)
    b = a @ x
    return stack.compile([x], [(stack.ops.tanh(b) @ a + b).sum()])


@pytest.mark.parametrize(
    ("allocator", "said"),
    [
        (lambda p: [0] * len(p), "overlap|share|same"),
        (lambda p: [0], "gave 1 offsets"),
        (lambda p: None, "gave no integers"),
        (lambda p: [0.5] * len(p), "gave no integers"),
        (lambda p: [-64] * len(p), "negative"),
        (lambda p: [1 + 1024 * i for i in range(len(p))], "align|multiple"),
    ],
)
def test_an_allocator_of_ones_own_is_not_believed(allocator: Any, said: str) -> None:
    lazy = nnc.lazy()
    with pytest.raises(PlanError, match=said):
        arena_program(lazy.swap(engine=lazy.engine.with_allocator(allocator)))


@pytest.mark.parametrize("orders", [("mine",), (), (3,)])
def test_an_unknown_order_names_the_known_ones(orders: Any) -> None:
    lazy = nnc.lazy()
    with pytest.raises(PlanError, match="depth_first"):
        arena_program(lazy.swap(engine=lazy.engine.with_orders(*orders)))


@pytest.mark.parametrize(("shape", "dtype"), [((3,), object), ((3,), "U5"), ((3.7,), "float32")])
def test_only_numbers_of_whole_extents_are_tensors(shape: Any, dtype: Any) -> None:
    with pytest.raises((DTypeError, ShapeError)):
        nnc.lazy().input("x", shape, dtype)


def test_a_check_names_the_operator_although_constants_fold() -> None:
    lazy = nnc.lazy()
    checked = lazy.swap(engine=lazy.engine.checking_numerics())
    with pytest.raises(NumericsError, match="log"):
        checked.ops.log(checked.asarray([1.0, -1.0])).numpy()


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_accuracy_refuses_labels_of_another_shape(stack: nnc.Stack) -> None:
    logits = stack.asarray(np.float32([[1, 0], [0, 1], [1, 0]]))
    assert nn.accuracy(logits, stack.asarray([0, 1, 0])).item() == 1
    with pytest.raises(ShapeError, match=r"\(3,\), given \(3, 1\)"):
        nn.accuracy(logits, stack.asarray([[0], [1], [0]]))


def test_a_plan_exports_its_problem_in_minimallocs_format() -> None:
    plan = arena_program(nnc.lazy()).plan
    head, *rows = plan.to_csv().splitlines()
    assert head == "id,lower,upper,size,offset"
    wanted = [(i, b.lower, b.upper, b.nbytes, b.offset) for i, b in enumerate(plan.planned)]
    assert [tuple(map(int, row.split(","))) for row in rows] == wanted
    assert rows
