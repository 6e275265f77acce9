"""Dispatch: the way from an operator on arrays to its kernel, which is found once for all arguments that are alike."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import holds_functions
from nnc_func.declaration import Items
from nnc_func.device.shared.namespace import MEMO_LIMIT, MOST_NUMBERS, by_shape, explained
from nnc_func.errors import NncError
from nnc_func.facets.shapes import broadcast
from nnc_func.memo import Few
from nnc_func.op import Op, convert

Infer = Callable[[Op, tuple[Aval, ...], Items], Any]
REAL = (int, float)
dtype_of, shape_of = attrgetter("dtype"), attrgetter("shape")  # faster to map than a comprehension


class Dispatch:
    """Operators on arrays of a device: what refuses arguments is asked once for all of one dtype, or of one shape.

    Parameters
    ----------
    device
        The device: its `resolve` gives kernels, its `arrays` brings data of the host over.
    infer
        ``infer(op, avals, items)``: refuses what does not fit, and gives None; or for each result None or what is
        applied to it, an operator, its parameters and the result's aval: a cast, where another dtype is wanted than
        the kernel's own.
    by_extents
        It may refuse shapes that a kernel which broadcasts takes: it is asked anew for each shape.
    scalars
        ``scalars(args)`` gives numbers a dtype before `arrays` does; None: that is the device's affair.
    where
        What says where the user called, for messages.

    Attributes
    ----------
    calls
        Kernels by operator, parameters and the arguments' dtypes; where shapes decide, dicts of these by shapes.
    numbers
        Of an array and a number: what `calls` has, and the number as an array. By operator, the array's dtype, the
        number's class and the number; where the number comes first, by operator, class, number and dtype.
    """

    __slots__ = ("_by_extents", "_few", "_infer", "_own", "_scalars", "_size", "_where", "calls", "device", "numbers")

    def __init__(
        self,
        device: Any,
        infer: Infer,
        by_extents: bool = False,
        scalars: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None,
        where: Callable[[], str] = str,
    ) -> None:
        self.device = device
        self.calls: dict[Any, Any] = {}
        self._few = Few(self.calls)
        self.numbers: dict[Any, tuple[Any, Any]] = {}
        self._infer = infer
        self._scalars = scalars
        self._where = where
        self._by_extents = by_extents
        self._own: Any = None
        self._size = 0

    def __call__(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The result at once: an array of the device, or a tuple of them.

        Raises
        ------
        OperatorError, ShapeError, DTypeError
            The operator does not take these arguments.
        DeviceError
            An array of another device, or no kernel for these arguments.
        RunError
            The kernel failed.
        """
        own = self._own
        for a in args:
            if type(a) is not own:
                return self._of_data(op, args, params)
        return self._of_arrays(op, args, params)

    def _of_data(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """As `__call__`, where numbers or arrays of the host are among the arguments."""
        arrays = self.device.arrays(op, args if self._scalars is None else self._scalars(args))
        self._own = self.device.array_type  # which a device may know only once what it needs has been imported
        found = self._of_arrays(op, arrays, params)
        if len(args) == 2 and not params:
            for number, other in ((1, 0), (0, 1)):
                y, x = args[number], args[other]
                # 0.0 and -0.0 are equal keys, and NaN is equal to none
                if type(x) is self._own and type(y) in REAL and (y or type(y) is int) and y == y:
                    call = self.calls.get((op, arrays[0].dtype, arrays[1].dtype))
                    if call is not None:
                        if len(self.numbers) >= MOST_NUMBERS:
                            self.numbers.clear()
                        key = (op, x.dtype, type(y), y) if number else (op, type(y), y, x.dtype)
                        self.numbers[key] = call, arrays[number]
        return found

    def _of_arrays(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        # on the hot path parameters are a key as they were given; where equal keys may differ in bits they are not
        key: Any
        if params and op.holds_nests:
            key = (op, repr(params), *map(dtype_of, args))
        elif params:
            key = (op, *params.items(), *map(type, params.values()), *map(dtype_of, args))
        else:
            key = (op, *map(dtype_of, args))
        try:
            call = self.calls.get(key)
            if type(call) is dict:
                call = call.get(tuple(map(shape_of, args)))
        except TypeError:  # a list among the parameters
            key = call = None
        if call is None:
            call = self._resolve(op, args, params, key)
        try:
            found = call(*args)
        except Exception as error:
            raise self.failure(op, args, params, error)  # noqa: B904 - of which it knows the cause
        return found if type(found) is self._own else self.place(op, found)

    def failure(self, op: Op, args: tuple[Any, ...], params: dict[str, Any], error: Exception) -> NncError:
        """What a kernel raised as an error of this library, that names the operator, the shapes and the user's line.

        No frame may keep it in a variable: it would be held by its own traceback, with all operands.
        """
        if isinstance(error, NncError):
            found = error
        else:
            found = explained(op, tuple(map(self.device.aval, args)), op.canonical(params), error)
        where = self._where()
        if where and where not in str(found):
            found.args = (f"{found} (at {where})",)
        found.__suppress_context__ = True
        return found

    def place(self, op: Op, found: Any) -> Any:
        """What a kernel gave as arrays of the device: scalars of a namespace are none."""
        place, own = self.device.place, self.device.array_type
        if op.multi_result:
            return tuple([f if isinstance(f, own) else place(f) for f in found])
        return found if isinstance(found, own) else place(found)

    def _resolve(self, op: Op, args: tuple[Any, ...], params: dict[str, Any], key: Any) -> Callable[..., Any]:
        device, items = self.device, op.canonical(params)
        op.check_arity(len(args))
        avals = tuple(map(device.aval, args))
        wanted = self._infer(op, avals, items)
        call: Callable[..., Any] = device.resolve(op, avals, items)
        if wanted is not None:
            after = [w and device.resolve(w[0], (w[2],), w[1]) for w in wanted]
            call = self._then(op, call, after)
        if key is not None and not op.effect and not (params and op.compares_bits):
            if key not in self.calls and holds_functions(op, items):
                self._few.note(key)
            if op.shape is broadcast and not self._by_extents and not by_shape(op):
                self._keep(key, call)  # kernels that broadcast refuse other shapes themselves, the rest need not
            else:
                self._keep(key, call, tuple(map(shape_of, args)))
        return call

    def _keep(self, key: Any, call: Callable[..., Any], shapes: Any = None) -> None:
        if self._size >= MEMO_LIMIT:
            self.calls.clear()
            self._size = 0
        self._size += 1
        if shapes is None:
            self.calls[key] = call
        else:
            self.calls.setdefault(key, {})[shapes] = call

    def _then(self, op: Op, call: Callable[..., Any], after: list[Callable[..., Any] | None]) -> Callable[..., Any]:
        """The kernel and what is applied to its results."""
        return lambda *arrays: convert(op, self.place(op, call(*arrays)), after, lambda cast, array: cast(array))
