"""Methods under jit: bound to an object, which a trace leaves as it was."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import MemberDescriptorType, MethodType
from typing import Any

from nnc_func.body import is_pure
from nnc_func.errors import TracingError
from nnc_func.graph.node import Value, topological
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten


class Bound:
    """A jitted function with the object whose method it is; what `Jitted` offers is bound to that too.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> class Scale:
    ...     by = 3.0
    ...     @nnc.lazy().jit
    ...     def applied(self, x):
    ...         return x * self.by
    >>> scale, x = Scale(), np.array([1.0, 2.0])
    >>> scale.applied(x).numpy(), scale.applied.program(x).plan.kernels
    (array([3., 6.]), 1)
    """

    def __init__(self, function: Any, instance: Any) -> None:
        self.__func__, self.__self__ = function, instance
        self.__doc__, self.__module__ = function.__doc__, function.__module__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.__func__(self.__self__, *args, **keywords)

    def program(self, *args: Any, **keywords: Any) -> Any:
        """See `Jitted.program`."""
        return self.__func__.program(self.__self__, *args, **keywords)

    def autotune(self, *args: Any, **keywords: Any) -> Any:
        """See `Jitted.autotune`."""
        return self.__func__.autotune(self.__self__, *args, **keywords)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(MethodType(self.__func__, self.__self__))

    def __getattr__(self, name: str) -> Any:
        if name in ("__func__", "__self__"):  # of one that is being made
            raise AttributeError(name)
        return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        return type(other) is Bound and other.__self__ is self.__self__ and other.__func__ is self.__func__

    def __hash__(self) -> int:
        return hash((id(self.__self__), self.__func__))

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__func__.__name__)

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"


@contextmanager
def unwritten(instance: Any, method: str, is_tree: bool) -> Iterator[None]:
    """While a method is traced: it writes into no attribute of its object. What it wrote is put back.

    Attributes are compared by identity, tensors by their values too, and of a tree all leaves. What happens within a
    list, a dict or another object that an attribute holds is not seen, unless these are parts of a tree. New attributes
    may stay (`functools.cached_property`) if no tensor in them depends on an argument or a variable.

    Parameters
    ----------
    method
        What it is called, for messages.

    Raises
    ------
    TracingError
        It wrote into one.
    """
    before = _contents(instance)
    try:
        yield
    except BaseException:
        _put_back(instance, before, _written(before, _contents(instance)))
        raise
    names = _written(before, _contents(instance))
    if not names:
        return
    _put_back(instance, before, names)
    name = names[0]
    remedy = (
        "return the new value, and make the next object of it where the method is called"
        if is_tree
        else f"return the new value, and where the method changes what later calls read, keep that in a variable: "
        f"self.{name} = stack.variable({name!r}, ...), and behind each call {name}.value.assign(...)"
    )
    raise TracingError(
        f"{method} writes into {', '.join([f'self.{each}' for each in names])}, which only its trace would do, and no "
        f"later call: jit runs a program, which gives what the method returns. {remedy[0].upper()}{remedy[1:]}"
    )


def _contents(instance: Any) -> dict[str, tuple[Any, Any, Any]]:
    """The object's own attributes and a tree's leaves, by name: what each is, and of tensors what is in them now."""
    found = {name: member.__get__(instance) for name, member in _members(instance).items() if hasattr(instance, name)}
    found |= _dictionary(instance)
    leaves, structure = flatten(instance)
    paths = structure.paths
    found |= {".".join(path): leaf for path, leaf in zip(paths, leaves, strict=True) if path}
    return {k: (v, v.value, v.hold) if isinstance(v, Tensor) else (v, None, None) for k, v in found.items()}


def _dictionary(instance: Any) -> dict[str, Any]:
    found = getattr(instance, "__dict__", None)
    return found if type(found) is dict else {}


def _members(instance: Any) -> dict[str, Any]:
    """What reads and writes an object's slots, by name."""
    kinds = type(instance).__mro__[::-1]
    return {k: m for kind in kinds for k, m in vars(kind).items() if type(m) is MemberDescriptorType}


def _written(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of attributes that are others, gone, or new and of one trace alone."""
    names = [
        k for k, (v, value, _) in before.items() if k not in after or after[k][0] is not v or after[k][1] is not value
    ]
    return names + [k for k, (v, *_) in after.items() if k not in before and any(map(_depends, flatten(v)[0]))]


def _depends(leaf: Any) -> bool:
    """Whether it is a tensor that depends on something that is given, or read, at each call."""
    if not isinstance(leaf, Tensor):
        return False
    value = leaf.value
    if not isinstance(value, Value):
        return not isinstance(value, leaf.stack.device.array_type)
    return not all(is_pure(node.op, node.items) for node in topological([value]))


def _put_back(instance: Any, before: dict[str, Any], names: list[str]) -> None:
    members, dictionary = _members(instance), _dictionary(instance)
    for name in names:
        if name in before:
            value, inside, hold = before[name]
            if isinstance(value, Tensor):
                value.value, value.hold = inside, hold
        if name in members:
            members[name].__set__(instance, before[name][0]) if name in before else members[name].__delete__(instance)
        elif name in before and "." not in name:
            dictionary[name] = before[name][0]
        else:
            dictionary.pop(name, None)
