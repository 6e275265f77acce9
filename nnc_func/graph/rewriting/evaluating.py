"""Both sides of a rewrite, computed and compared: what `NNC_SPEC=2` does, and the test kit of rules."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nnc_func.body import Body, bodies_of, is_pure
from nnc_func.declaration import Items
from nnc_func.errors import NncError, RuleError
from nnc_func.facets.dims import Extent, substitute, symbols_of
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, VARIABLE, brought, owned
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops.loop import loop
from nnc_func.graph.origin import describe as line_of
from nnc_func.graph.rules.rule import EXACT, REASSOCIATION, SIGNED_ZERO, Numerics
from nnc_func.op import Op

ULPS = {Numerics.ROUNDING: 16.0, REASSOCIATION: 64.0}  # of the largest number that occurs on the way
EXTENT = 3  # of every unknown axis
LONGEST = 100  # times of a loop that ends by what it computes: of drawn values it may never end
SHOWN = 40  # nodes of a side that are written out


# --- computing graphs ----------------------------------------------------------------------------------


def evaluated(
    roots: Iterable[Value],
    feeds: Mapping[Node, Any],
    device: Any,
    dtype: Any = None,
    dims: Mapping[str, Extent] | None = None,
) -> tuple[list[Any], float]:
    """Values of graph values, computed one node after the other; and the largest finite number on the way.

    `feeds` has the values of inputs, or of other nodes, below which nothing is computed then; of a node with several
    results a tuple. With `dtype` floating feeds and constants are converted to it first, complex ones to the one with
    such parts; `dims` are the numbers of unknown axes.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> stack = nnc.eager()
    >>> x = stack.symbol.input("x", Aval((2,), "float32"))
    >>> y = stack.operator.bind(stack.type.ops["add"], x, 1)
    >>> evaluated([y], {x: np.float32([1, 2])}, stack.device)
    ([array([2., 3.], dtype=float32)], 3.0)
    """
    wanted = list(roots)
    values = computed(wanted, feeds, device, dtype, dims)
    return [on_host(v, values, device) for v in wanted], largest_of(values)


def computed(
    roots: Iterable[Value],
    feeds: Mapping[Node, Any],
    device: Any,
    dtype: Any = None,
    dims: Mapping[str, Extent] | None = None,
) -> dict[Node, Any]:
    """As `evaluated`, but the values of all nodes on the way, where the device has them."""
    wanted = list(roots)
    order = topological(wanted, feeds)
    met = {v.node for v in wanted}.union(a.node for n in order for a in n.args)
    values: dict[Node, Any] = {n: converted(found, dtype) for n, found in feeds.items() if n in met}
    for node in order:
        values[node] = converted(node.data, dtype) if node.op is CONSTANT else applied(node, values, device, dims)
    return values


def applied(node: Node, values: Mapping[Node, Any], device: Any, dims: Mapping[str, Extent] | None) -> Any:
    """The operator of a node, on values of its operands."""
    items = substitute(node.items, dims) if dims else node.items
    return device.bind(node.op, *(_of(a, values) for a in node.args), **dict(items))


def on_host(value: Value, values: Mapping[Node, Any], device: Any) -> Any:
    """One of the values of nodes, as a NumPy array."""
    found = _of(value, values)
    return found if isinstance(found, np.ndarray) else device.to_numpy(found)


def largest_of(values: Mapping[Node, Any]) -> float:
    """The largest finite number of the values of nodes."""
    return max((_largest(each) for v in values.values() for each in _several(v)), default=0.0)


def _of(value: Value, values: Mapping[Node, Any]) -> Any:
    found = values[value.node]
    return found[value.index] if value.node.op.multi_result else found


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def converted(found: Any, dtype: Any) -> Any:
    """Floating numbers in that dtype, complex ones in the one with such parts."""
    if isinstance(found, tuple):
        return tuple(converted(each, dtype) for each in found)
    kind = kind_of(found.dtype)
    if dtype is None or kind not in "fc":
        return found
    return found.astype(dtype if kind == "f" else np.result_type(dtype, np.complex64))


def _largest(array: Any) -> float:
    host = np.abs(np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64))
    finite = host[np.isfinite(host)]
    return float(finite.max()) if finite.size else 0.0


# --- comparing values ----------------------------------------------------------------------------------


def differs(
    old: Any, new: Any, numerics: Numerics, fast_math: bool = False, oracle: Any = None, scale: float = 0.0
) -> str:
    """How two arrays of one aval differ by more than the numerics allow; empty where they do not.

    Parameters
    ----------
    oracle
        The value computed in float64, which rounding is measured against; `old` if not given.
    scale
        The largest number on the way to the value.

    Examples
    --------
    >>> differs(np.float32([-0.0]), np.float32([0.0]), SIGNED_ZERO)
    ''
    >>> differs(np.float32([-0.0]), np.float32([0.0]), EXACT)
    'a zero has another sign'
    """
    why = elsewhere(old, new, numerics, fast_math)
    if why or numerics <= SIGNED_ZERO or kind_of(old.dtype) not in "fc":
        return why
    if old.dtype.kind == "c":
        old, new = parts_of(old, new, free=True)
        oracle = None
    bounded = np.isfinite(old) & np.isfinite(new)
    true = old if oracle is None else np.where(np.isfinite(oracle), oracle, old)
    limits = limits_of(old.dtype)
    spare = ULPS[numerics] * (float(limits.eps) * max(scale, _largest(old)) + float(limits.tiny))
    own = np.abs(old[bounded].astype(true.dtype) - true[bounded])
    if np.any(np.abs(new[bounded].astype(true.dtype) - true[bounded]) > 2 * own + spare):
        return f"elements differ by more than rounding, about {spare:.2g}"
    return ""


def elsewhere(old: Any, new: Any, numerics: Numerics, fast_math: bool = False) -> str:
    """Whether NaN or infinity is elsewhere, and up to signed zero whether elements differ; empty if not.

    Examples
    --------
    >>> elsewhere(np.float32([np.nan, 1]), np.float32([np.nan, 2]), Numerics.ROUNDING)
    ''
    >>> elsewhere(np.float32([np.nan, 1]), np.float32([1, np.nan]), Numerics.ROUNDING)
    'NaN is elsewhere'
    """
    if kind_of(old.dtype) not in "fc":
        return "" if np.array_equal(old, new) else "elements differ"
    if old.dtype.kind == "c":
        old, new = parts_of(old, new, numerics > SIGNED_ZERO)
    kept = np.isfinite(old) & np.isfinite(new) if fast_math else np.ones(old.shape, bool)
    if not np.array_equal(np.isnan(old)[kept], np.isnan(new)[kept]):
        return "NaN is elsewhere"
    if not np.array_equal(np.isfinite(new), np.isfinite(old)) and not fast_math:
        return "infinity is elsewhere"
    endless = kept & np.isinf(old)
    if not np.array_equal(old[endless], new[endless]):
        return "infinity is elsewhere"
    bounded = kept & np.isfinite(old)
    if numerics <= SIGNED_ZERO and not np.array_equal(old[bounded], new[bounded]):
        return "elements differ"
    if numerics == EXACT and not _same_signs(old[bounded], new[bounded]):
        return "a zero has another sign"
    return ""


def parts_of(old: Any, new: Any, free: bool) -> tuple[Any, Any]:
    """Real and imaginary parts of complex numbers: a part that is NaN says nothing of the other.

    With `free` parts do not tell where the first has a NaN and the second is not finite: whether they are NaN or
    infinite depends on how products of parts are written out.

    Examples
    --------
    >>> old, new = np.array([complex(np.inf, np.nan), np.inf]), np.array([np.nan, complex(np.inf, np.nan)])
    >>> [part.tolist() for part in parts_of(old, new, free=True)]
    [[[nan, inf], [0.0, 0.0]], [[nan, inf], [0.0, nan]]]
    """
    if free:
        beside = np.isnan(old) & ~np.isfinite(new)
        old, new = (np.where(beside, np.nan, each) for each in (old, new))
    return np.stack([old.real, old.imag]), np.stack([new.real, new.imag])


def _same_signs(a: Any, b: Any) -> bool:
    return np.array_equal(np.signbit(a), np.signbit(b))


# --- saying them ---------------------------------------------------------------------------------------


def one_line(value: Value, names: Mapping[Node, str] | None = None) -> str:
    """A small graph in one line; nodes that have names are told by them.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> stack = nnc.eager()
    >>> one_line(stack.operator.bind(stack.type.ops["add"], stack.symbol.input("x", Aval((2,), "float32")), 1))
    'add(x, float32[]=1.)'
    """
    node = value.node
    if names and node in names:
        return names[node] + (f"[{value.index}]" if node.op.multi_result else "")
    if node.op is INPUT:
        return str(node.data)
    if node.op is CONSTANT:
        return f"{node.aval!r}={short(node.data)}"
    inside = [one_line(a, names) for a in node.args] + [f"{k}={v}" for k, v in node.items if v != node.op.params[k]]
    return f"{node.op.name}({', '.join(inside)})" + (f"[{value.index}]" if node.op.multi_result else "")


def short(array: Any) -> str:
    """An array in one line, a large one in part.

    Examples
    --------
    >>> short(np.arange(3))
    '[0, 1, 2]'
    """
    return np.array2string(np.asarray(array), separator=", ", threshold=20).replace("\n", "")


# --- each rewrite of a graph ---------------------------------------------------------------------------


def ending(op: Op, items: Items, operands: int) -> Items:
    """Parameters by which no loop, nor one in a body, goes more than 100 times where only a condition ends it."""
    if not op.holds_body or not bodies_of(items):
        return items
    params = {name: _ending_within(value) for name, value in items}
    if op is loop and params["conditional"] and not params["counted"]:
        carries = params["carries"]
        stacks = len(params["body"].results) > carries or operands > params["constants"] + carries
        if not stacks and (params["length"] is None or params["length"] > LONGEST):
            params["length"] = LONGEST
    return op.canonical(params)


def _ending_within(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_ending_within(each) for each in value])
    if not isinstance(value, Body):
        return value
    return value.having(tuple([ending(a.op, a.items, len(a.operands)) for a in value.applications]))


class Sides:
    """Values of the nodes of a graph that is being rewritten: leaves are drawn, the rest is computed once.

    Constants and variables have their values, inputs drawn ones, unknown axes three elements; loops that end by what
    they compute end after 100 times, on both sides. What has no value then (effects, what a kernel refuses for what was
    drawn, all on a device that computes nothing) is not compared.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> Sides(lazy.device).check("double", EXACT, False, (x + x).value, (x * 2).value)
    >>> Sides(lazy.device).check("double", EXACT, False, (x + x).value, (x * 3).value)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    nnc_func.errors.RuleError: rule double changes values by more than it says (exact): elements differ...
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self.values: dict[Node, Any] = {}  # None of what has no value
        self._random = np.random.default_rng(0)

    def check(self, name: str, numerics: Numerics, fast_math: bool, old: Value, new: Value) -> None:
        """Compare a value with what a rule makes of it.

        Raises
        ------
        RuleError
            They differ by more than the rule says; names the rule, both sides and the values.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            was, now = self._value(old), self._value(new)
            if was is None:
                return
            why = "it has no value there" if now is None else differs(was, now, numerics, fast_math)
            if why and now is not None and numerics > SIGNED_ZERO:  # measured against what lies on the way
                why = differs(was, now, numerics, fast_math, *self._measure(old, new))
        if why:
            values = f"{self._sides(old, new)}\n  was: {short(was)}\n  is:  {'none' if now is None else short(now)}"
            raise RuleError(f"rule {name} changes values by more than it says ({numerics}): {why}\n{values}")

    def _value(self, value: Value) -> Any:
        """On the host; None where there is none."""
        stack = [value.node]
        while stack:
            node = stack[-1]
            missing = [a.node for a in node.args if a.node not in self.values]
            if node in self.values or not missing:
                self._settle(stack.pop())
            stack += missing
        if self.values[value.node] is None:
            return None
        try:
            return self.device.to_numpy(_of(value, self.values))
        except NncError:
            return None

    def _settle(self, node: Node) -> None:
        if node not in self.values:
            try:
                self.values[node] = self._computed(node)
            except NncError:
                self.values[node] = None

    def _computed(self, node: Node) -> Any:
        if node.op is INPUT:
            return self._drawn(node)
        if node.op is VARIABLE:
            return owned(self.device, node.data.array)
        if node.op is CONSTANT or node.op is HELD:
            return node.data
        if not is_pure(node.op, node.items) or any(self.values[a.node] is None for a in node.args):
            return None
        symbols = symbols_of((tuple(a.shape for a in node.args), tuple(a.shape for a in node.avals), node.items))
        items = ending(node.op, substitute(node.items, dict.fromkeys(symbols, EXTENT)), len(node.args))
        found = self.device.bind(node.op, *(_of(a, self.values) for a in node.args), **dict(items))
        return tuple(found) if node.op.multi_result else found

    def _drawn(self, node: Node) -> Any:
        """Numbers of both signs, zeros among them; integers are 0 or 1, so that they can be indices."""
        aval, draw = node.aval, self._random
        shape = substitute(aval.shape, dict.fromkeys(symbols_of(aval.shape), EXTENT))
        found: Any = draw.integers(0, 2, shape)
        if kind_of(aval.dtype) in "fc":
            found = draw.normal(0, 2, shape) * (draw.random(shape) > 1 / 8)
        if aval.dtype.kind == "c":
            found = found + 1j * draw.normal(0, 2, shape)
        return brought(self.device, np.asarray(found).astype(aval.dtype), place=aval.place)

    def _between(self, old: Value, new: Value) -> tuple[set[Node], dict[Node, Any]]:
        """Nodes that only one side has, and the values of the others that these are computed of."""
        before, after = (set(topological([side])) for side in (old, new))
        own = before ^ after
        return own, {a.node: self.values[a.node] for n in own for a in n.args if a.node not in own}

    def _measure(self, old: Value, new: Value) -> tuple[Any, float]:
        """The old value computed in float64, if that can be, and the largest number on the way."""
        own, shared = self._between(old, new)
        met = [v for n in (*own, *shared) if (v := self.values[n]) is not None]
        scale = max(_largest(self.device.to_numpy(each)) for v in met for each in _several(v))
        try:
            (oracle,), _ = evaluated([old], shared, self.device, np.float64)
        except NncError:
            return None, scale
        return oracle, scale

    def _sides(self, old: Value, new: Value) -> str:
        """Both sides as text, with names for what they share and its values."""
        own, shared = self._between(old, new)
        names = {n: str(n.data) if n.op is INPUT else f"v{i}" for i, n in enumerate(shared) if n.op is not CONSTANT}
        where = line_of(old.node.origin)
        told_of = [one_line(v, names) if len(own) <= SHOWN else repr(v) for v in (old, new)]
        given = [f"  {name} = {short(self.values[n])}" for n, name in names.items() if not n.op.multi_result]
        return "\n".join([f"  {told_of[0]} -> {told_of[1]}" + (f" (built at {where})" if where else ""), *given])
