"""What the `onnx` facets of operators are written against: an algebra of ONNX nodes.

A capitalised name is an ONNX operator, ``g.ReduceSum(x, axes)``; any other name is one of our own operators or
composites, ``g.multiply(x, 2)``, which is written by its own facet in turn. Results of the latter know their shapes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.errors import OnnxError
from nnc_func.facets.dims import Quotient, known
from nnc_func.facets.dtypes import promote
from nnc_func.facets.samples import Refused
from nnc_func.graph.onnx_export.schemas import schema
from nnc_func.graph.onnx_export.scopes import Record, Scope, Written
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.op import Op

SCALARS = (bool, int, float, complex)
INT64, BOOL = np.dtype("int64"), np.dtype("bool")
REAL = "its result is made of complex numbers, and ONNX's operators compute with real ones"


class Builder:
    """Nodes of one model.

    Attributes
    ----------
    opset
        The version of ONNX's operators that is written.
    result, results
        What is known of the result, or results, of the application that is being written.
    """

    def __init__(self, layer: Any, opset: int) -> None:
        self.opset = opset
        self.scope = Scope()
        self.arrays: dict[str, Any] = {}  # initialisers by name
        self.names: set[str] = set()
        self.results: tuple[Aval, ...] = ()
        self.description = ""
        self.symbols: dict[str, Callable[[], Written]] = {}  # how unknown extents are computed
        self._layer = layer
        self._constants: dict[Any, Written] = {}
        self._fixed: set[str] = set()  # names of initialisers that are constants
        self._counts: dict[str, int] = {}
        self._functions = Ops(self.bind, layer.operator.type.ops).functions

    @property
    def result(self) -> Aval:
        """Of the one result."""
        return self.results[0]

    def __getattr__(self, name: str) -> Any:
        if name[:1].isupper():
            return partial(self.node, name)
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._functions, name)

    def refuse(self, why: str) -> Any:
        """Raise OnnxError: this application has no form in ONNX, for that reason."""
        raise OnnxError(f"{self.description} cannot be written as ONNX: {why}")

    # --- our operators

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """One of our operators on values, or numbers, which take the dtype that promotion gives them beside those."""
        dtypes = [a.dtype for a in args if type(a) not in SCALARS]
        scalar = self._layer.operator.type.scalar
        values = [self.scalar(a, scalar(a, dtypes)) if type(a) in SCALARS else self._of(a) for a in args]
        avals = [Aval(v.shape, v.dtype) for v in values]
        items = op.canonical(params)
        found = self._layer.symbol.shape.infer(op, tuple(avals), items)
        made = self.applied(op, values, dict(items), found if op.multi_result else (found,))
        return made if op.multi_result else made[0]

    def _of(self, value: Any) -> Written:
        return value if isinstance(value, Written) else self.constant(np.asarray(value))

    def applied(
        self, op: Op, args: Sequence[Written], params: dict[str, Any], results: tuple[Aval, ...]
    ) -> tuple[Written, ...]:
        """An application of one of our operators; its results have the dtypes and shapes of those avals.

        Raises
        ------
        OnnxError
            It has no form in ONNX.
        """
        outside, self.results = self.results, results
        try:
            if isinstance(op.onnx, Refused):
                self.refuse(op.onnx.why)
            if any(r.dtype.kind == "c" for r in results):
                self.refuse(REAL)
            if all(any(known(n) and n == 0 for n in r.shape) for r in results):
                return tuple(self._empty(r) for r in results)
            found = self._written(op, args, params)
            made = found if op.multi_result else (found,)
            return tuple(self.having(m, r.shape, r.dtype) for m, r in zip(made, results, strict=True))
        finally:
            self.results = outside

    def _written(self, op: Op, args: Sequence[Written], params: dict[str, Any]) -> Any:
        facet: Any = op.onnx
        if isinstance(facet, str):
            return self._named(facet, args)
        return facet(self, *args, **params)

    def _named(self, name: str, args: Sequence[Written]) -> Written:
        """The ONNX operator of the same signature, all arguments in the result's dtype, or of questions in theirs."""
        dtype = self.result.dtype
        if dtype.kind == "b":
            dtype = promote(*(a.dtype for a in args))
        found: Written = self.node(name, *(self.converted(a, dtype) for a in args))
        return found

    def _empty(self, aval: Aval) -> Written:
        if all(map(known, aval.shape)):
            return self.constant(np.zeros(aval.shape, aval.dtype))
        made = self.ConstantOfShape(self.extents(aval.shape), value=np.zeros((1,), aval.dtype))
        return self.having(made, aval.shape)

    # --- ONNX's

    def node(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """An ONNX operator on values; None is an input that is left out, a number has the first value's dtype.

        Operands of a dtype that it does not take are computed in a wider one, and the results brought back.
        """
        declared = schema(name, self.opset)
        first = next((x.dtype for x in inputs if isinstance(x, Written)), INT64)
        values = [x if x is None or isinstance(x, Written) else self.scalar(x, first) for x in inputs]
        fit = declared.fitting([None if v is None else v.dtype for v in values])
        variables = declared.variables(len(values))
        operands = [
            v if v is None or t not in fit else self.converted(v, fit[t][1])
            for v, t in zip(values, variables, strict=True)
        ]
        made = self._recorded(name, operands, outputs, attributes)
        found = [self._typed(n, t, fit, attributes) for n, t in zip(made, declared.results(outputs), strict=True)]
        return tuple(found) if outputs > 1 else found[0]

    def _typed(self, name: str, variable: str, fit: Any, attributes: dict[str, Any]) -> Written:
        if variable in fit:
            given, wide = fit[variable]
            return self.converted(Written(name, wide), given)
        told = attributes["to"] if "to" in attributes else getattr(attributes.get("value"), "dtype", None)
        return Written(name, np.dtype(variable) if told is None else told)

    def _recorded(self, name: str, operands: list[Any], outputs: int, attributes: dict[str, Any]) -> list[str]:
        """The names of the results; what was applied to the same before is not applied again."""
        names = ["" if v is None else v.name for v in operands]
        while names and not names[-1]:
            names.pop()
        key = (name, *names, *((k, _key(v)) for k, v in sorted(attributes.items())))
        record = next((s.known[key] for s in self.scope.enclosing() if key in s.known), None)
        if record is None:
            record = Record(name, names, [], attributes, self.description)
            self.scope.records.append(record)
            if not any(isinstance(v, Scope) for v in attributes.values()):
                self.scope.known[key] = record
        while len(record.outputs) < outputs:
            record.outputs.append(self.fresh(name))
        return record.outputs[:outputs]

    def fresh(self, base: str) -> str:
        """A name that nothing has yet: the base, or that with a number."""
        name = "" if base[:1].isupper() else base  # nodes are numbered from the first
        while not name or name in self.names:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        self.names.add(name)
        return name

    def having(self, value: Written, shape: Any, dtype: Any = None) -> Written:
        """The value, of which a shape is said, in a dtype."""
        if dtype is not None:
            value = self.converted(value, dtype)
        return Written(value.name, value.dtype, tuple(shape))

    def converted(self, value: Written, dtype: Any) -> Written:
        """The value in a dtype."""
        if value.dtype == dtype:
            return value
        (name,) = self._recorded("Cast", [value], 1, {"to": np.dtype(dtype)})
        return Written(name, np.dtype(dtype), value.known_shape)

    # --- numbers

    def value_of(self, value: Written) -> Any:
        """The array that a value is, where it is a constant; else None."""
        return self.arrays.get(value.name) if value.name in self._fixed else None

    def constant(self, array: Any, name: str = "constant") -> Written:
        """An array, as an initialiser; equal ones are one."""
        array = np.asarray(array)
        key = (array.dtype, array.shape, hashlib.sha256(array.tobytes()).digest())
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = Written(self.fresh(name), array.dtype, array.shape)
            self.arrays[found.name] = array
            self._fixed.add(found.name)
        return found

    def scalar(self, value: Any, dtype: Any) -> Written:
        """A number of that dtype; an extent may be symbolic."""
        if known(value):
            return self.constant(np.asarray(value).astype(dtype))
        return self.converted(self.extent(value), dtype)

    def integers(self, values: Sequence[int]) -> Written:
        """A vector of int64."""
        return self.constant(np.asarray(values, INT64).reshape(len(values)))

    def extents(self, shape: Sequence[Any]) -> Written:
        """Extents, or numbers made of them, as a vector of int64: a constant where all are known."""
        if all(map(known, shape)):
            return self.integers(shape)
        parts = [self.Reshape(self.extent(n), self.integers((1,))) for n in shape]
        return self.having(parts[0] if len(parts) == 1 else self.Concat(*parts, axis=0), (len(shape),))

    def extent(self, extent: Any) -> Written:
        """An extent as an int64 of shape ()."""
        if known(extent):
            return self.constant(np.asarray(extent, INT64))
        for scope in self.scope.enclosing():
            if extent in scope.extents:
                return scope.extents[extent]
        total = None
        for monomial, coefficient in extent.terms.items():
            term = self.constant(np.asarray(coefficient, INT64)) if coefficient != 1 or not monomial else None
            for atom in monomial:
                factor = self._quotient(atom) if isinstance(atom, Quotient) else self._symbol(atom)
                term = factor if term is None else self.Mul(term, factor)
            total = term if total is None else self.Add(total, term)
        assert total is not None, extent
        found = self.scope.extents[extent] = self.having(total, ())
        return found

    def _quotient(self, atom: Quotient) -> Written:
        found: Written = self.floor_divide(self.extent(atom.numerator), self.extent(atom.divisor))
        return found

    def _symbol(self, name: str) -> Written:
        if name not in self.symbols:
            self.refuse(f"the extent {name} does not follow from one axis of an input, so it cannot be computed")
        return self.symbols[name]()

    # --- sub-graphs

    def scan(
        self, step: Callable[..., Any], state: Sequence[Written], rows: Sequence[Written], axis: int = 0,
        reverse: bool = False,
    ) -> tuple[tuple[Written, ...], tuple[Written, ...]]:  # fmt: skip
        """A loop: ``step(*state, *elements) -> (next states, outputs)`` for each element of an axis, one at least.

        Elements have the shape of the rows without that axis, and states a shape of their own. With `reverse` the last
        element is the first; outputs stand where their elements stood.

        Returns
        -------
        The last states; and the outputs of all steps, put together along that axis.
        """
        at = axis % len(rows[0].shape) if rows else 0
        shapes = [tuple(n for i, n in enumerate(r.shape) if i != at) for r in rows]
        with self._body() as body:
            states = self._entering("state", state)
            elements = [Written(self.fresh("element"), r.dtype, n) for r, n in zip(rows, shapes, strict=True)]
            following, outputs = step(*states, *elements)
            body.inputs = [*states, *elements]
            body.outputs = [self._own(v) for v in (*following, *outputs)]
        count = len(outputs)
        attributes: dict[str, Any] = {
            "body": body, "num_scan_inputs": len(rows), "scan_input_axes": (at,) * len(rows),
            "scan_output_axes": (at,) * count,
        }  # fmt: skip
        if reverse:
            attributes["scan_input_directions"] = (1,) * len(rows)
            attributes["scan_output_directions"] = (1,) * count
        names = self._recorded("Scan", [*state, *rows], len(state) + count, attributes)
        return self._said(names, state), tuple(
            Written(n, v.dtype) for n, v in zip(names[len(state) :], outputs, strict=True)
        )

    def repeated(
        self, step: Callable[..., Any], state: Sequence[Written], times: Written | None, condition: Written | None
    ) -> tuple[tuple[Written, ...], tuple[Written, ...]]:
        """A loop: ``step(number, *state) -> (condition or None, next states, outputs)``, for so many times at most.

        Parameters
        ----------
        times
            None: nothing bounds them.
        condition
            Whether there is a first time; None: there is, and what `step` gives of a condition is not looked at.

        Returns
        -------
        The last states; and the outputs of all steps, put together along a new first axis.
        """
        with self._body() as body:
            number, going = Written(self.fresh("number"), INT64, ()), Written(self.fresh("going"), BOOL, ())
            states = self._entering("state", state)
            further, following, outputs = step(number, *states)
            body.inputs = [number, going, *states]
            body.outputs = [self._own(v) for v in (going if condition is None else further, *following, *outputs)]
        if condition is None and not state:
            condition = self.constant(np.array(True))  # a Loop has two inputs at least
        names = self._recorded("Loop", [times, condition, *state], len(state) + len(outputs), {"body": body})
        return self._said(names, state), tuple(
            Written(n, v.dtype) for n, v in zip(names[len(state) :], outputs, strict=True)
        )

    def chosen(
        self, condition: Written, then: Callable[[], Sequence[Written]], otherwise: Callable[[], Sequence[Written]]
    ) -> tuple[Written, ...]:
        """What one of two functions writes, whose values have the same dtypes and shapes."""
        bodies = []
        for write in (then, otherwise):
            with self._body() as body:
                body.outputs = [self._own(v) for v in write()]
            bodies.append(body)
        attributes = {"then_branch": bodies[0], "else_branch": bodies[1]}
        return self._said(self._recorded("If", [condition], len(bodies[0].outputs), attributes), bodies[0].outputs)

    def written_out(self, body: Any, args: Sequence[Written]) -> list[Written]:
        """All values of a body of our operators, each by its own facet.

        Raises
        ------
        OnnxError
            One has no form in ONNX: names it, and the operator that the body is of.
        """
        outside = self.description

        def applied(op: Op, operands: list[Any], items: Any) -> Any:
            self.description = f"{op.name} in {outside}"
            return self.bind(op, *operands, **dict(items))

        try:
            found: list[Written] = body.values(applied, args)
            return found
        finally:
            self.description = outside

    def _entering(self, base: str, values: Sequence[Written]) -> list[Written]:
        """Inputs of a sub-graph that have the dtypes and shapes of values."""
        return [Written(self.fresh(base), v.dtype, v.shape) for v in values]

    def _said(self, names: Sequence[str], like: Sequence[Written]) -> tuple[Written, ...]:
        """Results of a node with a sub-graph: their shapes are written down, which inference may not find."""
        found = tuple([Written(n, v.dtype, v.known_shape) for n, v in zip(names, like, strict=False)])
        self.scope.told += [v for v in found if v.known_shape is not None]
        return found

    def _own(self, value: Written) -> Written:
        """The value by a name of its own, made in this body."""
        record = Record("Identity", [value.name], [self.fresh("Identity")], {}, self.description)
        self.scope.records.append(record)
        return Written(record.outputs[0], value.dtype, value.known_shape)

    @contextmanager
    def _body(self) -> Any:
        outside = self.scope
        self.scope = Scope(outside)
        try:
            yield self.scope
        finally:
            self.scope = outside


def _key(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return id(value) if isinstance(value, Scope) else (type(value), value)
