"""Leaves of a graph: the operators without operands, and variables. They are symbols, not catalogue entries."""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any
from weakref import ref

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.shared.host import copy_of, native, numbers
from nnc_func.errors import DTypeError, GraphError, PlaceError, RunError, ShapeError, TracingError
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dtypes import as_dtype, check_conversion
from nnc_func.facets.places import ADVICE, Place, named, settled
from nnc_func.facets.samples import Refused
from nnc_func.facets.views import free
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.node import Node, topological
from nnc_func.graph.reader_writer_lock import Run, Turns, enter, leave
from nnc_func.locks import forkable_lock
from nnc_func.op import Op
from nnc_func.override import Override

_serials = itertools.count()
_tracing: ContextVar[bool] = ContextVar("tracing", default=False)
_only_read: ContextVar[bool] = ContextVar("only_read", default=False)
_assigning = forkable_lock()


def _leaf(name: str, doc: str, pure: bool, multi_result: bool = False) -> Op:
    return Op(
        name=name,
        module=__name__,
        doc=doc,
        args=(),
        variadic=False,
        params={},
        converters={},
        optional=frozenset(),
        shape=lambda **_: (),
        dtype=lambda **_: None,
        kernels=(),
        derivative=Constant("a leaf has no operands"),
        pure=pure,
        multi_result=multi_result,
        cost=free,
        onnx=Refused("a leaf is a graph input or an initializer, not an operator"),
    )


INPUT = input_ = _leaf("input", "A value that a caller gives.", pure=False)
VARIABLE = variable = _leaf("variable", "The value that a `Variable` has when a program starts.", pure=False)
CONSTANT = constant = _leaf("constant", "A value fixed when the graph was built.", pure=True)
HELD = held = _leaf("held", "Several values that were computed, kept by their holders.", pure=True, multi_result=True)
LEAVES = frozenset((INPUT, VARIABLE, CONSTANT, HELD))


def brought(device: Any, value: Any, dtype: Any = None, place: Place = None) -> Any:
    """A device array with that value, in that place; None is the place where it is, or the device's own.

    Raises
    ------
    PlaceError
        It is an array in another place, or the device has no such place.
    """
    if place is None:
        return device.asarray(value, dtype)
    places = getattr(device, "places", ())
    settled(place, places)
    return device.asarray(value, dtype, place=place) if places else device.asarray(value, dtype)


def owned(device: Any, value: Any, dtype: Any = None, place: Place = None) -> Any:
    """A device array with that value, in C order, that nobody else holds: programs may write over it."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "dtype"):
        dtype = as_dtype(dtype) if type(dtype) is str else dtype
        check_conversion(value, dtype)
        value = value if isinstance(value, (np.ndarray, np.generic)) else numbers(device, value, dtype)
        kept = value if getattr(device, "forgets_elements", False) else np.array(value, dtype, order="C")
        if not kept.dtype.isnative:
            kept, dtype = native(kept), as_dtype(kept.dtype)
        held = getattr(device, "held", None)
        if held is not None and place is None:  # a stack: a value that will change is no number of its graph
            return held(owned(device.device, kept, dtype))
        return brought(device, kept, dtype, place)
    array = brought(device, value, place=place)
    if dtype is None or device.aval(array).dtype == as_dtype(dtype):
        return copy_of(device, array)
    return brought(device, array, dtype, place)  # its elements in another dtype


def are_places() -> bool:
    """Whether a variable among operands stands for the place, not for its value of now: a function is being traced."""
    return _tracing.get()


def places() -> Override:
    """While it is open variables among operands stand for places."""
    return Override(_tracing, True)


def without_updates() -> Override:
    """While it is open no variable is assigned by this thread: a function is traced to a body, up to three times."""
    return Override(_only_read, True)


def is_foreign(given: Any) -> bool:
    """Whether it is an array of some device's namespace, of a view of which nobody can tell that it is one."""
    return hasattr(given, "__array_namespace__") and not isinstance(given, np.ndarray) and not hasattr(given, "stack")


def unshared(found: Any, args: Any) -> Any:
    """A result that does not change with a NumPy array of the caller's, of which it may be a view."""
    if any(isinstance(a, np.ndarray) and np.may_share_memory(a, found) for a in args):
        return found.copy()
    return found


class Variable:
    """A named place for a value; its identity is the object, its value lives in it.

    Attributes
    ----------
    name
        Unique within one graph, checked when that is compiled.
    aval
        Shape and dtype; an assigned value must have both.
    array
        The device array. Programs may write over it: copy what you keep.
    version
        Counts the values that it has had.
    readers
        Weak references to the nodes that are its value of now: one for each stack that has asked, see `Symbol.reading`.
    recorded
        What a dynamic stack has recorded of its value of now: see `engine.dynamic.records.Recording.of`.
    turns
        The runs that use it now.
    serial
        Counts variables as they are made.
    """

    __slots__ = ("__weakref__", "_device", "array", "aval", "name", "readers", "recorded", "serial", "turns", "version")

    def __init__(self, name: str, array: Any, aval: Aval, device: Any) -> None:
        self.name = name
        self.array = array
        self.aval = aval
        self.version = 0
        self.readers: list[Any] = []
        self.recorded: Any = None
        self.turns = Turns()
        self.serial = next(_serials)
        self._device = device

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self.aval.dtype

    def assign(self, value: Any) -> None:
        """Give it another value, of the same shape and dtype: an array, a number, a tensor. The value is copied.

        A run that updates the variable is waited for; one that only reads it goes on with the value that was there.

        Raises
        ------
        ShapeError, DTypeError
            The value has another shape, or a dtype that does not cast to the variable's safely.
        PlaceError
            The value is an array in another place.
        RunError
            A run of this thread that updates the variable has not ended.
        TracingError
            It is within the function of a loop or a branch.
        """
        if _only_read.get():
            raise TracingError(
                f"variable {self.name!r} is assigned within the function of a loop or a branch, which may go any "
                "number of times: let it give the value, or carry it, and assign that outside, from the loop's results"
            )
        stack = getattr(value, "stack", None)
        if stack is not None and stack != self._device:  # a tensor, of whatever stack
            value = value.numpy()
        aval = self._device.aval(brought(self._device, value, place=self.aval.place))
        if aval.shape != self.aval.shape:
            raise ShapeError(f"variable {self.name!r} has shape {self.aval.shape}, given a value of {aval.shape}")
        if aval.place != self.aval.place:
            said = f"is in {named(self.aval.place)}, given a value in {named(aval.place)}"
            raise PlaceError(f"variable {self.name!r} {said}; {ADVICE}")
        if aval.dtype != self.aval.dtype and not np.can_cast(aval.dtype, self.aval.dtype, "same_kind"):
            raise DTypeError(f"variable {self.name!r} is {self.aval.dtype}, given {aval.dtype}; cast it first")
        array = owned(self._device, value, self.aval.dtype, self.aval.place)
        run, mine = Run(), ((self, False),)
        try:
            enter(run, mine)
            if self.turns.is_written_here:
                raise RunError(f"variable {self.name!r} is assigned amid a run that updates it; let that end first")
            self.become(array)
        finally:
            leave(run, mine)

    def reader(self, table: Any, make: Any) -> Any:
        """The node of that table that is its value of now; made if there is none."""
        with uncollected(), _assigning:
            found = next((node for each in self.readers if (node := each()) is not None and node.table is table), None)
            if found is None:
                found = make()
                self.readers = [*(each for each in self.readers if each() is not None), ref(found)]
            return found

    def become(self, array: Any) -> None:
        """Show another array from now on. What is a value of it keeps the array that was there."""
        if not self.readers:
            self.array = array
            self.version += 1
        else:
            with uncollected(), _assigning:
                before, self.array = self.array, array
                self._left(before)
        self.recorded = None  # outside of the lock: others may be told that it is gone

    def preserve(self) -> None:
        """Copy its array, before that is written over, where a user holds a value that depends on it."""
        readers = [node for each in self.readers if (node := each()) is not None]
        copy = owned(self._device, self.array) if any(map(_is_wanted, readers)) else None
        with uncollected(), _assigning:
            self._left(copy, 0)

    def written(self) -> None:
        """Note that its array has been written over."""
        with uncollected(), _assigning:
            self._left(None)
        self.recorded = None

    def _left(self, array: Any, more: int = 1) -> None:
        """Count the value of until now as gone: `array` shows it still, unless nobody will ask."""
        readers, self.readers = self.readers, []
        self.version += more
        for each in readers:
            node = each()
            if node is not None and array is not None:
                node.table.pasts[node] = array

    def copied(self) -> Any:
        """Its value as a NumPy array of the caller's own, taken before or after an update, not amid one.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().variable("w", [1.0, 2.0]).value.copied()
        array([1., 2.])
        """
        return self._read(lambda array: np.array(self._device.to_numpy(array)))

    def snapshot(self) -> Any:
        """Its value as an array of its device, that no program writes over; taken as by `copied`."""
        return self._read(lambda array: owned(self._device, array))

    def _read(self, taken: Any) -> Any:
        run, mine = Run(), ((self, False),)
        try:
            enter(run, mine)
            return taken(self.array)
        finally:
            leave(run, mine)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.aval!r})"


def _is_wanted(reader: Node) -> bool:
    """Whether a user holds something that depends on a variable's value, and on no input."""
    table = reader.table
    with uncollected(table.walking), table.walking:
        living = [node for each in [*table.nodes.values()] if (node := each()) is not None]
        asked = {node for node in (reader, *living) if any(r.is_held for r in node.results)}
        depends: dict[Node, bool] = {}
        unbound: set[Node] = set()
        for node in topological(asked):
            below = [a.node for a in node.args]
            if node.op is INPUT or not unbound.isdisjoint(below):
                unbound.add(node)
            depends[node] = node is reader or any(depends[b] for b in below)
        return any(depends[node] and node not in unbound for node in asked)


def check_names(leaves: Any, what: str) -> None:
    """Raise GraphError where two different leaves of one graph have one name."""
    seen: dict[str, Any] = {}
    for leaf in leaves:
        name = leaf.data.name if leaf.op is VARIABLE else leaf.data
        if seen.setdefault(name, leaf) is not leaf:
            raise GraphError(f"two {what} named {name!r} in one graph; names tell them apart, so give one another name")
