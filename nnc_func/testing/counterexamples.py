"""Small graphs as runnable code, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.facets.dims import substitute, symbols_of
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.rewriting.evaluating import EXTENT

LISTED = 64  # elements that are written out, if an array is these over and over; of others all are


@frozen(eq=False, repr=False)
class Instance:
    """A graph with values for its inputs; it prints as code that computes ``root``."""

    root: Node
    feeds: Mapping[Node, Any]

    def __repr__(self) -> str:
        return code({"root": self.root}, self.feeds)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("\n" + repr(self) + "\n")


# --- code ----------------------------------------------------------------------------------------------


def code(values: Mapping[str, Value], feeds: Mapping[Node, Any]) -> str:
    """Python that computes these values, by name, operator by operator.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> stack = nnc.eager()
    >>> x = stack.symbol.input("x", Aval((1,), "float32"))
    >>> y = stack.operator.bind(stack.type.ops["add"], x, x)
    >>> print(code({"after": y}, {x: np.float32([2])}))
    import nnc_func as nnc
    from numpy import array, inf, nan
    ops = nnc.eager().ops
    x = array([2.0], 'float32')
    after = ops.add(x, x)
    """
    lines = ["import nnc_func as nnc", "from numpy import array, inf, nan", "ops = nnc.eager().ops"]
    names: dict[Node, str] = {}
    wanted = {v: name for name, v in values.items()}
    for node in topological(list(values.values())):
        if node.op is INPUT:
            names[node] = str(node.data)
            lines.append(f"{names[node]} = {literal(feeds[node])}")
        elif node.op is CONSTANT:
            names[node] = literal(node.data)
        else:
            own = wanted.get(node) if not node.op.multi_result else None
            names[node] = own or f"v{sum(n.op not in (INPUT, CONSTANT) for n in names)}"
            lines.append(f"{names[node]} = {_call(node, names)}")
    for value, name in wanted.items():
        found = _reference(value, names)
        if found != name:
            lines.append(f"{name} = {found}")
    if any("resize(array(" in line for line in lines):
        lines[1] += ", resize"
    return "\n".join(lines)


def _call(node: Node, names: Mapping[Node, str]) -> str:
    items = substitute(node.items, dict.fromkeys(symbols_of(node.items), EXTENT))
    said = [_reference(a, names) for a in node.args]
    said += [f"{k}={_parameter(v)}" for k, v in items if v != node.op.params[k]]
    return f"ops.{node.op.name}({', '.join(said)})"


def _reference(value: Value, names: Mapping[Node, str]) -> str:
    return names[value.node] + (f"[{value.index}]" if value.node.op.multi_result else "")


def _parameter(value: Any) -> str:
    return repr(value.name) if isinstance(value, np.dtype) else repr(value)


def literal(array: Any) -> str:
    """An array as code; numbers of rank 0 too, since their dtype counts.

    Examples
    --------
    >>> literal(np.float32(0.5)), literal(np.zeros((0, 2), "int32"))
    ("array(0.5, 'float32')", "array([], 'int32').reshape((0, 2))")
    >>> literal(np.complex64([1, complex(0, np.inf)]))
    "array([(1+0j), complex(0.0, inf)], 'complex64')"
    >>> literal(np.resize(np.arange(3), (50, 2)))
    "resize(array([0, 1, 2], 'int64'), (50, 2))"
    """
    host = np.asarray(array)
    exact = host.astype("float64") if kind_of(host.dtype) == "f" else host
    short = _period(host.ravel()) if host.size > LISTED else 0
    if short:
        return f"resize(array({_listed(exact.ravel()[:short].tolist())}, {host.dtype.name!r}), {host.shape})"
    flat = f"array({_listed(exact.tolist())}, {host.dtype.name!r})"
    return f"array([], {host.dtype.name!r}).reshape({host.shape})" if not host.size else flat


def _period(flat: Any) -> int:
    """Of how many elements, at most `LISTED`, the array is a repetition; none if it is not."""
    return next((n for n in range(1, LISTED + 1) if np.resize(flat[:n], flat.shape).tobytes() == flat.tobytes()), 0)


def _listed(found: Any) -> str:
    """As code: of a complex number that is not finite, or has a negative zero, what Python prints is none."""
    if isinstance(found, list):
        return f"[{', '.join(map(_listed, found))}]"
    if isinstance(found, complex) and (not np.isfinite(found) or "-0.0" in (str(found.real), str(found.imag))):
        return f"complex({found.real}, {found.imag})"
    return repr(found)


# --- work ----------------------------------------------------------------------------------------------


@frozen
class Work:
    """What a graph costs, as the operators' cost facets tell.

    Attributes
    ----------
    nodes
        Applications, views among them.
    launches
        Applications that compute something.
    nbytes, flops
        Read and written by these, constant numbers aside, and their arithmetic.
    """

    nodes: int
    launches: int
    nbytes: int
    flops: int

    def saves(self, other: Work) -> bool:
        """Whether this is less than the other in some respect."""
        return any(a < b for a, b in zip(self.counts, other.counts, strict=True))

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """All four."""
        return self.nodes, self.launches, self.nbytes, self.flops

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.launches} launches, {self.nbytes} bytes, {self.flops} FLOPs"


def work(roots: Iterable[Value]) -> Work:
    """The work of computing these values; unknown axes have three elements.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> stack = nnc.eager()
    >>> x = stack.symbol.input("x", Aval((2,), "float32"))
    >>> print(work([stack.operator.bind(stack.type.ops["add"], x, x)]))
    1 nodes, 1 launches, 24 bytes, 2 FLOPs
    """
    found = [0, 0, 0, 0]
    for node in topological(list(roots)):
        if node.op in (INPUT, CONSTANT) or _is_number(node):
            continue
        found[0] += 1
        if node.op.view is not None:
            continue
        args, results = tuple(_sized(a.aval) for a in node.args), tuple(map(_sized, node.avals))
        params = substitute(node.items, dict.fromkeys(symbols_of(node.items), EXTENT))
        cost = node.op.cost(args, results, **dict(params))
        found[1] += 1
        read = [a for a, value in zip(args, node.args, strict=True) if not _is_number(value.node)]
        found[2] += sum(a.nbytes for a in (*read, *results)) + cost.extra_bytes
        found[3] += cost.flops
    return Work(*found)


def _is_number(node: Node) -> bool:
    return bool(node.op is CONSTANT or (node.op.name == "full" and not node.args)) and node.aval.size == 1


def _sized(aval: Any) -> Any:
    symbols = symbols_of(aval.shape)
    return aval.having(shape=substitute(aval.shape, dict.fromkeys(symbols, EXTENT))) if symbols else aval
