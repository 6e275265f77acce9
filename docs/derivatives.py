# # Derivatives, and many examples at once
#
# This file runs (`python docs/derivatives.py`) and is meant to be read after `docs/tour.py`. It is about the layer
# above the engine: what can be differentiated, how often, in which mode; and about `vmap`, a layer that one inserts.

from functools import partial

import numpy as np

import nnc_func as nnc
from nnc_func.facets import batching
from nnc_func.testing import check_gradients

stack = nnc.eager()
ops = stack.ops

# ## One formula, two modes
#
# An operator says its derivative once, as data: partial derivatives of elementwise ones, the transpose of linear ones.
# Forward mode, `jvp`, and reverse mode, `vjp`, read the same formula, so ⟨g, J t⟩ and ⟨Jᵀ g, t⟩ cannot differ by more
# than rounding; a law checks that for every operator.


def energy(w, x):
    return ops.sum(ops.tanh(w @ x) ** 2)


w, x = np.eye(3) + 0.1, np.arange(6.0).reshape(3, 2) / 6
value, (by_w, by_x) = stack.value_and_grad(energy, (0, 1))(w, x)
same, slope = stack.jvp(energy, (w, x), (np.ones_like(w), np.ones_like(x)))
np.testing.assert_allclose(by_w.numpy().sum() + by_x.numpy().sum(), slope.numpy())
print(value.numpy(), slope.numpy())

# Transformations nest in any order; each application has a level of its own, so perturbations are not confused.


def inner(x):
    return x * stack.grad(lambda y: x + y)(stack.asarray(1.0))


print(stack.grad(inner)(2.0).numpy())  # 1, not 2
print(stack.hessian(lambda v: ops.sum(v**3))([1.0, 2.0]).numpy())
print(stack.laplacian(lambda v: ops.sum(v**3))([1.0, 2.0]).numpy())

# What no gradient needs is not built, and a gradient that is known to be zero costs nothing. On a lazy stack
# derivatives are graphs like any other: optimised, planned, fused. `jit` of a gradient is one program.

lazy = nnc.lazy()
fast = lazy.jit(lazy.grad(lambda v: lazy.ops.sum(lazy.ops.sin(v) * v)))
np.testing.assert_allclose(fast(np.float64([1, 2])).numpy(), np.sin([1, 2]) + np.float64([1, 2]) * np.cos([1, 2]))

# ## Derivatives of one's own
#
# Where a formula knows better than the chain rule, it is given: here a logarithm of a sum that does not overflow. Rules
# are made of operators, so they are differentiated in turn, and either kind of rule serves both modes.


@nnc.custom_jvp
def log_one_plus_exp(x):
    return ops.maximum(x, 0.0) + ops.log1p(ops.exp(-ops.abs(x)))


@log_one_plus_exp.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return log_one_plus_exp(x), t * ops.sigmoid(x)


print(stack.grad(stack.grad(log_one_plus_exp))(0.0).numpy())  # 0.25

# A user's functions are checked as the catalogue is: against differences, against each other, to second order.

check_gradients(lambda v: ops.sum(ops.sqrt(v) * ops.sin(v)), np.float64([0.5, 1.0, 2.0]))
try:
    wrong = nnc.custom_vjp(lambda v: v * v)
    wrong.defvjp(lambda v: (v * v, v), lambda v, g: (g * v,))  # it lacks a factor of two
    check_gradients(lambda v: ops.sum(wrong(v)), np.float64([1.0, 2.0]))
except AssertionError as error:
    print(error)

# ## What `where` leaves out
#
# A formula may be infinite where it is not chosen: elementwise operators behind `where` keep to what it chose, so that
# 0 · ∞ is no NaN there. Where elements leave their places (a reshape, a matrix product), write the choice inside, too.

entropy = lambda p: ops.sum(ops.where(p > 0, p * ops.log(p), 0))  # noqa: E731
with np.errstate(all="ignore"):
    print(stack.grad(entropy)([0.0, 0.5, 1.0]).numpy())
reshaped = lambda p: ops.sum(ops.where(p > 0, ops.reshape(ops.log(ops.where(p > 0, p, 1)), shape=(3,)), 0))  # noqa: E731
print(stack.grad(reshaped)([0.0, 0.5, 1.0]).numpy())

# ## Rows of a batch
#
# `vmap` makes of a function of one example a function of many: not by a loop, but operator by operator. What becomes of
# rows follows from an operator's shape rule: elementwise operators broadcast, reductions count axes from one further
# on, and products of rows with one matrix are one product. It nests in derivatives, and they in it.

examples = stack.asarray(np.random.default_rng(0).normal(size=(5, 3)))
weight = stack.asarray(np.float64([1, -2, 3]))
loss = lambda w, row: ops.tanh(ops.sum(w * row))  # noqa: E731 - of one example
each = nnc.vmap(stack.grad(loss), in_axes=(None, 0))(weight, examples)  # a gradient for every example
together = stack.grad(lambda w: ops.sum(nnc.vmap(lambda row: loss(w, row))(examples)))(weight)
np.testing.assert_allclose(each.numpy().sum(axis=0), together.numpy())
print(each.shape)

# It is a layer, inserted as one of a user's own would be: no other file knows of it. A stack that has it can be given
# rules of one's own, for operators of one's own.


def counted(call):
    print(f"{call.op.name} of {call.size} rows at once")
    return batching.elementwise(call)


mine = nnc.eager().insert(partial(nnc.Batching, rules=(("exp", counted),)))
nnc.vmap(mine.ops.exp, stack=mine)(np.zeros(4))
