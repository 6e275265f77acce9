"""Bodies of whole batches, made of bodies of one example: what an operator that holds bodies is batched by.

A body is interpreted on rows over an engine that makes nodes and computes nothing, and taken apart again. So whatever
has a batching rule may stand in a body, loops and branches too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from attrs import evolve, frozen

from nnc_func.autodiff.bodies import Recording
from nnc_func.autodiff.traced import scope
from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.facets.batching import Application
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import INT64
from nnc_func.graph.bodies import abstract
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.ops.cut_bodies import aval_of
from nnc_func.layer import chain
from nnc_func.memo import Few
from nnc_func.override import Override

REMEMBERED = 256  # batched bodies, for each Batching


@frozen(eq=False)
class BatchedBody:
    """A body of whole batches.

    Attributes
    ----------
    body
        Its parameters are those of the body of one example, then what it captures. Rows lie along axis 0.
    is_batched
        For each result, whether it has rows.
    captured
        Arrays that batching rules brought in.
    """

    body: Body
    is_batched: tuple[bool, ...]
    captured: tuple[Any, ...]

    def with_captured(self, at: int, before: int = 0, after: int = 0) -> Body:
        """The body with what it captures from parameter `at` on, and there parameters that it does not read around it.

        Parameters
        ----------
        before, after
            How many of those are in front of what is captured, and behind.
        """
        if not (self.captured or before or after):
            return self.body
        builder = BodyBuilder()
        count = self.body.parameters - len(self.captured)
        first = builder.parameters(at)
        builder.parameters(before)
        inner = builder.parameters(len(self.captured))
        builder.parameters(after)
        values = builder.include(self.body, [*first, *builder.parameters(count - at), *inner])
        return builder.built([values[i] for i in self.body.results])


class BatchedBodies:
    """What makes bodies of whole batches, by the rules of a Batching layer.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.body import Body
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> bodies = BatchedBodies(nnc.Batching(nnc.eager().autodiff))
    >>> body = Body.of(2, (OPS["sum"], 0), (OPS["multiply"], 2, 1))
    >>> bodies.of(body, [nnc.Aval((3,), "float32"), nnc.Aval((), "float32")], (True, False), 5).body
    (%0, %1) { %2 = sum(%0, axis=(1,), keepdims=False); %3 = multiply(%2, %1); return %3 }
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._known: OrderedDict[Any, BatchedBody] = OrderedDict()
        self._few = Few(self._known)
        self._opened: Any = None

    @property
    def makes_nodes(self) -> bool:
        """Whether there is a layer below that makes nodes, which bodies are made of."""
        return self._opened_layers() is not None

    def _opened_layers(self) -> Any:
        """The Batching over what only makes nodes, and two functions: that makes inputs, and that makes nodes."""
        if self._opened is None:
            below = [each.graph if isinstance(each, Recording) else each for each in chain(self._layer)]
            graph = next((each for each in below if getattr(each, "role", None) == "graph"), None)
            if graph is None:
                return None
            layers = {each.role: each for each in chain(graph)}
            own = isinstance(self._layer.below, Recording)
            recorder = self._layer if own else evolve(self._layer, below=Recording(graph))
            self._opened = recorder, layers["symbol"].input, layers["operator"].lift
        return self._opened

    def of(
        self, body: Body, avals: Sequence[Aval], is_batched: Sequence[bool], size: Any,
        wanted: Collection[int] = (),
    ) -> BatchedBody:  # fmt: skip
        """The body of whole batches.

        Parameters
        ----------
        avals
            Of the parameters, for one example.
        is_batched
            Which parameters have rows.
        size
            How many rows there are.
        wanted
            Results that are to have rows, whether or not they differ.
        """
        key = (body, tuple(avals), tuple(is_batched), size, frozenset(wanted))
        found = self._known.get(key)
        if found is None:
            with Override(scope, None):  # nothing here is part of what is being traced
                found = self._made(body, avals, is_batched, size, wanted)
            self._known[key] = found
            if body.holds_functions:
                self._few.note(key)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _made(
        self, body: Body, avals: Sequence[Aval], is_batched: Sequence[bool], size: Any, wanted: Collection[int]
    ) -> BatchedBody:
        recorder, make_input, lift = self._opened_layers()
        inputs = [
            make_input(f"%{n}", aval.having(shape=(size, *aval.shape)) if b else aval)
            for n, (aval, b) in enumerate(zip(avals, is_batched, strict=True))
        ]
        rows = recorder.rows(size)
        given = [rows.row(x) if b else x for x, b in zip(inputs, is_batched, strict=True)]
        values = body.values(lambda op, args, items: recorder.bind(op, *args, **dict(items)), given)
        found = [values[n] for n in body.results]
        have = tuple([rows.owns(x) or n in wanted for n, x in enumerate(found)])
        results = [lift(rows.whole(x) if b else x) for x, b in zip(found, have, strict=True)]
        made, captured = abstract(inputs, results, whole=True)
        arrays = tuple([v.node.data if v.node.op is CONSTANT else v for v in captured])
        return BatchedBody(made, have, arrays)


def avals_of_rows(call: Application) -> list[Aval]:
    """Avals of the operands, for one example."""
    found = [aval_of(call.o, x) for x in call.args]
    return [
        aval.having(shape=row) if b else aval
        for aval, row, b in zip(found, call.rows, call.is_batched, strict=True)
    ]  # fmt: skip


def read_by(body: Body) -> frozenset[int]:
    """Parameters that an application of the body reads."""
    return frozenset(i for each in body.applications for i in each.operands if i < body.parameters)


def along_rows(call: Application, mask: Any, rank: int) -> Any:
    """One truth value for each row, for `where` with batches whose rows have that rank."""
    return call.o.reshape(mask, shape=(call.size, *(1,) * rank)) if rank else mask


def never_empty(o: Any, x: Any, extent: Any, axis: int = 0) -> Any:
    """The tensor, with one more slice of zeros behind it along an axis whose extent may be 0.

    Parameters
    ----------
    extent
        Of the axis; where it is known, it is 1 at least, and nothing is added.
    """
    if known(extent):
        return x
    rank = len(x.shape)
    return o.pad(x, widths=((0, 0),) * axis + ((0, 1),) + ((0, 0),) * (rank - axis - 1))


def first_row(call: Application, mask: Any) -> Any:
    """The number of the first row for which the mask is true; 0 where there is none."""
    o = call.o
    return o.argmax(never_empty(o, o.cast(mask, dtype=INT64), call.size), axis=0, keepdims=False)


def filled(call: Application, x: Any, row: Any) -> Any:
    """A batch of equal rows: of row number `row` of another; it has no derivative.

    Where the number of rows is not known, and may be 0, there is no one row to take: it is taken once for each row.
    """
    o = call.o
    if not known(call.size):
        return o.stop_gradient(o.take(x, o.broadcast_to(o.reshape(row, shape=(1,)), shape=(call.size,)), axis=0))
    one = call.o.take(x, row, axis=0)
    shape = tuple(one.shape)
    spread = call.o.broadcast_to(call.o.reshape(one, shape=(1, *shape)), shape=(call.size, *shape))
    return call.o.stop_gradient(spread)


def replaced(call: Application, mask: Any, x: Any, row: Any) -> Any:
    """A batch where rows for which the mask is false are row number `row`, without a derivative."""
    return call.o.where(along_rows(call, mask, len(x.shape) - 1), x, filled(call, x, row))
