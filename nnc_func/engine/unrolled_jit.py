"""A jitted function's call for one signature, written out: the arguments are of it, or it says that they are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from nnc_func.device.shared.unrolled import Text
from nnc_func.engine.lazy import Lazy
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node
from nnc_func.graph.symbol import Symbol
from nnc_func.graph.tensors.tensor import Tensor, showing
from nnc_func.tree import Container, Structure, exact, has_fields, static_fields

OTHER = object()  # what such a function returns of arguments of another signature
LARGEST = 1024  # leaves and containers of arguments beyond which nothing is written out


def holding(stack: Any, arrays: Sequence[Any]) -> Callable[[Sequence[Any]], list[Tensor]]:
    """What gives `Stack.held` of each of several arrays, of the avals of these: what is known is asked for once.

    Layers of a user's own that have a `held` of their own are asked for each array.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> [x.numpy() for x in holding(nnc.lazy(), [np.zeros(2)])([np.ones(2)])]
    [array([1., 1.])]
    """
    held = getattr(stack.engine, "held", None)
    if getattr(held, "__func__", None) is Lazy.held and getattr(stack.symbol.held, "__func__", None) is Symbol.held:
        return showing(stack, stack.symbol.table, [stack.device.aval(array) for array in arrays])
    return lambda arrays: [stack.held(array) for array in arrays]


@attrs.frozen
class Fixed:
    """An argument that is a part of the signature.

    Attributes
    ----------
    by_identity
        No other value will do, though it is equal.
    """

    value: Any
    by_identity: bool = False


def written(
    stack: Any, leaves: Sequence[Any], arguments: Structure, run: Callable[..., list[Any]], results: Structure,
    arrays: Sequence[Any],
) -> Callable[[Any, Any], Any]:  # fmt: skip
    """The function of arguments and keywords that calls a program where their signature is this one.

    Parameters
    ----------
    stack
        Whose arrays and tensors are given, and whose tensors are returned.
    leaves
        What each leaf has to be like: an array of the device, as the program wants it, or what is `Fixed`.
    arguments
        How the pair of arguments and keywords is nested.
    run
        `Program.run`.
    results
        How the outputs are nested.
    arrays
        Outputs of an earlier call: later ones are of the same shapes, dtypes and places.
    """
    text = Text("args", "keywords")
    names = _read(text, arguments)
    given = []
    for name, leaf in zip(names, leaves, strict=True):
        if isinstance(leaf, Fixed):
            _is_same(text, name, leaf)
        else:
            _is_like(text, stack, name, leaf)
            given.append(f"{name}, ")
    found = [text.name() for _ in arrays]
    value = text.value
    text.line(f"results = {value(holding(stack, arrays))}({value(run)}(({''.join(given)}), None, True))")
    _unpack(text, found, "results")
    text.line(f"return {_built(text, results, found)}")
    return text.function()


def _refuse(text: Text, unless: str) -> None:
    text.line(f"if not ({unless}): return {text.value(OTHER)}")


def _read(text: Text, structure: Structure) -> list[str]:
    """Go through what is nested like that; the variables that its leaves are, from left to right."""
    names: list[str] = []
    waiting = ["keywords", "args"]
    for at, entry in enumerate(structure.outline[1:], 1):  # the pair of them is no tuple that anybody gave
        name = waiting.pop()
        if type(entry) is str:
            names.append(name)
            continue
        kind, keys, static, size = entry
        parts = [text.name() for _ in range(size)]
        waiting += parts[::-1]
        if name not in ("args", "keywords"):
            _refuse(text, f"{name} is None" if kind is None else f"type({name}) is {text.value(kind)}")
        if kind is dict:
            order = structure.orders.get(at, keys)
            _refuse(text, f"[*{name}] == {text.value([*order])}" if order else f"not {name}")
            named = dict(zip(keys, parts, strict=True))
            _unpack(text, [named[key] for key in order], f"{name}.values()")
        elif kind is not None and has_fields(kind):
            if static:
                _refuse(text, f"{text.value(static_fields)}({name}) == {text.value(static)}")
            for part, key in zip(parts, keys, strict=True):
                text.line(f"{part} = {text.value(getattr)}({name}, {text.value(key)})")
        elif kind is not None:
            _refuse(text, f"len({name}) == {size}")
            _unpack(text, parts, name)
    return names


def _unpack(text: Text, parts: Sequence[str], of: str) -> None:
    if parts:
        text.line(f"{', '.join(parts)}, = {of}")


def _is_same(text: Text, name: str, fixed: Fixed) -> None:
    """Go on where a variable is that value: the same, or an equal one of the same type and bits."""
    wanted = fixed.value
    if fixed.by_identity:
        _refuse(text, f"{name} is {text.value(wanted)}")
        return
    same, kind = text.value(wanted), f"{text.value(exact)}({name}) == {text.value(exact(wanted))}"
    _refuse(text, f"{name} is {same} or ({kind} and {name} == {same})")


def _is_like(text: Text, stack: Any, name: str, array: Any) -> None:
    """Go on where a variable is an array like that one, or a tensor that shows one; let it be the array."""
    value = text.value
    own, dtype, shape = value(stack.device.array_type), value(array.dtype), value(array.shape)
    pending = text.name()
    computed = f"type({name}.value) is {value(Node)} and {name}.value.op is {value(CONSTANT)}"
    text.line(f"if type({name}) is not {own}:")
    text.line(f"  if type({name}) is {value(Tensor)} and {name}.stack is {value(stack)}:")
    text.line(f"    {pending} = {name}.hold")
    text.line(f"    if type({pending}) is {value(tuple)}: {name} = {pending}[0]")  # a result without a node yet
    text.line(f"    elif {computed}: {name} = {name}.value.data")
    if type(array) is np.ndarray and array.shape == ():
        text.line(f"  elif type({name}) is {value(array.dtype.type)}: {name} = {value(np.asarray)}({name})")
    text.line(f"  if type({name}) is not {own}: return {value(OTHER)}")
    _refuse(text, f"{name}.dtype is {dtype} and {name}.shape == {shape}")


def _built(text: Text, structure: Structure, leaves: Sequence[str]) -> str:
    """Build what is nested like that of those variables; the variable that it is."""
    rest, done = list(leaves), list[str]()
    for at in range(len(structure.outline) - 1, -1, -1):
        entry = structure.outline[at]
        if type(entry) is str:
            done.append(rest.pop())
            continue
        kind, keys, static, size = entry
        start = len(done) - size
        parts = done[start:][::-1]
        del done[start:]
        name = text.name()
        order = structure.orders.get(at, ())
        if kind is dict:
            named = dict(zip(keys, parts, strict=True))
            inside = [f"{text.value(key)}: {named[key]}" for key in order or keys]
            text.line(f"{name} = {{{', '.join(inside)}}}")
        elif kind is list:
            text.line(f"{name} = [{', '.join(parts)}]")
        elif kind is tuple:
            text.line(f"{name} = ({''.join([f'{part}, ' for part in parts])})")
        else:
            text.line(f"{name} = {text.value(Container(kind, keys, static, size, order).made)}([{', '.join(parts)}])")
        done.append(name)
    return done[0]
