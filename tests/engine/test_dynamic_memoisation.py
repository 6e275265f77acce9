"""Equal computations of equal values are done once, and give what they gave without (`engine/dynamic/memoisation`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.dynamic.memoisation import ENTRY
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import reference
from nnc_func.op import operator
from tests.engine.dynamic_stacks import LARGE, found, memoising, own_device, same, stack_array

# --- what is found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["constant", "variable", "value of a variable", "paused"])
def test_an_equal_computation_is_found_also_where_the_first_one_was_dropped(kind: str) -> None:
    stack = memoising()
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
    stack = memoising()
    x = stack.asarray(LARGE)
    first = stack.ops.sort(x + 1)
    held = stack_array(first)
    memo = stack.engine.memo
    memo._entries.pop(memo.identity(stack_array(x + 1)))
    again, hits, misses = found(stack, lambda: stack.ops.sort(x + 1))
    assert (hits, misses) == (1, 1)  # the sum is computed again, the sort is not
    assert stack_array(again) is held


def test_several_results_are_found_together_and_each_is_a_value_of_its_own() -> None:
    stack = memoising()
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
    stack = memoising()
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
    stack = memoising()
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
    stack = memoising()
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
    stack, bits = memoising(), np.array([0x3F80, 0x4000], np.uint16)
    values = [stack.asarray(bits.view(dtype)) * 1 for dtype in (bfloat16, np.float16, np.uint16)]
    assert [v.dtype for v in values] == [bfloat16, np.float16, np.uint16]
    assert [float(v.numpy()[0]) for v in values] == [1, float(np.float16(1.875)), 0x3F80]


def test_a_variable_has_another_value_each_time_that_it_is_assigned() -> None:
    stack = memoising()
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
    stack, eager, array = memoising(), nnc.eager(), np.linspace(1.0, 2.0, size)
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
    stack = memoising()
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
    stack = memoising()
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
    stack = memoising()
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
    stack = memoising(5000)  # sums are kept, and not what they are of
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
    stack = memoising()
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

    plain = nnc.dynamic(own_device())
    stack = memoising()
    for one, other in zip(slopes(stack), slopes(plain), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert stack.memoisation.hits > 20


def test_values_that_are_found_are_values_apart() -> None:
    stack = memoising()
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
    stack = memoising()
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
    stack = memoising()
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
    stack, calls = memoising(), []
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
    stack, eager = memoising(), nnc.eager()

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
    stack = memoising()
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
