"""Calls of jitted functions that are written out: signatures, and trees in and out (`engine/unrolled_jit`)."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from dataclasses import field as its_field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.jit import KEPT, QUICK, RetraceWarning
from nnc_func.errors import OperatorError
from nnc_func.tree import builder, flatten
from tests.engine.test_unrolled_calls import LAZY, OPS, X, at_once, warm

# --- signatures --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A tree."""

    left: Any
    right: Any


class Other(NamedTuple):
    """Another tree, of the same fields."""

    left: Any
    right: Any


@frozen
class Model:
    """A tree with a part that is none."""

    weight: Any
    mode: Any = field(default="plus", metadata={"static": True})

    is_tree: ClassVar[bool] = True


@dataclass
class Plain:
    """A tree that is a dataclass."""

    weight: Any
    mode: Any = its_field(default="plus", metadata={"static": True})

    is_tree: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Narrow:
    """One without a dictionary."""

    weight: Any
    mode: Any = its_field(default="plus", metadata={"static": True})

    is_tree: ClassVar[bool] = True


@pytest.mark.parametrize("first", [True, False])
def test_arguments_that_differ_in_whatever_are_of_other_signatures(first: bool) -> None:
    """Each is called after calls of the others are written out; what was traced is what a fresh function traces."""

    def described(*args: Any, **words: Any) -> Any:
        leaves, structure = flatten((args, words))
        seen.append(repr([leaf.aval if isinstance(leaf, nnc.Tensor) else (type(leaf), leaf) for leaf in leaves]))
        seen[-1] += repr(structure) + repr([*words])
        return [leaf for leaf in leaves if isinstance(leaf, nnc.Tensor)]

    seen: list[str] = []
    a, b = np.ones(2), np.ones(3)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((a,), {}), ((b,), {}), ((a, b), {}), ((a.astype("float32"),), {}), (([a],), {}), (((a,),), {}),
        (((a, None),), {}), ((Pair(a, b),), {}), ((Other(a, b),), {}), (((a, b),), {}), (([a, b],), {}), ((a, 1), {}),
        ((a, True), {}), ((a, 1.0), {}), ((a, 0.0), {}), ((a, -0.0), {}), ((a, "1"), {}), ((a, 1 + 0j), {}),
        ((a, len), {}), ((a, abs), {}), (({"x": a, "y": b},), {}), (({"y": b, "x": a},), {}), (({"x": a},), {}),
        (({1: a},), {}), ((), {"x": a, "y": b}), ((), {"y": b, "x": a}), ((Model(a),), {}),
        ((Model(a, "minus"),), {}), ((Model(a, 1),), {}), ((Model(a, True),), {}), ((), {}), (([],), {}), (((),), {}),
        ((Plain(a),), {}), ((Plain(a, 1),), {}), ((Plain(a, True),), {}), ((Plain((a,)),), {}), ((Narrow(a),), {}),
        ((Narrow(a, -0.0),), {}), ((Narrow(a, 0.0),), {}), ((Hollow(),), {}),
        (({},), {}), ((None,), {}), ((Empty(),), {}), ((a.reshape(2, 1),), {}), ((np.float64(2),), {}),
    ]  # fmt: skip
    order = calls if first else calls[::-1]
    fast, traced = LAZY.jit(described), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for args, words in order:
            seen.clear()
            fast(*args, **words)
            traced += seen
            seen.clear()
            LAZY.jit(described)(*args, **words)
            assert traced[-1:] == seen
        assert fast.traces == len(calls)
        for args, words in [each for each in order for _ in range(3)]:
            leaves = [leaf for leaf in flatten((args, words))[0] if isinstance(leaf, (np.ndarray, np.generic))]
            for tensor, leaf in zip(fast(*args, **words), leaves, strict=True):
                np.testing.assert_array_equal(tensor.numpy(), leaf)
        assert fast.traces == len(calls)


def test_arrays_tensors_and_numpys_scalars_are_of_one_signature() -> None:
    fast = LAZY.jit(lambda x, rate: x * rate)
    other = nnc.eager()
    kinds: list[Any] = [
        lambda v: v, LAZY.asarray, lambda v: LAZY.asarray(v) + 0, nnc.lazy().asarray, lambda v: LAZY.variable("v", v),
        lambda v: OPS.split(LAZY.asarray([v, v]), sections=2, axis=0)[0][0], other.asarray,
        lambda v: other.asarray(v) + 0,
    ]  # fmt: skip
    for n in range(1, 4):
        x, rate = np.full(3, float(n)), np.float64(n)
        for kind in kinds:
            for r in (rate, np.asarray(rate), LAZY.asarray(rate)):
                np.testing.assert_array_equal(fast(kind(x), r).numpy(), x * n)
    assert fast.traces == 1


def test_static_arguments_are_compared_at_each_call() -> None:
    class Loose:
        """Equal to all of its kind, hashed alike."""

        def __init__(self, n: int) -> None:
            self.n = n

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose)

    fast = LAZY.jit(
        lambda x, how, *, by=1: x * (how if isinstance(how, (int, float)) else 7) * by, static=("how", "by")
    )
    x = np.ones(2)
    fast._noticed = True
    for _ in range(3):
        for how, by in ((1, 1), (2, 1), (True, 1), (2.0, 1), (-0.0, 1), (0.0, 1), ((1, 2), 1), ((1, 2.0), 1), (1, 3)):
            found = fast(x, how, by=by).numpy()
            wanted = (how if not isinstance(how, tuple) else 7) * by
            np.testing.assert_array_equal(found, np.full(2, wanted, float))
            np.testing.assert_array_equal(np.signbit(found), np.signbit(np.full(2, wanted, float)))
    assert fast.traces == 9
    fast(x, Loose(1))
    traces = fast.traces
    fast(x, Loose(2))
    assert fast.traces == traces
    with pytest.raises(OperatorError, match="must be hashable"):
        fast(x, [1])


def test_under_a_transformation_and_while_another_function_is_traced_it_is_called() -> None:
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(x)
        return OPS.sum(x * x)

    fast = LAZY.jit(f)
    for _ in range(3):
        fast(X)
    assert len(calls) == 1
    np.testing.assert_allclose(LAZY.grad(fast)(X).numpy(), 2 * X, rtol=1e-6)
    LAZY.jit(lambda x: fast(x) + fast(X))(X)
    assert len(calls) == 4
    np.testing.assert_allclose(LAZY.vmap(fast)(np.stack([X, X])).numpy(), [(X * X).sum()] * 2, rtol=1e-6)
    assert fast(LAZY.input("x", (4,), "float32")).shape == ()


def test_signatures_that_are_called_are_kept_whichever_way_they_are_found() -> None:
    fast = LAZY.jit(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for n in range(1, 2 * KEPT):
            warm(fast, np.zeros(n))
            np.testing.assert_array_equal(fast(np.zeros(1)).numpy(), [1.0])
        assert fast.traces == 2 * KEPT - 1
        assert len(fast.programs) == KEPT
        assert len(fast._quick) == QUICK
        assert {known.key for known in fast._quick} <= set(fast.programs)
        for n in range(2 * KEPT - 3 * QUICK, 2 * KEPT):
            fast(np.zeros(n))
        assert fast.traces == 2 * KEPT - 1


def test_results_are_tensors_like_any_others() -> None:
    fast = LAZY.jit(lambda x: {"a": x + 1, "b": [x * 2, None]})
    for _ in range(3):
        found = fast(X)
    line = sys._getframe().f_lineno - 1
    a, b = found["a"], found["b"][0]
    assert found["b"][1] is None
    assert type(a) is nnc.Tensor
    assert a.stack is LAZY
    assert a.aval == LAZY.device.aval(X)
    assert a.value is not fast(X)["a"].value
    assert [each[1] for each in nnc.graph.origin.lines(a.value.origin)][:1] == [line]
    later = a + b
    fast(-X)
    np.testing.assert_array_equal(later.numpy(), (X + 1) + X * 2)
    np.testing.assert_array_equal(a.numpy(), X + 1)
    np.testing.assert_array_equal(fast(a)["a"].numpy(), X + 1 + 1)


def test_signatures_that_are_called_and_forgotten_at_once() -> None:
    """Which call is tried first is changed by all threads, while others make room for more signatures."""
    fast, before = LAZY.jit(lambda x: x + 1), sys.getswitchinterval()
    fast._noticed = True
    errors: list[BaseException] = []

    def act(start: int) -> None:
        try:
            for i in range(60):
                for n in (start + i) % 70, i % 3, start:
                    np.testing.assert_array_equal(fast(np.zeros(n + 1)).numpy(), np.ones(n + 1))
        except BaseException as error:
            errors.append(error)

    sys.setswitchinterval(1e-6)
    try:
        at_once(act, range(0, 80, 20))
    finally:
        sys.setswitchinterval(before)
    assert not errors
    assert len(fast.programs) <= KEPT


def test_tuned_programs_take_the_place_of_those_whose_calls_were_written_out() -> None:
    fast = LAZY.jit(lambda x: x @ x.T)
    x = np.ones((8, 4), "float32")
    for _ in range(3):
        fast(x)
    tuning = fast.autotune(x, budget=0.05)
    for _ in range(3):
        np.testing.assert_array_equal(fast(x).numpy(), x @ x.T)
    assert all(known.program is tuning.program for known in fast._quick)


# --- trees -------------------------------------------------------------------------------------------------


@frozen
class Empty:
    """A tree of no parts."""

    is_tree: ClassVar[bool] = True


@dataclass
class Hollow:
    """One that is a dataclass."""

    is_tree: ClassVar[bool] = True


TREES = st.recursive(
    st.just(0),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
        inner.map(Model),
        inner.map(Plain),
        inner.map(Narrow),
        st.none(),
        st.just(Empty()),
        st.just(Hollow()),
    ),
    max_leaves=8,
)


@given(TREES)
def test_what_builds_a_tree_is_as_build(tree: Any) -> None:
    leaves, structure = flatten(tree)
    numbers = [*range(len(leaves))]
    made, wanted = builder(structure)(numbers), structure.build(numbers)
    assert (repr(made), type(made)) == (repr(wanted), type(wanted))


@given(TREES, TREES)
def test_trees_go_in_and_out_of_calls_that_are_written_out(one: Any, other: Any) -> None:
    def filled(tree: Any, start: float) -> Any:
        leaves, structure = flatten(tree)
        return structure.build([np.full(2, start + i) for i in range(len(leaves))])

    fast = LAZY.jit(lambda a, b: (b, {"a": a}))
    for n in range(3):
        a, b = filled(one, n), filled(other, 10 + n)
        leaves, structure = flatten(fast(a, b))
        wanted, its = flatten((b, {"a": a}))
        assert structure == its
        assert structure.orders == its.orders
        for leaf, array in zip(leaves, wanted, strict=True):
            np.testing.assert_array_equal(leaf.numpy(), array)
    assert fast.traces == 1


@pytest.mark.parametrize("stack", [nnc.eager(), LAZY], ids=["eager", "lazy"])
def test_calls_with_trees_of_all_kinds_are_as_python_s(stack: Any) -> None:
    """Four calls and more of each signature, among calls of other dtypes, shapes and static fields."""

    def applied(tree: Any, x: Any) -> Any:
        part, more = tree["part"], tree["more"][0]
        part = part if isinstance(part, (Pair, Other)) else Pair(part.weight, 2.0 if part.mode == "plus" else -1.0)
        return {"out": x * part.left + part.right, "tree": type(tree["part"])(x + 1, more * 2)}

    def unmade(found: Any) -> list[Any]:
        return [getattr(leaf, "numpy", lambda leaf=leaf: leaf)() for leaf in flatten(found["out"])[0]]

    fast = stack.jit(applied)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for n in range(1, 6):
            for dtype, shape in (("float32", (3,)), ("float64", (3,)), ("float32", (2, 1))):
                x = np.full(shape, n, dtype)
                w = x * 2 + 1
                for part in (
                    Pair(w, x), Other(w, x), Model(w), Model(w, "minus"), Plain(w), Plain(w, "minus"), Narrow(w),
                    Narrow(w, "minus"),
                ):  # fmt: skip
                    tree = {"part": part, "more": [x]}
                    found, wanted = fast(tree, x), applied(tree, x)
                    assert type(found["tree"]) is type(part)
                    for a, b in zip(unmade(found), unmade(wanted), strict=True):
                        np.testing.assert_array_equal(a, b, strict=True)
    if stack is LAZY:
        assert fast.traces == 24
