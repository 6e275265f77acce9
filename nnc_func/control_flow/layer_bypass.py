"""Stacks compute operators on device arrays past their layers; while a function is traced as a whole, none does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from nnc_func.garbage_collection import uncollected
from nnc_func.locks import forkable_lock

_stacks: WeakValueDictionary[int, Any] = WeakValueDictionary()  # those that know the class of their arrays
_traces: list[int] = []  # threads that trace a function as a whole
_changing = forkable_lock()


def note(stack: Any, array_type: Any) -> None:
    """Let a stack know the class of its arrays, by which it finds operators that need no layer."""
    with uncollected(), _changing:
        if not _traces:
            object.__setattr__(stack, "_array_type", array_type)
            _stacks[id(stack)] = stack


@contextmanager
def through_layers() -> Iterator[None]:
    """Within it no stack computes an operator past its layers, so that a trace sees each."""
    with uncollected(), _changing:
        _traces.append(threading.get_ident())
        for stack in list(_stacks.values()):
            object.__setattr__(stack, "_array_type", None)
    try:
        yield
    finally:
        with uncollected(), _changing:
            _traces.pop()
