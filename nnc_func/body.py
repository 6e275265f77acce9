"""A sub-program as a value: applications of operators to numbered values, without nodes and without a stack.

Whatever holds a program inside an operator holds a `Body`: a fused group, what follows a product. It says nothing of
shapes and dtypes, so one body serves operands of any that its operators take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen

from nnc_func.errors import OperatorError
from nnc_func.facets.dims import NOTHING, PLAIN, Compound, symbols_of

if TYPE_CHECKING:
    from nnc_func.declaration import Items
    from nnc_func.op import Op


MOST_RESULTS = 1 << 20  # of an application: as many as parts of an axis, at the most
SHOWN = 64  # parameters and applications of a body that is written out where it is shown


def _whole_numbers(values: Any) -> tuple[int, ...]:
    if type(values) is tuple:
        found = values
    else:
        found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (None,)
    for each in found:
        if type(each) is not int:
            raise OperatorError(f"values in a body have numbers from 0 on, in a sequence, given {values!r}")
    return found


def _listed(params: Any) -> Items:
    if type(params) is dict:
        return tuple(params.items())
    found = tuple(params.items()) if isinstance(params, Mapping) else params
    try:
        names = [name for name, _ in found]
    except (TypeError, ValueError):
        raise OperatorError(f"parameters are a mapping, or pairs of a name and a value, given {params!r}") from None
    if len(set(names)) != len(names):
        raise OperatorError(f"a parameter is given twice: {params!r}")
    return tuple(found)


@frozen(repr=False)
class Application:
    """An operator, applied to values of a body.

    Attributes
    ----------
    op
        The operator: of this library, or of a user's own.
    operands
        Numbers of values that are there before it.
    items
        Its parameters, in canonical form: name and value of each.
    count
        How many results it has.

    Raises
    ------
    OperatorError
        The operator takes other operands or parameters.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> Application(CATALOGUE["sum"], (0,), {"axis": [1]})
    sum(%0, axis=(1,), keepdims=False)
    """

    op: Op = field(eq=False)
    operands: tuple[int, ...] = field(converter=_whole_numbers, eq=False)
    items: Items = field(converter=_listed, default=(), eq=False)
    count: int = field(default=1, eq=False)
    key: Any = field(init=False)  # of its structure, the parameters by type and bits
    symbols: frozenset[str] = field(init=False, eq=False)  # of extents among its parameters

    def __attrs_post_init__(self) -> None:
        if not hasattr(self.op, "check_arity"):
            raise OperatorError(f"an application is of an operator, such as CATALOGUE['add'], given {self.op!r}")
        self.op.check_arity(len(self.operands))
        items = self.op.canonical(dict(self.items))
        if type(self.count) is not int or self.count < 0 or (self.count != 1 and not self.op.multi_result):
            raise OperatorError(f"{self.op.name} does not have {self.count!r} results")
        if self.count > MOST_RESULTS:
            raise OperatorError(f"{self.op.name} with {self.count} results; {MOST_RESULTS} is the most")
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "key", (self.op, self.operands, self.op.key(items), self.count))
        object.__setattr__(self, "symbols", symbols_of(items))

    def of_others(self, operands: tuple[int, ...]) -> Application:
        """The same of other operands, as many: nothing else is checked again.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE
        >>> Application(CATALOGUE["add"], (0, 1)).of_others((2, 2))
        add(%2, %2)
        """
        if operands == self.operands:
            return self
        return _application(self.op, operands, self.items, self.count, self.key[2], self.symbols)

    @classmethod
    def of_node(cls, op: Op, operands: tuple[int, ...], items: Items, count: int) -> Application:
        """Of what a node has: an operator that takes as many operands, its parameters in canonical form.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE
        >>> Application.of_node(CATALOGUE["add"], (0, 1), (), 1)
        add(%0, %1)
        """
        return _application(op, operands, items, count, op.key(items), symbols_of(items) if op.is_sized else NOTHING)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.items)

    def __repr__(self) -> str:
        inside = [f"%{i}" for i in self.operands] + _said(self)
        return f"{self.op.name}({', '.join(inside)})"


def _application(
    op: Op, operands: tuple[int, ...], items: Items, count: int, inside: Any, symbols: frozenset[str]
) -> Application:
    """One whose parts have been checked; `inside` tells its parameters from others."""
    made, put = object.__new__(Application), object.__setattr__
    put(made, "op", op)
    put(made, "operands", operands)
    put(made, "items", items)
    put(made, "count", count)
    put(made, "key", (op, operands, inside, count))
    put(made, "symbols", symbols)
    return made


def _applications(values: Iterable[Application]) -> tuple[Application, ...]:
    found = tuple(values) if isinstance(values, Iterable) else (values,)
    for each in found:
        if not isinstance(each, Application):
            raise OperatorError(f"a body has applications of operators, in a sequence, given {each!r}")
    return found


@frozen(eq=False, repr=False)
class Body(Compound):
    """A program of numbered values: its parameters come first, then the results of its applications, in their order.

    Bodies are equal if they have the same structure: operators, parameters by type and bits, numbers. They hash by it,
    pickle, print and are read back from text. A body has no operand outside: what it captures is a parameter of it, and
    an operand of the node that holds it.

    Parameters
    ----------
    parameters
        How many there are.
    applications
        Each reads parameters, and results of those before it.
    results
        Numbers of the values that are its results, in their order.

    Raises
    ------
    OperatorError
        An application reads what is not there before it, or a result is no value of the body.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> body = Body(2, [Application(OPS["add"], (0, 1)), Application(OPS["tanh"], (2,))], [3])
    >>> body
    (%0, %1) { %2 = add(%0, %1); %3 = tanh(%2); return %3 }
    >>> body == Body(2, body.applications, (3,)), body == Body(2, body.applications, (2,))
    (True, False)
    >>> body.values(lambda op, operands, items: f"{op.name}({', '.join(operands)})", ["x", "y"])[-1]
    'tanh(add(x, y))'
    """

    parameters: int
    applications: tuple[Application, ...] = field(converter=_applications)
    results: tuple[int, ...] = field(converter=_whole_numbers)
    symbols: frozenset[str] = field(init=False)  # of extents among the parameters of its applications
    is_pure: bool = field(init=False)  # whether it computes and does nothing else
    holds_functions: bool = field(init=False)  # of the user's, among the parameters of its applications, at any depth
    found: dict[Any, Any] = field(init=False, factory=dict)  # what is remembered of it, where it holds functions
    _key: Any = field(init=False)
    _hash: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        count = self.parameters
        if type(count) is not int or count < 0:
            raise OperatorError(f"a body has a number of parameters, given {count!r}")
        for each in self.applications:
            _check(each.operands, count, each.op.name)
            count += each.count
        _check(self.results, count, "return")
        key = (self.parameters, tuple([each.key for each in self.applications]), self.results)
        object.__setattr__(self, "symbols", frozenset().union(*[each.symbols for each in self.applications]))
        object.__setattr__(self, "is_pure", all(is_pure(each.op, each.items) for each in self.applications))
        held = any(holds_functions(each.op, each.items) for each in self.applications)
        object.__setattr__(self, "holds_functions", held)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_hash", hash(key))

    @classmethod
    def of(cls, parameters: int, *rows: Any, results: Iterable[int] | None = None) -> Body:
        """A body from rows: an operator, the numbers of its operands, and a mapping of parameters if it takes some.

        Parameters
        ----------
        results
            Numbers of values; None: the last value. Operators with several results are written as `Application`.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE as OPS
        >>> Body.of(2, (OPS["add"], 0, 1), (OPS["clip"], 2, {"min": 0}))
        (%0, %1) { %2 = add(%0, %1); %3 = clip(%2, min=0, max=None); return %3 }
        """
        made = []
        for row in rows:
            if not isinstance(row, (tuple, list)) or not row:
                raise OperatorError(f"a row is an operator, then numbers of its operands, given {row!r}")
            op, *rest = row
            items = rest.pop() if rest and isinstance(rest[-1], Mapping) else {}
            made.append(Application(op, tuple(rest), items))
        return cls(parameters, made, (parameters + len(rows) - 1,) if results is None else results)

    @property
    def operators(self) -> tuple[Op, ...]:
        """The operators that it applies, each once; those of bodies that it holds, too."""
        found: dict[Op, None] = {}
        waiting, seen = [self], {self}
        for body in waiting:  # which grows
            found.update((each.op, None) for each in body.applications)
            inner = [other for each in body.applications for other in bodies_of(each.items) if other not in seen]
            waiting += dict.fromkeys(inner)
            seen.update(inner)
        return tuple(found)

    def values(self, apply: Callable[[Op, list[Any], Items], Any], arguments: Sequence[Any]) -> list[Any]:
        """All values of an interpretation of the body, by their numbers.

        Parameters
        ----------
        apply
            The result of an operator on operands, with parameters as they are canonical; a sequence where the operator
            has several.
        arguments
            What the parameters are.

        Raises
        ------
        OperatorError
            The body has more parameters, or fewer.
        """
        if len(arguments) != self.parameters:
            raise OperatorError(f"a body of {self.parameters} parameters is given {len(arguments)} values: {self}")
        found = list(arguments)
        for each in self.applications:
            made = apply(each.op, [found[i] for i in each.operands], each.items)
            if not each.op.multi_result:
                found.append(made)
            elif len(made) == each.count:
                found.extend(made)
            else:
                raise OperatorError(f"a body takes {each.count} results of {each!r}, which has {len(made)}")
        return found

    @property
    def inside(self) -> tuple[Any, ...]:
        """The parameters of its applications."""
        return tuple(each.items for each in self.applications)

    def having(self, inside: tuple[Any, ...]) -> Body:
        """It with other parameters of its applications."""
        pairs = zip(self.applications, inside, strict=True)
        return Body(self.parameters, (evolve(each, items=items) for each, items in pairs), self.results)

    def last_uses(self) -> dict[int, int]:
        """The number of a value to that of the last application that reads it; none for what is only a result."""
        return {i: n for n, each in enumerate(self.applications) for i in each.operands}

    def read_by(self, values: Iterable[int]) -> set[int]:
        """The parameters that values are made of.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE as OPS
        >>> Body(3, [Application(OPS["add"], (0, 2)), Application(OPS["tanh"], (1,))], [3, 4]).read_by([3])
        {0, 2}
        """
        wanted, number = {*values}, self.parameters + sum([each.count for each in self.applications])
        for each in reversed(self.applications):
            number -= each.count
            if not wanted.isdisjoint(range(number, number + each.count)):
                wanted.update(each.operands)
        return {n for n in wanted if n < self.parameters}

    def depends(self, result: int, parameter: int) -> bool:
        """Whether a value is made of a parameter, directly or not, or is that parameter.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE as OPS
        >>> body = Body(2, [Application(OPS["tanh"], (1,)), Application(OPS["add"], (2, 2))], [3])
        >>> body.depends(3, 0), body.depends(3, 1)
        (False, True)
        """
        made, number = {parameter}, self.parameters
        for each in self.applications:
            if not made.isdisjoint(each.operands):
                made.update(range(number, number + each.count))
            number += each.count
        return result in made

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Body) and self._hash == other._hash and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:  # a hash is of its process
        return Body, (self.parameters, self.applications, self.results)

    def __repr__(self) -> str:
        if max(self.parameters, len(self.applications)) > SHOWN:
            counts = f"{self.parameters} parameters, {len(self.applications)} applications, {len(self.results)} results"
            return f"<a body of {counts}>"
        return written(self, _said)


def _said(applied: Application) -> list[str]:
    return [f"{name}={_shown(value)}" for name, value in applied.items]


def _shown(value: Any) -> str:
    if isinstance(value, Body):
        return f"({value.parameters} parameters) {{ … }}"
    if type(value) is tuple and value and isinstance(value[0], Body):
        return f"({', '.join(map(_shown, value))})"
    return str(value) if isinstance(value, np.dtype) else repr(value)


def written(body: Body, parameters: Callable[[Application], list[str]]) -> str:
    """A body in one line, the parameters of each application as `parameters` gives them."""
    number, said = body.parameters, []
    for each in body.applications:
        made = ", ".join(f"%{number + i}" for i in range(each.count))
        inside = ", ".join([*(f"%{i}" for i in each.operands), *parameters(each)])
        said.append(f"{made} = {each.op.name}({inside}); " if made else f"{each.op.name}({inside}); ")
        number += each.count
    given = ", ".join(f"%{i}" for i in range(body.parameters))
    return f"({given}) {{ {''.join(said)}return {', '.join(f'%{i}' for i in body.results)} }}"


def bodies_of(items: Iterable[tuple[str, Any]]) -> tuple[Body, ...]:
    """The bodies among parameters, one by one where a parameter is several."""
    found: list[Body] = []
    for _, value in items:
        if type(value) is tuple:
            found += [each for each in value if type(each) not in PLAIN and isinstance(each, Body)]
        elif type(value) not in PLAIN and isinstance(value, Body):
            found.append(value)
    return tuple(found)


def is_pure(op: Op, items: Iterable[tuple[str, Any]]) -> bool:
    """Whether an application computes and does nothing else: neither the operator has an effect, nor has a body of it.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> said = Body.of(1, (OPS["print"], 0, {"text": "now"}))
    >>> is_pure(OPS["loop"], (("body", said),)), is_pure(OPS["loop"], (("body", Body.of(1, (OPS["tanh"], 0))),))
    (False, True)
    """
    return op.pure and (not op.holds_body or all(each.is_pure for each in bodies_of(items)))


def holds_functions(op: Any, items: Iterable[tuple[str, Any]]) -> bool:
    """Whether an application holds a function of the user's, itself or in a body: it holds whatever that was made of.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> holds_functions(OPS["callback"], (("function", print),)), holds_functions(OPS["sum"], (("axis", 0),))
    (True, False)
    """
    if op.takes_functions and any(callable(value) for _, value in items):
        return True
    return op.holds_body and any(each.holds_functions for each in bodies_of(items))


def body(value: Any) -> Body:
    """A parameter that is a body.

    Raises
    ------
    TypeError
        It is none.
    """
    if not isinstance(value, Body):
        raise TypeError(f"wanted a Body, given a {type(value).__name__}")
    return value


def bodies(value: Any) -> tuple[Body, ...]:
    """A parameter that is several bodies.

    Raises
    ------
    TypeError
        It is not a sequence of them.
    """
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"wanted a tuple of bodies, given a {type(value).__name__}")
    return tuple(map(body, value))


def _check(operands: tuple[int, ...], count: int, name: str) -> None:
    if operands and not (min(operands) >= 0 and max(operands) < count):
        raise OperatorError(f"in a body {name} reads values {operands}, and those before it are 0 to {count - 1}")
