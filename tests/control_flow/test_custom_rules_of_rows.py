"""Functions with rules of their own under a vmap within a body (`control_flow/tracing`, `batching/batching`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
ROWS, TIMES = np.linspace(-1.0, 1.2, 6).reshape(2, 3), np.array([0.5, -0.4, 0.3])
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def by_cotangents(stack: Any) -> Any:
    """Its slope by the first argument is said to be 10 times what it is."""
    sin, cos = stack.ops.sin, stack.ops.cos
    f = stack.custom_vjp(lambda a, b: sin(a) * b)
    return f.defvjp(
        lambda a, b: (sin(a) * b, (a, b)), lambda saved, g: (10 * cos(saved[0]) * saved[1] * g, sin(saved[0]) * g)
    )


def by_tangents(stack: Any) -> Any:
    sin, cos = stack.ops.sin, stack.ops.cos
    f = stack.custom_jvp(lambda a, b: sin(a) * b)
    f.defjvp(lambda p, t: (f(*p), 10 * cos(p[0]) * p[1] * t[0] + sin(p[0]) * t[1]))
    return f


def implicit(stack: Any) -> Any:
    sin = stack.ops.sin
    return lambda a, b: stack.fixed_point(lambda u: sin(u) * 0.3 + sin(a) * b, a)


makes = pytest.mark.parametrize("make", [by_cotangents, by_tangents, implicit])
REPEATED = {  # what becomes of one row and what is traced in the body
    "both": lambda stack, f: lambda x, c: f(x, x * c),
    "not of the row": lambda stack, f: lambda x, c: f(c, c) * x,
    "captured by the row": lambda stack, f: lambda x, c: stack.vmap(lambda y: f(y, c))(x),
    "a row of another": lambda stack, f: lambda x, c: stack.vmap(lambda y, z: f(c * z, y), (0, None))(x, x.sum()),
    "jacobian": lambda stack, f: lambda x, c: stack.jacobian(lambda y: f(y, y * c))(x),
}
FORMS = {  # of the batch and the times
    "map": lambda stack, f: lambda xs, cs: stack.map(lambda c: f(xs, c), cs),
    "foreach": lambda stack, f: lambda xs, cs: stack.foreach(lambda c, h: (f(xs * h, c), h), cs, 1.0)[0],
    "while_loop": lambda stack, f: (
        lambda xs, cs: stack.while_loop(lambda n: n < 3, lambda n: (f(xs, cs[n]), n + 1), (0,), 3)[0]
    ),
    "cond": lambda stack, f: (
        lambda xs, cs: stack.ops.stack(
            *(stack.cond(cs[n] < 9, lambda c: f(xs, c), lambda c: f(xs * 0, c), cs[n]) for n in range(3))
        )
    ),
    "captured by cond": lambda stack, f: (
        lambda xs, cs: stack.ops.stack(
            *(stack.cond(cs[n] < 9, lambda n=n: f(xs, cs[n]), lambda n=n: f(xs * 0, cs[n])) for n in range(3))
        )
    ),
    "loop_until": lambda stack, f: (
        lambda xs, cs: stack.loop_until(
            [lambda m, c: (m, f(xs, c)), lambda m: m > 9.0, lambda m, c: (m + 1.0, None)], 0.0, cs
        ).outputs[0]
    ),
}


def written(stack: Any, f: Any) -> Any:
    """The same by Python's loops, without bodies and rows."""
    join = stack.ops.stack
    return lambda xs, cs: join(*(join(*(f(xs[i], cs[n]) for i in range(2))) for n in range(3)))


@every
@makes
@pytest.mark.parametrize("form", FORMS)
def test_they_are_what_python_loops_give(stack: Any, make: Any, form: str) -> None:
    """Values, gradients by rows and by what the body reads, tangents."""
    xs, cs = stack.asarray(ROWS), stack.asarray(TIMES)
    for name in REPEATED if form == "map" else ["both"] if "cond" in form else ["both", "jacobian"]:
        f = REPEATED[name](stack, make(stack))
        one = FORMS[form](stack, lambda xs, c, f=f: stack.vmap(lambda x: f(x, c))(xs))
        other = written(stack, f)
        np.testing.assert_allclose(one(xs, cs).numpy(), other(xs, cs).numpy(), rtol=1e-9, atol=1e-12, err_msg=name)
        for n in range(2):
            found, wanted = (
                stack.grad(lambda *each, f=f: stack.ops.sin(f(*each)).sum(), argnums=n)(xs, cs) for f in (one, other)
            )
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-7, atol=1e-9, err_msg=name)
    found, wanted = (stack.jvp(f, (xs, cs), (xs * 2, cs * 0.5))[1].numpy() for f in (one, other))
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


@every
@makes
def test_rows_of_rows_without_a_body(stack: Any, make: Any) -> None:
    """An argument that is a row of the outer batch alone, within one that is a row of both."""
    f, xs = make(stack), stack.asarray(ROWS)

    def of_row(x: Any, over: Any) -> Any:
        return over(lambda y, z: f(z * 0.3, y), x, x.sum())

    def batched(xs: Any) -> Any:
        return stack.vmap(lambda x: of_row(x, lambda g, y, z: stack.vmap(g, (0, None))(y, z)))(xs)

    def by_python(xs: Any) -> Any:
        rows = [of_row(xs[i], lambda g, y, z: stack.ops.stack(*(g(y[k], z) for k in range(3)))) for i in range(2)]
        return stack.ops.stack(*rows)

    for function in (lambda g: g, lambda g: stack.grad(lambda xs: stack.ops.sin(g(xs)).sum())):
        found, wanted = (function(g)(xs).numpy() for g in (batched, by_python))
        np.testing.assert_allclose(found, wanted, rtol=1e-7)
