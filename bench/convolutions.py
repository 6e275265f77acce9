"""GFLOP/s of each convolution of ResNet-50, and of matrix products, in a program and by oneDNN's own bare call.

python bench/convolutions.py [--rounds 40] [--threads 2] [--dtype float32] [--smallest]: prints a table, writes
bench/results/convolutions.json. With `--dtype bfloat16`, on a processor that multiplies it, it tells beside that the
share under `fast_math`, where operands are not looked at before, and how often as fast as float32 the program is; and
writes convolutions_bfloat16.json.

The bare call is ``dnnl_primitive_execute`` with arguments that are ready, of a primitive for inference whose algorithm
and order of weights the library chooses, and whose weights are packed before. A program is one operator on an input and
a constant, called from Python. Both take turns; the fastest of all rounds counts, and beside it the median is told. A
row's `share` is the program's GFLOP/s divided by the bare call's: the bar is 0.85. Without oneDNN there is nothing to
measure.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "2")

import numpy as np
from measure import options, report

import nnc_func as nnc
from nnc_func.device.onednn.library import library
from nnc_func.facets.dtypes import as_dtype

INFERENCE, AUTO = 96, 3  # ``dnnl_prop_kind_t``, ``dnnl_alg_kind_t``
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
PRODUCTS = ((100, 3136, 512), (256, 2048, 1024), (1024, 512, 512), (2048, 512, 2048), (128, 5000, 512))
BAR, LEAST = 0.85, 10_000_000  # FLOPs
FLOAT32 = np.dtype("float32")


def of_resnet() -> Iterator[tuple[int, int, int, int, int]]:
    """Of each convolution of ResNet-50 its side, channels in and out, the side of its kernel, and its stride."""
    yield 224, 3, 64, 7, 2
    side, channels = 56, 64
    for width, blocks, first in STAGES:
        for block in range(blocks):
            stride = first if block == 0 else 1
            if block == 0:
                yield side, channels, 4 * width, 1, stride
            yield side, channels, width, 1, 1
            yield side, width, width, 3, stride
            side //= stride
            yield side, width, 4 * width, 1, 1
            channels = 4 * width


def convolved(
    side: int, channels: int, outs: int, kernel: int, stride: int, dtype: Any, device: Any
) -> tuple[Any, Any, int]:
    """The program's call, the bare one, and the FLOPs."""
    from nnc_func.device.onednn.handles import ANY, Handle, attributes, data_type, sizes, strided, tagged
    from nnc_func.device.onednn.primitives import RESULT, SOURCE, WEIGHTS, assemble, images

    pad, random = kernel // 2, np.random.default_rng(0)
    x = random.normal(size=(1, side, side, channels)).astype(dtype)
    w = (random.normal(size=(kernel, kernel, channels, outs)) / (kernel * channels**0.5)).astype(dtype)
    lazy = nnc.lazy(device)
    given = lazy.input("x", x.shape, dtype)
    padding = ((pad, pad), (pad, pad))
    program = lazy.compile([given], lazy.ops.conv2d(given, w, stride=(stride, stride), padding=padding))
    y, number = np.empty(program(x).shape, dtype), data_type(dtype)
    found = library()
    (xs, xt), (ys, yt) = images(x.shape), images(y.shape)
    source, result = strided(found, xs, xt, number), strided(found, ys, yt, number)
    extents = (outs, channels, kernel, kernel)
    made = found.made(
        "convolution_forward_primitive_desc_create", found.engine, INFERENCE, AUTO, source,
        tagged(found, extents, ANY, number), None, result, sizes((stride,) * 2), sizes((0, 0)), sizes((pad,) * 2),
        sizes((pad,) * 2), attributes(found),
    )  # fmt: skip
    plain = strided(found, extents, (1, outs, kernel * channels * outs, channels * outs), number)
    arguments = [(SOURCE, source), (WEIGHTS, plain), (RESULT, result)]
    primitive = assemble(found, Handle(found, "primitive_desc", made), arguments, (1,))
    flops = 2 * y.size * kernel * kernel * channels
    check(bare(primitive, [x, w, y], 1)(), program(x), 1e-4)
    return (lambda: program(x)), bare(primitive, [x, w, y], 1), flops


def multiplied(rows: int, inner: int, columns: int, dtype: Any, device: Any) -> tuple[Any, Any, int]:
    """As `convolved`, of a matrix product."""
    from nnc_func.device.onednn.handles import data_type
    from nnc_func.device.onednn.primitives import Product, product

    random = np.random.default_rng(0)
    a, b = (random.normal(size=size).astype(dtype) for size in ((rows, inner), (inner, columns)))
    lazy = nnc.lazy(device)
    given = lazy.input("a", a.shape, dtype)
    program = lazy.compile([given], given @ b)
    primitive = product(Product(a.shape, b.shape, left_lies=False, right_lies=False, dtype=data_type(dtype)), (1,))
    call = bare(primitive, [a, b, np.empty((rows, columns), dtype)], 1)
    check(call(), program(a), 1e-3)
    return (lambda: program(a)), call, 2 * rows * inner * columns


def check(one: Any, other: Any, near: float) -> None:
    """Both computed the same."""
    one, other = (np.asarray(x) for x in (one, other))
    rounding = 1e-3 if one.dtype == FLOAT32 else 2.0**-7
    np.testing.assert_allclose(one.astype(FLOAT32), other.astype(FLOAT32), rtol=rounding, atol=near)


def bare(primitive: Any, arrays: list[Any], lasting: int) -> Callable[[], Any]:
    """The call of a primitive of one step whose memory objects are ready; it gives the last array."""
    from nnc_func.device.onednn.handles import Handle, Pair
    from nnc_func.device.onednn.packing import packed

    found = primitive.library
    ((step, arguments),) = primitive.steps
    places = [packed(primitive, n, a) if n == lasting and n in primitive.packings else a for n, a in enumerate(arrays)]
    stream = Handle(found, "stream", found.made("stream_create", found.engine, 1))
    scratch = np.empty(primitive.room + 64, np.uint8)
    begin = -(-scratch.ctypes.data // 64) * 64
    pairs, kept = (Pair * len(arguments))(), [stream, scratch, primitive, places]
    for pair, argument in zip(pairs, arguments, strict=True):
        place = begin + argument.offset if argument.array is None else places[argument.array].ctypes.data
        made = found.made("memory_create", argument.description, found.engine, ctypes.c_void_p(place))
        kept.append(Handle(found, "memory", made))
        pair.number, pair.memory = argument.number, kept[-1].pointer.value
    execute, count = found.functions.dnnl_primitive_execute, ctypes.c_int(len(arguments))

    def run(kept: Any = kept) -> Any:
        execute(step.pointer, stream.pointer, count, pairs)
        return arrays[-1]

    return run


def row(name: str, times: int, make: Callable[..., Any], dtype: Any, rounds: int) -> dict[str, Any]:
    """Those that `make` makes of a dtype and a device take turns."""
    program, call, flops = make(dtype, nnc.CPU())
    runs = [program, call]
    if dtype != FLOAT32:
        runs += [make(dtype, nnc.CPU(fast_math=True))[0], make(FLOAT32, nnc.CPU())[0]]
    taken: list[list[float]] = [[] for _ in runs]
    number = max(1, int(2e8 / flops))
    for _ in range(rounds):
        for each, seconds in zip(runs, taken, strict=True):
            start = time.perf_counter()
            for _ in range(number):
                each()
            seconds.append((time.perf_counter() - start) / number)
    ours, theirs, *others = (flops / min(seconds) / 1e9 for seconds in taken)
    medians = statistics.median(b / a for a, b in zip(*taken[:2], strict=True))
    found = {"what": name, "times": times, "MFLOP": round(flops / 1e6), "program GFLOP/s": ours}
    found |= {"bare GFLOP/s": theirs, "share": ours / theirs, "median share": medians}
    if not others:
        return found
    fast, wide = others
    return found | {"share, fast math": fast / theirs, "times float32": ours / wide, "fast math": fast / wide}


def main() -> None:
    """Measure, print, write."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    given = parser.parse_args()
    dtype = as_dtype(given.dtype)
    if library() is None:
        print("oneDNN is not here: there is nothing to measure")
        return
    shapes: dict[tuple[int, ...], int] = {}
    for shape in of_resnet():
        shapes[shape] = shapes.get(shape, 0) + 1
    rounds, rows = (3 if given.smallest else given.rounds), []
    for shape, times in [*shapes.items()][: 2 if given.smallest else None]:
        side, channels, outs, kernel, stride = shape
        name = f"{side}x{side}x{channels} -> {outs}, {kernel}x{kernel}, stride {stride}"
        rows.append(row(name, times, partial(convolved, *shape), dtype, rounds))
    for sizes in PRODUCTS[: 1 if given.smallest else None]:
        rows.append(row(" x ".join(map(str, sizes)), 1, partial(multiplied, *sizes), dtype, rounds))
    counted = [r for r in rows if 1e6 * r["MFLOP"] >= LEAST]
    print(f"{sum(r['times'] for r in rows)} operators; the least share {min(r['share'] for r in counted):.3f} of {BAR}")
    name = "convolutions" if dtype == FLOAT32 else "convolutions_bfloat16"
    report(name, rows, smallest=given.smallest, threads=given.threads)


if __name__ == "__main__":
    main()
