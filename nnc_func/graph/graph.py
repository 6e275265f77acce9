"""Graph, the seventh layer: computation graphs with named inputs, outputs and feedback pairs, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from attrs import evolve, field, frozen

from nnc_func.body import is_pure
from nnc_func.errors import GraphError
from nnc_func.garbage_collection import no_full_collections
from nnc_func.graph.leaves import CONSTANT, INPUT, LEAVES, VARIABLE, check_names
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops.effects import TOKEN, token
from nnc_func.graph.origin import describe
from nnc_func.graph.refinement import Assumption, assumed, refined, undefined
from nnc_func.graph.rewriting.bodies import with_bodies_optimised
from nnc_func.graph.unpickled import Unpickled
from nnc_func.layer import Layer, forwards, layer, opens
from nnc_func.layer_protocols import DeviceSignature, OperatorSignature, OptimiserSignature, SymbolSignature
from nnc_func.locks import cached_property
from nnc_func.tree import ONE_LEAF, Structure

if TYPE_CHECKING:
    from nnc_func.graph.history import History

A = TypeVar("A")
EXTERNAL_ABOVE = 1 << 29  # bytes; writing takes three times the memory of arrays in the model, once that of others


@layer(on="optimiser", needs=OptimiserSignature)
class Graph(Layer, Generic[A]):
    """Closed graphs: what is given, what is wanted, and what is fed back into variables.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> lazy.graph.close([x.value], [(x * 2).value]).statistics["nodes"]
    3
    """

    optimiser: OptimiserSignature[A]
    bind: Callable[..., Any] = forwards()
    operator: OperatorSignature[A] = opens("optimiser.operator")
    symbol: SymbolSignature[A] = opens("optimiser.operator.symbol")
    device: DeviceSignature[A] = opens("optimiser.operator.symbol.shape.type.device")

    role: ClassVar[Literal["graph"]] = "graph"

    def close(
        self,
        inputs: Sequence[Any],
        outputs: Any,
        updates: Any = (),
        name: str = "graph",
        structure: Structure = ONE_LEAF,
        effects: Sequence[Any] = (),
    ) -> ComputationGraph:
        """A graph of these inputs and outputs.

        Parameters
        ----------
        inputs
            Input nodes, in the order in which a program takes them.
        outputs
            Values, in order.
        updates
            Pairs (variable node, value): the feedback, taken after a run.
        structure
            How a caller wants the outputs nested.
        effects
            Tokens: the effects that they come after happen at each run.

        Raises
        ------
        GraphError
            An input that is none, one that is missing or given twice, two of one name, an update of something
            that is no variable or of another shape or dtype, a node of another stack.
        """
        lift = self.operator.lift
        outputs = tuple(lift(o) for o in outputs)
        pairs = tuple((lift(v).node, lift(u)) for v, u in updates)
        tokens = tuple(lift(t) for t in effects)
        graph = ComputationGraph(tuple(i.node for i in inputs), outputs, pairs, name, structure, self, tokens)
        with no_full_collections():
            graph = _with_one_node_each(graph)
            _check(graph)
        return graph

    def optimised(self, graph: ComputationGraph) -> tuple[ComputationGraph, Any]:
        """The graph after rewriting, and the Optimiser's report."""
        inside, _ = with_bodies_optimised(graph, self.optimiser)
        done = self.optimiser.optimise(inside.roots, nodes=inside.nodes)
        return graph.with_roots(done.roots, source=graph), done


@frozen(eq=False, repr=False, slots=False)
class ComputationGraph(Unpickled):
    """A closed graph as a value: named inputs, outputs, and feedback pairs (variable ← value).

    It prints as text (`str`), draws itself (`to_dot`, `to_svg`, in notebooks), is saved without code
    (`save`), and moves to another stack (`to`). An optimised one knows its `source`, and its `history`.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Value, ...]
    updates: tuple[tuple[Node, Value], ...]
    name: str
    structure: Structure
    layer: Graph[Any] = field(repr=False)
    effects: tuple[Value, ...] = ()
    source: ComputationGraph | None = field(default=None, repr=False)

    @property
    def roots(self) -> tuple[Value, ...]:
        """All that is wanted: outputs, updates, and the tokens of effects."""
        return (*self.outputs, *(u for _, u in self.updates), *self.effects)

    def with_roots(self, roots: Sequence[Value], source: ComputationGraph | None = None) -> ComputationGraph:
        """The same graph with other values in the places of its roots, made of `source` by rewriting."""
        rest = iter(roots)
        outputs = tuple([next(rest) for _ in self.outputs])
        updates = tuple([(v, next(rest)) for v, _ in self.updates])
        return evolve(self, outputs=outputs, updates=updates, effects=tuple(rest), source=source)

    @cached_property
    def history(self) -> History:
        """How an optimised graph came to be, rewrite by rewrite: see `History`.

        Raises
        ------
        GraphError
            It was not made by rewriting.
        """
        from nnc_func.graph.history import history

        return history(self)

    def simplify(self, numerics: Any = None, *, fast_math: bool | None = None) -> ComputationGraph:
        """The graph simplified by the rules of algebra alone, for reading; numerics as of the Optimiser.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x = lazy.input("x", (), "float64")
        >>> print(lazy.graph.close([x.value], [(x * x - -(-x * 1)).value]).simplify().to_latex())
        \\begin{aligned}
        y &= x^{2} - x
        \\end{aligned}
        """
        from nnc_func.graph.formulas.simplification import simplified

        return self.with_roots(simplified(self.layer.optimiser, self.roots, numerics, fast_math), source=self)

    def to_latex(self) -> str:
        """Its outputs and updates as equations in LaTeX; for small graphs."""
        from nnc_func.graph.formulas.simplification import latex_of

        return latex_of(self)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, operands first; an input that nothing uses is among them."""
        order = topological(self.roots)
        have = set(order)
        unused = [n for n in (*self.inputs, *(v for v, _ in self.updates)) if n not in have]
        return (*dict.fromkeys(unused), *order)

    @cached_property
    def variables(self) -> tuple[Node, ...]:
        """The variables it reads or writes."""
        return tuple(n for n in self.nodes if n.op is VARIABLE)

    @property
    def constants(self) -> tuple[Node, ...]:
        """Its constants."""
        return tuple(n for n in self.nodes if n.op is CONSTANT)

    def position(self, node: Node) -> int:
        """Which of the inputs a node is.

        Raises
        ------
        GraphError
            It is none of them.
        """
        if node not in self.inputs:
            names = ", ".join(repr(n.data) for n in self.inputs)
            raise GraphError(f"{node!r} is no input of {self.name!r}, whose inputs are {names}; donate one of those")
        return self.inputs.index(node)

    @property
    def statistics(self) -> Mapping[str, int]:
        """Numbers of nodes, edges and operator applications."""
        nodes = self.nodes
        return {
            "nodes": len(nodes),
            "edges": sum(len(n.args) for n in nodes),
            "applications": sum(_applied(n) for n in nodes),
        }

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the unknown dimensions of its inputs."""
        return frozenset().union(*(n.aval.symbols for n in self.inputs)) if self.inputs else frozenset()

    def to(self, stack: Any) -> ComputationGraph:
        """The same graph, built by another stack: its nodes, its device, its rules.

        Variables stay the same objects where the devices are equal; else they are copied.
        """
        from nnc_func.graph.transfer import moved

        return moved(self, stack.graph)  # type: ignore[no-any-return]

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Equalities of unknown extents that the graph relies on, each with the node where they meet.

        They hold wherever a program of the graph runs: they are checked for each distinct binding.
        """
        return tuple(assumed(self.nodes, self.layer.symbol.shape)) if self.symbols else ()

    def specialised(self, dims: Mapping[str, int]) -> ComputationGraph:
        """The same graph with unknown dimensions bound to numbers.

        Raises
        ------
        ShapeError
            An equality of extents that was assumed does not hold for these numbers.
        """
        return self.substituted(dims)

    def check(self, dims: Mapping[str, int]) -> None:
        """Raise what `specialised` would raise for these numbers, without building anything."""
        from nnc_func.graph.transfer import check

        check(self, dims)

    def substituted(self, dims: Mapping[str, Any]) -> ComputationGraph:
        """The same graph with unknown dimensions replaced by numbers or by expressions in others."""
        from nnc_func.graph.transfer import specialised

        return specialised(self, dims)  # type: ignore[no-any-return]

    def with_shapes(self, shapes: Mapping[str, Any]) -> ComputationGraph:
        """The same graph with more of its inputs' shapes known; what follows from them is known too.

        Nodes never change: this is a new graph. What is assumed in the graph is used: where ``x[n] + y[m]`` is
        computed, the extent of one tells that of the other.

        Parameters
        ----------
        shapes
            Names of inputs to their shapes; an extent is a number, a name, an expression such as ``"2*m"``,
            or None where no more is known of it.

        Raises
        ------
        GraphError
            It has no input of that name.
        ShapeError
            The shape contradicts what is known of the input, or what a node takes for granted: names the input or
            the operator, and the user's line.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x, y = lazy.input("x", ("n", 4)), lazy.input("y", ("m", 4))
        >>> graph = lazy.graph.close([x.value, y.value], [(x + y).value])
        >>> graph.with_shapes({"y": (32, None)}).inputs[0].aval
        float32[32, 4]
        """
        return refined(self, shapes)  # type: ignore[no-any-return]

    def save(self, path: Any) -> None:
        """Write it to a file: text and arrays, no code."""
        from nnc_func.graph.text.files import save

        save(self, path)

    def to_onnx(self, path: Any = None, opset: int = 18, *, external_above: int = EXTERNAL_ABOVE) -> Any:
        """The graph as an ONNX model: inputs and outputs by name, each operator as its facet `onnx` says.

        A variable that the graph only reads is an initialiser. One that it updates is an input, with the value that it
        has as the default, and an output of its name and ``.next``: feed that back. An unknown extent is a named
        dimension. The model carries the graph's own text, so that `from_onnx` gives back this graph, unless somebody
        has changed the model.

        Parameters
        ----------
        path
            Where to write it; None: the model itself, an ``onnx.ModelProto``.
        opset
            The version of ONNX's operators, 18 to 22.
        external_above
            Bytes of constants and variables above which they go to a file of their own beside it, ``<path>.data``;
            above two gigabytes they always do. A model that is not written holds all of them.

        Raises
        ------
        OnnxError
            Applications have no form in ONNX: names the operators, the user's lines and the reasons. The package
            ``onnx`` is not installed, or the opset is none that is written.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> lazy = nnc.lazy()
        >>> x = lazy.input("x", ("n", 2), "float32")
        >>> model = lazy.graph.close([x.value], [(x * 2).value]).to_onnx()
        >>> [node.op_type for node in model.graph.node], model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
        (['Mul'], 'n')
        """
        from nnc_func.graph.onnx_export.writing import to_onnx

        return to_onnx(self, path, opset, external_above)

    def __str__(self) -> str:
        from nnc_func.graph.text.writing import printed

        return printed(self)

    def __repr__(self) -> str:
        found = self.statistics
        return (
            f"<graph {self.name!r}: {len(self.inputs)} inputs, {len(self.outputs)} outputs, "
            f"{found['nodes']} nodes, {found['edges']} edges>"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def to_dot(self, plan: Any = None) -> str:
        """The graph in Graphviz's language."""
        from nnc_func.graph.pictures.graphs import dot

        return dot(self, plan)

    def to_svg(self, plan: Any = None) -> str:
        """A picture, drawn without Graphviz."""
        from nnc_func.graph.pictures.graphs import svg

        return svg(self, plan)

    def to_html(self, plan: Any = None) -> str:
        """A self-contained page: the picture and the text; parameters as of `to_svg`."""
        from nnc_func.graph.pictures.graphs import html

        return html(self, plan)

    def _repr_html_(self) -> str:
        return self.to_svg()


def _applied(node: Node) -> bool:
    return node.op not in LEAVES


def _with_one_node_each(graph: ComputationGraph) -> ComputationGraph:
    """The graph where each variable has one node: its values at different times stand for it alike."""
    nodes = {*graph.variables, *(v for v, _ in graph.updates if v.op is VARIABLE)}
    if len({id(n.data) for n in nodes}) == len(nodes):
        return graph
    operator: Any = graph.layer.operator
    places = {n: operator.symbol.variable(n.data) for n in nodes}
    found = graph.with_roots(operator.substitute(graph.roots, places))
    return evolve(found, updates=tuple([(places.get(v, v), u) for v, u in found.updates]))


def _check(graph: ComputationGraph) -> None:
    for node in graph.inputs:
        if node.op is not INPUT:
            raise GraphError(f"{node!r} is no input; make inputs with stack.input(name, shape, dtype)")
    if len(set(graph.inputs)) != len(graph.inputs):
        raise GraphError(f"an input is given twice: {[n.data for n in graph.inputs]}")
    leaves = [n for n in graph.nodes if not n.args]
    given = set(graph.inputs)
    missing = [n for n in leaves if n.op is INPUT and n not in given]
    if missing:
        named = ", ".join(f"{n.data!r}{_at(n)}" for n in missing)
        raise GraphError(f"the outputs depend on the input {named}, which is not among the inputs given")
    check_names((n for n in leaves if n.op is INPUT), "inputs")
    check_names((n for n in leaves if n.op is VARIABLE), "variables")
    stray = undefined(graph.nodes, graph.symbols)
    if stray is not None:
        raise GraphError(
            f"{stray!r} depends on an extent that no input of the graph has{_at(stray)}; give the input that has it"
        )
    for value in graph.effects:
        node = value.node
        is_token = not value.index if node.op.effect or node.op is token else value.aval == TOKEN
        if not is_token or (node.op is not token and is_pure(node.op, node.items)):
            raise GraphError(f"{value!r} is no token; tokens are what effects return: t = ops.print(x, after=t)")
        if value.node.op is token:
            raise GraphError(
                "effects=[...] was given a token that comes before all effects, so that none would happen; each effect "
                "returns the token after it, and the last one is wanted: t = ops.print(x, after=t)"
            )
    targets = [v for v, _ in graph.updates]
    if len(set(targets)) != len(targets):
        raise GraphError("a variable is updated twice in one graph")
    for variable, value in graph.updates:
        if variable.op is not VARIABLE:
            raise GraphError(f"{variable!r} is no variable, so it cannot be updated")
        if variable.aval != value.aval:
            raise GraphError(
                f"variable {variable.data.name!r} is {variable.aval!r} and its update is {value.aval!r}"
                f"{_at(value.node)}; they must be equal"
            )


def _at(node: Node) -> str:
    where = describe(node.origin)
    return f" (made at {where})" if where else ""
