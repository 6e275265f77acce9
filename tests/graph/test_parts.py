"""Slices of slices and of what is put together, sums of parts: fewer operators, same elements (`graph/rules/parts`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc

LAZY, EAGER = nnc.lazy(), nnc.eager()


def ran(f: Any, *shapes: tuple[int, ...]) -> list[str]:
    """Operators of the optimised graph, once its values are those of the eager stack."""
    given_ = [np.random.default_rng(i).normal(size=s) for i, s in enumerate(shapes)]
    programs = []
    for stack in (LAZY, EAGER):
        inputs = [stack.input(f"x{i}", s, "float64") for i, s in enumerate(shapes)]
        programs.append(stack.compile(inputs, f(stack.ops, *inputs)))
    np.testing.assert_array_equal(*(p(*given_) for p in programs))
    programs[0].plan.verify()
    return [n.op.name for n in programs[0].graph.nodes if n.args]


def test_slices_of_slices_are_one_of_the_root() -> None:
    assert ran(lambda o, x: x[2:][::2][::-1][1:3], (20,)) == ["slice"]


@pytest.mark.parametrize(
    ("f", "left"),
    [
        (lambda o, x: o.concat(o.sin(x), x, axis=0)[:4], ["sin"]),
        (lambda o, x: o.concat(o.sin(x), x, axis=0)[5:7], ["slice"]),
        (lambda o, x: o.concat(x, o.concat(x, o.sin(x), axis=1), axis=1)[:, 7:9], ["sin", "slice"]),
        (lambda o, x: o.pad(o.sin(x), widths=((1, 1), (2, 0)), value=0)[1:5, 2:], ["sin"]),
        (lambda o, x: o.concat(o.sin(x), x, axis=0)[3:5], ["sin", "concat", "slice"]),
        (lambda o, x: o.stack(x, o.sin(x), axis=1)[:, 1:], ["sin", "expand_dims"]),
        (
            lambda o, x: o.assemble(
                o.sin(x), o.cos(x), shape=(8, 3), offsets=((0, 0), (7, 0)), strides=((2, 1), (-2, 1))
            )[1::2],
            ["cos", "slice"],
        ),
    ],
)
def test_a_slice_of_one_part_is_a_slice_of_that(f: Any, left: list[str]) -> None:
    assert sorted(ran(f, (4, 3))) == sorted(left)


@given(data=st.data())
def test_any_slice_of_any_join(data: Any) -> None:
    def f(o: Any, x: Any, y: Any) -> Any:
        joined = [
            o.concat(x, y, axis=0),
            o.stack(x, y, axis=1),
            o.pad(x, widths=((1, 0), (2, 1)), value=3),
            o.assemble(x, y, shape=(6, 5), offsets=((0, 4), (3, 0)), strides=((1, -1), (1, 2)), fill=7),
        ][which]
        return joined[tuple(slice(*k) for k in key[: len(joined.shape)])]

    which = data.draw(st.integers(0, 3))
    bound = st.one_of(st.none(), st.integers(-6, 6))
    key = [(data.draw(bound), data.draw(bound), data.draw(st.sampled_from([1, 2, -1]))) for _ in range(3)]
    ran(f, (3, 3), (3, 3))


def added(o: Any, *placed: Any) -> Any:
    total = None
    for x, offset, step in placed:
        term = o.assemble(x, shape=(9,), offsets=((offset,),), strides=((step,),))
        total = term if total is None else total + term
    return total


def test_parts_that_are_apart_are_put_together_at_once() -> None:
    assert ran(lambda o, x, y, z: added(o, (x, 0, 1), (y, 4, 2), (z, 7, -2)), (4,), (3,), (2,)) == ["assemble"]


def test_parts_that_overlap_are_added() -> None:
    found = ran(lambda o, x, y, z: added(o, (x, 0, 1), (y, 1, 1), (z, 4, 1)), (4,), (3,), (2,))
    assert sorted(found) == ["add", "assemble", "assemble"]


def test_scalars_put_in_one_place_are_added() -> None:
    found = ran(lambda o, x, y: o.assemble(x, shape=(), offsets=((),)) + o.assemble(y, shape=(), offsets=((),)), (), ())
    assert found.count("add") == 1


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 2])), min_size=2, max_size=6))
@example([(0, 1), (1, 1), (3, 1), (0, 2), (6, 1), (3, 2)])
def test_any_sum_of_parts_is_the_same_to_the_bit(places: list[tuple[int, int]]) -> None:
    """In eager order: no element's addends are taken in another order."""
    ran(
        lambda o, *xs: added(o, *((x, at, step) for x, (at, step) in zip(xs, places, strict=True))),
        *[(2,)] * len(places),
    )


def test_a_thousand_slices_are_one_gradient() -> None:
    o = LAZY.ops

    def f(x: Any) -> Any:
        total: Any = 0.0
        for i in range(300):
            total = total + o.sum(o.sin(x[i]))
        return total

    x = LAZY.input("x", (300, 4), "float64")
    program = LAZY.compile([x], LAZY.grad(f)(x))
    assert [n.op.name for n in program.graph.nodes].count("add") == 0
    given_ = np.random.default_rng(0).normal(size=(300, 4))
    np.testing.assert_allclose(program(given_), np.cos(given_))
