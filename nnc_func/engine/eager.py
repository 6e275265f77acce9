"""Eager: computes at once. It makes no nodes unless an argument is one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from attrs import Factory, field

from nnc_func.device.shared.dispatch import Dispatch
from nnc_func.engine.eager_dispatch import changes_nodes, eager_dispatch
from nnc_func.engine.interpreted import Interpreted, InterpretedBindings, interpreted
from nnc_func.engine.reading import have_passed, readings, refuse_sizes, refuse_unbound, substituted
from nnc_func.errors import NncError
from nnc_func.facets.dims import Compound, Dim, mentions_unknown
from nnc_func.facets.places import Place
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import Variable, owned
from nnc_func.graph.node import Node, Result, Value
from nnc_func.graph.origin import describe, name_line, origin
from nnc_func.layer import Layer, changes, evolved, layer, opens
from nnc_func.layer_protocols import DeviceSignature, GraphSignature, OperatorSignature, ShapeSignature, SymbolSignature
from nnc_func.op import Op

A = TypeVar("A")


@layer(on="graph", needs=GraphSignature)
class Eager(Layer, Generic[A]):
    """An operator is computed when it is applied; an operator with an unbound argument becomes a node.

    Attributes
    ----------
    check_numerics
        Raise NumericsError where an operator gives a NaN or an infinity.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> eager = nnc.eager().engine
    >>> eager.bind(eager.symbol.type.ops["add"], 1.0, 2.0)
    array(3.)
    """

    graph: GraphSignature[A]
    check_numerics: bool = False
    operator: OperatorSignature[A] = opens("graph.optimiser.operator")
    symbol: SymbolSignature[A] = opens("graph.optimiser.operator.symbol")
    shape: ShapeSignature[A] = opens("graph.optimiser.operator.symbol.shape")
    device: DeviceSignature[A] = opens("graph.optimiser.operator.symbol.shape.type.device")
    growing: OrderedDict[Any, Any] = field(init=False, factory=OrderedDict, eq=False, repr=False)  # see `growing.step`
    _makes_nodes: bool = field(init=False, eq=False, repr=False, default=Factory(changes_nodes, takes_self=True))
    _compute: Any = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: eager_dispatch(self.shape), takes_self=True)
    )

    role: ClassVar[Literal["engine"]] = "engine"

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The result at once; a node where an argument is one."""
        if op.is_sized:
            for v in params.values():
                if type(v) is Dim or (isinstance(v, (tuple, list, Compound)) and mentions_unknown(v)):
                    return self.graph.bind(op, *args, **params)
        for a in args:
            kind = type(a)
            # a variable's value of now is not baked in
            if kind is Node or kind is Result or kind is Variable or kind is Dim:
                return self.graph.bind(op, *args, **params)
        if self._makes_nodes and not op.effect:
            found = self.graph.bind(op, *args, **params)
            computed = self.force(found if op.multi_result else [found])
            return tuple(computed) if op.multi_result else computed[0]
        if self.check_numerics:
            return self._checked(op, args, params)
        try:
            return self._compute(op, args, params)
        except NncError as error:
            name_line(error)
            raise

    def dispatch(self) -> Dispatch | None:
        """The way from operators on device arrays to kernels, which stacks take; None where each call is looked at."""
        if self.check_numerics or self._makes_nodes or changes(self, "bind") or not isinstance(self._compute, Dispatch):
            return None
        return self._compute

    def _checked(self, op: Op, args: Any, params: Any) -> Any:
        from nnc_func.engine.running.checking_observers import check

        found = self._compute(op, args, params)
        for result in found if op.multi_result else (found,):
            check(self.device, result, op.name, describe(origin()))
        return found

    def asarray(self, value: Any, dtype: Any = None, place: Place = None) -> Any:
        """A value of this engine: a device array, which does not change with the array that it was made of."""
        return owned(self.device, value, dtype, place)

    def compile(self, graph: ComputationGraph, donated: Sequence[int] = ()) -> Interpreted | InterpretedBindings:
        """The graph as a program that interprets its nodes as they are: no rewriting, no plan. The oracle."""
        with uncollected(self.symbol.table.walking), self.symbol.table.walking:
            return interpreted(graph, graph, self.device, self.check_numerics)

    def incremental(self, graph: ComputationGraph, retain: Any, lift: Any) -> Any:
        """As `compile`, of an `IncrementalProgram`; where `retain` is a list, `lift` makes values of its members."""
        from nnc_func.engine.incremental.compile import interpreted as incremental

        return incremental(self, graph, retain, lift)

    def force(self, values: Sequence[Any]) -> list[Any]:
        """Device arrays with the values of these.

        Raises
        ------
        UnboundError
            A value depends on an input; names it and the line where it was made.
        """
        graph = [v for v in values if isinstance(v, Value)]
        computed = iter(evaluate(self, graph)) if graph else iter(())
        return [next(computed) if isinstance(v, Value) else v.array if type(v) is Variable else v for v in values]

    def checking_numerics(self, on: bool = True) -> Eager[A]:
        """This engine with a check of every result for NaN and infinity."""
        return evolved(self, check_numerics=on)


def evaluate(engine: Any, values: Sequence[Value]) -> list[Any]:
    """The values computed by interpretation, of the values that variables had when they were built."""
    nodes = refuse_unbound(values)
    refuse_sizes(nodes)
    now = readings(nodes)
    while True:
        graph = engine.graph.close([], substituted(engine, values, constant=False))
        found = Interpreted(graph, graph, engine.device).run(())
        if not have_passed(now):
            return found
        now = []  # a variable was changed meanwhile, in another thread
