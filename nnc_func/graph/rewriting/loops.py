"""Loops rewritten as wholes: what need not be carried, sliced or stacked is not, and what can be done at once is.

As PyTensor and JAX rewrite scans: carries that nothing changes are constants; carries and outputs that nobody wants go;
what is the same each time is computed once, outside; products of slices and constants are one product before the loop,
and products that are only stacked one product after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Application, Body, bodies_of, is_pure
from nnc_func.body_builder import BodyBuilder
from nnc_func.declaration import Items
from nnc_func.facets.dims import known, product
from nnc_func.graph.node import Value
from nnc_func.graph.ops.binary import add, floor_divide, where
from nnc_func.graph.ops.bodies import dtypes_in, shapes_in
from nnc_func.graph.ops.compare import less
from nnc_func.graph.ops.create import arange, full
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.loop import loop, steps_of
from nnc_func.graph.ops.loop_schedules import ALL, room
from nnc_func.graph.ops.move import reshape
from nnc_func.op import Op

ROWS = 64  # of one product, at the most, of several times of a loop that may end before; beyond, few are faster
TIMES = 32  # that such a loop may go, from which on another one before it takes less time than it saves
WIDER = 8  # times that what comes of one product may be larger than what goes in
Apply = Callable[[Op, tuple[Value, ...], Items], Any]
Result = int | Value | tuple[Any, Value, Items] | None
"""What a result is: one of the loop as it is now, by number; a value from around it; a product of one of these with a
constant, by which parameters; or nothing that anybody wants."""


def simplified(
    args: Sequence[Value], items: Items, used: Collection[int], apply: Apply, at_once: bool
) -> list[Value | None] | None:
    """The results of a loop, from a simpler loop and what is around it; None where it is as simple as it may be.

    Parameters
    ----------
    args, items
        Its operands, and its parameters in canonical form.
    used
        Results that are wanted; the others may be None.
    apply
        Makes nodes.
    at_once
        Whether products of all times may be one: their sums may be rounded otherwise.
    """
    found = _Loop(args, dict(items), apply)
    found.rewrite(used, at_once)
    if not found.changed:
        return None
    made = found.applied()
    return [found.value(each, made) for each in found.results]


class _Loop:
    """A loop in the making: its body by values of a builder, and what its original results are made of.

    Attributes
    ----------
    results
        For each result of the first loop what it is.
    """

    def __init__(self, args: Sequence[Value], params: dict[str, Any], apply: Apply) -> None:
        self.apply, self.params = apply, params
        self.body: Body = params["body"]
        constants, carries = params["constants"], params["carries"]
        first, last = constants + carries, self.body.parameters
        self.constants, self.carries = [*args[:constants]], [*args[constants:first]]
        self.slices, self.count = [*args[first:last]], [*args[last:]]
        self.most = steps_of(tuple([a.aval for a in args]), constants, carries, params["length"], params["counted"])
        self.is_open = params["counted"] or params["conditional"]
        self.results: list[Result] = [*range(len(self.body.results))]
        self.changed = callable(params["checkpoint"])
        if self.changed:
            self.params["checkpoint"] = ALL  # a policy has been asked, and is of its process

    def rewrite(self, used: Collection[int], at_once: bool) -> None:
        """All of it."""
        self.remove_unwanted(used)
        self.compute_outside()
        if at_once:
            while self.multiply_before() or self.multiply_after():
                continue
        if self.changed:
            self.remove_unwanted({n for each in self.results if (n := _read(each)) is not None})

    def applied(self) -> tuple[Value, ...]:
        """The results of the loop as it is now."""
        if not self.body.results:
            return ()
        length = None if self.slices else self.most
        params = {**self.params, "body": self.body, "constants": len(self.constants), "carries": len(self.carries)}
        operands = (*self.constants, *self.carries, *self.slices, *self.count)
        return tuple(self.apply(loop, operands, loop.canonical({**params, "length": length})))

    def value(self, result: Result, made: Sequence[Value]) -> Value | None:
        """A result, of the results of the loop that is made."""
        if isinstance(result, tuple):
            found = self._at_once(self.value(result[0], made), *result[1:])  # type: ignore[arg-type]
            return self._zeros_behind(found) if self.is_open else found
        return made[result] if isinstance(result, int) else result

    @property
    def avals(self) -> list[Aval]:
        """Of all values of the body."""
        given = [v.aval for v in (*self.constants, *self.carries)]
        given += [v.aval.having(shape=v.aval.shape[1:], layout=None) for v in self.slices]
        shapes = shapes_in(self.body, tuple([a.shape for a in given]))
        dtypes = dtypes_in(self.body, tuple([a.dtype for a in given]))
        return [Aval(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]

    def _made(self, n: int) -> Application | None:
        number = self.body.parameters
        for each in self.body.applications:
            if number <= n < number + each.count:
                return each
            number += each.count
        return None

    # --- what nobody wants ----------------------------------------------------------------------------------

    def remove_unwanted(self, used: Collection[int]) -> None:
        """Let carries that stay as they are be constants, and leave out what no result needs."""
        first, carries = len(self.constants), len(self.carries)
        fixed = {
            k for k in range(carries) if self.body.results[k] == first + k and not (k == 0 and self._has_condition)
        }
        wanted = {k for k in self._wanted(used, fixed) if k not in fixed}
        read = self._read_by(wanted)
        kept_constants = [n for n in range(first) if n in read]
        as_constants = [k for k in sorted(fixed) if first + k in read]
        kept = [k for k in range(carries) if k in wanted]
        last = first + carries
        kept_slices = [n for n in range(len(self.slices)) if last + n in read]
        stacked: dict[int, int] = {}  # number of a value to its place among what is stacked
        places: dict[int, Result] = {k: self.carries[k] if k in fixed & set(used) else None for k in range(carries)}
        for place, k in enumerate(kept):
            places[k] = place
        for n in range(carries, len(self.body.results)):
            value = self.body.results[n]
            if n not in used:
                places[n] = None
            elif last <= value < self.body.parameters and not self.is_open:
                places[n] = self.slices[value - last]
            else:
                places[n] = len(kept) + stacked.setdefault(value, len(stacked))
        same = len(kept_constants) == first and not as_constants and len(kept) == carries
        same = same and len(kept_slices) == len(self.slices) and len(stacked) == len(self.body.results) - carries
        if same:
            return
        self.changed = True
        builder, at = BodyBuilder(), dict[int, int]()
        at.update((n, builder.parameter()) for n in kept_constants)
        at.update((first + k, builder.parameter()) for k in as_constants)
        at.update((first + k, builder.parameter()) for k in kept)
        at.update((last + n, builder.parameter()) for n in kept_slices)
        values = builder.include_partly(self.body, at)
        self.body = builder.built([*(values[self.body.results[k]] for k in kept), *(values[v] for v in stacked)])
        self.constants = [*(self.constants[n] for n in kept_constants), *(self.carries[k] for k in as_constants)]
        self.carries = [self.carries[k] for k in kept]
        self.slices = [self.slices[n] for n in kept_slices]
        self._replace(places)

    @property
    def _has_condition(self) -> bool:
        return bool(self.params["conditional"])

    def _wanted(self, used: Collection[int], fixed: Collection[int]) -> set[int]:
        """Results that are computed: those that are used, the condition, and carries that these are made of."""
        first, carries = len(self.constants), len(self.carries)
        found = {n for n in used if n not in fixed}
        if self._has_condition:
            found.add(0)
        while True:
            read = self._read_by(found)
            more = {k for k in range(carries) if first + k in read and k not in fixed} - found
            if not more:
                return found
            found |= more

    def _read_by(self, results: Collection[int]) -> set[int]:
        """The parameters of the body that results are made of."""
        return self.body.read_by([self.body.results[n] for n in results])

    def _replace(self, places: dict[int, Result]) -> None:
        """Let the results be what they are by the results of the body as it is now."""

        def moved(each: Result) -> Result:
            if not isinstance(each, tuple):
                return places[each] if isinstance(each, int) else each
            now = moved(each[0])
            return self._at_once(now, *each[1:]) if isinstance(now, Value) else (now, *each[1:])

        self.results = [moved(each) for each in self.results]

    # --- what is the same each time ---------------------------------------------------------------------------

    def compute_outside(self) -> None:
        """Compute once what is made of constants alone, but no loop that may never end."""
        constant = dict(enumerate(self.constants))
        numbers: dict[int, Application] = {}  # made of nothing: they stand outside for what reads them there alone
        number, moved = self.body.parameters, set[int]()
        for each in self.body.applications:
            made = range(number, number + each.count)
            number += each.count
            is_free = is_pure(each.op, each.items)
            if not each.operands and is_free:
                numbers.update(dict.fromkeys(made, each))
            if not (each.operands and is_free and all(i in constant or i in numbers for i in each.operands)):
                continue
            if all(i in numbers for i in each.operands) or (self.is_open and _may_be_endless(each)):
                continue
            for i in each.operands:
                if i not in constant:
                    constant[i] = self.apply(numbers[i].op, (), numbers[i].items)
            found = self.apply(each.op, tuple([constant[i] for i in each.operands]), each.items)
            constant.update(zip(made, found if each.op.multi_result else (found,), strict=True))
            moved.update(made)
        if moved:
            self._with({n: value for n, value in constant.items() if n in moved}, {})

    def _with(self, constants: dict[int, Value], slices: dict[int, Value]) -> None:
        """Let values of the body be constants or slices of their own."""
        self.changed = True
        builder, at = BodyBuilder(), dict[int, int]()
        first, last = len(self.constants), len(self.constants) + len(self.carries)
        at.update((n, builder.parameter()) for n in range(first))
        at.update((n, builder.parameter()) for n in constants)
        at.update((n, builder.parameter()) for n in range(first, self.body.parameters))
        at.update((n, builder.parameter()) for n in slices)
        values = builder.include_partly(self.body, at)
        self.body = builder.built([values[n] for n in self.body.results])
        self.constants += constants.values()
        self.slices += slices.values()
        assert last <= self.body.parameters

    # --- products at once ------------------------------------------------------------------------------------

    def multiply_before(self) -> bool:
        """Let a product of a slice and a constant be a slice of one product; whether there was one."""
        first, last = len(self.constants), len(self.constants) + len(self.carries)
        avals = self.avals
        number = self.body.parameters
        for each in self.body.applications:
            value, number = number, number + each.count
            if each.op is not matmul:
                continue
            a, b = each.operands
            params = dict(each.items)
            if not (last <= a < self.body.parameters and b < first) or params["transpose_a"]:
                continue
            sizes = [avals[i].size for i in (a, value)]
            if len(avals[a].shape) != 2 or len(avals[b].shape) != 2 or not all(map(known, sizes)):
                continue
            if sizes[1] <= WIDER * sizes[0] and self._together(avals[a].shape[0]) and self._has_room(avals, value):
                self._with({}, {value: self._at_once(self.slices[a - last], self.constants[b], each.items)})
                return True
        return False

    def multiply_after(self) -> bool:
        """Let a product that is only stacked, of what is stacked too and a constant, be one product of all times.

        Whether there was one.
        """
        first, carries = len(self.constants), len(self.carries)
        avals = self.avals
        read = [i for each in self.body.applications for i in each.operands]
        stacked = {value: n for n, value in reversed([*enumerate(self.body.results)]) if n >= carries}
        products: dict[int, tuple[int, Value, Items]] = {}
        for value, n in stacked.items():
            each = self._made(value)
            if each is None or each.op is not matmul or value in read or self.body.results.count(value) > 1:
                continue
            a, b = each.operands
            ranks = [len(avals[i].shape) for i in (a, b)]
            if a not in stacked or b >= first or ranks != [2, 2] or dict(each.items)["transpose_a"]:
                continue
            if not self._together(avals[a].shape[0]):
                continue
            products[n] = (stacked[a], self.constants[b], each.items)
        if not products:
            return False
        kept = [n for n in range(len(self.body.results)) if n not in products]
        now: dict[int, Result] = {n: place for place, n in enumerate(kept)}
        self.changed = True
        builder = BodyBuilder()
        values = builder.include(self.body, builder.parameters(self.body.parameters))
        self.body = builder.built([values[self.body.results[n]] for n in kept])
        now.update((n, (now[at], constant, items)) for n, (at, constant, items) in products.items())
        self._replace(now)
        return True

    def _has_room(self, avals: Sequence[Aval], value: int) -> bool:
        """Whether rows of a value may be there of all times, beside what is stacked and what was computed to be sliced.

        A loop that bounds what its derivative keeps does not keep them instead.
        """
        most = room(self.params["checkpoint"])
        if most is None:
            return True
        first, read = self.body.parameters - len(self.slices), self._read_by(range(len(self.body.results)))
        rows = {first + n for n, x in enumerate(self.slices) if first + n in read and x.node.args}
        rows.update(i for i in self.body.results[len(self.carries) :] if i >= self.body.parameters)
        size = self.most * sum([avals[i].size * avals[i].dtype.itemsize for i in (value, *rows)])
        return known(size) and size <= most

    def _together(self, height: Any) -> int:
        """Of how many times the products of so many rows each may be one; 0: of none.

        Of all, or where the loop may go fewer times those of a block, of as many rows as are hardly slower than all.
        """
        if not self.is_open:
            return 1
        if self.params["conditional"] or not known(self.most) or not known(height) or self.most < TIMES:
            return 0
        return max((n for n in range(2, ROWS // max(height, 1) + 1) if not self.most % n), default=0)

    def _at_once(self, rows: Value, constant: Value, items: Items) -> Value:
        """The product of all rows with a constant, or where the loop may go fewer times of blocks that hold some."""
        times, height, width = rows.aval.shape
        if self.is_open:
            found = self._in_blocks(rows, constant, items, self._together(height))
        else:
            flat = self.apply(reshape, (rows,), reshape.canonical({"shape": (product((times, height)), width)}))
            found = self.apply(matmul, (flat, constant), items)
        shape = (times, height, found.aval.shape[-1])
        return self.apply(reshape, (found,), reshape.canonical({"shape": shape}))  # type: ignore[no-any-return]

    def _zeros_behind(self, rows: Value) -> Value:
        """Rows of times that there were, and zeros of others: what is made of their zeros may be NaN."""
        (count,), dtype = self.count, self.count[0].aval.dtype
        items = arange.canonical({"start": 0, "stop": self.most, "step": 1, "dtype": dtype})
        number = self.apply(reshape, (self.apply(arange, (), items),), (("shape", (self.most, 1, 1)),))
        zero = self.apply(full, (), full.canonical({"shape": (), "value": 0, "dtype": rows.aval.dtype}))
        return self.apply(where, (self.apply(less, (number, count), ()), rows, zero), ())  # type: ignore[no-any-return]

    def _in_blocks(self, rows: Value, constant: Value, items: Items, together: int) -> Value:
        """Products of the rows of so many times each, in a loop that goes as far as there are times."""
        times, height, width = rows.aval.shape
        shape = (times // together, together * height, width)
        blocks = self.apply(reshape, (rows,), reshape.canonical({"shape": shape}))

        def number(value: int) -> Value:
            items = full.canonical({"shape": (), "value": value, "dtype": count.aval.dtype})
            return self.apply(full, (), items)  # type: ignore[no-any-return]

        (count,) = self.count
        begun = self.apply(add, (count, number(together - 1)), ())
        begun = self.apply(floor_divide, (begun, number(together)), ())
        body = Body(2, [Application(matmul, (1, 0), items)], (2,))
        params = {"body": body, "constants": 1, "carries": 0, "counted": True}
        return self.apply(loop, (constant, blocks, begun), loop.canonical(params))[0]  # type: ignore[no-any-return]


def _may_be_endless(made: Application) -> bool:
    """Whether an operator is a loop, or holds one, that only a condition ends."""
    params = dict(made.items)
    if made.op is loop and params["conditional"] and params["length"] is None:
        sliced = len(made.operands) - params["constants"] - params["carries"] - params["counted"]
        if not sliced and not params["counted"]:
            return True
    return made.op.holds_body and any(_may_be_endless(each) for b in bodies_of(made.items) for each in b.applications)


def _read(result: Result) -> int | None:
    """The result of a loop that a result is made of."""
    return _read(result[0]) if isinstance(result, tuple) else result if isinstance(result, int) else None
