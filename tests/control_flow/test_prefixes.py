"""Prefixes by functions that associate are the fold's (`control_flow/prefixes`, `control_flow/slices`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError, ShapeError
from tests.control_flow.files import same_from_a_file

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
EXTENTS = [0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 33]
draw = np.random.default_rng(0)


def close(found: Any, wanted: Any, rtol: float = 1e-12, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.numpy() if hasattr(found, "numpy") else found, wanted, rtol=rtol, atol=atol)


def affine(p: Any, q: Any) -> Any:
    """First p, then q: maps x ↦ a @ x + b."""
    return {"a": q["a"] @ p["a"], "b": q["a"] @ p["b"] + q["b"]}


def maps(n: int) -> Any:
    return {"a": draw.normal(size=(n, 3, 3)) / 2, "b": draw.normal(size=(n, 3))}


def folded(elems: Any, reverse: bool = False) -> Any:
    """By a plain loop: all prefixes."""
    count = len(elems["a"])
    found: list[Any] = []
    for i in reversed(range(count)) if reverse else range(count):
        each = {"a": elems["a"][i], "b": elems["b"][i]}
        found.append(affine(found[-1], each) if found else each)
    if reverse:
        found.reverse()
    return {k: np.stack([each[k] for each in found]) if found else elems[k] for k in elems}


@every
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", EXTENTS)
def test_functions_that_do_not_commute(stack: Any, n: int, reverse: bool) -> None:
    elems = maps(n)
    found, wanted = stack.associative_scan(affine, elems, reverse=reverse), folded(elems, reverse)
    assert {*found} == {"a", "b"}
    for k in found:
        assert found[k].shape == elems[k].shape
        close(found[k], wanted[k])


@every
@pytest.mark.parametrize("reverse", [False, True])
def test_it_is_what_scan_stacks(stack: Any, reverse: bool) -> None:
    x = draw.normal(size=(9, 2, 2))
    _, rows = stack.scan(lambda c, m: (c @ m, c @ m), np.eye(2), x, reverse=reverse)
    close(stack.associative_scan(lambda a, b: a @ b, x, reverse=reverse), rows.numpy(), atol=1e-10)


@every
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_along_any_axis_with_elements_without_it(stack: Any, axis: int) -> None:
    x = draw.normal(size=(3, 4, 5))
    shapes = []

    def total(a: Any, b: Any) -> Any:
        shapes.append(a.shape)
        return a + b

    close(stack.associative_scan(total, x, axis=axis), np.cumsum(x, axis=axis))
    close(stack.associative_scan(total, x, axis=axis, reverse=True), np.flip(np.flip(x, axis).cumsum(axis), axis))
    wanted = tuple(np.delete([3, 4, 5], axis))
    assert {*shapes} == {wanted}
    assert len(shapes) <= 2  # traced once a call


@every
def test_what_a_function_captures_and_branches_and_loops_in_it(stack: Any) -> None:
    x = draw.normal(size=11)
    weight = stack.asarray(0.5)

    def f(a: Any, b: Any) -> Any:  # of a and b, whichever is larger after a few steps
        one = stack.fori(0, 3, lambda i, v: v * weight, a)
        other = stack.fori(0, 3, lambda i, v: v * weight, b)
        return stack.cond(one > other, lambda: a, lambda: b)

    close(stack.associative_scan(f, x), np.maximum.accumulate(x))


@every
@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_the_fold(stack: Any, n: int, reverse: bool) -> None:
    elems, scale = maps(n), 0.7
    weights = draw.normal(size=(n, 3))

    def loss(elems: Any, scale: Any) -> Any:
        found = stack.associative_scan(
            lambda p, q: {"a": q["a"] @ p["a"], "b": scale * (q["a"] @ p["b"]) + q["b"]}, elems, reverse=reverse
        )
        return (found["b"] * found["b"] * weights).sum()

    def plain(elems: Any, scale: Any) -> Any:
        def step(c: Any, e: Any) -> Any:
            c = {"a": e["a"] @ c["a"], "b": scale * (e["a"] @ c["b"]) + e["b"]}
            return c, c["b"]

        a, b = elems["a"], elems["b"]
        k = n - 1 if reverse else 0
        first, rest = {"a": a[k], "b": b[k]}, {"a": a[:-1] if reverse else a[1:], "b": b[:-1] if reverse else b[1:]}
        _, rows = stack.scan(step, first, rest, reverse=reverse)
        own = stack.ops.expand_dims(first["b"], axis=0)
        rows = stack.ops.concat(rows, own, axis=0) if reverse else stack.ops.concat(own, rows, axis=0)
        return (rows * rows * weights).sum()

    # with scale the maps associate no more, so that both orders agree only where it is one: value and slope of elems
    found, wanted = (stack.grad(f)(elems, 1.0) for f in (loss, plain))
    for k in found:
        close(found[k], wanted[k].numpy(), 1e-9)
    moved = stack.jvp(lambda e: loss(e, 1.0), (elems,), ({k: np.ones_like(v) for k, v in elems.items()},))[1]
    close(moved, sum(g.numpy().sum() for g in found.values()), 1e-9)
    assert np.isfinite(stack.grad(loss, argnums=1)(elems, scale).numpy())


def test_gradients_of_what_is_captured() -> None:
    x = draw.uniform(0.5, 1.5, 7)
    for stack in (EAGER, LAZY):  # a ∘ b = a + b + w·a·b associates for every w
        f = lambda w, stack=stack: stack.associative_scan(lambda a, b: a + b + w * a * b, x).sum()  # noqa: E731
        plain = lambda w: sum((np.cumprod(1 + w * x) - 1) / w)  # noqa: E731
        close(f(stack.asarray(0.3)), plain(0.3))
        close(stack.grad(f)(0.3), (plain(0.3 + 1e-6) - plain(0.3 - 1e-6)) / 2e-6, 1e-7)


@every
def test_rows_of_a_vmap(stack: Any) -> None:
    x = draw.normal(size=(4, 6, 2, 2))
    found = stack.vmap(lambda m: stack.associative_scan(lambda a, b: b @ a, m))(stack.asarray(x))
    for row, each in zip(found.numpy(), x, strict=True):
        wanted = [each[0]]
        for m in each[1:]:
            wanted.append(m @ wanted[-1])
        close(row, np.stack(wanted))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_symbolic_extent(reverse: bool) -> None:
    a, b = LAZY.input("a", ("n", 3, 3), "float64"), LAZY.input("b", ("n", 3), "float64")
    found = LAZY.associative_scan(affine, {"a": a, "b": b}, reverse=reverse)
    slope = LAZY.grad(lambda b: LAZY.associative_scan(affine, {"a": a, "b": b}, reverse=reverse)["b"].sum())(b)
    program = LAZY.compile([a, b], [found["a"], found["b"], slope])
    for n in (0, 1, 2, 7):
        elems = maps(n)
        wanted = folded(elems, reverse)
        known = LAZY.grad(
            lambda b, a=elems["a"]: LAZY.associative_scan(affine, {"a": a, "b": b}, reverse=reverse)["b"].sum()
        )
        values = program(elems["a"], elems["b"])
        close(values[0], wanted["a"])
        close(values[1], wanted["b"])
        close(values[2], known(elems["b"]).numpy(), 1e-9)


def test_no_nan_comes_from_before_the_first_element() -> None:
    x = LAZY.input("x", ("n",), "float64")
    harmonic = lambda x: LAZY.associative_scan(lambda a, b: 1 / (1 / a + 1 / b), x)  # noqa: E731
    program = LAZY.compile([x], [harmonic(x), LAZY.grad(lambda x: harmonic(x).sum())(x)])
    value, slope = program(np.array([1.0, 2.0, 4.0]))
    close(value, [1, 2 / 3, 4 / 7])
    assert np.isfinite(slope).all()


def test_from_a_file(tmp_path: Any) -> None:
    for shape in ((13, 2, 2), ("n", 2, 2)):
        x = LAZY.input("x", shape, "float64")
        y = LAZY.associative_scan(lambda a, b: b @ a, x)
        slope = LAZY.grad(lambda x: LAZY.associative_scan(lambda a, b: b @ a, x).sum())(x)
        given = draw.normal(size=(13, 2, 2)) / 2
        found, _ = same_from_a_file(LAZY, [x], [y, slope], [given], tmp_path)
        wanted = [given[0]]
        for m in given[1:]:
            wanted.append(m @ wanted[-1])
        close(found, np.stack(wanted))


def test_the_number_of_turns_grows_as_the_logarithm() -> None:
    counts = []
    for n in (64, 128, 256):
        x = LAZY.input("x", (n, 2, 2), "float64")
        y = LAZY.associative_scan(lambda a, b: a @ b, x)
        graph = LAZY.graph.close([x.value], [y.value])
        counts.append(sum(node.op.name == "matmul" for node in graph.nodes))
    assert counts == [11, 13, 15]  # twice log₂ n, less one


@every
def test_what_does_not_associate_elements_is_refused_in_words(stack: Any) -> None:
    x = np.ones((4, 3))
    for fn, error, said in (
        (lambda a, b: (a, b), OperatorError, "element keeps its structure"),
        (lambda a, b: a[:1], OperatorError, r"element is \(3,\), and \(1,\) after"),
        (lambda a, b: a > b, OperatorError, "element is float64, and bool after"),
        (None, OperatorError, "associative_scan"),
    ):
        with pytest.raises(error, match=said):
            stack.associative_scan(fn, x)
    with pytest.raises(ShapeError, match="one extent along axis 0, given elems at 0: 4, elems at 1: 3"):
        stack.associative_scan(lambda a, b: a, (x, x[:3]))
    with pytest.raises(ShapeError, match="has none"):
        stack.associative_scan(lambda a, b: a, 1.0)
