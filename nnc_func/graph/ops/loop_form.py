"""One application of a loop, as its derivatives read it: its operands by kind, avals, and the loop of another body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.graph.ops.bodies import dtypes_in, shapes_in
from nnc_func.graph.ops.cut_bodies import aval_of, is_smooth
from nnc_func.locks import cached_property
from nnc_func.op import Op


class Form:
    """One application of a loop: its operands by kind, and what is the same in all that is made of it."""

    def __init__(self, op: Op, o: Any, xs: Sequence[Any], params: Mapping[str, Any]) -> None:
        self.op, self.o, self.params = op, o, params
        self.body: Body = params["body"]
        constants, carries, counted = params["constants"], params["carries"], params["counted"]
        self.reverse, self.conditional = bool(params["reverse"]), bool(params["conditional"])
        self.first: int = constants + carries
        self.last: int = len(xs) - counted
        self.constants, self.carries, self.slices = (
            xs[:constants],
            xs[constants : self.first],
            xs[self.first : self.last],
        )
        self.count = tuple(xs[self.last :])
        self.avals = [aval_of(o, x) for x in xs[: self.first]]
        self.avals += [a.having(shape=a.shape[1:], layout=None) for a in (aval_of(o, x) for x in self.slices)]

    @property
    def most(self) -> Any:
        """How many times it goes at most; None: nothing bounds it."""
        return self.params["length"] if self.params["length"] is not None else (
            self.slices[0].shape[0] if self.slices else None
        )  # fmt: skip

    @cached_property
    def results(self) -> list[Aval]:
        """Of what the body gives."""
        shapes = shapes_in(self.body, tuple([a.shape for a in self.avals]))
        dtypes = dtypes_in(self.body, tuple([a.dtype for a in self.avals]))
        return [Aval(shapes[i], dtypes[i]) for i in self.body.results]

    @property
    def stacked(self) -> list[Aval]:
        """Of a row of each result that is stacked."""
        return self.results[len(self.carries) :]

    def aval(self, x: Any) -> Aval:
        """Of what flows through its interpretation."""
        return aval_of(self.o, x)

    def carry(self, parameter: int) -> int | None:
        """Which carry a parameter of the body is."""
        n = parameter - len(self.constants)
        return n if 0 <= n < len(self.carries) else None

    def values(
        self, o: Any, constants: Sequence[Any], carries: Sequence[Any], slices: Sequence[Any], body: Body | None = None
    ) -> list[Any]:
        """What the body gives of these, in some interpretation, or another one with such parameters."""
        body = self.body if body is None else body
        found = written_out(o, body, [*constants, *carries, *slices])
        return [found[i] for i in body.results]

    def apply(self, body: Body, constants: Any, carries: Any, slices: Any, **changed: Any) -> tuple[Any, ...]:
        """The loop with another body, and other operands."""
        count = changed.pop("count", self.count)
        params = {
            **self.params, "body": body, "constants": len(constants), "carries": len(carries), "length": self.most,
            "counted": bool(count), **changed,
        }  # fmt: skip
        return tuple(self.o.bind(self.op, *constants, *carries, *slices, *count, **params))

    def derived(self, derive: Callable[..., Any], moving: frozenset[int]) -> Any:
        """The derivative of the body where carries move as well that depend on what moves."""
        moving = frozenset(n for n in moving if n < self.last and is_smooth(self.avals[n]))
        return derive(self.body, self.avals, moving, tuple(range(len(self.constants), self.first)))


def written_out(o: Any, body: Body, arguments: Sequence[Any]) -> list[Any]:
    """All values of a body, in some interpretation."""
    return body.values(lambda op, args, items: o.bind(op, *args, **dict(items)), arguments)
