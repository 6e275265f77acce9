"""What nobody calls any more is freed with all it holds (`memo`, `device/shared`, `engine/force`, `engine/dynamic`)."""

import gc
from weakref import ref

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.memo import FEW

COUNT = 3 * FEW
KINDS = ("eager", "lazy", "dynamic")


class Held:
    """What a function of the user's holds."""

    def __init__(self):
        self.two = 2.0


def called(stack, x, function):
    (y,) = stack.ops.callback(x, function=function, shapes=((2,),), dtypes=("float64",), pure=True)
    return y


def with_derivative(held):
    return nnc.HostFunction(lambda a: a * held.two, vjp=lambda a, y, g: g * held.two, jvp=lambda a, y, t: t * held.two)


def plain(stack, held):
    return called(stack, np.ones(2), lambda a: a * held.two)


def impure(stack, held):
    return stack.ops.callback(np.ones(2), function=lambda a: a * held.two, shapes=((2,),), dtypes=("float64",))[0]


def gradient(stack, held):
    return stack.grad(lambda x: called(stack, x, with_derivative(held)).sum())(np.ones(2))


def tangent(stack, held):
    return stack.jvp(lambda x: called(stack, x, with_derivative(held)), (np.ones(2),), (np.ones(2),))[1]


def compiled_gradient(stack, held):
    return stack.jit(stack.grad(lambda x: called(stack, x, with_derivative(held)).sum()))(np.ones(2))


def rows(stack, held):
    return stack.vmap(lambda x: called(stack, x, lambda a: a * held.two))(np.ones((3, 2)))[0]


def branch(stack, held):
    x = stack.asarray(np.ones(2))
    return stack.cond(x.sum() > 0, lambda: called(stack, x, lambda a: a * held.two), lambda: x)


def loop(stack, held):
    return stack.fori(0, 1, lambda i, x: called(stack, x, lambda a: a * held.two), np.ones(2))


def loop_gradient(stack, held):
    function = with_derivative(held)
    return stack.grad(lambda x: stack.fori(0, 1, lambda i, y: called(stack, y, function), x).sum())(np.ones(2))


def branch_of_rows(stack, held):
    def chosen(x):
        return stack.cond(x.sum() > 0, lambda: called(stack, x, lambda a: a * held.two), lambda: x)

    return stack.vmap(chosen)(np.ones((3, 2)))[0]


def dynamic_function(stack, held):
    function = nnc.DynamicFunction(lambda a: a * held.two, nnc.dynamic())
    return stack.grad(lambda x: called(stack, x, function).sum())(np.ones(2))


def gradient_of_values(stack, held):
    x = stack.variable("x", [1.0, 1.0])
    return stack.gradients([called(stack, x, with_derivative(held)).sum()], [x])[0]


def dynamic_gradient_of_values(stack, held):
    x = stack.variable("x", [1.0, 1.0])
    function = nnc.DynamicFunction(lambda a: a * held.two, stack)
    return stack.gradients([called(stack, x, function).sum()], [x])[0]


def alive(held):
    gc.collect()
    return sum([each() is not None for each in held])


def computed(stack, f):
    """What so many functions hold, each of which was called once."""
    found = []
    for _ in range(COUNT):
        held = Held()
        found.append(ref(held))
        np.testing.assert_array_equal(f(stack, held).numpy(), [2.0, 2.0])
        del held
    return found


FUNCTIONS = (
    plain, impure, gradient, tangent, compiled_gradient, rows, branch, loop, loop_gradient, branch_of_rows,
    dynamic_function,
)  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_few_functions_live_on_and_none_after_the_stack(kind, f):
    before = getattr(nnc, kind)()
    computed(before, f)  # whatever is made once
    stack = getattr(nnc, kind)()
    held = computed(stack, f)
    assert alive(held) <= FEW
    del stack
    assert alive(held) == 0


@pytest.mark.parametrize("f", [gradient_of_values, dynamic_gradient_of_values], ids=lambda f: f.__name__)
def test_few_functions_live_on_after_gradients_of_values(f):
    held = computed(nnc.dynamic(), f)
    assert alive(held) <= FEW


def test_the_same_function_is_known():
    stack, function = nnc.eager(), with_derivative(Held())
    x = stack.asarray(np.ones(2))
    called(stack, x, function)
    known = len(stack.shape._memo)
    for _ in range(3):
        called(stack, x, function)
    assert len(stack.shape._memo) == known
