"""A dynamic stack computes at once, and gives gradients of values (`engine/dynamic`, `autodiff/values`)."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError, GraphError, LayerError, NncError, NumericsError, ShapeError
from nnc_func.layer import PassThrough, layer

STACK, EAGER = nnc.dynamic(), nnc.eager()
OPS = STACK.ops
NUMBERS = np.linspace(-1.0, 2.0, 6).reshape(2, 3)


@layer(on="engine")
class Through(PassThrough):
    """Changes nothing."""

    engine: Any


@layer(on="device")
class Wide(nnc.Type[Any]):
    """A Type layer of a user's own."""


def variable(value: Any, name: str = "x") -> nnc.Tensor:
    """A variable of the stack: it takes gradients."""
    return STACK.variable(name, np.asarray(value, np.float64))


def slopes(ys: Any, xs: Any, **more: Any) -> list[Any]:
    """Gradients as NumPy arrays."""
    return [g.numpy() for g in STACK.gradients(ys, xs, **more)]


def close(found: Any, wanted: Any) -> None:
    """Equal up to rounding."""
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


# --- the stack ----------------------------------------------------------------------------------------------


def test_it_is_the_lazy_stack_with_another_engine() -> None:
    assert nnc.lazy().swap(engine=nnc.Dynamic) == STACK == nnc.dynamic(nnc.NumPy())
    assert nnc.lazy().swap(engine=nnc.Dynamic).live is not None
    assert nnc.dynamic() != nnc.eager()


def test_a_name_may_be_given_another_value_and_values_stay_what_they_were() -> None:
    x = y = variable(NUMBERS)
    for _ in range(3):
        y = x * y
    close(y.numpy(), NUMBERS**4)
    close(slopes([y], [x])[0], 4 * NUMBERS**3)


def test_what_is_written_into_a_tensor_is_a_new_value() -> None:
    x, y = variable(NUMBERS), variable(NUMBERS) * 1
    before = y
    z = y * 1
    z[0] = x[1] * 3
    close(z.numpy(), [3 * NUMBERS[1], NUMBERS[1]])
    close(before.numpy(), NUMBERS)
    close(slopes([z], [x, y])[0], [[0, 0, 0], [3, 3, 3]])
    close(slopes([z], [x, y])[1], [[0, 0, 0], [1, 1, 1]])


def test_a_view_is_a_value_and_its_gradient_flows_to_what_it_shows() -> None:
    x = variable(NUMBERS)
    first, last = x[0], x.T[2]
    y = (first * first).sum() + (last**3).sum()
    wanted = np.zeros((2, 3))
    wanted[0] += 2 * NUMBERS[0]
    wanted[:, 2] += 3 * NUMBERS[:, 2] ** 2
    close(slopes([y], [x])[0], wanted)


def test_a_callers_array_may_change_afterwards() -> None:
    array = NUMBERS.copy()
    x = variable(1.0)
    constant = STACK.asarray(array)
    y, z = x * array, constant * x
    array[:] = 100
    close(y.numpy(), NUMBERS)
    for each in (y, z):
        close(slopes([each], [x])[0], NUMBERS.sum())


def test_a_variable_that_is_assigned_has_another_value_and_takes_other_gradients() -> None:
    x = STACK.variable("x", [1.0, 2.0])
    y = x * x
    x.value.assign([5.0, 7.0])
    close(y.numpy(), [1, 4])
    close(slopes([y], [x])[0], [0, 0])
    z = x * x
    close(slopes([z], [x])[0], [10, 14])


def test_a_program_that_updates_a_variable_in_place_leaves_what_was_recorded() -> None:
    w = STACK.variable("w", np.ones(1000))
    x = STACK.input("x", (1000,), "float64")
    program = STACK.compile([x], [w * x], updates={w: w - x})
    y = w * w * 3
    program(np.full(1000, 0.25))
    close(w.numpy(), 0.75)
    close(y.numpy(), 3)
    z = variable(2.0)
    t = y * z
    close(slopes([t], [z])[0], 3000)


def test_a_program_reads_its_variables_however_values_were_made_of_them() -> None:
    step, w = STACK.variable("step", 0), STACK.variable("w", [1.0, -2.0])
    chosen = OPS.where(w > 0, w, w * 10) * (step + 1) + OPS.stop_gradient(w)
    program = STACK.compile([], [chosen], updates={step: step + 1, w: -w})
    close(chosen.numpy(), [2, -22])
    close(program()[0], [2, -22])
    close(program()[0], [-21, 6])
    assert step.item() == 2
    assert (step + 1).item() == 3


@pytest.mark.parametrize(
    "stack",
    [
        nnc.dynamic(nnc.Strict()),
        nnc.dynamic(nnc.CPU()),
        nnc.dynamic(nnc.lazy()),
        nnc.dynamic(nnc.Places(near=nnc.NumPy(), far=nnc.NumPy())),
        STACK.swap(engine=STACK.engine.checking_numerics()),
        STACK.swap(engine=STACK.engine.with_allocator("best_fit")),
        STACK.insert(Through),
        STACK.swap(type=Wide),
    ],
    ids=["strict", "cpu", "over lazy", "places", "checked", "best fit", "inserted", "wide"],
)
def test_devices_settings_and_layers_of_ones_own(stack: nnc.Stack) -> None:
    x = stack.variable("x", np.linspace(0, 1, 4, dtype=np.float32))
    y = (stack.ops.tanh(x) * x * 2).sum()
    (g,) = stack.gradients([y], [x])
    (h,) = stack.gradients([g.sum()], [x])
    eager = EAGER.grad(lambda x: (EAGER.ops.tanh(x) * x * 2).sum())
    np.testing.assert_allclose(g.numpy(), eager(x.numpy()).numpy(), rtol=1e-6)
    np.testing.assert_allclose(h.numpy(), EAGER.grad(lambda x: eager(x).sum())(x.numpy()).numpy(), rtol=1e-6)
    assert h.dtype == np.float32


def test_a_result_that_is_not_finite_is_told_where_it_is_made() -> None:
    stack = STACK.swap(engine=STACK.engine.checking_numerics())
    x = stack.variable("x", 0.0)
    with pytest.raises(NumericsError, match="log"):
        stack.ops.log(x)


def test_tensors_are_copied_and_pickled_as_values() -> None:
    x = variable([1.0, 2.0])
    y = x * 2
    for each in (copy.copy(y), copy.deepcopy(y)):
        close(slopes([each], [x])[0], 2)
    assert pickle.loads(pickle.dumps(y)).numpy().tolist() == [2, 4]
    assert pickle.loads(pickle.dumps(STACK)) == STACK


# --- gradients ------------------------------------------------------------------------------------------------


def test_nncs_function_has_gradients_with_respect_to_all_that_it_is_made_of() -> None:
    """f = x log x + 1.2 x at 19, from one trace, repeatedly; then x is 10, and its gradient is added to the other."""
    x, y = variable(19.0), variable(1.2, "y")
    f = OPS.log(x)
    f = x * f
    z = x * y
    f = f + z
    for _ in range(2):
        close(slopes([f], [x])[0], np.log(19) + 2.2)
        close(slopes([f], [y])[0], 19)
        close(slopes([f], [z])[0], 1)
    close(slopes([f], [y, x]), [19, np.log(19) + 2.2])
    (dx,) = STACK.gradients([f], [x])
    x = variable(10.0)
    f = x * OPS.log(x) + x * y
    close(slopes([f], [x], into=[dx])[0], np.log(19) + 2.2 + np.log(10) + 2.2)


def test_a_gradient_may_be_added_to_its_own_x() -> None:
    x = variable(10.0)
    f = x * OPS.log(x) + x
    close(slopes([f], [x], into=[x])[0], 10 + np.log(10) + 2)


def test_gradients_are_those_of_the_function() -> None:
    def loss(stack: Any, w: Any, b: Any, x: Any) -> Any:
        ops = stack.ops
        hidden = ops.tanh(x @ w + b)
        return (ops.softmax(hidden) * hidden).sum() + ops.maximum(hidden, 0.1).mean()

    w, b = np.random.default_rng(0).normal(size=(3, 4)), np.linspace(0, 1, 4)
    wanted = EAGER.grad(lambda w, b: loss(EAGER, w, b, EAGER.asarray(NUMBERS)), argnums=(0, 1))(w, b)
    xs = variable(w), variable(b, "b")
    for found, each in zip(slopes([loss(STACK, *xs, STACK.asarray(NUMBERS))], xs), wanted, strict=True):
        close(found, each.numpy())


def test_derivatives_have_any_order() -> None:
    x = variable(0.7)
    y = OPS.sin(x) * x
    for wanted in (
        np.cos(0.7) * 0.7 + np.sin(0.7),
        2 * np.cos(0.7) - 0.7 * np.sin(0.7),
        -3 * np.sin(0.7) - 0.7 * np.cos(0.7),
        -4 * np.cos(0.7) + 0.7 * np.sin(0.7),
    ):
        (y,) = STACK.gradients([y], [x])
        close(y.numpy(), wanted)


def test_backward_works_again_after_what_is_on_the_way_was_dropped() -> None:
    x = variable(NUMBERS)
    a = OPS.exp(x)
    b = a * x
    y = b.sum()
    first = slopes([y], [x])[0]
    del a, b
    close(slopes([y], [x])[0], first)
    close(first, np.exp(NUMBERS) * (1 + NUMBERS))


def test_what_a_value_does_not_depend_on_has_the_gradient_zero() -> None:
    x, other = variable(NUMBERS), variable([1.0, 2.0], "other")
    y = x * 2
    found = slopes([y], [other, x])
    close(found[0], [0, 0])
    close(found[1], 2)
    close(slopes([STACK.asarray(1.0), y], [x], cotangents=[1.0, np.ones((2, 3))])[0], 2)
    close(slopes([STACK.asarray(1.0)], [x])[0], 0 * NUMBERS)
    close(slopes([(x * OPS.argmax(x)).sum()], [x])[0], 5)  # nothing flows through what chooses
    assert STACK.gradients([y], []) == ()
    close(slopes([], [x])[0], 0 * NUMBERS)
    total = STACK.asarray([5.0, 6.0])
    close(slopes([y], [other], into=[total])[0], [5, 6])


def test_a_y_may_be_an_x_and_both_may_come_twice() -> None:
    x = variable(3.0)
    y = x * x
    close(slopes([x], [x])[0], 1)
    close(slopes([y, x], [x, y, x]), [7, 1, 7])
    close(slopes([y, y], [x])[0], 12)
    z = y * y
    close(slopes([z, y], [y, x]), [2 * 9 + 1, (2 * 9 + 1) * 6])


def test_cotangents_weigh_values() -> None:
    x = variable(NUMBERS)
    y, z = x * x, x.sum()
    close(slopes([y, z], [x], cotangents=[NUMBERS, 2.0])[0], 2 * NUMBERS**2 + 2)
    close(slopes([y, z], [x], cotangents=[None, STACK.asarray(2.0)])[0], 2)
    c = variable(5.0, "c")
    (g,) = STACK.gradients([z], [x], cotangents=[c])
    close(slopes([g], [c])[0], 6)


def test_complex_values_have_gradients_by_cotangents() -> None:
    z = STACK.variable("z", np.array([1 + 2j, 3 - 1j]))
    y = z * z
    close(slopes([y], [z], cotangents=[np.ones(2, complex)])[0], [2 + 4j, 6 - 2j])
    with pytest.raises(DerivativeError, match="complex values want cotangents"):
        STACK.gradients([y], [z])
    real = OPS.real(y).sum()
    wanted = EAGER.grad(lambda z: EAGER.ops.real(z * z).sum())(np.array([1 + 2j, 3 - 1j])).numpy()
    close(slopes([real], [z])[0], wanted)


def test_values_without_elements_and_of_float32() -> None:
    x = STACK.variable("x", np.ones((0, 3), np.float32))
    y = (x * 2).sum()
    (found,) = STACK.gradients([y], [x])
    assert found.shape == (0, 3)
    assert found.dtype == np.float32
    w = STACK.variable("w", np.float32([1, 2]))
    (found,) = STACK.gradients([(w * np.float64(3)).sum()], [w])
    assert found.dtype == np.float32


def test_several_results_of_one_operator() -> None:
    x = variable(np.random.default_rng(1).normal(size=(4, 4)))
    q, r = OPS.qr(x)
    del q
    y = (r * r).sum()
    (slope,) = STACK.gradients([y], [x])
    close(slope.numpy(), 2 * x.numpy())  # |R| = |X|
    close(slopes([(slope * slope).sum()], [x])[0], 8 * x.numpy())  # through Q, which nobody holds, too


def test_loops_branches_rows_and_functions_under_grad_are_recorded() -> None:
    def loss(stack: Any, w: Any, xs: Any) -> Any:
        carry, rows = stack.scan(lambda c, x: (stack.ops.tanh(c * w + x), c * x), stack.asarray(0.1), xs)
        chosen = stack.cond(carry > 0, lambda: carry * w, lambda: w)
        return chosen + rows.sum() + stack.vmap(lambda x: x * w)(xs).sum() + stack.grad(lambda x: x**3 * w)(xs[1])

    w, xs = np.float64(0.9), np.linspace(0, 1, 5)
    wanted = EAGER.grad(lambda w, xs: loss(EAGER, w, xs), argnums=(0, 1))(w, xs)
    values = variable(w), variable(xs, "xs")
    found = STACK.gradients([loss(STACK, *values)], values)
    for one, other in zip(found, wanted, strict=True):
        close(one.numpy(), other.numpy())
    second = EAGER.grad(EAGER.grad(lambda w: loss(EAGER, w, EAGER.asarray(xs))))(w)
    close(slopes([found[0]], [values[0]])[0], second.numpy())
    grown = STACK.while_loop(lambda c: c < 100, lambda c: (None, c * values[0] * 2), [STACK.asarray(1.0)])[1][0]
    times = round(np.log(grown.item()) / np.log(1.8))
    close(slopes([grown], [values[0]])[0], times * 2 * 1.8 ** (times - 1))


def test_a_function_with_a_derivative_of_its_own_keeps_it() -> None:
    rounded = STACK.custom_vjp(OPS.round).defvjp(lambda x: (OPS.round(x), ()), lambda saved, g: (g * 2,))
    x = variable([1.2, 2.7])
    y = rounded(x) * 3
    close(y.numpy(), [3, 9])
    close(slopes([y], [x])[0], [6, 6])


def test_functions_under_jit_are_recorded_where_something_takes_gradients() -> None:
    w = variable(0.5, "w")
    double = STACK.jit(lambda x: x * 2)
    scaled = STACK.jit(lambda x: (x * w).sum())
    x = variable([1.0, 2.0])
    close(slopes([double(x)], [x])[0], [2, 2])
    for _ in range(2):
        close(slopes([scaled(np.ones(3))], [w])[0], 3)
    assert double(np.ones(2)).numpy().tolist() == [2, 2]
    assert double.program(np.ones(2)).plan is not None
    with STACK.no_grad():
        assert scaled(np.ones(3)).item() == 1.5
        assert scaled.program(np.ones(3)).plan is not None
    close(slopes([scaled(np.ones(3))], [w])[0], 3)


def test_random_numbers_are_those_of_their_key() -> None:
    x = variable(np.ones(3))
    y = OPS.random_uniform(STACK.key(7), shape=(3,), dtype="float64") * x
    close(slopes([y], [x])[0], EAGER.ops.random_uniform(EAGER.key(7), shape=(3,), dtype="float64").numpy())


# --- what is no gradient's ------------------------------------------------------------------------------------


def test_nothing_flows_through_detach_and_no_grad() -> None:
    x = variable(3.0)
    y = x * x
    close(slopes([y.detach() * x], [x])[0], 9)
    with STACK.no_grad():
        z = y * x
        with STACK.no_grad():
            pass
        z = z * 1
    close(slopes([z * x], [x])[0], 27)
    (g,) = STACK.gradients([y], [x])
    with STACK.no_grad():
        (constant,) = STACK.gradients([y], [x])
    close(slopes([g * x], [x])[0], 12)
    close(slopes([constant * x], [x])[0], 6)


def test_no_grad_is_of_its_thread() -> None:
    x = variable(3.0)
    found = []

    def other() -> None:
        found.extend(slopes([x * x], [x]))

    with STACK.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    close(found, [6])


def test_what_has_no_gradient_is_refused_with_words() -> None:
    x = variable([1.0, 2.0])
    whole = STACK.variable("n", [1, 2])
    constant = STACK.asarray([1.0, 2.0])
    with pytest.raises(DerivativeError, match="int64"):
        STACK.gradients([x * 1.0], [whole])
    with pytest.raises(DerivativeError, match=r"the x .* is a constant"):
        STACK.gradients([x * 1.0], [constant])
    with pytest.raises(DerivativeError, match="int64"):
        STACK.gradients([OPS.argmax(x)], [x])
    with pytest.raises(DerivativeError, match="shape"):
        STACK.gradients([x * 2], [x], cotangents=[np.ones(3)])
    with pytest.raises(DerivativeError, match="for each"):
        STACK.gradients([x * 2], [x], cotangents=[None, None])
    with pytest.raises(DerivativeError, match="shape"):
        STACK.gradients([x * 2], [x], into=[np.ones(3)])
    with pytest.raises(GraphError, match="brackets"):
        STACK.gradients(x, [x])
    with pytest.raises(DerivativeError, match="being traced"):
        STACK.grad(lambda t: STACK.gradients([t * 2], [t])[0].sum())(np.ones(2))
    with pytest.raises(GraphError, match="another stack"):
        nnc.lazy().ops.exp(x * 2)
    with pytest.raises(NncError):
        STACK.gradients([nnc.lazy().variable("x", 1.0) * 2], [x])


def test_other_engines_record_nothing_and_say_so() -> None:
    x = EAGER.variable("x", 1.0)
    for ask in (lambda: EAGER.gradients([x], [x]), lambda: EAGER.live, lambda: EAGER.trace(x)):
        with pytest.raises(LayerError, match=r"nnc\.dynamic"):
            ask()
    with EAGER.no_grad():
        assert (x * 2).item() == 2
    assert x.detach().item() == 1


def test_an_operator_that_fails_leaves_nothing() -> None:
    x = +variable(np.ones(3))
    gc.collect()  # what other tests left in cycles is alive until then
    before = STACK.live
    with pytest.raises(ShapeError, match=r"test_dynamic\.py"):
        x * np.ones(4)
    assert STACK.live == before


# --- what is compiled -----------------------------------------------------------------------------------------


def test_a_second_step_like_the_first_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = nnc.dynamic()
    compiled = []
    compile_ = nnc.Lazy.compile
    monkeypatch.setattr(nnc.Lazy, "compile", lambda *args: compiled.append(1) or compile_(*args))
    w = stack.variable("w", np.ones(4))
    for step in range(5):
        y = (w * np.full(4, step) + 0.5 * w).sum()
        (g,) = stack.gradients([y], [w])
        w.value.assign((w - 0.1 * g).numpy())
    assert len(compiled) == 1
    stack.gradients([(w * w).sum()], [w])
    stack.gradients([(w * 2.0).sum()], [w])
    stack.gradients([(w * 3.0).sum()], [w])  # another number is another structure
    assert len(compiled) == 4


def test_the_graph_behind_a_value_runs_elsewhere() -> None:
    x = variable(NUMBERS)
    y = OPS.exp(x) * 2 + x
    graph = STACK.trace(y)
    assert [n.op.name for n in graph.nodes if n.args] == ["exp", "multiply", "add"]
    assert "exp" in str(graph)
    for stack in (STACK, nnc.lazy(), EAGER):
        moved = graph.to(stack)
        close(stack.engine.compile(moved)(), y.numpy())
    graph = STACK.trace(y, *STACK.gradients([y], [x]))
    close(nnc.lazy().engine.compile(graph.to(nnc.lazy()))()[1], 2 * np.exp(NUMBERS) + 1)


# --- what was met from outside ----------------------------------------------------------------------------


def test_what_a_program_writes_is_what_operators_read() -> None:
    x = STACK.variable("x", 3.0)
    assert (x * x).item() == 9
    program = STACK.compile([], [], {x: x + 1})
    for wanted in (4.0, 5.0):
        program()
        y = x * x
        assert y.item() == wanted**2
        assert STACK.gradients([y], [x])[0].item() == 2 * wanted
    w, g = STACK.variable("w", np.ones(4)), STACK.input("g", (4,), "float64")
    step, losses = STACK.compile([g], [], {w: w - 0.1 * g}), []
    for _ in range(3):
        loss = (w * w).sum()
        step(STACK.gradients([loss], [w])[0].numpy())
        losses.append(loss.item())
    np.testing.assert_allclose(losses, [4 * 0.64**n for n in range(3)])


@pytest.mark.parametrize("pure", [False, True])
def test_functions_of_the_host_have_no_gradient_and_are_called_once(pure: bool) -> None:
    x, calls = STACK.variable("x", [1.0, 2.0]), []

    def tripled(a: Any) -> Any:
        calls.append(a.tolist())
        return a * 3

    (z,) = STACK.ops.callback(x * 2, function=tripled, shapes=((2,),), dtypes=("float64",), pure=pure)
    y = (z * x).sum()
    assert y.item() == 30
    with pytest.raises(DerivativeError, match="callback has no derivative"):
        STACK.gradients([y], [x])
    lazy = nnc.lazy()
    assert lazy.engine.compile(STACK.trace(y).to(lazy))().item() == 30
    assert calls == [[2.0, 4.0]]
    assert STACK.gradients([(z.detach() * x).sum()], [x])[0].numpy().tolist() == [6, 12]


def test_recording_is_paused_as_often_as_it_is_said_and_no_longer() -> None:
    def paused() -> Any:
        with STACK.no_grad():
            yield

    one, two = paused(), paused()
    next(one), next(two)
    one.close()
    assert not STACK.engine.recording.is_on
    two.close()
    assert STACK.engine.recording.is_on
    again = STACK.no_grad()
    for _ in range(2):
        with again:
            assert not STACK.engine.recording.is_on
    elsewhere = paused()
    thread = threading.Thread(target=lambda: next(elsewhere))
    thread.start()
    thread.join()
    elsewhere.close()
    assert STACK.engine.recording.is_on


def test_tensors_of_other_stacks_are_refused() -> None:
    x, other = STACK.variable("x", 3.0), nnc.lazy().variable("x", 3.0)
    for ys, xs in (([other], [x]), ([x * 2], [other])):
        with pytest.raises(DerivativeError, match="of another stack"):
            STACK.gradients(ys, xs)


def test_effects_of_loops_happen_once_whatever_is_differentiated(capsys: Any) -> None:
    x, before = STACK.variable("x", [1.0, 2.0]), STACK.live.nodes
    y = STACK.fold(lambda c, e: (STACK.ops.print(c), c * e)[1], x.sum(), x)
    assert y.item() == 6
    (g,) = STACK.gradients([y], [x])
    close(g.numpy(), [8, 5])
    close(slopes([g.sum()], [x])[0], [10, 8])
    close(nnc.lazy().engine.compile(STACK.trace(y).to(nnc.lazy()))(), 6)
    assert capsys.readouterr().out.splitlines() == ["3.0", "3.0"]
    del y, g
    assert STACK.live.nodes <= before


def test_what_a_loop_asks_is_kept_for_its_derivative() -> None:
    x, calls = STACK.variable("x", [1.0, 2.0]), []

    def noted(a: Any) -> Any:
        calls.append(a.item())
        return a * len(calls)

    def step(c: Any, e: Any) -> Any:
        given = {"function": noted, "shapes": ((),), "dtypes": ("float64",)}
        return c * e * STACK.ops.callback(STACK.ops.stop_gradient(e), **given)[0]

    y = STACK.fold(step, 1.0, x)
    assert y.item() == 1 * 1 * 2 * 4
    (g,) = STACK.gradients([y], [x])
    close(g.numpy(), [8, 4])
    assert calls == [1, 2]
    with pytest.raises(DerivativeError, match="computes it again without its effects"):
        STACK.gradients([g.sum()], [x])
    endless = STACK.while_loop(lambda c: c < 9, lambda c: (None, (step(c, c),)), (x.sum(),))[1][0]
    with pytest.raises(DerivativeError, match="of a loop that nothing bounds"):
        STACK.gradients([endless], [x])


def test_structures_that_are_forgotten_hold_no_memory() -> None:
    stack = nnc.dynamic()
    x = stack.variable("x", np.ones(1 << 20))
    for k in range(12):
        stack.gradients([(stack.ops.sin(x) * float(k)).sum()], [x])
    assert len(stack.engine.pulls) == 8
    assert len(stack.engine.arenas.arenas) == 1
    assert len(stack.engine.arenas.arenas[0].leases) == 8
