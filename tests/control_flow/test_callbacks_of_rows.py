"""Pure callbacks in branches and loops that rows take differently, compiled (`batching/branches`, `batching/loops`)."""

import numpy as np
import pytest

import nnc_func as nnc

ROWS = np.array([[0.1, 0.2], [1.0, 2.0], [3.0, -1.0]])
SECOND = nnc.HostFunction(
    lambda x, y, g: g * np.cos(x),
    vjp=lambda x, y, g, r, c: (-c * g * np.sin(x), None, c * np.cos(x)),
    jvp=lambda x, y, g, r, tx, ty, tg: tg * np.cos(x) - tx * g * np.sin(x),
)
SINE = nnc.HostFunction(np.sin, vjp=SECOND, jvp=SECOND)


@pytest.fixture(params=["lazy", "eager", "dynamic"])
def stack(request):
    return getattr(nnc, request.param)()


def sine(stack, x, function=SINE):
    (y,) = stack.ops.callback(x, function=function, shapes=((2,),), dtypes=("float64",), pure=True)
    return y


def one_branch(stack, x):
    return stack.cond(x.sum() > 0.5, lambda: sine(stack, x), lambda: x)


def other_branch(stack, x):
    return stack.cond(x.sum() > 0.5, lambda: x * x, lambda: sine(stack, sine(stack, x)))


def several_branches(stack, x):
    which = stack.ops.cast(x.sum() > 0.5, dtype="int64") + stack.ops.cast(x.sum() > 2.5, dtype="int64")
    return stack.case_of(which, [lambda: x, lambda: sine(stack, x), lambda: sine(stack, x * 2)])


def until(stack, x):
    def step(y):
        return None, (y + sine(stack, y) ** 2 + 0.5,)

    return stack.while_loop(lambda y: y.sum() < 3.5, step, (x,), max_iterations=8)[1][0]


def count(stack, x):
    times = stack.ops.cast(x.sum() > 0.5, dtype="int64") * 2 + 1
    return stack.fori(0, times, lambda i, y: sine(stack, y) + y, x)


def loop_within(stack, x):
    return stack.cond(x.sum() > 2.5, lambda: count(stack, x), lambda: sine(stack, x))


def branch_within(stack, x):
    return stack.fori(0, 2, lambda i, y: one_branch(stack, y) * 1.5, x)


FUNCTIONS = {
    one_branch: lambda x: np.sin(x) if x.sum() > 0.5 else x,
    other_branch: lambda x: x * x if x.sum() > 0.5 else np.sin(np.sin(x)),
    several_branches: lambda x: np.sin(2 * x) if x.sum() > 2.5 else np.sin(x) if x.sum() > 0.5 else x,
    until: lambda x: until_of_arrays(x),
    count: lambda x: count_of_arrays(x),
    loop_within: lambda x: count_of_arrays(x) if x.sum() > 2.5 else np.sin(x),
    branch_within: lambda x: branched_twice(x),
}


def until_of_arrays(x):
    for _ in range(8):
        if x.sum() < 3.5:
            x = x + np.sin(x) ** 2 + 0.5
    return x


def count_of_arrays(x):
    for _ in range(3 if x.sum() > 0.5 else 1):
        x = np.sin(x) + x
    return x


def branched_twice(x):
    for _ in range(2):
        x = (np.sin(x) if x.sum() > 0.5 else x) * 1.5
    return x


def slope(f, x, step=1e-6):
    """The gradient of the sum of squares, by differences."""
    found = np.zeros_like(x)
    for n in range(x.size):
        at = np.eye(x.size)[n] * step
        found[n] = ((f(x + at) ** 2).sum() - (f(x - at) ** 2).sum()) / (2 * step)
    return found


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_gradients(stack, f):
    of_arrays = FUNCTIONS[f]
    rows = stack.vmap(lambda x: f(stack, x))
    wanted = np.stack([of_arrays(x) for x in ROWS])
    np.testing.assert_allclose(rows(ROWS).numpy(), wanted)
    np.testing.assert_allclose(stack.jit(rows)(ROWS).numpy(), wanted)
    slopes = np.stack([slope(of_arrays, x) for x in ROWS])
    around = stack.grad(lambda x: (rows(x) ** 2).sum())
    within = stack.vmap(stack.grad(lambda x: (f(stack, x) ** 2).sum()))
    for gradient in (around, within):
        np.testing.assert_allclose(stack.jit(gradient)(ROWS).numpy(), slopes, atol=1e-6)


@pytest.mark.parametrize("f", [one_branch, count], ids=lambda f: f.__name__)
def test_second_order_and_forward_mode(stack, f):
    rows, ones = stack.vmap(lambda x: f(stack, x)), np.ones_like(ROWS)

    def forward(x):
        return stack.jvp(rows, (x,), (ones,))[1]

    def curvature(x):
        return stack.grad(lambda y: (stack.grad(lambda z: (rows(z) ** 2).sum())(y) ** 2).sum())(x)

    for g in (forward, curvature):
        np.testing.assert_allclose(stack.jit(g)(ROWS).numpy(), g(ROWS).numpy())
    step, of_arrays = 1e-6, FUNCTIONS[f]
    tangents = [(of_arrays(x + step) - of_arrays(x - step)) / (2 * step) for x in ROWS]
    np.testing.assert_allclose(stack.jit(forward)(ROWS).numpy(), tangents, atol=1e-6)


@pytest.mark.parametrize("f", [one_branch, count], ids=lambda f: f.__name__)
def test_batches_of_batches_and_no_rows(stack, f):
    rows = stack.vmap(lambda x: f(stack, x))
    twice = stack.jit(stack.vmap(rows))
    whole = np.stack([ROWS, ROWS[::-1]])
    np.testing.assert_allclose(twice(whole).numpy(), [[FUNCTIONS[f](x) for x in each] for each in whole])
    assert stack.jit(rows)(np.zeros((0, 2))).shape == (0, 2)


def test_each_body_is_called_for_each_row_in_order(stack):
    called = []

    def named(name):
        def function(x):
            called.append(name)
            return x + 1

        return function

    yes, no = named("yes"), named("no")
    rows = stack.jit(
        stack.vmap(lambda x: stack.cond(x.sum() > 0.5, lambda: sine(stack, x, yes), lambda: sine(stack, x, no)))
    )
    np.testing.assert_allclose(rows(ROWS).numpy(), ROWS + 1)
    assert called == ["no"] * 3 + ["yes"] * 3
    called.clear()
    np.testing.assert_allclose(rows(ROWS[1:]).numpy(), ROWS[1:] + 1)
    assert called == ["yes"] * 2  # a body that no row chooses is not computed


def test_what_looks_like_a_token_is_selected_as_anything_else(stack):
    empty = np.zeros((2, 0), np.uint8)

    def f(x, e):
        def yes():
            return tuple(
                stack.ops.callback(
                    x, e, function=lambda a, b: (np.sin(a), b), shapes=((2,), (0,)), dtypes=("float64", "uint8"),
                    pure=True,
                )
            )  # fmt: skip

        y, e = stack.cond(x.sum() > 0.5, yes, lambda: (x, e))
        return stack.fori(
            0, stack.ops.cast(y.sum() > 1, dtype="int64") + 1, lambda i, c: (sine(stack, c[0]), c[1]), (y, e)
        )

    y, e = stack.jit(stack.vmap(f))(ROWS[:2], empty)
    np.testing.assert_allclose(y.numpy(), [np.sin(ROWS[0]), np.sin(np.sin(np.sin(ROWS[1])))])
    assert e.shape == (2, 0)
