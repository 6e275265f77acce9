"""A memory limit evicts saved values, which are computed again where they are read (`engine/dynamic/saved_values`)."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.dynamic.saved_values import CacheStatistics
from nnc_func.errors import PlanError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing import strategies
from nnc_func.testing.agreement import SLOPE, agree, comparable
from nnc_func.testing.derivatives import is_smooth
from nnc_func.testing.program import Program
from nnc_func.testing.samples import arguments
from tests.engine.dynamic_stacks import fresh, own_device, total, weighed
from tests.engine.together import together
from tests.profiles import NIGHTLY, examples

FREE, TIGHT, SOME = [nnc.dynamic(own_device(), memory_limit=limit) for limit in (None, 0, 200)]
NUMBERS = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
LONG = 100_000 if NIGHTLY else 4_000


def limited_to(limit: int | None, device: Any = None) -> nnc.Stack:
    """A stack of a recipe of its own: what others record is not counted."""
    return nnc.dynamic(device or own_device(), memory_limit=limit)


def cache(stack: nnc.Stack) -> CacheStatistics:
    """What the limit has done."""
    found: CacheStatistics | None = stack.engine.cache
    assert found is not None
    return found


# --- equal to what there is without a limit ---------------------------------------------------------------


@examples(few=10, nightly=2000)
@given(
    st.one_of(strategies.programs(smooth=True), strategies.programs(smooth=True, control_flow=True)),
    st.sampled_from([TIGHT, SOME]),
)
def test_random_programs_have_the_same_gradients_to_the_second_order(program: Program, limited: nnc.Stack) -> None:
    leaves = [leaf.value() for leaf in program.leaves]
    by = [n for n, leaf in enumerate(leaves) if leaf.dtype.kind == "f"]
    if not by:
        return
    _, met = program.on_arrays(leaves)
    comparable(met.largest, SLOPE)
    found = []
    with np.errstate(all="ignore"):
        for stack in (FREE, limited):
            if stack.live.symbols:
                gc.collect()  # what earlier tests left in cycles
            tensors = [
                stack.variable(f"leaf {n}", leaf) if n in by else stack.asarray(leaf) for n, leaf in enumerate(leaves)
            ]
            value = total(stack, program, tensors)
            first = stack.gradients([value], [tensors[n] for n in by])
            again = stack.gradients([value], [tensors[n] for n in by])
            second = stack.gradients([weighed(stack, first)], [tensors[n] for n in by])
            found.append([value.numpy(), *(g.numpy() for g in (*first, *again, *second))])
            live = stack.live
            found[-1].append(np.array([live.symbols, live.nodes]))
    np.testing.assert_array_equal(found[1][-1], found[0][-1])  # what is alive does not depend on what is evicted
    np.testing.assert_array_equal(found[1][0], found[0][0])
    largest = max([met.largest, *(float(np.abs(g).max()) for g in found[0] if g.size and np.isfinite(g).all())])
    comparable(largest, SLOPE)
    agree(found[1][1:-1], found[0][1:-1], program, largest * 10, "gradient")


@pytest.mark.parametrize("each", [*filter(is_smooth, CATALOGUE.values())], ids=str)
@examples(few=1, nightly=50)
@given(data=st.data())
def test_each_operators_operands_and_results_are_computed_again(each: Op, data: Any) -> None:
    arrays, params = data.draw(arguments(each, differentiable=True))
    by = [n for n, a in enumerate(arrays) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    found = []
    with np.errstate(all="ignore"):
        for stack in (FREE, TIGHT):
            xs = [stack.variable(f"x{n}", arrays[n]) for n in by]
            given = [stack.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]
            for n, x in zip(by, xs, strict=True):
                given[n] = x * 1
            results = getattr(stack.ops, each.name)(*given, **params)
            del given
            y = weighed(
                stack, [y for y in (results if isinstance(results, tuple) else (results,)) if y.dtype.kind == "f"]
            )
            del results
            found.append([g.numpy() for g in stack.gradients([y], xs)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
        assert one.dtype == other.dtype


@pytest.mark.parametrize(
    "device",
    [nnc.Strict(), nnc.CPU(), nnc.lazy(), nnc.Places(near=nnc.NumPy(), far=nnc.NumPy())],
    ids=["strict", "cpu", "over lazy", "places"],
)
def test_devices(device: Any) -> None:
    stack, free = nnc.dynamic(device, memory_limit=0), nnc.dynamic(device)
    found = []
    for each in (stack, free):
        x = each.variable("x", np.linspace(0, 1, 6, dtype=np.float32))
        y = (each.ops.tanh(x.reshape((2, 3)) * 2) * each.ops.exp(x).reshape((2, 3))).sum()
        found.append(each.gradients([y], [x])[0].numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert cache(stack).evictions > 0


def test_it_is_a_setting_of_the_engine() -> None:
    stack = nnc.dynamic(memory_limit="1 KiB")
    assert stack == nnc.dynamic(memory_limit=1024)
    assert stack != nnc.dynamic()
    assert stack.engine.recording is not nnc.dynamic().engine.recording
    assert pickle.loads(pickle.dumps(stack)) == stack
    assert nnc.dynamic().engine.cache is None
    with pytest.raises(PlanError, match="number of bytes"):
        nnc.dynamic(memory_limit="much")
    with pytest.raises(PlanError, match="number of bytes"):
        nnc.dynamic(memory_limit=-1)


# --- memory -------------------------------------------------------------------------------------------------


def layers(stack: nnc.Stack, ws: Any, x: Any) -> Any:
    """The end of a chain of layers, of which nothing else is held."""
    for w in ws:
        x = stack.ops.tanh(x @ w)
    return (x * x).sum()


def network(stack: nnc.Stack, count: int = 40, batch: int = 256, width: int = 16) -> tuple[Any, Any]:
    """Weights and a batch."""
    rng = np.random.default_rng(0)
    ws = [+stack.variable(f"w{n}", rng.normal(size=(width, width)).astype("float32") / 4) for n in range(count)]
    return ws, stack.asarray(rng.normal(size=(batch, width)).astype("float32"))


@pytest.mark.parametrize("part", [0.5, 0.2])
def test_a_chain_takes_what_it_may(part: float) -> None:
    free = limited_to(None)
    ws, x = network(free)
    y = layers(free, ws, x)
    wanted = [g.numpy() for g in free.gradients([y], ws)]
    whole = free.live.bytes
    stack = limited_to(int(part * whole))
    ws, x = network(stack)
    y = layers(stack, ws, x)
    assert stack.live.bytes - x.numpy().nbytes <= part * whole
    assert 0 < cache(stack).most <= part * whole
    assert stack.live.evicted == cache(stack).evicted > 0
    for g, w in zip(stack.gradients([y], ws), wanted, strict=True):
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-5, atol=1e-6)
    assert cache(stack).recomputations > 0


def test_the_true_peak_of_a_chain_is_halved() -> None:
    def peak(limit: int | None) -> int:
        stack = limited_to(limit)
        ws, x = network(stack, count=60, batch=2048)
        for _ in range(2):  # the second time nothing is compiled
            tracemalloc.start()
            y = layers(stack, ws, x)
            with stack.no_grad():
                gradients = stack.gradients([y], ws)
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            del y, gradients
        return found

    whole = 2 * 60 * 2048 * 16 * 4
    assert peak(None) > 0.95 * whole
    assert peak(whole // 2) < 0.6 * peak(None)


def test_memory_itself_goes_when_a_value_is_evicted() -> None:
    stack = limited_to(0)
    x = +stack.variable("x", np.ones(1000))
    y = x * x
    kept = weakref.ref(y.value.array)
    z = stack.ops.sin(y)
    assert kept() is not None
    del y
    assert kept() is None
    np.testing.assert_allclose(stack.gradients([z], [x])[0].numpy(), 2 * np.cos(1))


def test_what_a_view_shows_is_evicted_with_it_and_not_while_a_tensor_holds_one() -> None:
    stack = limited_to(0)
    x = +stack.variable("x", np.ones((4, 250)))
    y = x * x
    view = y.T
    kept = weakref.ref(y.value.array)
    z = stack.ops.sin(view).sum() + stack.ops.exp(y).sum()
    del y
    assert kept() is not None
    assert view.numpy().sum() == 1000
    del view
    assert kept() is None
    np.testing.assert_allclose(stack.gradients([z], [x])[0].numpy(), 2 * np.cos(1) + 2 * np.e)


def test_a_view_of_what_is_held_anyway_is_not_evicted() -> None:
    stack = limited_to(0)
    x, c = +stack.variable("x", np.ones((4, 250))), stack.asarray(np.ones((4, 250)))
    y = (x.T * c.T).sum()
    statistics = cache(stack)
    assert (statistics.evicted, statistics.evicted_bytes) == (1, 8000)  # the product; x.T takes nothing
    np.testing.assert_allclose(stack.gradients([y], [x])[0].numpy(), 1)


def test_of_several_results_all_go_once_none_is_held() -> None:
    stack = limited_to(0)
    x = +stack.variable("x", np.arange(1.0, 7.0))
    a, b = stack.ops.split(stack.ops.sin(x), sections=(2, 4), axis=0)
    y = (a * a).sum() + (b * b * b).sum()
    del a
    before = cache(stack).evicted_bytes
    del b  # which was a view of all six
    assert cache(stack).evicted_bytes == before + 48
    assert cache(stack).bytes == 0
    wanted = np.concatenate([2 * np.sin([1, 2]), 3 * np.sin([3, 4, 5, 6]) ** 2]) * np.cos(np.arange(1.0, 7.0))
    (slope,) = stack.gradients([y], [x])
    np.testing.assert_allclose(slope.numpy(), wanted)
    q, r = stack.ops.qr(stack.variable("m", np.eye(3) + 0.1) * 1)
    del q
    y = (r * r).sum()
    del r
    assert cache(stack).bytes == 0


def test_a_limit_that_cannot_be_met_is_no_error() -> None:
    stack = limited_to(100)
    x = +stack.variable("x", np.ones(1000))
    held = [x * float(n) for n in range(1, 4)]
    y = held[0] * held[1] * held[2]
    assert cache(stack).bytes == 0  # what tensors hold is theirs
    (z,) = stack.ops.callback(x * 1.0, function=lambda a: a, shapes=((1000,),), dtypes=("float64",))
    y = y * z
    del z
    assert 8000 <= cache(stack).bytes <= 16000  # an effect's results stay
    assert y.shape == (1000,)


@pytest.mark.parametrize(("part", "most"), [(0.5, 6), (0.2, 12)])
def test_what_is_computed_again_is_put_off_until_it_is_needed(part: float, most: int) -> None:
    whole, value = 2 * 60 * 256 * 16 * 4, 256 * 16 * 4
    stack = limited_to(int(part * whole))
    ws, x = network(stack, count=60)
    y = layers(stack, ws, x)
    with stack.no_grad():
        stack.gradients([y], ws)
    assert 0 < stack.engine.arenas.nbytes <= most * value


# --- effects, random numbers, what is forgotten -------------------------------------------------------------


def test_effects_happen_once_and_random_numbers_are_those_of_their_key(capsys: Any) -> None:
    stack, calls = limited_to(0), []

    def noted(a: Any) -> Any:
        calls.append(a.sum())
        return a

    x = +stack.variable("x", np.ones(100))
    noise = stack.ops.random_uniform(stack.key(7) * 1, shape=(100,), dtype="float64")
    wanted = noise.numpy()
    (z,) = stack.ops.callback(x * 2.0, function=noted, shapes=((100,),), dtypes=("float64",), pure=True)
    y = (stack.ops.exp(x * noise) * z.detach() * 1.0).sum()
    del noise, z
    np.testing.assert_allclose(stack.gradients([y], [x])[0].numpy(), np.exp(wanted) * wanted * 2)
    assert calls == [200]


def test_dropout_is_the_same_when_it_is_computed_again() -> None:
    found = []
    for stack in (limited_to(None), limited_to(0)):
        x, seed = +stack.variable("x", np.ones(100)), +stack.variable("seed", stack.key(3).numpy())
        mask = stack.ops.random_uniform(seed, shape=(100,), dtype="float64") < 0.5
        y = (stack.ops.where(mask, x * x, 0.0) * x).sum()
        del mask
        found.append(stack.gradients([y], [x])[0].numpy())
    np.testing.assert_array_equal(*found)
    assert 0 < np.count_nonzero(found[0]) < 100


def test_what_was_evicted_before_what_it_is_made_of_was_forgotten_is_found_again() -> None:
    stack = limited_to(0)
    w, v = +stack.variable("w", np.linspace(0, 1, 5)), +stack.variable("v", np.ones(5))
    y = stack.ops.sin(w) * 2.0
    z = y * v
    del y, w  # nothing flows to w any more: y is a constant to z
    assert stack.live.nodes == 1
    np.testing.assert_allclose(stack.gradients([z], [v])[0].numpy(), 2 * np.sin(np.linspace(0, 1, 5)))
    lazy = nnc.lazy()
    np.testing.assert_allclose(lazy.engine.compile(stack.trace(z).to(lazy))(), z.numpy())
    del z, v
    assert (stack.live.symbols, cache(stack).bytes, cache(stack).evicted) == (0, 0, 0)


def test_it_is_computed_again_from_any_depth() -> None:
    stack = limited_to(0)
    x, v = +stack.variable("x", 0.5), +stack.variable("v", 1.0)
    y = x
    for _ in range(LONG):
        y = y * 1.0
    z = y * v
    del x, y
    graph = stack.trace(z)
    assert [n.data for n in graph.nodes if not n.args and n.op.name == "constant"] == [0.5, 1.0]
    assert stack.gradients([z], [v])[0].item() == 0.5


def test_the_page_of_what_is_alive_tells_what_is_evicted() -> None:
    stack = limited_to(0)
    x = +stack.variable("x", np.ones(100))
    y = stack.ops.sin(x * 2.0)
    assert (stack.live.saved, stack.live.bytes, stack.live.evicted) == (0, 0, 1)
    assert "evicted" in stack.live.to_html()
    assert "1 evicted" in str(stack.live)
    assert y.shape == (100,)


def test_memoising_within_a_limit() -> None:
    stack = nnc.dynamic(memory_limit=0, memoise=True)
    x = +stack.variable("x", np.ones(100))
    for _ in range(2):
        y = (stack.ops.sin(x * 2.0) * x).sum()
        np.testing.assert_allclose(stack.gradients([y], [x])[0].numpy(), np.sin(2) + 2 * np.cos(2))
    assert stack.memoisation.hits > 0


def test_a_value_on_the_way_and_its_gradient() -> None:
    stack = limited_to(0)
    x = +stack.variable("x", np.linspace(1, 2, 4))
    a = stack.ops.exp(x) * 1.0
    b = stack.ops.sin(a) * a
    y = (b * b).sum()
    del b
    (of_a, of_x) = stack.gradients([y], [a, x])
    (curved,) = stack.gradients([(of_a * of_a).sum()], [x])
    free = limited_to(None)
    u = +free.variable("x", np.linspace(1, 2, 4))
    c = free.ops.exp(u) * 1.0
    t = ((free.ops.sin(c) * c) ** 2).sum()
    of_c, of_u = free.gradients([t], [c, u])
    for one, other in ((of_a, of_c), (of_x, of_u), (curved, free.gradients([(of_c * of_c).sum()], [u])[0])):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10)


# --- steps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss_stays", [False, True])
def test_equal_steps_evict_the_same_values_and_compile_nothing(loss_stays: bool, monkeypatch: Any) -> None:
    stack, compiled = limited_to(256 * 16 * 4 * 20), []
    compile_ = nnc.Lazy.compile
    monkeypatch.setattr(nnc.Lazy, "compile", lambda *args: compiled.append(1) or compile_(*args))
    ws, x = network(stack)
    counts = set()
    for _ in range(4):
        loss = layers(stack, ws, x)
        gradients = stack.gradients([loss], ws)
        ws = [w - 0.01 * g for w, g in zip(ws, gradients, strict=True)]
        del gradients
        if not loss_stays:
            del loss
        counts.add(stack.live)
    assert len(compiled) == 1
    assert len(counts) == 1
    assert cache(stack).most <= cache(stack).limit + 256 * 16 * 4


def test_a_value_that_is_read_again_and_again_outlives_what_is_read_once() -> None:
    stack = limited_to(16_000)
    x = +stack.variable("x", np.ones(1000))
    code = stack.ops.exp(stack.ops.sin(x) * 1.0)  # of which one value is saved, and stays
    for n in range(6):
        y = (code * float(n)).sum()
        stack.gradients([y], [x])
        if n > 2:
            saved = stack.live.evicted
    assert saved <= 2


def test_threads_evict_and_compute_side_by_side() -> None:
    stack = limited_to(400)

    def work(shared: Any, seed: int) -> None:
        rng = np.random.default_rng(seed)
        x = +stack.variable(f"x{seed}", np.linspace(0, 1, 20))
        for _ in range(30):
            scale = float(rng.integers(1, 3))
            y = stack.ops.sin(x * scale) * stack.ops.exp(shared * 1.0)
            y = (y * y).sum()
            (g,) = stack.gradients([y], [x])
            wanted = np.exp(2.0) * 2 * scale * np.sin(scale * x.numpy()) * np.cos(scale * x.numpy())
            np.testing.assert_allclose(g.numpy(), wanted, rtol=1e-10, atol=1e-12)

    shared = +stack.variable("shared", np.ones(20))
    together(*[partial(work, shared, seed) for seed in range(4)])
    del shared
    assert stack.live.symbols == 0
    assert (cache(stack).bytes, cache(stack).evicted, cache(stack).evicted_bytes) == (0, 0, 0)


def test_a_limit_that_is_never_met_keeps_nothing() -> None:
    """Of what is gone nothing is left, though nothing is ever evicted."""
    stack = fresh(memory_limit="1GB")
    x = stack.variable("x", np.ones(3))

    def step() -> None:
        y = x
        for _ in range(8):
            y = stack.ops.sin(y)
        stack.gradients([y.sum()], [x])

    tracemalloc.start()
    try:
        for _ in range(100):
            step()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            step()
        assert tracemalloc.get_traced_memory()[0] < before + 150_000, "each step has left 800 bytes"
    finally:
        tracemalloc.stop()
