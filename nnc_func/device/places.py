"""Places: several devices as one, each of them a place with a name; between them values move by `transfer`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from attrs import Factory, field, frozen

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.null import Null
from nnc_func.device.shared.bind_kernels import kernel_device
from nnc_func.device.shared.host import HOST, copy_of, foreign
from nnc_func.device.shared.queries import machine_of
from nnc_func.errors import LayerError, PlaceError
from nnc_func.facets import places
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.machine import Machine
from nnc_func.facets.places import ADVICE, Place, named, settled
from nnc_func.layer import Layer
from nnc_func.op import Op

RESERVED = ("None", "True", "False", "nan", "inf", "complex")  # mean something else in the text of graphs


class Placed:
    """An array in a place.

    Attributes
    ----------
    shape, dtype
        As of any array.
    device, place
        The `Places`, and which of them; None is the first.
    base
        The array whose memory it shows; None for one that has its own.
    """

    __slots__ = ("__weakref__", "_array", "base", "device", "dtype", "place", "shape")

    def __init__(self, device: Places, place: Place, array: Any, base: Placed | None = None) -> None:
        aval = device.at(place).aval(array)
        self._array = array
        self.base = base
        self.device = device
        self.dtype = aval.dtype
        self.place = place
        self.shape = aval.shape

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} in {named(self.place)} of {self.device!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Placed, (self.device, self.place, self._array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.device.to_numpy(self), dtype)

    def __getitem__(self, key: Any) -> Placed:
        part = self._array[key._array if type(key) is Placed else key]
        shown = part if hasattr(part, "shape") and hasattr(part, "dtype") else np.asarray(part)
        return Placed(self.device, self.place, self.device.at(self.place).asarray(shown), self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array of rank 0")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Placed]:
        return iter([self[i] for i in range(len(self))])

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[key] = value._array if type(value) is Placed else value

    @property
    def ndim(self) -> int:
        """Rank."""
        return len(self.shape)

    @property
    def flags(self) -> Any:
        """Of the array in its place; None where arrays have none there."""
        return getattr(self._array, "flags", None)

    def copy(self) -> Placed:
        """The same elements in memory of their own, in the same place."""
        return Placed(self.device, self.place, copy_of(self.device.at(self.place), self._array))


@frozen(init=False, weakref_slot=False, repr=False)
class Places(Layer):
    """Several devices as one: each of them is a place, whose name its arrays, avals and plans bear.

    An operator runs in the place of its operands, which must be one; numbers and data of the host are brought there.
    Values move by the operator `transfer`, and only so. What has no operands is made in the first place.

    Attributes
    ----------
    devices
        Pairs (name, device).

    Raises
    ------
    LayerError
        No place, a name that is no identifier, or what is no device.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy(nnc.Places(one=nnc.NumPy(), two=nnc.NumPy()))
    >>> x = stack.asarray([1.0, 2.0])
    >>> y = stack.ops.transfer(x, place="two") + 1
    >>> y.aval
    float64[2] on two
    >>> y.numpy()
    array([2., 3.])
    """

    devices: tuple[tuple[str, Any], ...]
    _by_place: dict[Place, Any] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _checked(self.devices), takes_self=True)
    )

    role: ClassVar[Literal["device"]] = "device"
    array_type: ClassVar[Any] = Placed
    binds_kernels: ClassVar[bool] = False
    views: ClassVar[None] = None

    def __init__(self, devices: Iterable[tuple[str, Any]] = (), /, **by_name: Any) -> None:
        self.__attrs_init__((*map(tuple, devices), *by_name.items()))

    def __repr__(self) -> str:
        return f"Places({', '.join(f'{name}={device!r}' for name, device in self.devices)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Places, (self.devices,)

    @property
    def places(self) -> tuple[str, ...]:
        """The names, the first place's first."""
        return tuple(name for name, _ in self.devices)

    @property
    def machine(self) -> Machine:
        """That of the first place, for which costs are estimated wherever values are."""
        return machine_of(self._by_place[None])

    @property
    def asks_bind(self) -> bool:
        """Whether a layer of one of them looks at each operator."""
        return any(getattr(device, "asks_bind", False) for device in self._by_place.values())

    @property
    def has_memory(self) -> bool:
        """Whether all of them have memory to plan in."""
        return all(getattr(device, "has_memory", False) for _, device in self.devices)

    def at(self, place: Place) -> Any:
        """The device of a place.

        Raises
        ------
        PlaceError
            There is no such place.
        """
        return self._by_place[settled(place, self.places)]

    # --- operators ------------------------------------------------------------------------------------

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The operator computed at once, in the place of its operands.

        Raises
        ------
        PlaceError
            Operands in different places, or a place that there is not.
        DeviceError
            An array of another device, or what the place's own device refuses.
        """
        args = tuple([a if type(a) is Placed or not hasattr(a, "dtype") else self._own(op, a) for a in args])
        home = self._home(op, args)
        device = self._by_place[home]
        inside = [a._array if type(a) is Placed else a for a in args]
        if op.place is places.given:
            target = settled(op.place((home,), **dict(op.canonical(params))), self.places)
            return Placed(self, target, self._moved(op, device, self._by_place[target], device.asarray(inside[0])))
        found = device.bind(op, *inside, **params)
        if op.multi_result:
            return tuple([Placed(self, home, f, self._base(op, args)) for f in found])
        return Placed(self, home, found, self._base(op, args))

    def _own(self, op: Op, array: Any) -> Any:
        return array if isinstance(array, HOST) else self.asarray(array)

    def _home(self, op: Op, args: tuple[Any, ...]) -> Place:
        mine = [a for a in args if type(a) is Placed]
        for a in mine:
            if a.device is not self and a.device != self:
                raise foreign(self, a, op.name)
        if not mine:
            return None
        home = mine[0].place
        if any(a.place != home for a in mine):
            raise PlaceError(
                f"{op.name}({', '.join(repr(self.aval(a)) for a in mine)}): its operands are in different places: "
                f"{', '.join(named(a.place) for a in mine)}; {ADVICE}"
            )
        return home

    def _base(self, op: Op, args: tuple[Any, ...]) -> Placed | None:
        base = None if op.view is None else args[op.view.argument]
        return base if type(base) is Placed else None

    def _moved(self, op: Op, source: Any, target: Any, array: Any) -> Any:
        """A copy of the array of one device as an array of another, by way of the host."""
        if not isinstance(target, Null):
            return target.asarray(np.array(source.to_numpy(array)))
        aval = source.aval(array)
        target.counts.applied(op.name, 0, 2 * aval.nbytes)
        return target.empty(aval.shape, aval.dtype)

    def fold_constant(self, op: Op, *operands: Any, **params: Hashable) -> Any:
        """A constant computed while a graph is optimised, on the host; where there are no elements, in its place."""
        first = self._by_place[None]
        if all(isinstance(o, HOST) for o in operands):
            return getattr(first, "fold_constant", first.bind)(op, *operands, **params)
        found = self.bind(op, *operands, **params)
        return found if isinstance(self._by_place[found.place], Null) else self.to_numpy(found)

    # --- memory ---------------------------------------------------------------------------------------

    def choose(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Kernel:
        """The kernel of the operands' place."""
        return self.at(avals[0].place if avals else None).choose(op, avals, items)  # type: ignore[no-any-return]

    def candidates(self, op: Op, avals: tuple[Aval, ...], items: Items) -> tuple[Kernel, ...]:
        """The kernels of the operands' place that take them."""
        return self.at(avals[0].place if avals else None).candidates(op, avals, items)  # type: ignore[no-any-return]

    def writing(self, op: Op, kernel: Kernel, items: Items, outs: int, scratch: tuple[Any, ...]) -> Callable[..., Any]:
        """The kernel as a function ``f(*arrays, *outs)``, which runs in the place of the results."""
        if op.place is places.given:
            return self._transferring(op)
        inside = tuple([s._array for s in scratch])
        calls: dict[Place, Any] = {}

        def write(*arrays: Placed) -> None:
            place = arrays[-1].place
            call = calls.get(place)
            if call is None:
                call = calls[place] = self._by_place[place].writing(op, kernel, items, outs, inside)
            call(*[a._array for a in arrays])

        return write

    def _transferring(self, op: Op) -> Callable[..., Any]:
        def transfer(source: Placed, target: Placed) -> None:
            there = self._by_place[target.place]
            if isinstance(there, Null):
                there.counts.applied(op.name, 0, 2 * self.aval(target).nbytes)
            else:
                target._array[...] = there.asarray(self._by_place[source.place].to_numpy(source._array))

        return transfer

    def row(self, array: Placed, number: int) -> Placed:
        """The part of an array at a place along its first axis: a view of it."""
        return Placed(self, array.place, self._by_place[array.place].row(array._array, number), array)

    def decision(self, array: Placed) -> int:
        """The one element of an array, by which a run goes on: which branch, how many times, whether once more."""
        return int(self._by_place[array.place].decision(array._array))

    def viewing(self, op: Op, items: Items) -> Callable[..., Any]:
        """A view operator as a function of its operand."""

        def view(array: Placed) -> Any:
            found = self._by_place[array.place].viewing(op, items)(array._array)
            if op.multi_result:
                return tuple([Placed(self, array.place, each, array) for each in found])
            return Placed(self, array.place, found, array)

        return view

    def arena(self, nbytes: int, place: Place = None) -> Placed:
        """An uninitialised run of bytes in a place."""
        return Placed(self, settled(place, self.places), self.at(place).arena(nbytes))

    def view(self, arena: Placed, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Placed:
        """The array of that shape that lies `offset` bytes into the arena; strides in bytes, None for row-major."""
        facts = {} if strides is None else {"strides": strides}
        found = self._by_place[arena.place].view(arena._array, offset, shape, dtype, **facts)
        return Placed(self, arena.place, found, arena)

    def empty(self, shape: tuple[int, ...], dtype: Any, strides: Any = None, place: Place = None) -> Placed:
        """An uninitialised array in a place; strides in bytes, None for row-major."""
        facts = {} if strides is None else {"strides": strides}
        return Placed(self, settled(place, self.places), self.at(place).empty(shape, dtype, **facts))

    # --- values ---------------------------------------------------------------------------------------

    def owns(self, array: Any) -> bool:
        """Whether it is an array in one of the places."""
        return type(array) is Placed and (array.device is self or array.device == self)

    def asarray(self, value: Any, dtype: Any = None, place: Place = None) -> Placed:
        """An array with that value in a place, the first by default: itself where it is in a place already.

        Raises
        ------
        PlaceError
            It is in another place than was said.
        DeviceError
            The value is not numbers, or lives on a device that is none of the places.
        """
        if type(value) is Placed:
            if not self.owns(value):
                raise foreign(self, value, "asarray")
            if place is not None and settled(place, self.places) != value.place:
                raise PlaceError(f"an array in {named(value.place)} is wanted in {named(place)}; {ADVICE}")
            found = self._by_place[value.place].asarray(value._array, dtype)
            return value if found is value._array else Placed(self, value.place, found)
        if hasattr(value, "dtype") and not isinstance(value, HOST) and place is None:
            owners = [p for p, device in self._by_place.items() if getattr(device, "owns", bool)(value)]
            if not owners:
                raise foreign(self, value, "asarray")
            return Placed(self, owners[0], self._by_place[owners[0]].asarray(value, dtype))
        return Placed(self, settled(place, self.places), self.at(place).asarray(value, dtype))

    def to_numpy(self, array: Placed) -> Any:
        """A copy of the array on the host.

        Raises
        ------
        DeviceError
            Its place has no elements.
        """
        return np.array(self._by_place[array.place].to_numpy(array._array))

    def aval(self, array: Any) -> Aval:
        """Shape, dtype and place of an array."""
        if type(array) is Placed:
            return Aval(array.shape, array.dtype, None, array.place)
        return self._by_place[None].aval(array)  # type: ignore[no-any-return]

    def synchronise(self) -> None:
        """Wait for what was started, everywhere."""
        for _, device in self.devices:
            device.synchronise()


def _checked(devices: tuple[tuple[str, Any], ...]) -> dict[Place, Any]:
    """The devices by what avals call their places."""
    if not devices:
        raise LayerError("Places has at least one place: Places(host=NumPy(), gpu=CuPy())")
    for name, device in devices:
        if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
            raise LayerError(f"a place has a name that is an identifier, given {name!r}")
        if getattr(device, "role", None) != "device" or getattr(device, "places", ()):
            raise LayerError(f"place {name!r} is a device that has one place, not {device!r}")
    if len(dict(devices)) < len(devices):
        raise LayerError(f"two places have one name: {', '.join(name for name, _ in devices)}")
    (_, first), *others = devices
    return {None: kernel_device(first), **{name: kernel_device(device) for name, device in others}}
