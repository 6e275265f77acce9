"""Variables that have a value, or None, or nothing at all, as a tensor tells: a value beside a truth value.

A loop that may go no time leaves what it assigns first without a value; a branch may leave a variable None. Where such
a variable is read, the run asks whether it is there (see `present`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nnc_func.autodiff.traced import Traced
from nnc_func.body import Body
from nnc_func.control_flow.conversion.identities import Identities
from nnc_func.control_flow.conversion.number_kinds import kind_of, stands_for
from nnc_func.control_flow.conversion.values import Held, Undefined, moving
from nnc_func.engine.effects import numbers_of_times
from nnc_func.graph.ops.branch import NOTHING, branch
from nnc_func.graph.origin import attributed
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten

GENERATED = ("_result", "_returned", "_broke", "_skipped")
"""How the names of variables begin that conversion adds."""


class Perhaps(NamedTuple):
    """A variable that has been assigned, or not.

    Attributes
    ----------
    value
        What it has; zeros where it has nothing.
    there
        Whether it has that.
    """

    value: Any
    there: Any


class OrNone(Perhaps):
    """A variable that has a value, or None."""

    __slots__ = ()


def is_plain(value: Any) -> bool:
    """Whether something is tensors and numbers alone, which a tensor may give or not: no list, which has names.

    Examples
    --------
    >>> is_plain((1.0, np.ones(2))), is_plain([1.0]), is_plain(None), is_plain("a")
    (True, False, False, False)
    """
    if isinstance(value, tuple):
        return bool(value) and all(map(is_plain, value))
    return moving(value)


def first(name: str, value: Any, goes: bool) -> Held:
    """What a variable begins a loop with that assigns it first: zeros, of which nothing is read if it goes no time.

    Parameters
    ----------
    value
        What it has after one time.
    goes
        Whether it surely goes at least once.
    """
    is_perhaps = not goes and is_plain(value) and not name.startswith(GENERATED)
    held = Held.of(name, Perhaps(value, np.bool_(True)) if is_perhaps else value)
    return Held.of(name, held.built([*map(_zero, held.leaves)]))


def begun(was: Held, value: Any) -> Held | None:
    """What a variable begins a loop with that has another kind after one time; None: what it has.

    Parameters
    ----------
    value
        What it has after one time.
    """
    if "." in was.name or was.name.startswith(GENERATED):
        return None
    if was.value is None and is_plain(value):
        held = Held.of(was.name, value if type(value) is OrNone else OrNone(value, np.bool_(True)))
        return Held.of(was.name, held.built([*map(_zero, held.leaves)]))
    if value is None and is_plain(was.value) and type(was.value) not in (Perhaps, OrNone):
        return Held.of(was.name, OrNone(was.value, np.bool_(True)))
    if type(value) in (Perhaps, OrNone) and type(was.value) is not type(value) and is_plain(was.value):
        return Held.of(was.name, type(value)(was.value, np.bool_(True)))
    return None


def _zero(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return stands_for(leaf.stack.ops.full(shape=leaf.shape, value=0, dtype=leaf.dtype), kind_of(leaf))
    if isinstance(leaf, (np.ndarray, np.generic)):
        return np.zeros_like(leaf)
    return type(leaf)(0) if moving(leaf) else leaf


def promoted(value: Any, like: Any, absent: Any = None) -> Any:
    """A value as one that may be None, or nothing, where another one is that.

    Parameters
    ----------
    absent
        What stands for a value that is never read; None: what the other one has.
    """
    kind = type(like)
    if kind not in (Perhaps, OrNone) or type(value) is kind:
        return value
    if value is None:
        if kind is Perhaps:
            return Perhaps(promoted(value, like.value, absent), True)
        return OrNone(like.value if absent is None else absent, False)
    return kind(promoted(value, like.value, absent), True) if is_plain(value) else value


def missing(absent: Any, there: Any, unread: Any) -> tuple[Any, Any]:
    """What has nothing behind a break or a continue, and the value of another side, as two that may have nothing.

    Parameters
    ----------
    unread
        What stands for a value that is never read: all that is known where it may be a list, or is what is returned.
    """
    if type(absent) is not Undefined or absent.name.startswith("_") or not (is_plain(there) or type(there) is Perhaps):
        return unread, there
    return Perhaps(unread, False), there if type(there) is Perhaps else Perhaps(there, True)


def aligned(one: Any, two: Any, absent: Any) -> tuple[Any, Any]:
    """Two values of a variable, as two that may be None, or nothing, where one of them is that.

    Parameters
    ----------
    absent
        What stands for a value that is never read.
    """
    if type(one) is type(two):
        return one, two
    for value, other in ((one, two), (two, one)):
        if type(value) is Perhaps or (type(value) is OrNone and type(other) is not Perhaps):
            made = value, promoted(other, value, absent)
            return made if value is one else made[::-1]
        if value is None and is_plain(other) and type(other) not in (Perhaps, OrNone):
            made = OrNone(absent, False), OrNone(other, True)
            return made if value is one else made[::-1]
    return one, two


def present(value: Perhaps, name: str, where: str, known: Identities) -> Any:
    """The value of a variable, or a RunError where it has none.

    Parameters
    ----------
    name, where
        Of the variable, and the line that reads it.
    """
    if value.there is True:
        return value.value
    leaves, structure = flatten(value.value)
    stack = next(x.stack for x in (value.there, *leaves) if isinstance(x, Tensor))
    given = [x if isinstance(x, Tensor) else stack.asarray(x) for x in leaves]
    with attributed((where, f"code that reads the variable {name}")):
        index = stack.ops.logical_not(stack.asarray(value.there)).astype("int64") * NOTHING
        carrier = stack.carrier(stack.asarray(value.there))
        for times in numbers_of_times(stack, carrier.trace.level if type(carrier) is Traced else -1):
            index = stack.ops.where(times < 0, 0, index)  # asked each time, and in no loop that goes none
        found = stack.bind(branch, index, *given, bodies=(Body(len(given), (), range(len(given))),), default=False)
    for made, leaf in zip(found, leaves, strict=True):
        stands_for(made, kind_of(leaf))
        if isinstance(leaf, Tensor):  # who writes into one of them writes into the other
            for other, same in [(leaf, True), *known.partners(leaf)]:
                known.relate(made, other, same)
    made = structure.build(found)
    if type(value) is OrNone:
        known.optional[id(made)] = (made, value)
    return made


def optional(values: Sequence[Any], names: Sequence[str], known: Identities) -> tuple[Any, ...]:
    """Variables at the begin or the end of a block: what was read of one that may be None, and is passed on, may be."""
    return tuple([
        each if name.startswith("_") or "." in name else known.optional.get(id(each), (each, each))[1]
        for each, name in zip(values, names, strict=True)
    ])  # fmt: skip
