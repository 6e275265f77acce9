"""Both sides of a rewrite without rounding: on the exact device, at a random point, where they are rational."""

from __future__ import annotations

from collections.abc import Mapping, Set
from random import Random
from typing import Any

import numpy as np

from nnc_func.device.exact import Exact
from nnc_func.device.exact_arithmetic.arrays import ExactArray
from nnc_func.device.exact_arithmetic.numbers import DENOMINATORS, PRIME, Residue, fraction_near
from nnc_func.errors import NncError
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.node import Node, Value, topological

RESIDUES, RATIONALS = Exact(modular=True), Exact()
SIMPLE = (1e-3, 1e3)  # constants: smaller and larger ones vanish beside each other
DIFFERS = "it differs without rounding"
STANDING = (3.5, -1.5, 0.25)  # numbers in the place of others
WIDE = 4  # bytes of a dtype, from which on a rounded product shows what it stands for
MOST_DENOMINATOR = 1000  # of numbers of which a rule makes others
CHANCE = 1 / 64  # that a fraction of such a denominator is as near to a number by luck
MOST = 4096  # elements of a value on the way: the numbers are Python's


def without_rounding(old: Value, new: Value, feeds: Mapping[Node, Any]) -> str:
    """How two values differ that are computed exactly; empty where they do not, or cannot be.

    Residues are tried first, at a random point: what is equal there is equal. What needs an order is computed with
    rationals, at the given point, but for what is not finite, or so large or small that its powers have more digits
    than there is memory: another number stands for it, as what is equal everywhere is equal there.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> lazy = nnc.lazy()
    >>> x, y = (lazy.input(name, (1,), "float32") for name in "xy")
    >>> feeds = {x.value: np.float32([3]), y.value: np.float32([2])}
    >>> without_rounding(((x + y) * (x - y)).value, (x * x - y * y).value, feeds)
    ''
    >>> without_rounding(((x + y) * (x - y)).value, (x * x - y).value, feeds)
    'it differs without rounding: modulo a prime, at a random point'
    """
    order = topological([old, new])
    if kind_of(old.dtype) != "f" or any(a.size > MOST for n in order for a in n.avals):
        return ""
    fills = [np.asarray(n.params["value"], n.aval.dtype) for n in order if n.op.name == "full" and not n.args]
    if not all(map(_is_simple, (*fills, *(n.data for n in order if n.op is CONSTANT)))):
        return ""  # what is made of such a constant is rounded while rewriting
    given = {n for n in topological([old]) if n.op is CONSTANT}
    made = [n for n in order if n.op is CONSTANT and n not in given]
    if (made or fills) and not all(map(_is_fraction, (*fills, *(n.data for n in given)))):
        return ""  # what is made of such numbers, rounded, is near to many fractions
    numbers = (*fills, *(n.data for n in (*given, *made)))
    if (made or fills) and len({x.dtype for x in numbers if kind_of(x.dtype) == "f"}) > 1:
        return ""  # float16's 0.1 is another fraction than that which it is read as, once it has more digits
    if not all(_is_told(n.data) for n in made):
        return ""  # of 0.7 - 0.6, rounded, nobody sees that it stands for a tenth
    for device, where in ((RESIDUES, "modulo a prime, at a random point"), (RATIONALS, "as rationals")):
        found = _computed(device, old, new, feeds, given)
        if found is not None:
            return "" if _alike(*found) else f"{DIFFERS}: {where}"
    return ""


def telling(old: Value, feeds: Mapping[Node, Any]) -> dict[Node, Any]:
    """Other feeds: floating elements are 1, 2, 3 and so on, by which most of what differs without rounding is seen.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x, y = (nnc.lazy().input(name, (2,), "float32") for name in "xy")
    >>> feeds = dict.fromkeys((x.value, y.value), np.zeros(2, "float32"))
    >>> [found.tolist() for found in telling((x + y).value, feeds).values()]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    found, count = dict(feeds), 1
    for node in topological([old]):
        if node in feeds and kind_of(feeds[node].dtype) == "f":
            array = feeds[node]
            found[node] = np.arange(count, count + array.size).reshape(array.shape).astype(array.dtype)
            count += array.size
    return found


def _is_simple(constant: Any) -> bool:
    """Whether what numbers are made of such ones, rounded, are still near to simple fractions."""
    return kind_of(constant.dtype) != "f" or bool(np.all(_are_simple(constant)))


def _is_told(constant: Any) -> bool:
    """Whether each number of a constant that a rule has made is near to a simple fraction."""
    if kind_of(constant.dtype) != "f":
        return True
    if constant.dtype.itemsize < WIDE:
        return False  # so many fractions round to it
    return all(fraction_near(n, constant.dtype).denominator <= DENOMINATORS[-1] for n in constant.ravel().tolist())


def _is_fraction(constant: Any) -> bool:
    """Whether each number of a constant is a fraction of few digits, as its dtype holds it."""
    if kind_of(constant.dtype) != "f":
        return True
    if not np.isfinite(constant).all():
        return False
    eps = float(limits_of(constant.dtype).eps)
    found = [(n, fraction_near(n, constant.dtype)) for n in constant.ravel().tolist()]
    return all(
        f.denominator <= MOST_DENOMINATOR
        and f.denominator**2 * eps * abs(n) < CHANCE  # else some fraction is near to any number
        and constant.dtype.type(float(f)) == n
        for n, f in found
    )


def _are_simple(array: Any) -> Any:
    numbers = np.abs(array.astype("float64"))
    return (numbers == 0) | ((numbers >= SIMPLE[0]) & (numbers <= SIMPLE[1]))


def _computed(
    device: Exact, old: Value, new: Value, feeds: Mapping[Node, Any], given: Set[Node]
) -> tuple[Any, Any] | None:
    """Both values; None where they are not rational, or there is no value."""
    values: dict[Node, Any] = {}
    random = Random(0)
    try:
        for node in topological([old, new]):
            if node.op is INPUT:
                values[node] = _fed(device, feeds[node], random)
            elif node.op is CONSTANT:
                values[node] = device.place(node.data) if node in given else _meant(device, node.data)
            else:
                args = (values[a.node][a.index] if a.node.op.multi_result else values[a.node] for a in node.args)
                values[node] = device.bind(node.op, *args, **node.params)
    except NncError:
        return None
    was, now = (values[v.node][v.index] if v.node.op.multi_result else values[v.node] for v in (old, new))
    return was, now


def _meant(device: Exact, constant: Any) -> Any:
    """A constant that a rule has made: what it stands for, though rounded on the way."""
    if kind_of(constant.dtype) != "f":
        return device.place(constant)
    elements = np.empty(constant.shape, object)
    elements.ravel()[...] = [device.number(fraction_near(n, constant.dtype)) for n in constant.ravel().tolist()]
    return ExactArray(elements, constant.dtype, device.xp)


def _fed(device: Exact, array: Any, random: Random) -> Any:
    if kind_of(array.dtype) != "f":
        return device.place(array)
    if not device.modular:
        return device.place(np.where(_are_simple(array), array, array.dtype.type(random.choice(STANDING))))
    elements = np.empty(array.shape, object)
    elements.ravel()[...] = [Residue(random.randrange(PRIME), False) for _ in range(array.size)]
    return ExactArray(elements, array.dtype, device.xp)


def _alike(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape and np.all(a.elements == b.elements))
