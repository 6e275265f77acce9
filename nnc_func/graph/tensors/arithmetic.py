"""Python's operators for whatever flows through a stack: tensors, derivatives' carriers, variables of rules."""

from __future__ import annotations

from typing import Any

from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.namespace import Ops

OPS = CATALOGUE


class Arithmetic:
    """``+ - * / // % ** @``, ``& | ^ ~ << >>``, comparisons: all through one abstract `_bind`."""

    __slots__ = ()

    def _bind(self, op: Any, *args: Any, **params: Any) -> Any:
        raise TypeError(f"{type(self).__name__} defines no _bind, so {op.name} cannot be applied to it")

    @property
    def _functions(self) -> Ops[Any]:
        """The catalogue's operators as formulas are written against them, applied where this one lives."""
        return Ops(self._bind, CATALOGUE).functions

    def _logic(self, name: str) -> Any:
        """The operator of ``&``, ``|``, ``^`` or ``~``: that of booleans, unless it is known to be of integers."""
        return OPS[f"logical_{name}"]

    def __add__(self, other: Any) -> Any:
        return self._bind(ADD, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._bind(ADD, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._bind(SUBTRACT, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._bind(SUBTRACT, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._bind(MULTIPLY, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._bind(MULTIPLY, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._bind(DIVIDE, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._bind(DIVIDE, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._bind(OPS["floor_divide"], self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._bind(OPS["floor_divide"], other, self)

    def __mod__(self, other: Any) -> Any:
        return self._bind(OPS["remainder"], self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._bind(OPS["remainder"], other, self)

    def __pow__(self, other: Any) -> Any:
        return self._bind(OPS["power"], self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._bind(OPS["power"], other, self)

    def __matmul__(self, other: Any) -> Any:
        return self._bind(MATMUL, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._bind(MATMUL, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self._bind(OPS["negative"], self)

    def __abs__(self) -> Any:
        return self._bind(OPS["abs"], self)

    def __and__(self, other: Any) -> Any:
        return self._bind(self._logic("and"), self, other)

    def __rand__(self, other: Any) -> Any:
        return self._bind(self._logic("and"), other, self)

    def __or__(self, other: Any) -> Any:
        return self._bind(self._logic("or"), self, other)

    def __ror__(self, other: Any) -> Any:
        return self._bind(self._logic("or"), other, self)

    def __xor__(self, other: Any) -> Any:
        return self._bind(self._logic("xor"), self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._bind(self._logic("xor"), other, self)

    def __invert__(self) -> Any:
        return self._bind(self._logic("not"), self)

    def __lshift__(self, other: Any) -> Any:
        return self._bind(OPS["bitwise_left_shift"], self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._bind(OPS["bitwise_left_shift"], other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._bind(OPS["bitwise_right_shift"], self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._bind(OPS["bitwise_right_shift"], other, self)

    def __lt__(self, other: Any) -> Any:
        return self._bind(OPS["less"], self, other)

    def __le__(self, other: Any) -> Any:
        return self._bind(OPS["less_equal"], self, other)

    def __gt__(self, other: Any) -> Any:
        return self._bind(OPS["greater"], self, other)

    def __ge__(self, other: Any) -> Any:
        return self._bind(OPS["greater_equal"], self, other)


ADD, SUBTRACT, MULTIPLY = OPS["add"], OPS["subtract"], OPS["multiply"]
DIVIDE, MATMUL = OPS["divide"], OPS["matmul"]


def matrix_product(bind: Any, a: Any, b: Any) -> Any:
    """``a @ b`` as NumPy has it: a vector is a row on the left and a column on the right, and that axis is dropped."""
    ranks = [len(getattr(x, "shape", ())) for x in (a, b)]
    if 0 in ranks or 1 not in ranks:
        return bind(MATMUL, a, b)
    left, right = (r == 1 for r in ranks)
    a = bind(OPS["expand_dims"], a, axis=0) if left else a
    b = bind(OPS["expand_dims"], b, axis=1) if right else b
    return bind(OPS["squeeze"], bind(MATMUL, a, b), axis=(-2,) * left + (-1,) * right)
