"""What a derivative keeps of a loop, and computes again (`graph/ops/loop_checkpoints`, `control_flow/checkpoints`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError
from nnc_func.graph.ops.loop_checkpoints import HELD, distance
from nnc_func.graph.ops.loop_schedules import MANY

LAZY, EAGER = nnc.lazy(), nnc.eager()
NULL = nnc.lazy(nnc.Null())
both = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
HELDS = 3
WAYS: tuple[Any, ...] = (None, 1, HELDS, "carries", "sqrt", "budget:150B", "budget:1MB")


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    for one, other in zip(found, wanted, strict=True):
        arrays = [each.numpy() if hasattr(each, "numpy") else each for each in (one, other)]
        np.testing.assert_allclose(*arrays, rtol=rtol, atol=rtol)


# --- the same gradients --------------------------------------------------------------------------------------


def growing(stack: Any, most: int | None = None, checkpoint: Any = None) -> Callable[..., Any]:
    """A function of a vector, a matrix and a number of times that only a condition knows."""

    def f(x: Any, w: Any, times: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return None if most is None else c * w[0], (i + 1, stack.ops.tanh(c @ w) + x)

        rows, (_, c), n = stack.while_loop(lambda i, _: i < times, body, (0, x), most, checkpoint=checkpoint)
        found = (c * c).sum() + (n * 1.0) * c.sum()
        return found if most is None else found + (rows * rows).sum()

    return f


X, W = np.array([0.3, -0.2]), np.array([[0.9, 0.2], [-0.4, 1.1]])
TIMES = (0, 1, HELDS, HELDS + 1, 10 * HELDS)


@both
@pytest.mark.parametrize("bounded", [False, True], ids=["unbounded", "bounded"])
def test_a_while_has_the_same_gradients_whatever_is_kept(stack: Any, bounded: bool) -> None:
    def wanted(x: Any, w: Any, times: int) -> Any:  # written out
        c, rows = x, []
        for _ in range(times):
            rows.append(c * w[0])
            c = stack.ops.tanh(c @ w) + x
        found = (c * c).sum() + times * c.sum()
        return found + sum((y * y).sum() for y in rows) if bounded else found

    for times in TIMES:
        slopes = stack.grad(wanted, argnums=(0, 1))(X, W, times)
        for way in WAYS:
            close(
                stack.grad(growing(stack, 40 if bounded else None, way), argnums=(0, 1))(X, W, np.array(times)), slopes
            )


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_program_does_not_know_how_often_it_goes(way: Any, tmp_path: Path) -> None:
    inputs = [LAZY.input("x", (2,), "float64"), LAZY.input("w", (2, 2), "float64"), LAZY.input("n", (), "int64")]
    program = LAZY.compile(inputs, list(LAZY.grad(growing(LAZY, None, way), argnums=(0, 1))(*inputs)))
    program.plan.verify()
    assert type(program.plan).parse(program.plan.text()) == program.plan
    program.save(tmp_path / "gradient.nnc")
    loaded = nnc.load_program(tmp_path / "gradient.nnc", LAZY)
    jitted = LAZY.jit(LAZY.grad(growing(LAZY, None, way), argnums=(0, 1)))
    for times in TIMES:
        wanted = LAZY.grad(growing(LAZY, None, None), argnums=(0, 1))(X, W, np.array(times))
        for f in (program, loaded, jitted):
            close(f(X, W, np.array(times)), wanted)


def scanned(stack: Any, **how: Any) -> Callable[..., Any]:
    """A function by a scan with slices, rows, a carry that is no number of a field, and a constant."""

    def f(x: Any, w: Any, h: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, k = carry
            h = stack.ops.tanh(x @ w + h)
            return (h, k + 1), (h * k.astype("float64"), x.sum())

        (h, _), (rows, sums) = stack.scan(step, (h, 0), x, **how)
        return (rows * rows).sum() + (h * h * h).sum() + (sums * sums).sum()

    return f


@both
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("times", [0, 1, 3, 8])
def test_a_scan_has_the_same_gradients_whatever_is_kept(stack: Any, times: int, reverse: bool) -> None:
    draw = np.random.default_rng(times)
    given = draw.normal(size=(times, 2)), draw.normal(size=(2, 2)), draw.normal(size=2)
    for counts in (None, times // 2, times + 2) if times else (None,):
        count = None if counts is None else stack.asarray(counts)
        wanted = stack.grad(scanned(stack, reverse=reverse, length=count), argnums=(0, 1, 2))(*given)
        for way in WAYS[1:]:
            f = scanned(stack, reverse=reverse, length=count, checkpoint=way)
            close(stack.grad(f, argnums=(0, 1, 2))(*given), wanted)


def test_of_a_symbolic_length() -> None:
    x, w, h = LAZY.input("x", ("n", 2), "float64"), LAZY.input("w", (2, 2), "float64"), LAZY.input("h", (2,), "float64")
    draw = np.random.default_rng(0)
    for way in (2, "sqrt", "budget:200B", "carries"):
        program = LAZY.compile([x, w, h], list(LAZY.grad(scanned(LAZY, checkpoint=way), argnums=(0, 1, 2))(x, w, h)))
        for times in (0, 1, 9):
            given = draw.normal(size=(times, 2)), draw.normal(size=(2, 2)), draw.normal(size=2)
            close(program(*given), EAGER.grad(scanned(EAGER), argnums=(0, 1, 2))(*given))


@both
def test_within_loops_and_branches(stack: Any) -> None:
    def nested(way: Any, most: int | None) -> Callable[..., Any]:
        inner = growing(stack, None, way) if most is None else growing(stack, most, way)

        def f(xs: Any, w: Any) -> Any:
            def body(x: Any, s: Any) -> Any:
                times = (x.sum() * 4).astype("int64")
                y = inner(x + s * 0.1, w, times)
                y = stack.cond(y > 3, lambda: y, lambda: inner(x * 2, w, times + 2))
                return y, s * 0.5 + x * 0.1 * y / (1 + y * y)

            ys, s = stack.foreach(body, xs, stack.asarray(X), checkpoint=way)
            return ys.sum() * 0.1 + (s * s).sum()

        return f

    xs = np.array([[0.3, -0.2], [0.9, 0.65], [-1.0, 0.55], [1.5, 0.2]])
    for most in (None, 12):
        wanted = stack.grad(nested(None, most), argnums=(0, 1))(xs, W)
        for at in ((0, 1), (1, 0), (3, 1)):
            sides = []
            for h in (1e-6, -1e-6):
                moved = xs.copy()
                moved[at] += h
                sides.append(nested(None, most)(stack.asarray(moved), stack.asarray(W)).item())
            np.testing.assert_allclose(wanted[0].numpy()[at], (sides[0] - sides[1]) / 2e-6, rtol=1e-6, atol=1e-7)
        for way in (1, HELDS, "sqrt", "budget:300B"):
            close(stack.grad(nested(way, most), argnums=(0, 1))(xs, W), wanted)


@both
def test_of_batches_whose_rows_go_differently_often(stack: Any) -> None:
    xs, times = np.array([X, 3 * X, -X]), np.array([0, 9, 2])
    for way in (None, 1, HELDS, "budget:300B"):
        slope = stack.grad(growing(stack, None, way), argnums=(0, 1))
        each = [slope(x, W, n) for x, n in zip(xs, times, strict=True)]
        wanted = [np.stack([found[k].numpy() for found in each]) for k in (0, 1)]
        close(stack.vmap(slope, in_axes=(0, None, 0))(xs, W, times), wanted)
        of_all = stack.grad(
            lambda xs, w, f=growing(stack, None, way): stack.vmap(f, in_axes=(0, None, 0))(xs, w, times).sum(),
            argnums=(0, 1),
        )
        close(of_all(xs, W), [wanted[0], wanted[1].sum(0)])


@both
@pytest.mark.parametrize("way", [None, 1, HELDS, "sqrt", "budget:150B"], ids=str)
def test_second_order(stack: Any, way: Any) -> None:
    """Forward over reverse, and reverse over reverse, as of the function written out."""
    x_, w_ = np.array([0.3, -0.7]), np.array([[0.1, 0.2], [-0.3, 0.4]])

    def written_out(x: Any, w: Any) -> Any:
        c = x
        for _ in range(7):
            c = stack.ops.tanh(c @ w) + x
        return (c * c).sum() + 7 * c.sum()

    def along(f: Any) -> Any:
        def slope(x: Any, w: Any) -> Any:
            a, b = stack.grad(f, argnums=(0, 1))(x, w)
            return (a * x_).sum() + (b * w_).sum()

        return slope

    wanted = stack.grad(along(written_out), argnums=(0, 1))(X, W)
    for most in (None, 12):
        f = growing(stack, most, way)
        g = (lambda x, w, f=f: f(x, w, np.array(7))) if most is None else None
        if g is None:

            def g(x: Any, w: Any) -> Any:
                c = stack.fori(0, 7, lambda _, c: stack.ops.tanh(c @ w) + x, x, checkpoint=way)
                return (c * c).sum() + 7 * c.sum()

        close(stack.hvp(g, (X, W), (x_, w_)), wanted, 1e-7)
        close(stack.grad(along(g), argnums=(0, 1))(X, W), wanted, 1e-7)


def test_random_numbers_are_drawn_again_as_they_were() -> None:
    """A dropout's mask, by a key that the counter is folded into."""

    def f(stack: Any, way: Any) -> Any:
        ops, key = stack.ops, stack.key(5)

        def g(x: Any) -> Any:
            def body(i: Any, c: Any) -> Any:
                return ops.dropout(ops.tanh(c * 1.3) + x, ops.random_fold_in(key, i), probability=0.4)

            if way == "while":
                return stack.while_loop(lambda i, c: i < 20, lambda i, c: (None, (i + 1, body(i, c))), (0, x))[1][
                    1
                ].sum()
            return stack.fori(0, 20, body, x, checkpoint=way).sum()

        return g

    x = np.linspace(-1, 1, 16)
    for stack in (EAGER, LAZY):
        wanted = stack.grad(f(stack, None))(x)
        assert len({*wanted.numpy().round(6).tolist()}) > 4
        for way in (1, 4, "sqrt", "carries", "budget:600B", "while"):
            close([stack.grad(f(stack, way))(x)], [wanted])


# --- how often a body is computed ----------------------------------------------------------------------------


@cache
def least(times: int, places: int) -> int:
    """Times that are computed besides the taped ones, by dynamic programming."""
    if times <= 1:
        return 0
    if places == 1:
        return times * (times - 1) // 2
    return min(m + least(times - m, places - 1) + least(m, places) for m in range(1, times))


def closed(times: int, places: int) -> int:
    """The same by Griewank and Walther's formula."""
    if times <= 1:
        return 0
    r = next(r for r in range(times) if comb(places + r, places) >= times)
    return r * times - comb(places + r, places + 1)


def test_distances_are_the_best() -> None:
    o = EAGER.ops
    far = {
        (left, free): int(distance(o, EAGER.asarray(left), EAGER.asarray(free)).numpy())
        for left in (*range(2, 40), 100, 1000) for free in (2, 3, 5, 9, 44)
    }  # fmt: skip
    for (left, free), m in far.items():
        assert 1 <= m < left
        if left < 40 and free < 9:
            assert least(left, free) == closed(left, free)
        assert m + closed(left - m, free - 1) + closed(m, free) == closed(left, free)
    one = EAGER.asarray(1)
    assert int(distance(o, one, EAGER.asarray(4)).numpy()) == 1
    huge, m = 10**7, int(distance(o, EAGER.asarray(10**7), EAGER.asarray(2)).numpy())  # beyond the levels
    assert huge // 2 < m < huge


def evaluations(times: int, places: int | None, known: bool, monkeypatch: Any) -> int:
    """How often the body is computed, of a gradient as a program."""
    counted, tanh = [0], np.tanh

    def counting(*args: Any, **how: Any) -> Any:
        counted[0] += 1
        return tanh(*args, **how)

    def f(x: Any, n: Any) -> Any:
        if known:
            return LAZY.fori(0, times, lambda _, c: LAZY.ops.tanh(c + x), x, checkpoint=places)
        return LAZY.while_loop(
            lambda i, c: i < n, lambda i, c: (None, (i + 1, LAZY.ops.tanh(c + x))), (0, x), checkpoint=places
        )[1][1]

    x, n = LAZY.input("x", (), "float64"), LAZY.input("n", (), "int64")
    with monkeypatch.context() as patch:
        patch.setattr(np, "tanh", counting)
        LAZY.compile([x, n], LAZY.grad(f)(x, n))(np.array(0.1), np.array(times))
    return counted[0]


@pytest.mark.parametrize(("times", "places", "extra"), [(100, 10, 2.22), (100, 20, 1.78), (1000, 44, 1.95)])
def test_a_loop_of_a_known_number_of_times_is_computed_as_seldom_as_can_be(
    times: int, places: int, extra: float, monkeypatch: Any
) -> None:
    """But for the times from the last carry that is held to the last one, which were computed for the results."""
    found = evaluations(times, places, True, monkeypatch)
    fewest = times + closed(times, places) + 1
    assert closed(times, places) / times == pytest.approx(extra, abs=0.01)
    assert fewest <= found <= fewest + 4


@pytest.mark.parametrize(("times", "places"), [(100, 10), (100, 44), (1000, 20), (300, 2), (60, None)])
def test_a_loop_of_any_number_of_times_is_computed_about_as_seldom(
    times: int, places: int | None, monkeypatch: Any
) -> None:
    found = evaluations(times, places, False, monkeypatch)
    fewest = closed(times, places or HELD) + 1
    assert times + fewest <= found <= times + 1.25 * fewest + 1


# --- memory --------------------------------------------------------------------------------------------------

N, H = 2, 4
UNIT = N * H * 8  # bytes of one state


def lstm(times: int, checkpoint: Any) -> Any:
    """A gradient by weights, as a program: projections of inputs and states apart, as `nn.LSTM` has them."""
    ops, h = NULL.ops, H
    x, w, u = (NULL.input(n, s, "float64") for n, s in (("x", (times, N, 3)), ("w", (3, 4 * h)), ("u", (h, 4 * h))))
    state = [NULL.input(name, (N, h), "float64") for name in "hc"]

    def loss(w: Any, u: Any) -> Any:
        def body(x: Any, s: Any) -> Any:
            z = x @ w + s[0] @ u
            i, f, g, o = (z[:, h * k : h * k + h] for k in range(4))
            c = ops.sigmoid(f) * s[1] + ops.sigmoid(i) * ops.tanh(g)
            return None, (ops.sigmoid(o) * ops.tanh(c), c)

        _, (last, _) = NULL.foreach(body, x, tuple(state), checkpoint=checkpoint)
        return last.sum()

    return NULL.compile([x, w, u, *state], list(NULL.grad(loss, argnums=(0, 1))(w, u)))


def between(program: Any) -> int:
    """Bytes of results of the first loop that something reads: what is kept for the way back, and the last carries."""
    loops = [node for node in program.graph.nodes if node.op.name == "loop"]
    read = {a for node in program.graph.nodes for a in node.args}
    return sum(value.aval.nbytes for value in loops[0].results if value in read)


def test_memory_of_a_gradient_in_a_thousand_steps() -> None:
    times, few = 1000, 40 * UNIT  # what one time takes besides, and shares of small arrays
    full = lstm(times, "full")
    assert between(full) <= 7 * times * UNIT
    assert full.plan.arena_bytes <= (7 + 4 + 4) * times * UNIT + few  # and stacked gates, and inputs projected at once
    root = lstm(times, "sqrt")
    roots = 2.2 * times**0.5
    assert between(root) <= roots * 2 * UNIT
    assert root.plan.arena_bytes <= roots * (7 + 4) * UNIT + few


def test_what_is_computed_without_derivative_is_not_kept() -> None:
    def loss(stack: Any, stopped: bool) -> Any:
        ops = stack.ops
        w = stack.input("w", (64,), "float64")

        def f(w: Any) -> Any:
            def body(i: Any, c: Any) -> Any:
                seen = ops.stop_gradient(c) if stopped else c
                weight = ops.exp(ops.sin(ops.tanh(seen * 2.0) * 3.0)).sum()
                return c * 0.5 + (ops.stop_gradient(weight) if stopped else weight) * w

            return stack.fori(0, 100, body, w, checkpoint="full").sum()

        return stack.compile([w], stack.grad(f)(w))

    stopped, whole = (between(loss(NULL, each)) for each in (True, False))
    assert stopped <= 100 * 8 + 64 * 8  # one number each time
    assert whole >= 100 * 64 * 8


@pytest.mark.parametrize(
    ("budget", "nbytes"),
    [("1MB", 10**6), ("100 kB", 10**5), ("40KiB", 40 << 10), ("15kB", 15_000), ("5kB", 5000), ("400B", 400)],
)
def test_a_budget_is_held(budget: str, nbytes: int) -> None:
    """The whole arena is within it, but for what one time takes: inputs are not projected at once beyond it."""
    times = 1000
    program = lstm(times, f"budget:{budget}")
    assert between(program) - 2 * UNIT <= nbytes
    assert len([node for node in program.graph.nodes if node.op.name == "loop"]) == 2
    assert program.plan.arena_bytes <= nbytes + 100 * UNIT


@pytest.mark.parametrize("way", [20, 100])
def test_memory_of_few_carries_does_not_depend_on_times(way: int) -> None:
    """Inputs of all times were projected before the loop that computes them again: 4 UNIT a time."""
    arenas = [lstm(times, way).plan.arena_bytes for times in (700, 1000)]
    assert arenas[0] == arenas[1] <= (2 * way + 100) * UNIT


def test_carries_alone_are_kept_of_each_time() -> None:
    """With what was computed at once of them the arena was larger than with all that the derivative reads."""
    program = lstm(1000, "carries")
    assert program.plan.arena_bytes <= (2 * 1000 + 100) * UNIT
    assert type(program.plan).parse(program.plan.text()) == program.plan


@pytest.mark.parametrize("way", [2, "budget:10kB", "carries"])
def test_cotangents_of_outputs_are_not_projected_at_once_either(way: Any) -> None:
    def of(times: int) -> int:
        x, w, v = (NULL.input(n, s, "float64") for n, s in (("x", (times, N, 1)), ("w", (1, 64)), ("v", (64, 8))))

        def loss(w: Any, v: Any) -> Any:
            def body(x: Any, h: Any) -> Any:
                h = NULL.ops.tanh(x @ w + h)
                return h @ v, h

            return (
                NULL.foreach(body, x, NULL.ops.full(shape=(N, 64), value=0.5, dtype="float64"), checkpoint=way)[0] ** 2
            ).sum()

        return NULL.compile([x, w, v], list(NULL.grad(loss, argnums=(0, 1))(w, v))).plan.arena_bytes

    outputs, carries = 2 * N * 8 * 8, N * 64 * 8  # bytes a time: outputs and their cotangents; what is carried
    assert of(500) - of(300) <= 200 * (outputs + (way == "carries") * carries) * 1.01


def held(program: Any) -> set[int]:
    """How many places for carries the first loop of a program has."""
    first = next(node for node in program.graph.nodes if node.op.name == "loop")
    constants, carries = first.params["constants"], first.params["carries"]
    return {a.shape[0] for a in first.args[constants : constants + carries] if len(a.shape) == 1}


@pytest.mark.parametrize(("way", "bounded", "unbounded"), [
    (10**12, 5, MANY), ("budget:64MB", None, MANY), (1000, 5, 1000), ("budget:1600B", None, 100), (3, 3, 3),
])  # fmt: skip
def test_no_more_places_than_times(way: Any, bounded: int | None, unbounded: int) -> None:
    """Nor more than are worth it where the times are not known: each time looks through them."""
    x = LAZY.input("x", (), "float64")

    def f(x: Any) -> Any:
        return LAZY.while_loop(lambda x: x < 9, lambda x: (None, x * x), x, checkpoint=way)[1]

    program = LAZY.compile([x], LAZY.grad(f)(x))
    assert held(program) == {unbounded}
    assert float(program(1.5)) == 8 * 1.5**7
    if bounded:
        program = LAZY.compile([x], LAZY.grad(lambda x: LAZY.fori(0, 5, lambda _, x: x * x, x, checkpoint=way))(x))
        assert held(program) == {bounded}
    if unbounded == MANY:  # places of places: of second order
        assert LAZY.hessian(f)(1.5).item() == 56 * 1.5**6


def test_a_larger_budget_is_less_to_compute(monkeypatch: Any) -> None:
    """All is kept that fits, else segments, else carries: in that order it is computed more often."""
    counted, tanh = [0], np.tanh

    def counting(*args: Any, **how: Any) -> Any:
        counted[0] += 1
        return tanh(*args, **how)

    found = {}
    x = LAZY.input("x", (8,), "float64")
    for budget in (6400, 3200, 1400, 700, 300, 72):
        with monkeypatch.context() as patch:
            patch.setattr(np, "tanh", counting)

            def f(x: Any, budget: str = f"budget:{budget}") -> Any:
                return LAZY.fori(0, 100, lambda _, c: LAZY.ops.tanh(c + x), x, checkpoint=budget).sum()

            program, counted[0] = LAZY.compile([x], LAZY.grad(f)(x)), 0
            program(np.zeros(8))
        found[budget] = counted[0]
    assert found[6400] == 100
    assert found[3200] == found[1400] == 200
    assert 200 < found[700] < found[300] < found[72] == 100 + 100 + 99 * 100 // 2


def test_nothing_is_copied_but_what_is_held(monkeypatch: Any) -> None:
    from nnc_func.device.kernels import index, scatter
    from nnc_func.engine.running import loops

    copied = [0]

    def noted(x: Any, out: Any) -> None:
        copied[0] += x.nbytes if out is not x and x.ndim > 1 else 0

    keep, init = index.keep, loops.Times.__init__
    monkeypatch.setattr(scatter, "keep", lambda xp, x, out: (noted(x, out), keep(xp, x, out))[1])

    def patched(self: Any, *args: Any) -> None:
        init(self, *args)
        copy = self.copy
        self.copy = lambda x, out: (noted(x, out), copy(x, out))[1]

    monkeypatch.setattr(loops.Times, "__init__", patched)
    x = LAZY.input("x", (50,), "float64")
    for f in (
        lambda x: LAZY.fori(0, 200, lambda _, c: LAZY.ops.tanh(c + x), x, checkpoint=10).sum(),
        lambda x: LAZY.while_loop(lambda c: c.sum() < 80, lambda c: (None, c + LAZY.ops.tanh(x)), x, checkpoint=10)[
            1
        ].sum(),
    ):
        program = LAZY.compile([x], LAZY.grad(f)(x))
        copied[0] = 0
        program(np.full(50, 0.01))
        assert copied[0] <= 2 * 10 * 50 * 8  # places of all that is held, once


# --- what is refused -----------------------------------------------------------------------------------------


@both
def test_what_cannot_be_is_refused_in_words(stack: Any) -> None:
    def slope(way: Any, **how: Any) -> Any:
        def f(x: Any) -> Any:
            return stack.scan(lambda c, x: (c * x, None), x[0], x, checkpoint=way, **how)[0]

        return stack.grad(f)(np.ones(9))

    for way in ("all", "budget", "budget:", "budget:-3kB", "budget:0", "budget:" + 400 * "9", 0, -1, 1.5, True, [3]):
        with pytest.raises(OperatorError, match=r"checkpoint= is None|a budget is 1 byte or more, as a number of B"):
            slope(way)
    with pytest.raises(OperatorError, match=r'"budget:15B" is less than what one carry takes, 16 bytes'):
        slope("budget:15B")
    slope("budget:16B")
    np.testing.assert_array_equal(slope(np.int64(3)).numpy(), slope(3).numpy())
    for unroll in (2, True):
        with pytest.raises(OperatorError, match=r"checkpoint='sqrt' or unroll=.*, not both"):
            slope("sqrt", unroll=unroll)
    with pytest.raises(OperatorError, match='checkpoint="full" wants to know how many times'):
        stack.while_loop(lambda c: c < 3, lambda c: (None, c + 1), 0.0, checkpoint="full")
    body, one = stack.body(lambda x: x * 2, nnc.Aval((), "float64"))[0], stack.asarray(1.0)
    for way in ("much", "0", "rows:", "rows:-1", "rows:budget:3", "budget:rows:3", "rows:²", "budget:" + 5000 * "9"):
        with pytest.raises(OperatorError, match='checkpoint of a loop is "", "sqrt"'):
            stack.ops.loop(one, body=body, carries=1, length=2, checkpoint=way)
    for way in ("rows:0", "rows:12", "budget:12", "12", ""):
        stack.ops.loop(one, body=body, carries=1, length=2, checkpoint=way)


def test_a_budget_wants_extents() -> None:
    x = LAZY.input("x", ("n",), "float64")
    with pytest.raises(OperatorError, match="wants extents that are known"):
        LAZY.grad(lambda x: LAZY.fori(0, 9, lambda _, c: c * x, x, checkpoint="budget:1kB").sum())(x)
