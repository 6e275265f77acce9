"""What is around a block that a tensor decides about, and may not change while it is traced.

A block that writes into its own variables is given copies of them (see `copies`). What it changes otherwise, by a call
or through another name, would be changed by a block that is not taken, too, or once in a loop that goes many times. So
all that can be reached from the block is looked at before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from nnc_func.control_flow.conversion.copies import Copies, content, is_container, is_same
from nnc_func.control_flow.conversion.users import is_users, is_users_class
from nnc_func.control_flow.conversion.values import Get
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor

MOST_OBJECTS, MOST_BYTES = 20_000, 1 << 20  # that are looked at; of an array
PARTS = (list, tuple, dict, set)


class Surroundings:
    """What can be reached from the blocks of one statement.

    Parameters
    ----------
    blocks
        The functions that the blocks have become.
    get, names
        The variables of which the blocks have copies: ``x``, or ``x.attr`` of what x has.
    where
        The statement, for messages.
    """

    def __init__(self, blocks: Sequence[Callable[..., Any] | None], get: Get, names: Sequence[str], where: Any) -> None:
        self.blocks: list[Any] = [each for each in blocks if each is not None]
        self.get, self.names, self.where = get, {*names}, where

    @contextmanager
    def watched(self, copies: Copies) -> Iterator[None]:
        """While a block is traced, with variables that are copies.

        Raises
        ------
        ControlFlowError
            It changed something that is no copy, or something that is known by another name, too.
        """
        cells = dict(zip(self.get.__code__.co_freevars, self.get.__closure__ or (), strict=True))
        seen = _Seen({id(cell) for name, cell in cells.items() if name in self.names}, self._owners(cells))
        for block in self.blocks:
            seen.function(block)
        yield
        path = seen.changed()
        if path is not None:
            raise ControlFlowError(
                f"a block of the statement at {self.where}, which a tensor decides, changes {path} by a call, or by "
                "another name than its own: that would happen whether the block is taken or not, and once for all "
                "times of a loop; let functions return what they make, and assign it in the block"
            )
        for made, value in copies.written():
            path = seen.paths.get(id(value))
            if path is not None and not isinstance(value, np.ndarray):
                raise ControlFlowError(
                    f"a block of the statement at {self.where}, which a tensor decides, writes into {path}, which it "
                    f"knows by another name, too: it does not see there what it has written into this "
                    f"{type(made).__name__}; use one name"
                )

    def _owners(self, cells: dict[str, Any]) -> dict[int, set[str]]:
        """Objects by identity, and which of their attributes are variables of the blocks."""
        found = dict[int, set[str]]()
        for name in self.names:
            variable, _, attribute = name.partition(".")
            if attribute:
                found.setdefault(id(cells[variable].cell_contents), set()).add(attribute)
        return found


class _Seen:
    """All that was found, and what each had.

    Parameters
    ----------
    own
        Cells, by identity, of the variables of which the blocks have copies.
    owners
        Objects, by identity, to those of their attributes of which the blocks have copies.
    """

    def __init__(self, own: set[int], owners: dict[int, set[str]]) -> None:
        self.own, self.owners = own, owners
        self.had: list[tuple[Any, str, Any]] = []
        self.paths: dict[int, str] = {}
        self.visited: dict[int, Any] = {}

    def function(self, f: Callable[..., Any]) -> None:
        """What a function can reach."""
        waiting: list[tuple[Any, str, bool]] = [(f, "", False)]
        while waiting and len(self.visited) < MOST_OBJECTS:
            value, at, is_own = waiting.pop()
            kind = type(value)
            if id(value) in self.visited or kind in (int, float, str, bool, type(None)):
                continue
            self.visited[id(value)] = value
            waiting += self._inside(value, kind, at, is_own)

    def _inside(self, value: Any, kind: type, at: str, is_own: bool) -> Iterator[tuple[Any, str, bool]]:
        """What is in it; `is_own` where it is a variable of the blocks, of which they have copies."""
        if kind is FunctionType:
            yield from self._around(value, at)
        elif kind is MethodType:
            yield value.__func__, at, False
            yield value.__self__, at, False
        elif kind is partial:
            for part in (value.func, *value.args, *value.keywords.values()):
                yield part, at, False
        elif kind in PARTS or is_container(value) or isinstance(value, Tensor):
            if not is_own or kind is set:
                self._note(value, at, _content)
            if kind in PARTS:
                for key, part in value.items() if kind is dict else enumerate(value):
                    yield part, f"{at}[{key!r}]", is_own
        elif kind is np.ndarray:
            if not is_own and value.flags.writeable and value.nbytes <= MOST_BYTES:
                self._note(value, at, _bytes)
        elif is_users_class(kind):
            own = self.owners.get(id(value), set())
            self._note(value, at, partial(_attributes, without=own))
            for name, part in _attributes_of(value).items():
                yield part, f"{at}.{name}", name in own

    def _around(self, f: FunctionType, path: str) -> Iterator[tuple[Any, str, bool]]:
        """The variables around a function, and global ones that it names."""
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if id(cell) not in self.own:
                self._note(cell, name, _cell)
            for value in _cell(cell):
                yield value, name, id(cell) in self.own
        if is_users(f.__code__):
            for name in _names(f.__code__):
                value = f.__globals__.get(name)
                if type(value) in PARTS or type(value) is np.ndarray or is_users_class(type(value)):
                    yield value, name, False
            for value in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
                yield value, path or f.__name__, False

    def _note(self, value: Any, at: str, what: Callable[[Any], Any]) -> None:
        self.had.append((value, at, (what, what(value))))
        self.paths[id(value)] = at

    def changed(self) -> str | None:
        """The path of the first that has something else now."""
        for value, at, (what, before) in self.had:
            now = what(value)
            if now != before if what is _bytes else not is_same(now, before):
                return at
        return None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _content(value: Any) -> tuple[Any, ...]:
    return tuple(sorted(value, key=id)) if type(value) is set else content(value)


def _bytes(value: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (hash(value.tobytes()),)


def _cell(value: Any) -> tuple[Any, ...]:
    try:
        return (value.cell_contents,)
    except ValueError:
        return ()


def _attributes_of(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                found[name] = getattr(value, name)
    return found


def _attributes(value: Any, without: Collection[str]) -> tuple[Any, ...]:
    return tuple([each for pair in _attributes_of(value).items() if pair[0] not in without for each in pair])
