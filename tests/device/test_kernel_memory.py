"""Kernels that write into given memory take next to none of their own (`device/kernels`, `device/kernels/formulas`)."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.device.kernels.formulas import recorded
from nnc_func.device.shared import workers
from nnc_func.device.shared.namespace import candidates, writing
from nnc_func.engine.running.program import BUFFERED
from nnc_func.errors import NncError
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op

LARGE = 1 << 22  # bytes of an operand or a result, at least
MOST = 1 << 16  # bytes that a kernel may take for itself
FACTORS = (2, 4, 8, 16, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20)
DECLARED = {"fourier", "real_fourier", "inverse_real_fourier"}  # what NumPy's library takes is private
HOST = {"print", "callback", "check", "assert_finite"}  # effects hand arrays to a user's function
PLACES: Any = (  # what is made larger of the shapes of operands: (operand, axis); None: of all of them
    (0, 0), (None, 0), (None, -1), (0, -1), (1, -1), (0, 1), (None, 1), (0, -2),
)  # fmt: skip
SMALL = {  # whose operands are of a few bytes, or of dtypes of which no sample is made large
    "cast", "logical_and", "logical_not", "logical_or", "logical_xor", "one_hot", "random_bernoulli", "random_bits",
    "random_fold_in", "random_normal", "random_split", "random_uniform", "token",
}  # fmt: skip
OPERATORS = [
    op for op in CATALOGUE.values()
    if op.view is None and op.samples.prepare is None and op.name not in DECLARED | HOST | SMALL and any(
        (k.into or k.ufunc) and k.library is None and (k.namespaces is None or "numpy" in k.namespaces)
        for k in op.kernels
    )
]  # fmt: skip
Drawn = tuple[list[tuple[tuple[int, ...], Any, Any]], dict[str, Any]]


def _drawn(op: Op) -> Iterator[Drawn]:
    """Shapes, dtypes and domains of operands, and parameters, of which some are large."""
    samples = op.samples
    if samples.relation != "cases":
        for count in (1, 2, 3):
            for shape in ((1024, 1032), (8, 400, 400)):
                shapes = [shape] * count
                try:
                    params = samples.params(shapes, lambda each: each[-1]) if samples.params else {}
                except (IndexError, ValueError):
                    continue
                yield [(s, None, None) for s in shapes], params
    for specs, params in samples.cases:
        base = [s if s and isinstance(s[0], tuple) else (s,) for s in specs]
        for operand, axis in PLACES:
            for factor in FACTORS:
                found = []
                for n, (shape, *rest) in enumerate(base):
                    larger = [*shape]
                    if operand in (n, None) and -len(shape) <= axis < len(shape):
                        larger[axis] *= factor
                    found.append((tuple(larger), rest[0] if rest else None, rest[1] if len(rest) > 1 else None))
                sized = {
                    k: (v[0] * factor, *v[1:]) for k, v in params.items()
                    if k in ("input_shape", "shape") and axis == 0 and isinstance(v, tuple) and v
                }  # fmt: skip
                if sum(math.prod(shape) for shape, _, _ in found) > 1 << 22:
                    break
                yield found, {**params, **sized}


def _given(op: Op, drawn: Drawn) -> Any:
    """Operands, results and parameters in their form; None where the operator does not take them, or all is small."""
    specs, params = drawn
    default = op.samples.dtypes[0] if op.samples.dtypes else "float32"
    try:
        items = op.canonical(params)
        op.check_arity(len(specs))
        shape = op.shape(*(s for s, _, _ in specs), **dict(items))
        dtype = op.dtype(*(np.dtype(d or default) for _, d, _ in specs), **dict(items))
    except Exception:  # rules see what nobody has checked
        return None
    pairs = [*zip(shape, dtype, strict=True)] if op.multi_result else [(shape, dtype)]
    sizes = [math.prod(s) * np.dtype(d or default).itemsize for s, d, _ in specs]
    sizes += [math.prod(s) * d.itemsize for s, d in pairs]
    if not LARGE <= max(sizes) <= 4 * LARGE:
        return None
    numbers, domain = np.random.default_rng(0), op.samples.domain
    arrays = []
    for n, (s, d, own) in enumerate(specs):
        low, high = own or (domain[n] if isinstance(domain[0], tuple) else domain)
        kind = np.dtype(d or default)
        found = numbers.uniform(low, high, s) if kind.kind in "fc" else numbers.integers(0, max(1, int(high)), s)
        arrays.append(np.asarray(found).astype(kind))
    return arrays, [np.zeros(s, d) for s, d in pairs], items


def beside_its_plan(program: Any, given: Any, out: Any) -> int:
    """The most bytes that a run of one argument and one result takes, once it has run before."""
    program(given, out=[out])
    return _traced(partial(program, given, out=[out]))


def taken(op: Op, kernel: Kernel, arrays: Any, outs: Any, items: Any) -> int:
    """The most bytes that a kernel takes for itself, once it has been called."""
    avals = tuple(Aval(a.shape, a.dtype) for a in arrays)
    wanted = kernel.scratch(avals, **dict(items)) if kernel.scratch else ()
    scratch = tuple(np.zeros(shape, dtype) for shape, dtype in wanted)
    calls = [writing(np, kernel, items, len(outs), scratch)]
    of = kernel.bound((*avals, *(Aval(o.shape, o.dtype) for o in outs)), **dict(items)) if kernel.bound else None
    calls += [of(*scratch)] if of else []
    most = 0
    for call in calls:
        call(*arrays, *outs)
        most = max(most, _traced(partial(call, *arrays, *outs)))
    return most


def _traced(call: Callable[[], Any]) -> int:
    """The most bytes at one time; the least of three times where it is much.

    What other threads take meanwhile counts, such as a runner's that is given more tests to run.
    """
    least = math.inf
    for _ in range(3):
        tracemalloc.start()
        try:
            call()
            least = min(least, tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        if least <= MOST:
            break
    return int(least)


@pytest.fixture
def small_buffers() -> Iterator[None]:
    """Where arrays have gaps NumPy itself goes through buffers; they are as small as while a program runs."""
    before = np.setbufsize(BUFFERED)
    with np.errstate(all="ignore"):
        yield
    np.setbufsize(before)


@pytest.mark.parametrize("op", OPERATORS, ids=str)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.usefixtures("small_buffers")
def test_a_kernel_takes_next_to_nothing(op: Op, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever machine it is on: how many threads are spare is not asked."""
    monkeypatch.setattr(workers, "spare", lambda: threads)
    met: set[str] = set()
    idle = 0
    for drawn in _drawn(op):
        given = _given(op, drawn) if idle < 3 else None
        if given is None:
            continue
        arrays, outs, items = given
        idle += 1
        for kernel in candidates(op, tuple(Aval(a.shape, a.dtype) for a in arrays), dict(items), "numpy"):
            if kernel.name in met or not (kernel.into or kernel.ufunc):
                continue
            met.add(kernel.name)
            idle = 0
            found = taken(op, kernel, arrays, outs, items)
            assert found <= MOST, f"{kernel.name!r} takes {found} bytes for {[a.shape for a in arrays]}, {dict(items)}"
    assert met, "no sample of it is made large"


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("shape", "width"), [((64, 200), 96), ((20_000, 2), 96), ((2, 3, 4000), 96), ((64, 40), 768)])
@pytest.mark.usefixtures("small_buffers")
def test_rows_that_lie_apart_are_added_without_a_copy(shape: tuple[int, ...], axis: int, width: int) -> None:
    """The gradient of an embedding of a loop's steps took as much as the gradients of the steps."""
    op = CATALOGUE["scatter_add"]
    numbers = np.random.default_rng(0)
    indices = numbers.integers(0, 65, shape)
    x = numbers.standard_normal((65, width) if axis == 0 else (width, 65)).astype("float32")
    whole = (*shape, width) if axis == 0 else (width, *shape)
    apart = numbers.standard_normal(whole[::-1]).astype("float32").T
    out = np.empty_like(x)
    items = op.canonical({"axis": axis})
    avals = tuple(Aval(a.shape, a.dtype) for a in (x, indices, apart))
    kernel = next(each for each in candidates(op, avals, dict(items), "numpy") if each.into)
    assert apart.nbytes >= LARGE
    assert taken(op, kernel, (x, indices, apart), (out,), items) <= MOST
    wanted = x.copy()
    flat = np.ascontiguousarray(apart)
    if axis == 0:
        np.add.at(wanted, indices.reshape(-1), flat.reshape(-1, width))
    else:
        np.add.at(wanted.T, indices.reshape(-1), flat.reshape(width, -1).T)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("distinct", [2, 500, 60_000])
@pytest.mark.parametrize(("count", "width"), [(16_384, (128,)), (8_192, (2, 100)), (4_096, (511,)), (16_384, (768,))])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.usefixtures("small_buffers")
def test_rows_that_are_added_are_brought_together_in_planned_memory(
    count: int, width: tuple[int, ...], distinct: int, gaps: bool
) -> None:
    """Up to 4 MB of them were copied, which no plan counted; and all indices became numbers of Python."""
    op = CATALOGUE["scatter_add"]
    numbers = np.random.default_rng(0)
    indices = numbers.integers(-distinct, distinct, count)
    x = numbers.standard_normal((distinct, *width)).astype("float32")
    rows = numbers.standard_normal((count * (1 + gaps), *width)).astype("float32")[:: 1 + gaps]
    out = np.empty_like(x)
    items = op.canonical({"axis": 0})
    avals = tuple(Aval(a.shape, a.dtype) for a in (x, indices, rows))
    kernel = next(each for each in candidates(op, avals, dict(items), "numpy") if each.into)
    assert rows.nbytes >= LARGE
    assert taken(op, kernel, (x, indices, rows), (out,), items) <= MOST
    wanted = x.copy()
    np.add.at(wanted, indices, rows)
    np.testing.assert_array_equal(out, wanted)


def test_what_is_planned_for_rows_is_little_whatever_there_is_of_them() -> None:
    stack = nnc.lazy()
    x, at = stack.input("x", (50_000, 256), "float32"), stack.input("at", (100_000,), "int64")
    rows = stack.input("rows", (100_000, 256), "float32")
    program = stack.compile([x, at, rows], [stack.ops.scatter_add(x, at, rows, axis=0)])
    assert 1 << 17 < program.plan.arena_bytes <= 3 << 17  # two rooms of 128 KiB, and a row
    given = np.zeros((50_000, 256), "float32"), np.arange(100_000) // 2, np.ones((100_000, 256), "float32")
    found = program(*given)
    assert np.all(np.asarray(found) == 2)


@pytest.mark.parametrize("shape", [(64, 64, 300), (2, 9000, 100), (1 << 20, 2)])
def test_a_part_that_is_copied_between_parts_of_one_whole_takes_next_to_nothing(shape: tuple[int, ...]) -> None:
    """What is wanted twice of a tensor that is put together was copied twice, with 580 kB in a network of DARTS."""
    stack = nnc.lazy()
    x = stack.input("x", shape, "float32")
    y = stack.ops.exp(x)
    program = stack.compile([x], [stack.ops.concat(y, stack.ops.sin(x), y, axis=-1)])
    assert "copy" in [i.op.name for i in program.plan.instructions]
    given = np.linspace(-1, 1, math.prod(shape), dtype="float32").reshape(shape)
    out = np.empty((*shape[:-1], 3 * shape[-1]), "float32")
    assert beside_its_plan(program, given, out) <= MOST
    np.testing.assert_array_equal(out, np.concatenate([np.exp(given), np.sin(given), np.exp(given)], -1))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int64"])
def test_classes_are_compared_into_the_result(checked: bool, dtype: str) -> None:
    """Those that are checked took the result once more, and what is compared."""
    stack = nnc.lazy()
    x = stack.input("x", (1000, 700), "int64")
    program = stack.compile([x], [stack.ops.one_hot(x, depth=2, dtype=dtype, checked=checked)])
    given, out = np.arange(700_000).reshape(1000, 700) % 2, np.empty((1000, 700, 2), dtype)
    assert beside_its_plan(program, given, out) <= MOST
    assert sum(program.plan.private_bytes) == 0
    np.testing.assert_array_equal(out, (given[..., None] == np.arange(2)).astype(dtype))
    given[0, 0] = 2
    with pytest.raises(NncError, match="number 2 is none of 2 classes") if checked else nullcontext():
        program(given)


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize("count", [2, 64])
def test_of_many_classes_some_are_compared_at_a_time(dtype: str, count: int) -> None:
    """Training of GPT-2 took 402 kB for the numbers of all words."""
    stack = nnc.lazy()
    x, depth = stack.input("x", (2, count), "int64"), 50_257
    program = stack.compile([x], [stack.ops.one_hot(x, depth=depth, dtype=dtype, checked=True)])
    given = np.random.default_rng(0).integers(0, depth, (2, count))
    given[:, :2] = 0, depth - 1
    out = np.empty((2, count, depth), dtype)
    assert beside_its_plan(program, given, out) <= MOST
    np.testing.assert_array_equal(out, (given[..., None] == np.arange(depth)).astype(dtype))


@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [((1 << 17, 8), 3, 1), ((8, 1 << 17), 3, 0), ((300, 40, 90), 7, 1), ((1 << 20,), 9000, 0), ((1, 1 << 20), 9000, 1)],
)
@pytest.mark.usefixtures("small_buffers")
def test_what_is_added_along_an_axis_takes_no_numbers_of_the_others(
    shape: tuple[int, ...], count: int, axis: int
) -> None:
    """The gradient of what is taken along an axis took 8 bytes for each place of the others, and more in NumPy."""
    op, numbers = CATALOGUE["put_along_axis_add"], np.random.default_rng(0)
    fewer = (*shape[:axis], count, *shape[axis + 1 :])
    indices = numbers.integers(-shape[axis], shape[axis], fewer)
    indices[indices % 3 == 0] = 1 % shape[axis]  # which are added in their order
    x, updates = (numbers.standard_normal(each).astype("float32") for each in (shape, fewer))
    items = op.canonical({"axis": axis})
    avals = tuple(Aval(a.shape, a.dtype) for a in (x, indices, updates))
    kernel = next(each for each in candidates(op, avals, dict(items), "numpy") if each.into)
    out = np.empty_like(x)
    assert taken(op, kernel, (x, indices, updates), (out,), items) <= MOST
    grid = [np.arange(n).reshape(*(1,) * i, -1, *(1,) * (x.ndim - i - 1)) for i, n in enumerate(shape)]
    grid[axis] = indices
    np.add.at(x, tuple(grid), updates)
    np.testing.assert_array_equal(out, x)


def test_most_kernels_were_met() -> None:
    assert len(OPERATORS) + len(SMALL) > 150


def test_a_fused_product_with_an_error_function_takes_next_to_nothing() -> None:
    """GELU behind a layer of a transformer took 1.27 MB inside."""
    stack = nnc.lazy()
    shapes = (512, 768), (768, 3072), (3072,)
    x, w, b = (stack.input(name, shape, "float32") for name, shape in zip("xwb", shapes, strict=True))
    y = x @ w + b
    program = stack.compile([x, w, b], [y * 0.5 * (1 + stack.ops.erf(y * 0.7071))])
    assert [i.op.name for i in program.plan.instructions] == ["matmul_blockwise"]
    arrays = [np.ones(shape, "float32") for shape in shapes]
    out = np.empty((512, 3072), "float32")
    program(*arrays, out=[out])
    tracemalloc.start()
    program(*arrays, out=[out])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most <= MOST


@pytest.mark.parametrize("fails", [False, True])
def test_numpys_buffers_are_small_while_a_program_runs(fails: bool) -> None:
    """They lie in no plan. Afterwards they are as they were; where all arrays are small nobody looks at them."""
    seen: list[int] = []
    before = np.getbufsize()

    def looking(array: Any) -> Any:
        seen.append(np.getbufsize())
        if fails:
            raise RuntimeError("of the user's own")
        return array

    for size in (BUFFERED, 4 * BUFFERED):
        stack = nnc.lazy()
        x = stack.input("x", (size,), "float32")
        _, y = stack.ops.callback(x * 2, function=looking, shapes=((size,),), dtypes=("float32",), after=stack.token())
        program = stack.compile([x], [y])
        for _ in range(3):
            with pytest.raises(NncError) if fails else nullcontext():
                program(np.ones(size, "float32"))
            assert np.getbufsize() == before
    assert seen == [before] * 3 + [BUFFERED] * 3


def test_a_run_takes_next_to_nothing_beyond_its_plan_where_arrays_have_gaps() -> None:
    """With NumPy's own buffers this took 73 kB."""
    shape = (32768, 4, 4, 3)
    stack = nnc.lazy()
    x = stack.input("x", shape, "float32")
    program = stack.compile([x], [stack.ops.max_pool2d(x, window=(2, 2))])
    given, out = np.ones(shape, "float32"), [np.empty((32768, 2, 2, 3), "float32")]
    program(given, out=out)
    tracemalloc.start()
    program(given, out=out)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most <= MOST


@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv", "dawsn", "lgamma"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 20_000), (70_000,)])
def test_a_recorded_formula_has_the_bits_of_the_formula(name: str, dtype: str, shape: Any) -> None:
    op = CATALOGUE[name]
    x = np.asarray(np.random.default_rng(0).standard_normal(shape) * 4).astype(dtype)
    if x.size:
        flat = x.reshape(-1)
        flat[: min(8, x.size)] = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -3][: min(8, x.size)]
    with np.errstate(all="ignore"):
        wanted = np.asarray(op.kernels[-1].compute(np, x))  # type: ignore[misc]
    found = op.kernels[0].compute(np, x)  # type: ignore[misc]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_a_formula_may_read_its_argument_last() -> None:
    """The result lies over it."""
    double = np.dtype("float64")
    formula = recorded(lambda xp, x: xp.where(x > 1, x, xp.exp(x) * x), double, double, double, ())
    x = np.linspace(-2, 2, 9)
    wanted = np.where(x > 1, x, np.exp(x) * x)
    formula.run(x, x, [np.full(9, 77).astype(each) for each in formula.registers])
    np.testing.assert_array_equal(x, wanted)
