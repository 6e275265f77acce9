"""Objects that a block can reach, and may write into: what they have is noted, compared, and given back.

A block that a tensor decides about is traced on the objects themselves, whatever names they have. Afterwards they get
back what they had, until it is known what they have when the block is taken, or not, or has gone many times.
"""

from __future__ import annotations

import pickle
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dis import get_instructions
from functools import lru_cache, partial
from itertools import chain, count, cycle, islice
from operator import length_hint
from random import Random
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from attrs import frozen

from nnc_func.control_flow.conversion.users import is_users, is_users_class, is_users_module
from nnc_func.control_flow.conversion.values import Get, Rows
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor

METHODS = (classmethod, staticmethod, property, MemberDescriptorType, GetSetDescriptorType)
MOST_OBJECTS, MOST_BYTES = 200_000, 1 << 20  # that are looked at; of an array
PARTS = (list, tuple, dict, set, deque)
EMPTY: Any = ([], (), range(0), range(1 << 70), {}, {}.values(), {}.items(), set(), "", b"")
OVER_CONTAINERS: Any = (*{type(iter(each)) for each in EMPTY}, type(reversed([])))
ITERATORS: Any = (
    *OVER_CONTAINERS, zip, map, filter, enumerate, count, cycle, islice, chain, GeneratorType,
)  # fmt: skip
DERIVED = (zip, map, filter, enumerate, cycle, islice, chain)  # iterators that take from others
OPAQUE: Any = (*ITERATORS, Random, np.random.Generator, bytearray, array)  # no tensor decides what these have
ATOMS = (int, float, str, bool, type(None))


@frozen(eq=False)
class Variables:
    """Variables of a module, by name: code that blocks call may give them other values."""

    space: dict[str, Any]
    names: tuple[str, ...]


@frozen
class Opaque:
    """What an object has that is no part of it: a state, or where an iterator is."""

    state: Any


class Objects:
    """What the blocks of one statement can reach.

    Parameters
    ----------
    blocks
        The functions that the blocks have become.
    get, names
        The variables of the blocks: ``x``, or ``x.attr`` of what x has. What they have is what somebody else keeps.

    Attributes
    ----------
    found
        Lists, dicts, sets, arrays, iterators, objects and classes of users, functions with attributes, and cells of
        other variables; each with its path.
    """

    def __init__(self, blocks: Sequence[Callable[..., Any] | None], get: Get, names: Sequence[str]) -> None:
        cells = dict(zip(get.__code__.co_freevars, get.__closure__ or (), strict=True))
        self._own = {id(cell) for name, cell in cells.items() if name in names}
        self._owners = dict[int, set[str]]()
        for name in names:
            variable, _, attribute = name.partition(".")
            if attribute and not is_computed(cells[variable].cell_contents, attribute):
                self._owners.setdefault(id(cells[variable].cell_contents), set()).add(attribute)
        self.found: list[tuple[Any, str]] = []
        self._visited: dict[int, tuple[Any, str]] = {}
        self._again: set[int] = set()  # what several places have
        for block in blocks:
            self._walk(block)
        self._numbers = {id(value): n for n, (value, _) in enumerate(self.found)}

    def _walk(self, f: Any) -> None:
        waiting: list[tuple[Any, str]] = [(f, "")]
        while waiting:
            if len(self._visited) >= MOST_OBJECTS:
                raise ControlFlowError(
                    f"blocks that a tensor decides reach more than {MOST_OBJECTS} objects, lists and dicts, the last "
                    f"one by {waiting[-1][1]!r}, so that what they write into is not seen: let them reach less"
                )
            value, at = waiting.pop()
            if id(value) in self._visited:
                self._again.add(id(value))
            elif type(value) not in ATOMS:
                self._visited[id(value)] = (value, at)
                waiting += self._inside(value, type(value), at)

    def _inside(self, value: Any, kind: type, at: str) -> Iterator[tuple[Any, str]]:
        if kind is FunctionType:
            if value.__dict__:
                self.found.append((value, at or value.__name__))
            yield from self._around(value, at)
        elif isinstance(value, OPAQUE):
            self.found.append((value, at))
        elif isinstance(value, type):
            if is_users_class(value):
                self.found.append((value, at or value.__name__))
                yield from ((part, f"{at}.{name}") for name, part in _attributes(value).items())
        elif kind is MethodType:
            yield from ((value.__func__, at), (value.__self__, at))
        elif kind is BuiltinMethodType:
            yield value.__self__, at
        elif kind is Variables:
            self.found.append((value, at))
            yield from ((part, name) for name, part in content(value).items())
        elif kind is partial:
            yield from ((part, at) for part in (value.func, *value.args, *value.keywords.values()))
        elif kind is CellType:
            if id(value) not in self._own:
                self.found.append((value, at))
            yield from ((part, at) for part in content(value))
        elif isinstance(value, PARTS) or kind is Rows:
            if not isinstance(value, tuple):
                self.found.append((value, at))
            parts = value.segments if kind is Rows else value
            for key, part in parts.items() if isinstance(value, dict) else enumerate(parts):
                yield part, f"{at}[{key!r}]"
            if hasattr(value, "__dict__"):
                yield value.__dict__, at
        elif kind is np.ndarray:
            if value.flags.writeable and value.nbytes <= MOST_BYTES:
                self.found.append((value, at))
        elif kind is SimpleNamespace or is_users_class(kind):
            self.found.append((value, at))
            for name, part in _attributes(value).items():
                yield part, f"{at}.{name}"
            yield kind, kind.__name__

    def _around(self, f: FunctionType, path: str) -> Iterator[tuple[Any, str]]:
        """The variables around a function, and global ones that it names; in modules of a user, too."""
        used, assigned = names_of(f.__code__) if is_users(f.__code__) else ((), ())
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            yield cell, name
            for value in content(cell):
                if isinstance(value, ModuleType) and is_users_module(value):
                    yield Variables(vars(value), used), name
        if is_users(f.__code__):
            if assigned:
                yield Variables(f.__globals__, assigned), f.__module__ or ""
            for name in used:
                value = f.__globals__.get(name)
                calls = type(value) is FunctionType and is_users(value.__code__)
                known = isinstance(value, (*PARTS, *OPAQUE, np.ndarray, Tensor, type))
                if calls or known or is_users_class(type(value)):
                    yield value, name
                elif isinstance(value, ModuleType) and is_users_module(value):
                    yield Variables(vars(value), used), name
            for value in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
                yield value, path or f.__name__

    def __contains__(self, value: Any) -> bool:
        """Whether something was there before the blocks."""
        return id(value) in self._visited

    def has_names(self, value: Any) -> bool:
        """Whether the blocks can reach something in several ways."""
        return id(value) in self._again

    def path(self, value: Any) -> str:
        """How messages call something."""
        return self._visited.get(id(value), (value, type(value).__name__))[1]

    def number(self, value: Any) -> int | None:
        """Which of those found something is; None: none."""
        return self._numbers.get(id(value)) if value in self else None

    def contents(self) -> list[Any]:
        """What each has now."""
        return [content(value, self._owners.get(id(value), ())) for value, _ in self.found]

    def changed(self, before: Sequence[Any]) -> dict[int, Any]:
        """Which have something else than before, and what."""
        found = {}
        for n, (was, now) in enumerate(zip(before, self.contents(), strict=True)):
            if not is_same(was, now):
                found[n] = now
        return found

    def restore(self, before: Sequence[Any], changed: Collection[int]) -> None:
        """Let those that have changed have what they had before.

        Raises
        ------
        ControlFlowError
            An iterator has gone on, which does not go back.
        """
        for n in changed:
            if isinstance(self.found[n][0], ITERATORS):
                value, path = self.found[n]
                raise ControlFlowError(
                    f"a block that a tensor decides takes from {path}, a {type(value).__name__}, which does not go "
                    "back where the block is not taken: take from it before, or use a list and an index"
                )
            self.put(n, before[n])

    def put(self, n: int, content: Any) -> None:
        """Let one have this."""
        put(self.found[n][0], content)


def content(value: Any, without: Collection[str] = ()) -> Any:
    """What an object has: a list or a dict of its parts; a set or an array as a copy."""
    kind = type(value)
    if isinstance(value, (list, deque)):
        return [*value]
    if isinstance(value, dict):
        return {**value}
    if kind is Rows:
        return [*value.segments]
    if isinstance(value, set):
        return {*value}
    if isinstance(value, OPAQUE):
        return _state(value)
    if kind is np.ndarray:
        return value.copy()
    if kind is CellType:
        try:
            return [value.cell_contents]
        except ValueError:
            return []
    if kind is Variables:
        return {name: value.space[name] for name in value.names if name in value.space}
    return {name: part for name, part in _attributes(value).items() if name not in without}


def put(value: Any, content: Any) -> None:
    """Let an object have other parts."""
    kind = type(value)
    if isinstance(value, OPAQUE):
        _put_state(value, content.state)
    elif isinstance(value, (type, FunctionType)):
        for name in _attributes(value):
            if name not in content:
                delattr(value, name)
        for name, part in content.items():
            if getattr(value, name, _nothing) is not part:
                setattr(value, name, part)
    elif isinstance(value, list):
        value[:] = content
    elif kind is np.ndarray:
        value[...] = content
    elif isinstance(value, deque):
        value.clear()
        value.extend(content)
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(content)
    elif kind is Rows:
        value.segments[:] = content
    elif kind is CellType:
        if content:
            value.cell_contents = content[0]
        else:
            del value.cell_contents
    elif kind is Variables:
        for name in value.names:
            if name in content:
                value.space[name] = content[name]
            else:
                value.space.pop(name, None)
    else:
        for name in _attributes(value):
            if name not in content:
                object.__delattr__(value, name)
        for name, part in content.items():
            if getattr(value, name, _nothing) is not part:
                object.__setattr__(value, name, part)


_nothing = object()


def is_same(one: Any, other: Any) -> bool:
    """Whether two contents are the same objects."""
    if isinstance(one, Opaque):
        return bool(one == other)
    if isinstance(one, np.ndarray):
        return bool(one.tobytes() == other.tobytes())
    if len(one) != len(other):
        return False
    if isinstance(one, dict):
        return [*one] == [*other] and all(part is other[key] for key, part in one.items())
    if isinstance(one, set):
        return {*map(id, one)} == {*map(id, other)}
    return all(a is b for a, b in zip(one, other, strict=True))


def is_computed(owner: Any, name: str) -> bool:
    """Whether the class of an object decides what its attribute of that name is: a property, or another descriptor.

    What is behind it is the object's, and part of its content; so it is asked of objects of users alone.
    """
    kind = type(owner)
    if not is_users_class(kind):
        return False
    set_attribute: Any = kind.__setattr__
    if set_attribute is not object.__setattr__:
        return True
    found = next((each.__dict__[name] for each in kind.__mro__ if name in each.__dict__), None)
    return hasattr(type(found), "__set__") and type(found) is not MemberDescriptorType


def is_inherited(owner: Any, name: str) -> bool:
    """Whether an object has an attribute by its class alone."""
    return name not in getattr(owner, "__dict__", (name,)) and not isinstance(owner, type) and hasattr(owner, name)


def inherited(owner: Any, name: str) -> Any:
    """What an object has by that name that has none of its own."""
    kind = type(owner)
    found = next((each.__dict__[name] for each in kind.__mro__ if name in each.__dict__), _nothing)
    if found is _nothing and hasattr(kind, "__getattr__"):
        return kind.__getattr__(owner, name)
    return found


def _mangled(kind: type, name: str) -> str:
    """What a private name of a class is called."""
    return f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names by which code reads globals and attributes; and those of globals that it assigns. Inner functions' too."""
    used = {*code.co_names}
    assigned = {each.argval for each in get_instructions(code) if each.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more, others = names_of(inner)
            used.update(more)
            assigned.update(others)
    return tuple(sorted(used)), tuple(sorted(assigned))


def goes_without_effect(items: Any) -> bool:
    """Whether nobody sees that one has gone on with an iterator: it goes over lists, numbers and the like."""
    if type(items) in OVER_CONTAINERS:
        return True
    return type(items) in (zip, enumerate) and all(map(goes_without_effect, _sources(items)))


def _sources(items: Any) -> list[Any]:
    """What an iterator takes from."""
    found = items.__reduce__()[1]
    return [each for each in found if isinstance(each, ITERATORS)]


def _state(value: Any) -> Opaque:
    """The state of a generator of numbers; bytes; how many an iterator has left, or what it says of itself."""
    if isinstance(value, Random):
        return Opaque(value.getstate())
    if isinstance(value, np.random.Generator):
        return Opaque(pickle.dumps(value.bit_generator.state))
    if isinstance(value, (bytearray, array)):
        return Opaque(bytes(value))
    return Opaque(_position(value))


def _position(value: Any) -> Any:
    """Where an iterator is, as far as it says that: how many are left, what it takes from, what a generator has."""
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return None
        inner = [_position(each) if isinstance(each, ITERATORS) else id(each) for each in frame.f_locals.values()]
        return frame.f_lasti, inner
    if type(value) in DERIVED:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)
            try:
                _, sources, *rest = value.__reduce__()
            except TypeError:
                return object()  # where it is, it does not say: it may be another place each time
        inner = [_position(each) if isinstance(each, ITERATORS) else id(each) for each in sources]
        return inner, [each if isinstance(each, int) else repr(each) for each in rest]
    return length_hint(value, -1), repr(value)


def _put_state(value: Any, state: Any) -> None:
    """Let it have that state again."""
    if isinstance(value, Random):
        value.setstate(state)
    elif isinstance(value, np.random.Generator):
        value.bit_generator.state = pickle.loads(state)
    elif isinstance(value, bytearray):
        value[:] = state
    elif isinstance(value, array):
        value[:] = array(value.typecode, state)


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, type):
        return {
            name: part for name, part in vars(value).items()
            if not (name.startswith("__") and name.endswith("__")) and not isinstance(part, (FunctionType, *METHODS))
        }  # fmt: skip
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in map(partial(_mangled, kind), (slots,) if isinstance(slots, str) else slots):
            if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                found[name] = getattr(value, name)
    return found
