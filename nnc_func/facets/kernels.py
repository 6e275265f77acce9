"""Kernels: how a device computes an operator. Data only; devices choose among them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from attrs import frozen

from nnc_func.errors import DeviceError
from nnc_func.facets.layouts import NHWC, ROW_MAJOR, permutation
from nnc_func.facets.views import CostRule

Layouts = tuple[str | tuple[str, ...], ...]
GAPLESS = frozenset({"isfinite", "isinf", "isnan", "signbit"})
"""Ufuncs of NumPy 2.4 that leave some elements of a result with gaps unwritten, on some processors."""
ALL = "all"  # every argument whose shape and dtype equal the result's may be overwritten


def always(*_: Any, **__: Any) -> bool:
    """Accepts whatever the operator accepts."""
    return True


@frozen
class Kernel:
    """One way to compute an operator.

    Attributes
    ----------
    name
        Unique among the operator's kernels; it appears in plans.
    compute
        ``compute(xp, *arrays, **params)`` returns a new array, or a tuple for several results.
        `xp` is the device's array namespace; a reference kernel uses only what the array API standard has.
    into
        ``into(xp, arrays, outs, scratch, **params)`` writes the results into the arrays `outs`
        (without gaps, in the layouts that it accepts, uninitialised) and returns nothing. None: the result of
        `compute` is copied.
    bound
        ``bound(avals, **params)``, of operands and results, gives ``of(*scratch)``, which gives `into` for arrays of
        NumPy as a function ``f(*arrays, *outs)`` that takes less time to call. None: there is no such, or (from a call)
        not for these. An engine asks it once for all applications that are alike. The function may have a function
        more, ``f.fixed(arrays)``, of arrays by their position that are the same in each call, which gives such a
        function that takes still less.
    ufunc
        Name of a function of the namespace that is the kernel: called ``f(*arrays)`` and ``f(*arrays, out)``.
        With it `compute` and `into` are not needed.
    overwrites
        Positions of arguments whose memory `into` (or the ufunc) may write the result over, while it still
        reads them; ``ALL`` for elementwise kernels. Only arguments of the result's own shape and dtype count. Of an
        operator with several results, ``overwrites(number of arguments, **params)``: the positions for each of them.
    scratch
        ``scratch(avals, **params)`` gives the scratch arrays that `into` wants, as a tuple of (shape, dtype).
    private
        ``private(avals, **params)``: bytes that it takes for itself while it runs, where no plan can place them: inside
        a library, and what is copied into the results. None: nothing, or of a kernel that only computes, its results.
    cost
        ``cost(args, results, **params)``, of avals, gives its `Cost`, as the operator's facet of that name does of any
        kernel. Those of an operator's kernels that say what they cost are each other's variants: where memory is
        scarcest a planner takes one that wants less scratch for little more time. None: it is taken for its place in
        the list alone.
    accepts
        ``accepts(avals, **params)``: whether this kernel takes arguments of these dtypes.
    by_shape
        `accepts` looks at shapes too; a choice is then not remembered by dtypes alone.
    layouts
        The layouts that it accepts (`nnc_func.facets.layouts`); None: any. Each entry is one name, of all operands and
        results, or a tuple of a name for each of them; letters mean the parameter ``data_format`` of the operator.
        Operands may still be views with other strides; `outs` have the layouts said.
    namespaces
        Array namespaces it runs on, by module name (``"numpy"``, ``"cupy"``); None for any.
    library
        A library beside the namespace that computes it, by name: it runs on devices that have that one. Kernels of a
        library that do not keep NaN where the operator does are those of another one, by name.
    lasting
        Positions of operands that have the same elements in every run of a program: `bound` may put them into an order
        of its own once, the first time that it is called with them. A planner takes such a kernel only where they are
        constants, and devices never by themselves. `compute` and `into` take any operands.
    packed
        The name of the operator's kernel that is this one with `lasting` operands; empty: there is none.
    infallible
        Cannot fail once shapes and dtypes have been checked.
    copies_strided
        It needs memory of its own for operands and results that are not contiguous: there it may fail all the same.
    strided
        `into` writes into arrays with any strides as well. A ufunc does, but for those of `GAPLESS`, and so does what
        has no `into`.
    is_call
        It is a call of `bind` of a device's layer: of a view operator too, and of one that is put together of parts.
    narrow
        It takes bfloat16 as it is, which is computed in float32 otherwise.
    multiplies
        It sums products, as BLAS does, which has none of float16: of that they are computed in float32 on the host. Of
        an operator its last kernel says so.
    applies
        It applies operators of a body by their own kernels, which take what these take, bfloat16 too.
    """

    name: str
    compute: Callable[..., Any] | None = None
    into: Callable[..., Any] | None = None
    bound: Callable[..., Any] | None = None
    ufunc: str | None = None
    overwrites: tuple[int, ...] | str | Callable[..., tuple[tuple[int, ...], ...]] = ()
    scratch: Callable[..., tuple[tuple[tuple[int, ...], Any], ...]] | None = None
    private: Callable[..., int] | None = None
    cost: CostRule | None = None
    accepts: Callable[..., bool] = always
    by_shape: bool = False
    layouts: Layouts | None = None
    namespaces: frozenset[str] | None = None
    library: str | None = None
    lasting: tuple[int, ...] = ()
    packed: str = ""
    infallible: bool = False
    copies_strided: bool = False
    strided: bool = False
    is_call: bool = False
    narrow: bool = False
    multiplies: bool = False
    applies: bool = False

    @property
    def writes_strided(self) -> bool:
        """Whether results may have any strides."""
        return self.strided or (self.into is None and self.ufunc not in GAPLESS)

    @property
    def certain(self) -> bool:
        """Whether it neither raises nor needs memory; with `copies_strided`, where all is contiguous.

        What only computes makes an array first, for which there may be no memory.
        """
        return self.infallible and (self.ufunc is not None or self.into is not None)


@frozen
class Operand:
    """Of an array what a kernel's scratch and cost, and whether it accepts, depend on, where there is no aval of it.

    Examples
    --------
    >>> ufunc("exp").accepts((Operand((2, 3), "float32"),))
    True
    """

    shape: tuple[int, ...]
    dtype: Any


def private_bytes(kernel: Kernel, args: tuple[Any, ...], results: tuple[Any, ...], params: dict[str, Any]) -> int:
    """The bytes that a kernel takes for itself while it runs, beyond operands, results and scratch.

    Examples
    --------
    >>> from nnc_func.aval import Aval
    >>> x = Aval((1000,), "float64")
    >>> private_bytes(ufunc("exp"), (x,), (x,), {}), private_bytes(Kernel("new", abs), (x,), (x,), {})
    (0, 8000)
    """
    if kernel.private is not None:
        return kernel.private(args, **params)
    return 0 if kernel.into is not None or kernel.ufunc is not None else sum([a.nbytes for a in results])


def _never(*_: Any, **__: Any) -> Any:
    raise DeviceError("this kernel is a call of `bind` of a device's layer, which makes a function of it itself")


CALL = Kernel("called", compute=_never, is_call=True)
"""Any operator's kernel on a device whose layer has a `bind` of its own: a call of that (`bind_kernels`)."""


def overwritten(kernel: Kernel, count: int, items: Any, results: int) -> list[Collection[int]]:
    """For each result the positions of those of `count` arguments that the kernel may write it over.

    Examples
    --------
    >>> overwritten(ufunc("add"), 2, (), 1)
    [range(0, 2)]
    """
    if callable(kernel.overwrites):
        return [*kernel.overwrites(count, **dict(items))]
    if results != 1:
        return [()] * results
    return [range(count) if kernel.overwrites == ALL else [int(i) for i in kernel.overwrites]]


def ufunc(name: str) -> Kernel:
    """The kernel that is a universal function of the namespace: elementwise, `out=`, in place.

    Examples
    --------
    >>> ufunc("add").overwrites
    'all'
    """
    return Kernel(name, ufunc=name, overwrites=ALL, infallible=True)


def reference(compute: Callable[..., Any], into: Callable[..., Any] | None = None, **facts: Any) -> Kernel:
    """A kernel written against any array namespace."""
    return Kernel(facts.pop("name", "reference"), compute=compute, into=into, **facts)


_permutation = lru_cache(256)(permutation)


def layouts_of(op: Any, avals: tuple[Any, ...], params: dict[str, Any]) -> list[tuple[Any, int]]:
    """The layouts and the ranks of arguments, and of the results that they lead to."""
    found = [(a.layout, a.ndim) for a in avals]
    shapes = op.shape(*(a.shape for a in avals), **params)
    for shape in shapes if op.multi_result else (shapes,):
        found.append((op.layout(avals, shape, **params), len(shape)))
    return found


def takes_layouts(
    kernel: Kernel, op: Any, avals: tuple[Any, ...], params: dict[str, Any], found: list[tuple[Any, int]] | None = None
) -> bool:
    """Whether the layouts of arguments, and of the results that they lead to, are among those that a kernel accepts.

    Who asks about several kernels finds these with `layouts_of` before.
    """
    if kernel.layouts is None:
        return True
    if found is None:
        found = layouts_of(op, avals, params)
    letters = params.get("data_format", NHWC)
    for entry in kernel.layouts:
        names = (entry,) * len(found) if isinstance(entry, str) else entry
        if len(names) == len(found) and all(
            at == (None if name == ROW_MAJOR or rank != len(letters) else _permutation(name, rank, letters))
            for name, (at, rank) in zip(names, found, strict=True)
        ):
            return True
    return False
