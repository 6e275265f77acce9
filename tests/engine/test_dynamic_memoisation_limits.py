"""How much of what was computed is kept, and by whom; random programs (`engine/dynamic/memoisation`)."""

from __future__ import annotations

import gc
import pickle
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.dynamic.memoisation import ENTRY, USUAL, Memo
from nnc_func.errors import LayerError, NumericsError, PlanError
from nnc_func.layer import PassThrough, layer
from nnc_func.testing import strategies
from nnc_func.testing.agreement import apply_at_once, follow
from nnc_func.testing.program import Program
from tests.engine.dynamic_stacks import LARGE, found, memoising, own_device, same, stack_array
from tests.engine.together import together
from tests.profiles import NIGHTLY, examples

# --- how much is kept -----------------------------------------------------------------------------------------


def test_bytes_are_never_more_than_the_limit() -> None:
    limit = 20_000
    stack = memoising(limit)
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
    stack = memoising(4 * (LARGE.nbytes + ENTRY))
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
        stack = memoising()
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
    stack = memoising(50_000)
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
    stack = memoising(200_000)
    constants = [stack.asarray(LARGE[:300] + k) for k in range(5)]
    wanted = {(i, k): np.sort(LARGE[:300] + i + k) for i in range(5) for k in range(40)}

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(400):
            i, k = int(rng.integers(5)), int(rng.integers(40))
            y = stack.ops.sort(constants[i] + k)
            np.testing.assert_allclose(y.numpy(), wanted[i, k], rtol=1e-12)

    together(*[partial(work, seed) for seed in range(4)])
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
    stack, made = memoising(100_000), list[float]()
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
    stack = memoising()
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
    stack = memoising().insert(Doubling)
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
    stack = memoising(device=device)
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
    stack = memoising()
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
    machine = own_device()
    other = own_device()
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
