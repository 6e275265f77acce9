"""Functions are traced once for a signature, compiled, and right under transformations (`engine/jit`)."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.jit import KEPT, NOTICE, RetraceWarning
from nnc_func.errors import OperatorError, PlanError, TracingError
from nnc_func.tree import flatten

both = pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])


class Pair(NamedTuple):
    """A tree."""

    left: Any
    right: Any


@both
def test_it_is_traced_once_for_a_signature(make: Any) -> None:
    stack = make()
    calls = []

    def f(x: Any) -> Any:
        calls.append(x.shape)
        return x * 2 + 1

    fast = stack.jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(fast(np.arange(3.0)).numpy(), [1, 3, 5])
    fast(np.arange(4.0))
    fast(np.arange(3, dtype="float32"))
    fast(stack.asarray(np.arange(3.0)))
    assert (calls, fast.traces) == ([(3,), (4,), (3,)], 3)


@both
def test_trees_go_in_and_out(make: Any) -> None:
    stack = make()

    @stack.jit
    def f(tree: Any, *, scale: Any) -> Any:
        return {"b": Pair(tree["x"] * scale, tree["y"][0]), "a": [tree["y"][1], None]}

    found = f({"x": np.ones(2), "y": (np.zeros(3), np.ones(1))}, scale=np.float64(3))
    assert list(found) == ["b", "a"]  # as they were returned
    np.testing.assert_array_equal(found["b"].left.numpy(), 3.0)
    np.testing.assert_array_equal(found["b"].right.numpy(), np.zeros(3))
    np.testing.assert_array_equal(found["a"][0].numpy(), 1.0)
    assert found["a"][1] is None


@both
def test_static_arguments_decide(make: Any) -> None:
    stack = make()

    def f(x: Any, mode: str, times: int = 1) -> Any:
        for _ in range(times):
            x = -x if mode == "minus" else x + 1
        return x

    fast = stack.jit(f, static=("mode", 2))
    np.testing.assert_array_equal(fast(np.ones(2), "minus").numpy(), -1.0)
    np.testing.assert_array_equal(fast(np.ones(2), "plus", 3).numpy(), 4.0)
    np.testing.assert_array_equal(fast(np.ones(2), mode="plus", times=5).numpy(), 6.0)
    with pytest.raises(OperatorError, match="static arguments of f must be hashable"):
        fast(np.ones(2), ["plus"])


@both
def test_numbers_are_part_of_the_signature_and_their_kinds_and_signs_differ(make: Any) -> None:
    stack = make()
    fast = stack.jit(lambda x, a: x * a)
    for a in (1, 1.0, True, -0.0, 0.0, 0):
        x = np.ones(2, "int64")
        if a is True:
            continue
        found, wanted = fast(x, a).numpy(), x * a
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    nan = stack.jit(lambda x, a: x + a)
    assert np.isnan(nan(np.ones(2), float("nan")).numpy()).all()


@both
def test_signatures_that_are_remembered_are_bounded(make: Any) -> None:
    stack = make()
    fast = stack.jit(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for n in range(1, KEPT + 20):
            np.testing.assert_array_equal(fast(np.zeros(n)).numpy(), np.ones(n))
    assert len(fast.programs) == KEPT


@both
def test_retracing_again_and_again_is_told_once(make: Any) -> None:
    stack = make()
    fast = stack.jit(lambda x, rate: x * rate)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for i in range(NOTICE + 10):
            fast(np.ones(2), 0.1 * i)
    told = [w for w in seen if issubclass(w.category, RetraceWarning)]
    assert len(told) == 1
    assert "pass Python numbers that change as arrays" in str(told[0].message)
    assert told[0].filename == __file__


@both
def test_it_is_differentiated_and_may_differentiate(make: Any) -> None:
    stack = make()
    x = np.linspace(0.1, 1, 5)
    cube = stack.jit(lambda x: stack.ops.sum(x * x * x))
    np.testing.assert_allclose(stack.grad(cube)(x).numpy(), 3 * x**2, rtol=1e-12)
    np.testing.assert_allclose(stack.jit(stack.grad(cube))(x).numpy(), 3 * x**2, rtol=1e-12)
    np.testing.assert_allclose(stack.jit(stack.hessian(cube))(x).numpy(), np.diag(6 * x), rtol=1e-12)
    nested = stack.jit(lambda x: stack.jit(lambda y: y * 2)(x) + 1)
    np.testing.assert_array_equal(nested(x).numpy(), x * 2 + 1)
    assert len(cube.programs) == 0  # under a transformation it is simply called


@both
@pytest.mark.parametrize("f", [
    lambda x: x if x.sum() > 0 else -x, lambda x: x * float(x.sum()), lambda x: x[int(x.sum())],
    lambda x: np.asarray(x), lambda x: [x for _ in range(x.sum())],
])  # fmt: skip
def test_python_that_needs_elements_is_refused_with_what_helps(make: Any, f: Any) -> None:
    stack = make()
    with pytest.raises(TracingError, match=r"while jit traced .*ops.where.*static"):
        stack.jit(f)(np.ones(2))


@both
def test_a_failed_trace_leaves_nothing_behind(make: Any) -> None:
    stack = make()
    flag = [True]

    def f(x: Any) -> Any:
        if flag[0]:
            raise KeyError("mine")
        return x + 1

    fast = stack.jit(f)
    with pytest.raises(KeyError, match="mine"):
        fast(np.ones(2))
    assert not fast.programs
    flag[0] = False
    np.testing.assert_array_equal(fast(np.ones(2)).numpy(), 2.0)


@both
def test_results_do_not_change_with_later_calls_or_with_arguments(make: Any) -> None:
    stack = make()
    fast = stack.jit(lambda x: (x, x * 2))
    given = np.ones(300)
    same, double = fast(given)
    given[:] = 5
    fast(given)
    np.testing.assert_array_equal(same.numpy(), 1.0)
    np.testing.assert_array_equal(double.numpy(), 2.0)


@both
def test_variables_are_read_when_it_is_called(make: Any) -> None:
    stack = make()
    w = stack.variable("w", np.ones(2))
    fast = stack.jit(lambda x: x * w)
    np.testing.assert_array_equal(fast(np.full(2, 3.0)).numpy(), 3.0)
    w.value.assign(np.full(2, 2.0))
    np.testing.assert_array_equal(fast(np.full(2, 3.0)).numpy(), 6.0)


# --- giving arguments up, and tuning ------------------------------------------------------------------------


def squashed(x: Any, y: Any) -> Any:
    return (x * 2 + y).sum()


@both
@pytest.mark.parametrize("donate", ["x", 0, ["x"]])
def test_an_array_that_is_donated_may_be_written_over(make: Any, donate: Any) -> None:
    stack = make()
    o = stack.ops
    fast = stack.jit(lambda x, y: o.sum(o.tanh(o.exp(o.sin(x)))) + y, donate=donate)
    x, y = np.linspace(0, 1, 1 << 12), np.ones(())
    before, wanted = x.copy(), np.tanh(np.exp(np.sin(x))).sum() + 1
    np.testing.assert_allclose(fast(x, y).numpy(), wanted)
    assert (x != before).any() == (make is nnc.lazy)
    np.testing.assert_allclose(fast(before.copy(), y).numpy(), wanted)
    assert fast.traces == 1


def test_what_a_tensor_holds_is_not_written_over() -> None:
    lazy = nnc.lazy()
    o = lazy.ops
    fast = lazy.jit(lambda tree, *, by: o.sum(o.exp(o.sin(tree["x"]))) * by["s"], donate=["tree", "by"])
    x = lazy.asarray(np.linspace(0, 1, 1 << 12))
    wanted = fast({"x": x}, by={"s": lazy.asarray(2.0)}).numpy()
    np.testing.assert_array_equal(x.numpy(), np.linspace(0, 1, 1 << 12))
    np.testing.assert_array_equal(fast({"x": x}, by={"s": np.float64(2)}).numpy(), wanted)
    assert fast.program({"x": x}, by={"s": np.float64(2)}).plan.arena_bytes < x.numpy().nbytes


def test_an_argument_is_static_or_donated() -> None:
    with pytest.raises(OperatorError, match="static arguments are no arrays to donate, given both"):
        nnc.lazy().jit(squashed, static="x", donate=0)


def test_without_a_plan_there_is_nothing_to_tune() -> None:
    with pytest.raises(PlanError, match="is not tuned itself: tune what a lazy stack compiles"):
        nnc.eager().jit(squashed).autotune(np.ones(2), np.ones(2))
    lazy = nnc.lazy()
    with pytest.raises(TracingError, match="squashed has no program for these arguments"):
        lazy.jit(squashed).autotune(lazy.input("x", (2,)), np.ones(2))


# --- NumPy's scalars, copies, and deep trees ---------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", ["float64", "float32", "complex128", "int64", "bool", "uint8"])
def test_numpys_scalars_are_arrays(make: Any, kind: str) -> None:
    stack = make()
    fast = stack.jit(lambda x, rate: (x * rate, rate))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RetraceWarning)
        for i in range(10):
            rate = np.dtype(kind).type(i)
            scaled, found = fast(np.ones(2), rate)
            assert type(found) is nnc.Tensor
            assert (found.shape, found.dtype) == ((), np.dtype(kind))
            np.testing.assert_array_equal(found.numpy(), rate)
            np.testing.assert_array_equal(scaled.numpy(), np.ones(2) * rate)
    assert fast.traces == 1
    fast(np.ones(2), np.asarray(rate))
    assert fast.traces == 1


@both
def test_pythons_numbers_are_part_of_the_signature(make: Any) -> None:
    fast = make().jit(lambda x, n: x * n)
    for n in (1, 1.0, True, 2):
        np.testing.assert_array_equal(fast(np.ones(2), n).numpy(), float(n))
    assert fast.traces == 4


@both
def test_results_that_are_arrays_are_tensors(make: Any) -> None:
    stack = make()
    made = np.arange(3.0)
    fast = stack.jit(lambda x: [made, np.float64(2.0), x + 1, stack.asarray(made)])
    for _ in range(2):
        found = fast(np.ones(2))
        assert all(type(f) is nnc.Tensor for f in found)
        for tensor, wanted in zip(found, [[0, 1, 2], 2, [2, 2], [0, 1, 2]], strict=True):
            np.testing.assert_array_equal(tensor.numpy(), wanted)
    assert fast.traces == 1
    made[0] = 7
    np.testing.assert_array_equal(fast(np.ones(2))[0].numpy(), [0, 1, 2])


EAGER = nnc.eager()


@EAGER.jit
def doubled(x: Any) -> Any:
    return x * 2


@both
def test_a_copy_of_a_jitted_function_is_itself(make: Any) -> None:
    fast = make().jit(lambda x: x * 2)
    fast(np.ones(2))
    holder = copy.deepcopy({"call": fast, "list": [fast]})
    assert holder["call"] is holder["list"][0] is copy.copy(fast) is fast
    assert pickle.loads(pickle.dumps(doubled)) is doubled


@both
def test_trees_may_be_as_deep_as_one_likes(make: Any) -> None:
    stack = make()

    def nested(x: Any, depth: int) -> Any:
        for i in range(depth):
            x = [x] if i % 3 else {"a": x, "b": (None,)}
        return x

    deep = stack.jit(lambda tree: tree)
    given = nested(np.ones(2), 5000)
    for _ in range(2):
        leaves, structure = flatten(deep(given))
        np.testing.assert_array_equal(leaves[0].numpy(), 1.0)
    assert deep.traces == 1
    assert structure == flatten(given)[1]
    assert structure != flatten(nested(np.ones(2), 4999))[1]
    x = stack.input("x", (2,), "float64")
    program = stack.compile([x], nested(x * 2, 5000))
    np.testing.assert_array_equal(flatten(program(np.ones(2)))[0][0], 2.0)
    assert repr(structure).count("[") == 3333
    assert str(program.source).count("[") >= 3000


@both
def test_a_tree_that_contains_itself_is_refused(make: Any) -> None:
    ring: list[Any] = [1.0]
    ring.append(ring)
    with pytest.raises(OperatorError, match="list contains itself"):
        make().jit(lambda tree: tree)(ring)
    shared = [np.ones(2)]
    assert len(flatten([shared, shared])[0]) == 2


@both
def test_dicts_of_another_order_are_another_signature(make: Any) -> None:
    """A function may go through a dict in its order, and through arguments by name."""
    stack = make()
    one, two = np.float32(1), np.float32(2)
    first, last = {"a": one, "b": two}, {"b": two, "a": one}
    for f in (lambda d: next(iter(d.values())), lambda d: [v * 2 for v in d.values()], lambda d: d):
        jitted = stack.jit(f)
        for given in (first, last, first):
            found, wanted = jitted(given), f({name: stack.asarray(v) for name, v in given.items()})
            assert str(found) == str(wanted)
        assert jitted.traces == 2
    named = stack.jit(lambda **words: next(iter(words.values())))
    assert (named(**first).item(), named(**last).item()) == (1, 2)
