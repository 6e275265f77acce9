"""Null: a device that computes nothing. It infers shapes and dtypes, plans and runs as others do, and counts.

A graph of any size is built, optimised, planned and run on it at once, on a machine that could never hold it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
from attrs import Factory, define, field

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.gpu import GPU
from nnc_func.device.shared.bounds import check_view
from nnc_func.device.shared.host import HOST, foreign, numbers
from nnc_func.device.shared.namespace import (
    MEMO_LIMIT,
    SCALARS,
    candidates,
    check_dtypes,
    check_shapes,
    choose,
    computed,
)
from nnc_func.errors import DeviceError
from nnc_func.facets.dtypes import weak
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.machine import CORE, Machine
from nnc_func.layer import Layer, layer
from nnc_func.op import Op

WHY = (
    "Null() has no elements: it computes nothing. Move the graph to a device that computes, with graph.to(stack), "
    "or compose the stack on one, with stack.swap(device=NumPy())"
)


@define
class Counts:
    """What a `Null` device was asked for, since it was made or last reset.

    Attributes
    ----------
    applications
        Operators computed; views are counted apart, since nothing is computed for them.
    views
        Views taken.
    allocations, allocated_bytes
        Arrays made, arenas among them, and their bytes.
    live_bytes, peak_bytes
        Bytes of the arrays that exist now, and the most that there were at one time.
    flops, moved_bytes
        Arithmetic, and bytes read and written, as the operators' cost facets tell.
    by_operator
        Applications by the name of the operator.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> null = nnc.Null()
    >>> x = nnc.eager(null).ops.add(null.empty((2, 3), "float32"), 1.0)
    >>> print(null.counts)
    1 applications, 0 views, 2 allocations of 48 bytes, 24 live, 48 at the peak, 6 FLOPs, 52 bytes moved
      add  1
    """

    applications: int = 0
    views: int = 0
    allocations: int = 0
    allocated_bytes: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    flops: int = 0
    moved_bytes: int = 0
    by_operator: Counter[str] = field(factory=Counter)

    def reset(self) -> None:
        """Start anew. What is alive stays counted as live."""
        self.applications = self.views = self.allocations = self.allocated_bytes = self.flops = self.moved_bytes = 0
        self.by_operator.clear()
        self.peak_bytes = self.live_bytes

    def allocated(self, nbytes: int) -> None:
        """An array came to be."""
        self.allocations += 1
        self.allocated_bytes += nbytes
        self.live_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def freed(self, nbytes: int) -> None:
        """An array that was counted is gone."""
        self.live_bytes -= nbytes

    def applied(self, name: str, flops: int, moved: int) -> None:
        """An operator was computed."""
        self.applications += 1
        self.flops += flops
        self.moved_bytes += moved
        self.by_operator[name] += 1

    def __str__(self) -> str:
        first = (
            f"{self.applications:,} applications, {self.views:,} views, {self.allocations:,} allocations of "
            f"{self.allocated_bytes:,} bytes, {self.live_bytes:,} live, {self.peak_bytes:,} at the peak, "
            f"{self.flops:,} FLOPs, {self.moved_bytes:,} bytes moved"
        )
        width = max(map(len, self.by_operator), default=0)
        return "\n".join([first, *(f"  {name:{width}}  {n:,}" for name, n in self.by_operator.most_common())])


class NullArray:
    """An array without elements.

    Attributes
    ----------
    shape, dtype
        What is known of it.
    base
        The array whose memory it shows; None for one that has its own.
    contiguous
        Its elements would lie side by side, in C order.
    """

    __slots__ = ("__weakref__", "_counts", "base", "contiguous", "dtype", "nbytes", "shape")

    def __init__(
        self, shape: Any, dtype: Any, counts: Counts | None = None, base: NullArray | None = None,
        contiguous: bool = True,
    ) -> None:  # fmt: skip
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.base = base
        self.contiguous = contiguous
        self._counts = counts
        if counts is not None:
            counts.allocated(self.nbytes)

    def __del__(self) -> None:
        if self._counts is not None:
            self._counts.freed(self.nbytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return NullArray, (self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"NullArray({self.shape}, {self.dtype})"

    @property
    def ndim(self) -> int:
        """Rank."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of the elements that it has not."""
        return math.prod(self.shape)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing: where there are no elements, none changes."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise DeviceError(WHY)

    __array__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = __getitem__ = __iter__ = _refuse


def _machine(like: str) -> Machine:
    """That of the device whose kernels are chosen."""
    return GPU if like == "cupy" else CORE


@layer()
class Null(Layer):
    """No device at all: every operator is inferred, none computed.

    Attributes
    ----------
    like
        The array namespace whose kernels are chosen: plans are those of that device, wherever they are made.
    machine
        The one for which costs are estimated; that of such a device if nothing is said.
    counts
        What was asked for so far: see `Counts`. No part of the recipe: all ``Null()`` are equal.

    Examples
    --------
    Three tensors of sixteen gigabytes:

    >>> import nnc_func as nnc
    >>> plan = nnc.lazy().swap(device=nnc.Null())
    >>> x = plan.input("x", (1 << 32,), "float32")
    >>> plan.compile(inputs=[x], outputs=[plan.ops.exp(x).sum()]).plan.arena_bytes
    17179869184
    """

    like: str = "numpy"
    machine: Machine = field(default=Factory(lambda self: _machine(self.like), takes_self=True))
    counts: Counts = field(init=False, factory=Counts, eq=False, repr=False)
    _memo: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)

    role: ClassVar[Literal["device"]] = "device"
    has_memory: ClassVar[bool] = True
    alignment: ClassVar[int] = 64
    array_type: ClassVar[Any] = NullArray
    binds_kernels: ClassVar[bool] = False
    views: ClassVar[None] = None
    forgets_elements: ClassVar[bool] = True  # so what it is given need not be copied

    def __repr__(self) -> str:
        said = [f"like={self.like!r}"] if self.like != "numpy" else []
        said += [f"machine={self.machine!r}"] if self.machine != _machine(self.like) else []
        return f"Null({', '.join(said)})"

    # --- operators ------------------------------------------------------------------------------------

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """Arrays of the shapes and dtypes that the operator's rules give; nothing is computed.

        Raises
        ------
        DeviceError
            An array of another device, or no kernel for these arguments.
        ShapeError, DTypeError
            The operator does not take these arguments.
        """
        arrays, items, view = self._arrays(op, args), op.canonical(params), op.view
        found = self._work(op, tuple(map(self.aval, arrays)), items)[0]
        if view is not None and (arrays[view.argument].contiguous or not view.needs_contiguous):
            return self._views(op, arrays[view.argument], found)
        self._count(op, arrays, items)
        results = tuple(NullArray(a.shape, a.dtype, self.counts, contiguous=a.layout is None) for a in found)
        return results if op.multi_result else results[0]

    def _arrays(self, op: Op, args: tuple[Any, ...]) -> tuple[NullArray, ...]:
        dtypes = tuple([a.dtype for a in args if isinstance(a, (NullArray, *HOST))])
        return tuple([self._array(op, a, dtypes) for a in args])

    def _array(self, op: Op, array: Any, dtypes: Any) -> NullArray:
        if type(array) is NullArray:
            return array
        if type(array) in SCALARS:
            return NullArray((), weak(array, dtypes))
        if isinstance(array, HOST):
            return self.asarray(array)
        raise foreign(self, array, op.name)

    def _work(self, op: Op, avals: tuple[Aval, ...], items: Items) -> tuple[tuple[Aval, ...], int, int]:
        """Avals of the results, FLOPs, and bytes read and written."""
        key = (op, avals, op.key(items))
        found: tuple[tuple[Aval, ...], int, int] | None = self._memo.get(key)
        if found is None:
            if len(self._memo) >= MEMO_LIMIT:
                self._memo.clear()
            found = self._memo[key] = self._inferred(op, avals, items)
        return found

    def _inferred(self, op: Op, avals: tuple[Aval, ...], items: Items) -> tuple[tuple[Aval, ...], int, int]:
        op.check_arity(len(avals))
        check_dtypes(op, avals, items)
        check_shapes(op, avals, items)
        self.choose(op, avals, items)
        params = dict(items)
        shape = op.shape(*(a.shape for a in avals), **params)
        dtype = op.dtype(*(a.dtype for a in avals), **params)
        pairs = zip(shape, dtype, strict=True) if op.multi_result else ((shape, dtype),)
        results = tuple([Aval(s, d, op.layout(avals, s, **params)) for s, d in pairs])
        cost = op.cost(avals, results, **params)
        return results, cost.flops, sum(a.nbytes for a in (*avals, *results)) + cost.extra_bytes

    def _views(self, op: Op, base: NullArray, avals: tuple[Aval, ...]) -> Any:
        """What a view operator gives, of these avals."""
        assert op.view is not None, op
        self.counts.views += len(avals)
        whole = base.contiguous and op.view.contiguous
        found = tuple([NullArray(a.shape, a.dtype, base=base, contiguous=whole) for a in avals])
        return found if op.multi_result else found[0]

    def _count(self, op: Op, arrays: tuple[Any, ...], items: Items) -> None:
        _, flops, moved = self._work(op, tuple(map(self.aval, arrays)), items)
        self.counts.applied(op.name, flops, moved)

    def fold_constant(self, op: Op, *operands: Any, **params: Hashable) -> Any:
        """A constant while a graph is optimised: of operands whose elements the graph knows, computed on the host."""
        if not all(isinstance(o, HOST) for o in operands):
            return self.bind(op, *operands, **params)
        avals, items = tuple(Aval(o.shape, o.dtype) for o in operands), op.canonical(params)
        self.choose(op, avals, items)  # what the device could not run is not folded either
        return np.asarray(computed(np, "numpy", op, avals, items)(*operands))

    # --- memory ---------------------------------------------------------------------------------------

    def choose(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Kernel:
        """The kernel that the namespace `like` would run."""
        return choose(op, avals, dict(items), self.like)

    def candidates(self, op: Op, avals: tuple[Aval, ...], items: Items) -> tuple[Kernel, ...]:
        """All kernels that the namespace `like` could run, the chosen one first."""
        return candidates(op, avals, dict(items), self.like)

    def writing(self, op: Op, kernel: Kernel, items: Items, outs: int, scratch: tuple[Any, ...]) -> Callable[..., Any]:
        """The kernel as a function ``f(*arrays, *outs)`` that counts."""

        def count(*arrays: NullArray) -> None:
            self._count(op, arrays[: len(arrays) - outs], items)

        return count

    def viewing(self, op: Op, items: Items) -> Callable[..., Any]:
        """A view operator as a function of its operand."""
        assert op.view is not None, op

        def shown(array: NullArray) -> Any:
            return self._views(op, array, self._work(op, (self.aval(array),), items)[0])

        return shown

    def row(self, array: NullArray, number: int) -> NullArray:
        """The part of an array at a place along its first axis: a view of it."""
        return NullArray(array.shape[1:], array.dtype, base=array, contiguous=array.contiguous)

    def decision(self, array: NullArray) -> int:
        """0: there are no elements. A run takes the first branch; where a value says how many times, it goes none."""
        return 0

    def empty(self, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> NullArray:
        """An array, counted; strides in bytes, None for row-major."""
        return NullArray(shape, dtype, self.counts, contiguous=strides is None)

    def arena(self, nbytes: int) -> NullArray:
        """A run of `nbytes` bytes, counted."""
        return self.empty((nbytes,), np.uint8)

    def view(self, arena: NullArray, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> NullArray:
        """The array of that shape that would lie `offset` bytes into the arena; strides in bytes, None for row-major.

        Raises
        ------
        DeviceError
            It would lie outside.
        """
        check_view(arena.nbytes, offset, shape, strides, np.dtype(dtype).itemsize)
        return NullArray(shape, dtype, base=arena, contiguous=strides is None)

    # --- values ---------------------------------------------------------------------------------------

    def owns(self, array: Any) -> bool:
        """Whether it is an array of this device."""
        return type(array) is NullArray

    def asarray(self, value: Any, dtype: Any = None) -> NullArray:
        """An array with the shape and dtype of that value: its elements are forgotten.

        Raises
        ------
        DeviceError
            The value is not numbers.
        """
        if type(value) is NullArray and dtype in (None, value.dtype):
            return value
        host = value if isinstance(value, NullArray) else numbers(self, value)
        return self.empty(host.shape, host.dtype if dtype is None else dtype)

    def to_numpy(self, array: Any) -> NoReturn:
        """Refuse.

        Raises
        ------
        DeviceError
            There are no elements.
        """
        raise DeviceError(WHY)

    def aval(self, array: Any) -> Aval:
        """Shape and dtype of an array."""
        return Aval(array.shape, array.dtype)

    def synchronise(self) -> None:
        """Wait for what was started: nothing was."""
