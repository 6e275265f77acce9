"""A small graph for each rewrite rule, before and after that rule alone: what docs/rules.md and the golden show."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from attrs import frozen

ATTEMPTS = 400  # graphs that are drawn for an example
KEPT = 3  # of which it changes so many, the smallest is made smaller and shown
SMALLER = 60  # graphs that are tried for that
IN_FULL = 256  # bytes of a constant that a graph's text has in full
ROWS = 1024  # of a tensor that is large enough to be computed block by block


Do = Callable[..., Any]  # an operator's name, its operands and parameters, to its result


@frozen
class Example:
    """A rule, and a closed graph before and after it."""

    rule: Any
    before: Any
    after: Any


@cache
def examples() -> tuple[Example, ...]:
    """One for each rule of the default stacks, in their order."""
    from nnc_func.graph.rules import RULES
    from nnc_func.testing.rewrites import quiet

    with quiet():
        return tuple(Example(rule, *_example(rule, alone(rule))) for rule in RULES)


def alone(rule: Any) -> Any:
    """The layers up to Graph, with that rule and no other."""
    from nnc_func.device import NumPy
    from nnc_func.device.places import Places
    from nnc_func.graph.graph import Graph
    from nnc_func.graph.operator import Operator
    from nnc_func.graph.optimiser import Optimiser
    from nnc_func.graph.rules import REASSOCIATION
    from nnc_func.graph.shape import Shape
    from nnc_func.graph.symbol import Symbol
    from nnc_func.graph.type import Type

    device = Places(one=NumPy(), two=NumPy()) if "transfer" in rule.name else NumPy()
    operator = Operator(Symbol(Shape(Type(device))))
    return Graph(Optimiser(operator, [rule], REASSOCIATION, fast_math=True))


def _example(rule: Any, layer: Any) -> tuple[Any, Any]:
    write = WRITTEN.get(rule.name)
    before = _drawn(rule, layer) if write is None else _written(rule, layer, write)
    if before is None:
        raise ValueError(f"no graph was drawn on which {rule.name} fires: write one in scripts/rule_examples.py")
    after = _rewritten(before, layer)
    if after.roots == before.roots:
        raise ValueError(f"{rule.name} does not fire on the graph that scripts/rule_examples.py has for it")
    return before, after


def _rewritten(graph: Any, layer: Any) -> Any:
    return graph.with_roots(layer.optimiser.optimise(graph.roots).roots)


def _written(rule: Any, layer: Any, write: Callable[[Do], Any]) -> Any:
    from nnc_func.aval import Aval

    operator = layer.optimiser.operator

    def do(name: str, *args: Any, **params: Any) -> Any:
        if name == "input":
            return operator.symbol.input(args[0], Aval(args[1], "float32"))
        return operator.bind(operator.type.ops[name], *args, **params)

    inputs, outputs = write(do)
    return layer.close(inputs, outputs, name=rule.name)


def _drawn(rule: Any, layer: Any) -> Any:
    """A smallest graph that the kit draws for the rule and the rule changes."""
    from nnc_func.errors import NncError
    from nnc_func.graph.leaves import CONSTANT
    from nnc_func.testing.choices import Choices, met, shrunk, spread
    from nnc_func.testing.instances import made
    from nnc_func.testing.rewrites import size_of

    operator = layer.optimiser.operator
    family = tuple(rule.instances(operator.type.ops))

    def changed(choose: Choices) -> Any:
        drawn = made(family, operator, choose)
        if drawn is None or not all(n.aval.size for n in (drawn[1].root, *drawn[1].feeds)):
            return None
        instance = drawn[1]
        try:
            graph = layer.close(list(instance.feeds), [instance.root], name=rule.name)
            after = _rewritten(graph, layer)
        except NncError:  # what was drawn is no legal graph for it
            return None
        if after.roots == graph.roots:
            return None
        large = sum(n.op is CONSTANT and n.aval.nbytes > IN_FULL for n in (*graph.nodes, *after.nodes))
        applications, elements = size_of(instance)
        return graph, (large, applications, -len(instance.feeds), elements)

    found: list[Any] = []
    for i in range(ATTEMPTS):
        one = met(changed, spread(i))
        if one is not None and len(found := [*found, one]) == KEPT:
            break
    return shrunk(changed, min(found, key=lambda one: one.size), attempts=SMALLER).value if found else None


# --- of rules that ask for more than a row of operators --------------------------------------------------


def _inputs(do: Do, *shapes: tuple[int, ...]) -> list[Any]:
    return [do("input", name, shape) for name, shape in zip("xyzuvw", shapes, strict=False)]


def _sliced_join(do: Do) -> Any:
    x, y = _inputs(do, (2,), (3,))
    return [x, y], [do("slice", do("concat", x, y, axis=0), starts=(3,), stops=(5,), steps=(1,))]


def _added_parts(do: Do) -> Any:
    x, y = _inputs(do, (2,), (3,))
    return [x, y], [do("add", *(do("assemble", a, shape=(5,), offsets=((at,),)) for a, at in ((x, 0), (y, 2))))]


def _reshaped_parts(do: Do) -> Any:
    (x,) = _inputs(do, (4, 3))
    first, second = do("split", x, sections=2)
    return [x], [do("reshape", first, shape=(6,)), do("reshape", second, shape=(6,))]


def _matrix_chain(do: Do) -> Any:
    given = a, b, c = _inputs(do, (9, 2), (2, 9), (9, 1))
    return given, [do("matmul", do("matmul", a, b), c)]


def _added_products(do: Do) -> Any:
    given = a, b, c, d, e, f = _inputs(do, *[(16, 2), (2, 16)] * 3)
    return given, [do("add", do("add", do("matmul", a, b), do("matmul", c, d)), do("matmul", e, f))]


def _products_with_one(do: Do) -> Any:
    given = _inputs(do, (4, 16), *[(3, 4)] * 4)
    return given, [do("matmul", x, given[0]) for x in given[1:]]


def _pooled_gradient(do: Do) -> Any:
    x, g = _inputs(do, (1, 4, 4, 1), (1, 2, 2, 1))
    rectified = do("relu", x)
    routed = do("max_pool2d_gradient", rectified, g, window=2)
    later = do("relu", do("max_pool2d", x, window=2))
    masked = do("where", do("greater", rectified, 0), routed, 0)
    return [x, g], [masked, later, do("max_pool2d", rectified, window=2)]


def _convolutions(do: Do) -> Any:
    given = y, *weights = _inputs(do, (1, 8, 16, 16), *[(3, 3, 8, 8)] * 4)
    for w in weights:
        y = do("conv2d", y, w, padding="SAME", data_format="NCHW")
    return given, [y]


def _finished_convolution(do: Do) -> Any:
    given = x, w, b = _inputs(do, (1, 32, 32, 8), (3, 3, 8, 16), (16,))
    return given, [do("relu", do("add", do("conv2d", x, w, padding="SAME"), b))]


def _finished_product(do: Do) -> Any:
    given = x, w, b = _inputs(do, (ROWS, 64), (64, 64), (64,))
    return given, [do("tanh", do("add", do("matmul", x, w), b))]


def _attention(do: Do) -> Any:
    given = q, k, v = _inputs(do, *[(1, ROWS, 16)] * 3)
    return given, [do("matmul", do("softmax", do("matmul", q, k, transpose_b=True), axis=-1), v)]


def _elementwise(do: Do) -> Any:
    given = x, y = _inputs(do, (ROWS, ROWS), (ROWS, ROWS))
    return given, [do("exp", do("add", do("multiply", x, y), 1))]


def _bytes(do: Do) -> Any:
    given = x, z = _inputs(do, (2, 3), ())
    w = do("full", shape=(3, 2), value=2, dtype="int8")
    return given, [do("matmul_integer", do("cast", x, dtype="uint8"), w, do("cast", z, dtype="uint8"))]


WRITTEN: dict[str, Callable[[Any], Any]] = {
    "widen_integer_products": _bytes,
    "read_parts": _sliced_join,
    "join_added_parts": _added_parts,
    "reshape_before_split": _reshaped_parts,
    "order_matrix_chain": _matrix_chain,
    "multiply_added_products_at_once": _added_products,
    "multiply_by_shared_operand_at_once": _products_with_one,
    "rectify_gradient_after_pooling": _pooled_gradient,
    "lay_channels_innermost": _convolutions,
    "fuse_convolution": _finished_convolution,
    "fuse_matrix_product": _finished_product,
    "fuse_attention": _attention,
    "fuse_elementwise": _elementwise,
}
