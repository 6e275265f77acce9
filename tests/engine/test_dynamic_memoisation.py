"""Equal computations of equal values are done once, and give what they gave without (`engine/dynamic/memoisation`)."""

from __future__ import annotations

import gc
import itertools
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.dynamic.memoisation import ENTRY, USUAL, Memo
from nnc_func.errors import LayerError, NumericsError, PlanError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import reference
from nnc_func.facets.machine import CORE
from nnc_func.layer import PassThrough, layer
from nnc_func.op import operator
from nnc_func.testing import strategies
from nnc_func.testing.agreement import apply_at_once, follow
from nnc_func.testing.program import Program
from tests.profiles import NIGHTLY, examples

LARGE = np.random.default_rng(0).normal(size=1000)
_machines = itertools.count(1)


def fresh(memoise: Any = True, device: Any = None) -> nnc.Stack:
    """A stack of a recipe of its own: nobody else keeps anything there."""
    return nnc.dynamic(device or nnc.NumPy(machine=evolve(CORE, arithmetic=2e9 + next(_machines))), memoise=memoise)


def found(stack: nnc.Stack, computed: Callable[[], Any]) -> tuple[Any, int, int]:
    """What is computed, and how many hits and misses that takes."""
    before = stack.memoisation
    value = computed()
    after = stack.memoisation
    return value, after.hits - before.hits, after.misses - before.misses


def same(a: Any, b: Any) -> bool:
    """Whether two tensors hold one array."""
    return stack_array(a) is stack_array(b)


def stack_array(tensor: Any) -> Any:
    """The array that a tensor holds."""
    return getattr(tensor.value, "array", tensor.value)


# --- what is found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["constant", "variable", "value of a variable", "paused"])
def test_an_equal_computation_is_found_also_where_the_first_one_was_dropped(kind: str) -> None:
    stack = fresh()
    x = stack.asarray(LARGE) if kind == "constant" else stack.variable("x", LARGE)
    x = +x if kind.startswith("value") else x

    def sorted_() -> Any:
        if kind == "paused":
            with stack.no_grad():
                return stack.ops.sort(x + 1)
        return stack.ops.sort(x + 1)

    first, hits, misses = found(stack, sorted_)
    assert (hits, misses) == (0, 2)
    np.testing.assert_array_equal(first.numpy(), np.sort(LARGE + 1))
    for _ in range(2):
        again, hits, misses = found(stack, sorted_)
        assert (hits, misses) == (2, 0)
        assert same(first, again)
    assert stack.memoisation.entries == 2
    assert stack.memoisation.bytes == 2 * (LARGE.nbytes + ENTRY)
    assert stack.memoisation.seconds > 0
    assert "4 hits, 2 misses" in str(stack.memoisation)


def test_what_was_evicted_on_the_way_is_found_by_how_it_was_made() -> None:
    stack = fresh()
    x = stack.asarray(LARGE)
    first = stack.ops.sort(x + 1)
    held = stack_array(first)
    memo = stack.engine.memo
    memo._entries.pop(memo.identity(stack_array(x + 1)))
    again, hits, misses = found(stack, lambda: stack.ops.sort(x + 1))
    assert (hits, misses) == (1, 1)  # the sum is computed again, the sort is not
    assert stack_array(again) is held


def test_several_results_are_found_together_and_each_is_a_value_of_its_own() -> None:
    stack = fresh()
    x = stack.variable("x", np.random.default_rng(1).normal(size=(4, 4)))
    (q, r), _, _ = found(stack, lambda: stack.ops.qr(x))
    (again, upper), hits, _ = found(stack, lambda: stack.ops.qr(x))
    assert hits == 1
    assert same(q, again)
    assert same(r, upper)
    y, _, misses = found(stack, lambda: (stack.ops.exp(q), stack.ops.exp(r)))
    assert misses == 2
    assert not np.array_equal(y[0].numpy(), y[1].numpy())


def test_views_are_not_kept_and_what_is_made_of_them_is_found() -> None:
    stack = fresh()
    x = stack.asarray(LARGE.reshape(20, 50))
    first, hits, misses = found(stack, lambda: stack.ops.sort(x.T[3]))
    assert (hits, misses) == (0, 1)
    again, hits, misses = found(stack, lambda: stack.ops.sort(x.T[3]))
    assert (hits, misses) == (1, 0)
    other, hits, misses = found(stack, lambda: stack.ops.sort(x.T[4]))
    assert (hits, misses) == (0, 1)
    assert same(first, again)
    assert not np.array_equal(other.numpy(), first.numpy())


def test_parameters_and_numbers_are_compared_by_type_and_bits() -> None:
    stack = fresh()
    x = stack.asarray(np.arange(3))
    nan = float("nan")
    for number in (1, 1.0, True, 0.0, -0.0, 2**40, nan, -nan, 1 + 0j, np.float32(1), np.float64(1), np.int8(1)):
        value, hits, misses = found(stack, lambda number=number: x * number)
        assert (hits, misses) == (0, 1)
        plain = nnc.eager().asarray(np.arange(3)) * number
        np.testing.assert_array_equal(value.numpy(), plain.numpy())
        np.testing.assert_array_equal(np.signbit(value.numpy().real), np.signbit(plain.numpy().real))
        assert value.dtype == plain.dtype
        assert found(stack, lambda number=number: x * number)[1:] == (1, 0)
    for params in ({"axis": 0}, {"axis": -1}, {"axis": 0, "descending": True}):
        found(stack, lambda params=params: stack.ops.sort(x, **params))
    zeros = [stack.ops.full(shape=(2,), value=v, dtype="float64") for v in (0.0, -0.0, 1)]
    assert [np.signbit(z.numpy())[0] for z in zeros] == [False, True, False]


def test_small_constants_are_equal_by_their_elements_and_large_ones_by_themselves() -> None:
    stack = fresh()
    stack.ops.exp(stack.asarray([1.0, 2.0]))
    assert found(stack, lambda: stack.ops.exp(stack.asarray([1.0, 2.0])))[1:] == (1, 0)
    assert found(stack, lambda: stack.ops.exp(np.array([1.0, 2.0])))[1:] == (1, 0)
    for other in ([2.0, 1.0], [[1.0, 2.0]], np.float32([1, 2]), [1.0, 2.0, 3.0], np.array([1.0, 2.0]).view(np.int64)):
        assert found(stack, lambda other=other: stack.ops.exp(stack.asarray(other)))[1:] == (0, 1)
    one, two = stack.asarray(LARGE), stack.asarray(LARGE)
    stack.ops.exp(one)
    assert found(stack, lambda: stack.ops.exp(one))[1:] == (1, 0)
    assert found(stack, lambda: stack.ops.exp(two))[1:] == (0, 1)


def test_bytes_of_other_dtypes_are_other_values() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    stack, bits = fresh(), np.array([0x3F80, 0x4000], np.uint16)
    values = [stack.asarray(bits.view(dtype)) * 1 for dtype in (bfloat16, np.float16, np.uint16)]
    assert [v.dtype for v in values] == [bfloat16, np.float16, np.uint16]
    assert [float(v.numpy()[0]) for v in values] == [1, float(np.float16(1.875)), 0x3F80]


def test_a_variable_has_another_value_each_time_that_it_is_assigned() -> None:
    stack = fresh()
    x, other = stack.variable("x", [3.0, 1.0]), stack.variable("other", [3.0, 1.0])
    stack.ops.sort(x)
    assert found(stack, lambda: stack.ops.sort(x))[1:] == (1, 0)
    assert found(stack, lambda: stack.ops.sort(other))[1:] == (0, 1)
    for value in ([3.0, 1.0], [5.0, 4.0]):
        x.value.assign(value)
        y, hits, misses = found(stack, lambda: stack.ops.sort(x))
        assert (hits, misses) == (0, 1)
        assert y.numpy().tolist() == sorted(value)
    program = stack.compile([], [], {x: x + 1})
    for wanted in ([5, 6], [6, 7]):
        program()
        assert stack.ops.sort(x).numpy().tolist() == wanted


# --- what may be written into ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize("name", ["exp", "stop_gradient", "reshape", "cast", "sort", "flip"])
def test_a_callers_array_may_change_at_any_time(size: int, name: str) -> None:
    stack, eager, array = fresh(), nnc.eager(), np.linspace(1.0, 2.0, size)
    params = {"reshape": {"shape": (size, 1)}, "cast": {"dtype": "float64"}}.get(name, {})
    seen = []
    for factor in (1.0, 2.0, 3.0, 1.0):
        array[:] = np.linspace(1.0, 2.0, size) * factor
        y = getattr(stack.ops, name)(array, **params)
        wanted = getattr(eager.ops, name)(eager.asarray(array), **params).numpy()
        seen.append((y, stack.ops.sin(y), wanted))
    for y, z, wanted in seen:
        np.testing.assert_array_equal(y.numpy(), wanted)
        np.testing.assert_array_equal(z.numpy(), np.sin(wanted))


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    derivative=NOT_DIFFERENTIABLE("it is for tests"),
    kernels=reference(lambda xp, x: x[::-1]),
)
def backwards(x: Any, /) -> Any:
    """The elements the other way round; its kernel gives a view, and does not say so."""


@pytest.mark.parametrize("name", ["backwards", "real", "imag", "split", "flip", "conj", "cast", "stop_gradient"])
def test_what_shows_a_callers_array_is_not_kept(name: str) -> None:
    stack = fresh()
    stack = stack.swap(type=stack.type.with_ops(backwards))
    params = {"split": {"sections": (2, 2), "axis": 0}, "cast": {"dtype": "complex128"}}.get(name, {})

    def applied(array: Any) -> Any:
        result = getattr(stack.ops, name)(array, **params)
        return (result[0] if isinstance(result, tuple) else result).numpy().tolist()

    numbers = np.array([1 + 2j, 3 - 4j, 5 + 6j, 7 - 8j])
    first = numbers.copy()
    wanted = applied(first)
    first[:] = 100 + 100j
    assert applied(numbers) == wanted


def test_what_is_written_into_a_tensor_leaves_what_is_kept() -> None:
    stack = fresh()
    x = stack.variable("x", [1.0, 2.0])
    y, z = x * 2, x * 2
    assert same(y, z)
    y[0] = 100.0
    z *= 3
    assert (x * 2).numpy().tolist() == [2, 4]
    assert (y.numpy().tolist(), z.numpy().tolist()) == ([100, 4], [6, 12])
    shown = np.asarray(x * 2)
    with pytest.raises(ValueError, match="read-only"):
        shown[0] = 5


def test_what_is_given_up_to_a_program_is_not_what_is_kept() -> None:
    stack = fresh()
    x = stack.asarray(LARGE)
    y = stack.ops.exp(x)
    step = stack.jit(lambda a: a * 2 + 1, donate=0)
    for _ in range(3):
        np.testing.assert_array_equal(step(y).numpy(), np.exp(LARGE) * 2 + 1)
    np.testing.assert_array_equal(stack.ops.exp(x).numpy(), np.exp(LARGE))
    input_ = stack.input("x", (1000,), "float64")
    program = stack.compile([input_], [input_ * 2], donate=[input_])
    program(stack.ops.exp(x).numpy())
    np.testing.assert_array_equal(stack.ops.exp(x).numpy(), np.exp(LARGE))


def test_memory_that_a_program_gives_again_is_not_taken_for_what_it_was() -> None:
    stack = fresh(5000)  # sums are kept, and not what they are of
    f = stack.jit(lambda a: a + 1)
    tensors = [stack.asarray(LARGE * k) for k in range(4)]
    for _ in range(2):
        for k, x in enumerate(tensors):
            np.testing.assert_allclose(stack.ops.sum(f(x)).item(), (LARGE * k + 1).sum())
            raw = f.program(x)(stack_array(x))
            np.testing.assert_allclose(stack.ops.sum(raw).item(), (LARGE * k + 1).sum())
            del raw
    assert stack.memoisation.hits == 4  # sums, of what equal programs gave of equal arrays
    w = +stack.variable("w", LARGE)
    for k in range(1, 5):
        y = w * (w * float(k))
        with stack.no_grad():
            slope = stack.gradients([y], [w])[0]
            np.testing.assert_allclose(stack.ops.sum(slope).item(), 2 * k * LARGE.sum())
            del slope
    stack = fresh()
    f, kept = stack.jit(lambda a: a + 1), []
    tensors = [stack.asarray(LARGE * k) for k in range(6)]
    for _ in range(3):
        for k, x in enumerate(tensors):
            kept.append((k, f(x)))
            del kept[:-4]
            np.testing.assert_array_equal(stack.ops.sin(kept[-1][1]).numpy(), np.sin(LARGE * k + 1))
    for k, y in kept:
        np.testing.assert_array_equal(y.numpy(), LARGE * k + 1)


# --- gradients ------------------------------------------------------------------------------------------------


def test_gradients_flow_through_what_was_found_as_they_do_without() -> None:
    def slopes(stack: nnc.Stack) -> list[list[Any]]:
        x, w = stack.variable("x", LARGE[:6]), stack.variable("w", LARGE[6:12])
        results = []
        for _ in range(3):
            y = stack.ops.sort(stack.ops.tanh(x * w) + x * w)
            first = stack.gradients([(y * y).sum(), y], [x, w, y])
            second = stack.gradients([(first[0] * first[1]).sum()], [x, w])
            results.append([g.numpy() for g in (*first, *second)])
            results[-1].append((stack.live.symbols, stack.live.nodes))
            del y, first, second
            results[-1].append((stack.live.symbols, stack.live.nodes))
        return results

    plain = nnc.dynamic(nnc.NumPy(machine=evolve(CORE, arithmetic=2e9 + next(_machines))))
    stack = fresh()
    for one, other in zip(slopes(stack), slopes(plain), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert stack.memoisation.hits > 20


def test_values_that_are_found_are_values_apart() -> None:
    stack = fresh()
    x = stack.variable("x", [1.0, 2.0])
    y, z = stack.ops.exp(x), stack.ops.exp(x)
    assert same(y, z)
    assert stack.live.nodes == 2
    (dy, dz) = stack.gradients([(y * 3 + z * 5).sum()], [y, z])
    assert (dy.numpy().tolist(), dz.numpy().tolist()) == ([3, 3], [5, 5])
    with stack.no_grad():
        constant = stack.ops.exp(x)
    assert same(constant, y)
    assert stack.gradients([(constant * x).sum()], [x])[0].numpy().tolist() == constant.numpy().tolist()
    del x, y, z, dy, dz
    assert stack.live.nodes == 0


def test_gradients_that_are_asked_twice_run_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = fresh()
    x = stack.variable("x", LARGE)
    y = (stack.ops.sin(x) * x).sum()
    first = stack.gradients([y], [x])[0]
    ran = []
    run = nnc.Program.run if hasattr(nnc, "Program") else type(next(iter(stack.engine.pulls.values())).program).run
    program = type(next(iter(stack.engine.pulls.values())).program)
    monkeypatch.setattr(program, "run", lambda self, *args, **more: ran.append(1) or run(self, *args, **more))
    again = stack.gradients([y], [x])[0]
    assert same(first, again)
    assert not ran
    z = (stack.ops.sin(x) * x).sum()  # an equal computation
    assert same(stack.gradients([z], [x])[0], first)
    assert not ran
    np.testing.assert_allclose(
        stack.gradients([again.sum()], [x])[0].numpy(), 2 * np.cos(LARGE) - LARGE * np.sin(LARGE)
    )
    x.value.assign(LARGE * 2)
    z = (stack.ops.sin(x) * x).sum()
    np.testing.assert_allclose(
        stack.gradients([z], [x])[0].numpy(), np.sin(LARGE * 2) + LARGE * 2 * np.cos(LARGE * 2), rtol=1e-12
    )
    assert ran


def test_jitted_functions_of_constants_are_found_and_read_their_variables() -> None:
    stack = fresh()
    w, calls = stack.variable("w", 2.0), []

    @stack.jit
    def scaled(x: Any) -> Any:
        calls.append(1)
        return stack.ops.sort(x * w), x.sum()

    x = stack.asarray(LARGE)
    with stack.no_grad():
        (first, total), _, misses = found(stack, lambda: scaled(x))
        assert misses == 1
        (again, _), hits, misses = found(stack, lambda: scaled(x))
        assert (hits, misses) == (1, 0)
        assert same(first, again)
        assert not same(first, total)
        for value in (3.0, 2.0):
            w.value.assign(value)
            (other, _), hits, misses = found(stack, lambda: scaled(x))
            assert (hits, misses) == (0, 1)
            np.testing.assert_array_equal(other.numpy(), np.sort(LARGE * value))
        (other, _), hits, _ = found(stack, lambda: scaled(stack.asarray(LARGE)))
        assert hits == 0
        assert len(calls) == 1


# --- effects and random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("pure", [False, True])
def test_effects_happen_each_time(pure: bool, capsys: Any) -> None:
    stack, calls = fresh(), []
    x = stack.variable("x", [1.0, 2.0])

    def tripled(a: Any) -> Any:
        calls.append(a.tolist())
        return a * 3

    def called(value: Any) -> Any:
        return stack.ops.callback(value, function=tripled, shapes=((2,),), dtypes=("float64",), pure=pure)[0]

    for times in (1, 2, 3):
        assert called(x * 2).numpy().tolist() == [6, 12]
        stack.ops.print(x * 2, text="now")
        assert len(calls) == times
    assert capsys.readouterr().out.count("now") == 3
    jitted, c = stack.jit(lambda a: (stack.ops.print(a, text="then"), called(a) + 1)[1]), stack.asarray([1.0, 2.0])
    for times in (4, 5, 6):
        assert jitted(c).numpy().tolist() == [4, 7]
        assert len(calls) == times
    assert capsys.readouterr().out.count("then") == 3
    for _ in range(2):
        stack.fold(lambda s, e: (stack.ops.print(s, text="within"), s * e)[1], stack.asarray(1.0), c)
    assert capsys.readouterr().out.count("within") == 4


def test_random_numbers_are_kept_under_their_key() -> None:
    stack, eager = fresh(), nnc.eager()

    def drawn(seed: int) -> Any:
        return stack.ops.random_normal(stack.key(seed), shape=(500,))

    first = drawn(7)
    again, hits, _ = found(stack, lambda: drawn(7))
    assert hits == 1
    assert same(first, again)
    other, hits, misses = found(stack, lambda: drawn(8))
    assert (hits, misses) == (0, 1)
    for seed, value in ((7, again), (8, other)):
        np.testing.assert_array_equal(value.numpy(), eager.ops.random_normal(eager.key(seed), shape=(500,)).numpy())


def test_loops_and_branches_are_applications_like_others() -> None:
    stack = fresh()
    xs, w = stack.asarray(LARGE[:20]), stack.variable("w", 0.5)

    def looped() -> Any:
        carry, rows = stack.scan(lambda c, x: (stack.ops.tanh(c * w + x), c * x), stack.asarray(0.1), xs)
        return carry + rows.sum() + stack.cond(carry > 0, lambda: carry * w, lambda: w * 1)

    first = looped()
    again, hits, misses = found(stack, looped)
    assert misses == 0
    assert hits > 2
    assert first.item() == again.item()
    slopes = [stack.gradients([y], [w])[0].item() for y in (first, again)]
    assert slopes[0] == slopes[1]


# --- how much is kept -----------------------------------------------------------------------------------------


def test_bytes_are_never_more_than_the_limit() -> None:
    limit = 20_000
    stack = fresh(limit)
    x = stack.asarray(LARGE[:100])
    for k in range(200):
        stack.ops.sin(x + float(k))
        assert stack.memoisation.bytes <= limit
    kept = stack.memoisation
    assert kept.entries == kept.bytes // (800 + ENTRY) > 10
    stack.ops.exp(stack.asarray(np.ones(limit)))
    assert stack.memoisation.entries == kept.entries  # it is larger than all that may be kept
    stack.engine.memo.clear()
    assert (stack.memoisation.entries, stack.memoisation.bytes) == (0, 0)
    assert found(stack, lambda: x + 1.0)[1:] == (0, 1)


def test_what_took_long_for_its_bytes_outlives_what_did_not_and_goes_if_nobody_asks() -> None:
    memo, arrays = Memo(10 * (800 + ENTRY), nnc.NumPy()), {}

    def kept(name: str, seconds: float) -> None:
        arrays[name] = np.full(100, float(len(arrays)))
        memo._kept(name.encode(), (arrays[name],), seconds)

    def alive() -> set[str]:
        return {name for name in arrays if name.encode() in memo._entries}

    kept("sort", 0.01)
    for k in range(100):
        kept(f"sum {k}", 1e-5)
    assert "sort" in alive()
    assert len(alive()) == 10
    for k in range(100, 200):
        kept(f"sum {k}", 1e-5)
        memo._found(b"sum 100")
    assert "sum 100" in alive()
    assert "sum 101" not in alive()
    for k in range(200, 20_000):
        kept(f"sum {k}", 1e-5)
    assert "sort" not in alive()  # as many others as it was worth came after it


def test_kept_arrays_are_all_that_is_kept() -> None:
    stack = fresh(4 * (LARGE.nbytes + ENTRY))
    x = +stack.variable("x", LARGE)
    y = stack.ops.exp(x)
    array = weakref.ref(stack_array(y))
    record = weakref.ref(y.value.record)
    del y
    assert record() is None
    assert array() is not None
    del x
    assert stack.live.symbols == 0
    z = stack.asarray(LARGE)
    for k in range(100):
        stack.ops.sin(z + float(k))
    assert array() is None
    memo = stack.engine.memo
    known = len(memo._known)
    for k in range(100, 200):
        stack.ops.sin(z + float(k))
    assert len(memo._known) <= known + 5


def test_what_is_kept_goes_with_the_last_stack_of_the_recipe() -> None:
    gc.disable()
    try:
        stack = fresh()
        array = weakref.ref(stack_array(stack.ops.exp(stack.asarray(LARGE))))
        memo = weakref.ref(stack.engine.memo)
        assert array() is not None
        assert stack.swap(engine=stack.engine).engine.memo is stack.engine.memo
        del stack
        gc.collect()  # a stack is a cycle of its own
        assert memo() is None
        assert array() is None
    finally:
        gc.enable()


def test_training_does_not_grow_beyond_the_limit() -> None:
    stack = fresh(50_000)
    ops, rng = stack.ops, np.random.default_rng(0)
    batch, wanted = stack.asarray(rng.normal(size=(8, 4))), stack.asarray(rng.normal(size=(8, 2)))
    w, b = +stack.variable("w", rng.normal(size=(4, 2))), +stack.variable("b", np.zeros(2))
    sizes = []
    for _ in range(20_000 if NIGHTLY else 600):
        error = ops.tanh(batch @ w + b) - wanted
        gradients = stack.gradients([(error * error).sum()], [w, b])
        w, b = (p - 0.01 * g for p, g in zip((w, b), gradients, strict=True))
        del gradients, error
        memo = stack.engine.memo
        sizes.append((len(memo._known), len(memo._tokens), len(memo._heap)))
        assert memo.nbytes <= 50_000
        assert stack.live.symbols == 2
    assert sizes[-1] <= tuple(n + 20 for n in sizes[300])


# --- threads, settings, layers --------------------------------------------------------------------------------


def test_threads_share_what_they_have_computed() -> None:
    stack, failed = fresh(200_000), []
    constants = [stack.asarray(LARGE[:300] + k) for k in range(5)]
    wanted = {(i, k): np.sort(LARGE[:300] + i + k) for i in range(5) for k in range(40)}

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(400):
                i, k = int(rng.integers(5)), int(rng.integers(40))
                y = stack.ops.sort(constants[i] + k)
                np.testing.assert_allclose(y.numpy(), wanted[i, k], rtol=1e-12)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    figures = stack.memoisation
    assert figures.hits + figures.misses == 4 * 400 * 2
    assert figures.hits > 0
    memo = stack.engine.memo
    assert memo.nbytes == sum(entry.nbytes for entry in memo._entries.values()) <= 200_000
    assert len(memo._heap) == len(memo._entries)


class Late:
    """Computes when it is collected."""

    def __init__(self, stack: nnc.Stack, x: Any, made: list[Any]) -> None:
        self.stack, self.x, self.made, self.itself = stack, x, made, self

    def __del__(self) -> None:
        self.made.append(self.stack.ops.sort(self.x * len(self.made)).numpy()[0])


def test_finalisers_may_compute_at_any_time() -> None:
    stack, made = fresh(100_000), list[float]()
    x = stack.asarray(LARGE[:100])
    before = gc.get_threshold()
    gc.set_threshold(40)
    try:
        for k in range(300):
            Late(stack, x, made)
            stack.ops.sort(x + float(k % 50))
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(made) == 300
    np.testing.assert_allclose(made, [(LARGE[:100] * k).min() for k in range(300)])
    assert stack.memoisation.bytes <= 100_000


def test_the_setting_is_part_of_the_recipe() -> None:
    assert nnc.dynamic(memoise=True) == nnc.dynamic(memoise=USUAL) == nnc.dynamic(memoise="256 MiB")
    assert nnc.dynamic(memoise=True) != nnc.dynamic() == nnc.dynamic(memoise=False)
    assert nnc.lazy().swap(engine=lambda graph: nnc.Dynamic(graph, memoise=100)) == nnc.dynamic(memoise=100)
    stack = fresh()
    assert pickle.loads(pickle.dumps(stack)) == stack
    x = stack.asarray(LARGE)
    y = stack.ops.sort(x)
    equal = pickle.loads(pickle.dumps(stack))
    assert same(equal.ops.sort(x), y)
    for nonsense in (-1, 1.5, "much", [1]):
        with pytest.raises(PlanError, match="memoise is None, True, or the most bytes"):
            nnc.dynamic(memoise=nonsense)
    with pytest.raises(LayerError, match=r"nnc\.dynamic"):
        _ = nnc.eager().memoisation
    assert nnc.dynamic().memoisation.limit is None


@layer(on="graph")
class Doubling(PassThrough):
    """A layer of a user's own that makes other nodes: of a product of two, their sum twice."""

    graph: Any

    def bind(self, op: Any, *values: Any, **params: Any) -> Any:
        """Twice the sum for a product."""
        if op.name != "multiply":
            return self.graph.bind(op, *values, **params)
        add = self.graph.operator.symbol.type.ops["add"]
        total = self.graph.bind(add, *values)
        return self.graph.bind(add, total, total)


def test_what_layers_of_ones_own_compute_is_memory_of_programs() -> None:
    stack = fresh().insert(Doubling)
    x, y = stack.asarray(LARGE), stack.asarray(LARGE * 3)
    assert stack.engine.memo is not None
    for k in range(3):
        np.testing.assert_allclose((x * y).numpy(), 8 * LARGE)
        for factor in (1.0, 2.0, 5.0):
            z = x * (y + factor * k)
            np.testing.assert_allclose(stack.ops.sin(z).numpy(), np.sin(2 * (4 * LARGE + factor * k)))
    first = x * y
    again, hits, _ = found(stack, lambda: x * y)
    assert hits == 1
    assert same(first, again)


@pytest.mark.parametrize(
    "device",
    [nnc.Strict(), nnc.CPU(), nnc.lazy(), nnc.Places(near=nnc.NumPy(), far=nnc.NumPy())],
    ids=["strict", "cpu", "over lazy", "places"],
)
def test_devices_of_other_kinds(device: Any) -> None:
    stack = fresh(device=device)
    stack.engine.memo.clear()
    x, c = stack.variable("x", LARGE[:50]), stack.asarray([1.0, 2.0])
    for _ in range(2):
        y = (stack.ops.sort(x * 2) * x).sum()
        np.testing.assert_allclose(y.item(), (np.sort(LARGE[:50] * 2) * LARGE[:50]).sum())
        (g,) = stack.gradients([stack.ops.tanh(x).sum()], [x])
        np.testing.assert_allclose(g.numpy(), 1 - np.tanh(LARGE[:50]) ** 2)
    stack.ops.exp(c)
    assert found(stack, lambda: stack.ops.exp(stack.asarray([1.0, 2.0])))[1:] == (1, 0)
    assert stack.memoisation.hits > 3


def test_results_are_checked_for_what_is_not_finite_each_time() -> None:
    stack = fresh()
    stack = stack.swap(engine=stack.engine.checking_numerics())
    x = stack.asarray([0.0])
    for _ in range(2):
        with pytest.raises(NumericsError, match="log"):
            stack.ops.log(x)


# --- random programs ------------------------------------------------------------------------------------------

MEMOISED, PLAIN, NARROW = nnc.dynamic(memoise=True), nnc.dynamic(), nnc.dynamic(memoise=5_000)


@examples(few=25, nightly=2000)
@given(strategies.programs(control_flow=True))
def test_random_programs_give_what_they_give_without(program: Program) -> None:
    for stack in (MEMOISED, NARROW):
        for _ in range(2):
            apply_at_once(program, stack)
            follow(program, stack)


@examples(few=15, nightly=2000)
@given(st.one_of(strategies.programs(smooth=True), strategies.programs(smooth=True, control_flow=True)))
def test_gradients_of_random_programs_are_the_same_bits(program: Program) -> None:
    leaves = [leaf.value() for leaf in program.leaves]
    by = [n for n, leaf in enumerate(leaves) if leaf.dtype.kind == "f"]
    if not by:
        return

    def slopes(stack: nnc.Stack) -> list[list[Any]]:
        tensors = [
            stack.variable(f"leaf {n}", leaf) if n in by else stack.asarray(leaf) for n, leaf in enumerate(leaves)
        ]
        found = []
        for _ in range(2):
            values = program.applied(stack, tensors)
            ys = [values[o] for o in program.outputs if values[o].dtype.kind == "f"]
            first = stack.gradients(ys, [tensors[n] for n in by])
            total = sum([stack.ops.sum(stack.ops.sin(g)) for g in first], stack.asarray(0.0))
            second = stack.gradients([total], [tensors[n] for n in by])
            found.append([g.numpy() for g in (*first, *second)])
        return found

    with np.errstate(all="ignore"):
        for one, other in zip(slopes(MEMOISED), slopes(PLAIN), strict=True):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)
                assert a.dtype == b.dtype


@examples(few=40, nightly=3000)
@given(st.data())
def test_liveness_is_that_of_a_stack_that_memoises_nothing(data: st.DataObject) -> None:
    machine = nnc.NumPy(machine=evolve(CORE, arithmetic=2e9 + next(_machines)))
    other = nnc.NumPy(machine=evolve(CORE, arithmetic=2e9 + next(_machines)))
    stacks = nnc.dynamic(machine, memoise=True), nnc.dynamic(other)
    held: list[list[Any]] = [[+stack.variable(name, 0.5) for name in "ab"] for stack in stacks]
    for _ in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["unary", "binary", "again", "drop"])) if held[0] else "leaf"
        x, y = (data.draw(st.integers(0, max(0, len(held[0]) - 1))) for _ in range(2))
        for stack, mine in zip(stacks, held, strict=True):
            if kind == "leaf":
                mine.append(+stack.variable("leaf", 0.5))
            elif kind == "drop":
                del mine[x]
            elif kind == "unary":
                mine.append(stack.ops.sin(mine[x]))
            elif kind == "again":
                mine += [mine[x] * mine[y], mine[x] * mine[y]]
            else:
                mine.append(mine[x] * mine[y])
        one, two = (stack.live for stack in stacks)
        assert (one.symbols, one.nodes) == (two.symbols, two.nodes)
        assert one.bytes <= two.bytes  # one array may be the value of several
        for a, b in zip(*held, strict=True):
            assert a.item() == b.item()
