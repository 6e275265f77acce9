"""Stacks: compositions of layers, flattened for users."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np
from attrs import field, frozen

from nnc_func.autodiff.methods import Derivatives
from nnc_func.autodiff.traced import Traced, unchanging
from nnc_func.aval import Aval
from nnc_func.body import Body, is_pure
from nnc_func.control_flow import layer_bypass, scanning
from nnc_func.deferred import LateMethod
from nnc_func.device.shared.bind_kernels import kernel_device
from nnc_func.device.shared.queries import machine_of
from nnc_func.engine.dynamic.records import Recorded
from nnc_func.engine.effects import applied_with_effects, first, performed
from nnc_func.engine.jit import Arguments, Jitted
from nnc_func.errors import DTypeError, GraphError, LayerError, OperatorError, ShapeError, TracingError, UnboundError
from nnc_func.facets.dims import Dim, mentions_unknown
from nnc_func.facets.dtypes import as_dtype
from nnc_func.graph import aliases
from nnc_func.graph.bodies import abstract
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import CONSTANT, INPUT, Variable, is_foreign, owned, unshared
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.operator import SCALARS
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.origin import at_users_line, describe, origin, with_line
from nnc_func.graph.tensors import lists
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.graph.tensors.promise import Promise
from nnc_func.graph.tensors.tensor import Tensor, listed, paired
from nnc_func.graph.transfer import effects_of
from nnc_func.layer import chain, dispatch_of, inserted, swap
from nnc_func.locks import cached_property
from nnc_func.op import Op
from nnc_func.tree import flatten

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace
    from nnc_func.control_flow import (
        branches,
        breakpoints,
        fixed_points,
        prefixes,
        recorded_programs,
        tracing,
        while_loops,
    )
    from nnc_func.engine.files import program_from_plan

LATER: Any = object()  # a function that is given in a call of its own, as to decorators
VALUE_OF = attrgetter("value")  # faster to map than a comprehension


def _role(name: str) -> Any:
    def look(self: Stack) -> Any:
        try:
            return self._layers[name]
        except KeyError:
            raise LayerError(f"there is no {name} layer in {self.top!r}; it has: {', '.join(self._layers)}") from None

    return property(look, doc=f"The {name} layer.")


@frozen(eq=True, cache_hash=True, slots=False, repr=False)
class Stack(Derivatives):
    """Layers, flattened: the modules by name, the operators as functions, and what users do with them.

    A stack is a value: equal recipes are equal stacks, it pickles as its recipe, and it can be the device of another.

    Attributes
    ----------
    top
        The topmost layer.
    ops
        The operators as typed functions.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> stack == nnc.lazy(), stack.swap(device=nnc.NumPy()) == stack
    (True, True)
    """

    top: Any
    ops: Ops[Tensor] = field(init=False, eq=False)
    _layers: Mapping[str, Any] = field(init=False, eq=False)
    _top_bind: Any = field(init=False, eq=False)
    _dispatch: Any = field(init=False, eq=False)
    _calls: dict[Any, Any] = field(init=False, eq=False)
    _numbers: dict[Any, Any] = field(init=False, eq=False)
    _way: Any = field(init=False, eq=False)  # of what is recorded
    _array_type: Any = field(init=False, eq=False)  # of the device, once that has been used
    _before: Any = field(init=False, eq=False)  # what stands before `bind`, on a dynamic stack that defers operators

    role: ClassVar[Literal["device"]] = "device"
    places = property(lambda self: getattr(self.device, "places", ()), doc="The names of its device's places.")
    machine = property(lambda self: machine_of(self.device), doc="That of its device.")
    choose = property(lambda self: kernel_device(self.device).choose, doc="Which kernel its device runs.")
    device = _role("device")
    type = _role("type")
    shape = _role("shape")
    symbol = _role("symbol")
    operator = _role("operator")
    optimiser = _role("optimiser")
    graph = _role("graph")
    engine = _role("engine")
    autodiff = _role("autodiff")
    nn = _role("nn")

    @cached_property
    def array_api(self) -> ArrayNamespace:
        """The Python array API on this stack's tensors; see `nnc_func.array_api`."""
        from nnc_func.array_api.namespace import ArrayNamespace  # few ask for it

        return ArrayNamespace(self)

    def __attrs_post_init__(self) -> None:
        layers: dict[str, Any] = {}
        for each in chain(self.top):
            layers.setdefault(each.role, each)
        object.__setattr__(self, "_layers", layers)
        object.__setattr__(self, "_top_bind", self.top.bind)
        dispatch = dispatch_of(self.top)
        object.__setattr__(self, "_dispatch", dispatch)
        object.__setattr__(self, "_calls", {} if dispatch is None else dispatch.calls)
        object.__setattr__(self, "_numbers", {} if dispatch is None else dispatch.numbers)
        object.__setattr__(self, "_way", None if dispatch is None else getattr(layers.get("engine"), "way", None))
        object.__setattr__(self, "_array_type", None)
        before: Any = None
        if getattr(layers.get("engine"), "defers", False):
            from nnc_func.autodiff.values import deferring  # few ask for it

            before = deferring(self)
        object.__setattr__(self, "_before", before)
        if before is not None:
            object.__setattr__(self, "bind", before.bind)
        catalogue = layers["type"].ops if "type" in layers else CATALOGUE
        object.__setattr__(self, "ops", Ops(self.bind, catalogue, self.operand))

    def __reduce__(self) -> tuple[Any, ...]:
        return Stack, (self.top,)

    def __repr__(self) -> str:
        return f"Stack({self.top!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def to_svg(self) -> str:
        """The layers as a picture, the topmost first: what each adds, and what was chosen for it.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().to_svg().startswith("<svg ")
        True
        """
        from nnc_func.engine.drawing.layers import svg  # few ask for it

        return svg(self.top)

    # --- composition ----------------------------------------------------------------------------------

    def swap(self, **layers: Any) -> Stack:
        """The same stack with some layers exchanged, by role; everything above them is made anew.

        Raises
        ------
        LayerError
            No layer has that role, or the new one does not fit.
        """
        return Stack(swap(self.top, **layers))

    def insert(self, make: Callable[[Any], Any]) -> Stack:
        """The same stack with a layer of one's own above the topmost layer on which it can stand.

        Raises
        ------
        LayerError
            There is none.
        """
        wanted = getattr(getattr(make, "func", make), "stands_on", None)  # of a partial, that of its layer
        for each in chain(self.top):
            if wanted is None or each.role in wanted:
                return Stack(inserted(self.top, each, make))
        raise LayerError(f"{make!r} stands on {wanted}, of which this stack has none")

    # --- operators ------------------------------------------------------------------------------------

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """An operator on tensors, arrays and numbers: a tensor, or a tuple of them."""
        if args and not params:  # the hot path: arrays, whose kernel is known
            x, own, count = args[0], self._array_type, len(args)
            call: Any = None
            given: tuple[Any, ...] = args
            if type(x) is Tensor:
                if x.stack is self and type(a := x.value) is own:
                    if count == 1:
                        call, given = self._calls.get((op, a.dtype)), (a,)
                    elif count == 2:
                        y = args[1]
                        kind = type(y)
                        if kind is Tensor:
                            if y.stack is self and type(b := y.value) is own:
                                call, given = self._calls.get((op, a.dtype, b.dtype)), (a, b)
                        elif kind is int or kind is float:
                            known = self._numbers.get((op, a.dtype, kind, y))
                            if known is not None:
                                call, number = known
                                given = (a, number)
            elif count == 2 and type(y := args[1]) is Tensor and y.stack is self and type(b := y.value) is own:
                kind = type(x)
                if kind is int or kind is float:
                    known = self._numbers.get((op, kind, x, b.dtype))
                    if known is not None:
                        call, number = known
                        given = (number, b)
            if type(call) is dict:
                call = call.get(tuple([each.shape for each in given]))
            if call is not None:
                try:
                    found = call(*given)
                except Exception as error:
                    raise self._dispatch.failure(op, given, params, error)  # noqa: B904 - of which it knows the cause
                if type(found) is own:
                    return Tensor(self, found)
                placed = self._dispatch.place(op, found)
                return tuple([Tensor(self, v) for v in placed]) if op.multi_result else Tensor(self, placed)
        if self._way is not None and (taken := self._way(self, op, args, params)) is not None:
            return taken
        if op.effect:
            return performed(self, op, args, params)
        if op.holds_body and not is_pure(op, params.items()):
            return applied_with_effects(self, op, args, params)
        for a in args:
            if type(a) is not Tensor or a.stack is not self:
                return self.applied(op, args, params)
        values = tuple(map(VALUE_OF, args))
        own = self._array_type
        found = None if own is None else self._at_once(op, values, params)
        if found is None:
            found = self._top_bind(op, *values, **params)
            if own is None and self._dispatch is not None:
                self._learn_array_type()
        if op.multi_result:
            return tuple([Tensor(self, v) for v in found])
        return Tensor(self, found)

    def _at_once(self, op: Op, values: tuple[Any, ...], params: Any) -> Any:
        """The operator on device arrays, past the layers that pass these on; None where they are to look at it."""
        own = self._array_type
        if own is None or not values:
            return None
        for value in values:
            if type(value) is not own:
                return None
        try:
            return self._dispatch(op, values, params)
        except (ShapeError, TracingError, UnboundError):
            if mentions_unknown([*params.values()]):  # an extent of a body that is traced: it is part of that
                return None
            raise

    def applied(self, op: Op, args: tuple[Any, ...], params: Any) -> Any:
        """As `bind`, where not all arguments are tensors of this stack, or an effect has its token."""
        args = lists.operands(op, args)
        carriers = [
            a if type(a) in SCALARS else a.value if type(a) is Tensor and a.stack is self else self.carrier(a)
            for a in args
        ]
        if op.view is not None:
            carriers = [owned(self.device, c) if is_foreign(a) else c for a, c in zip(args, carriers, strict=True)]
        found = self._top_bind(op, *unchanging(carriers, args), **params)
        if self._array_type is None:
            self._learn_array_type()
        if op.multi_result:
            return tuple([Tensor(self, unshared(v, args)) for v in found])
        if type(found) is np.ndarray and (found.base is not None or op.view is not None):
            found = unshared(found, args)
        return Tensor(self, found)

    def _learn_array_type(self) -> None:
        """Note the class of the device's arrays, which a device may know only once what it needs has been imported."""
        if self._dispatch is not None:
            layer_bypass.note(self, self.device.array_type)

    def carrier(self, arg: Any) -> Any:
        """What flows through the layers, of a tensor or anything else."""
        if type(arg) is not Tensor:
            return lists.carrier(self, arg)
        if arg.stack is self or arg.stack == self:
            return arg.value
        if arg.stack is self.device or arg.stack == self.device:
            return arg
        value = arg.value
        if isinstance(value, (Value, Traced)):
            raise GraphError(
                f"{arg!r} belongs to another stack; move its graph here with graph.to(stack), or give x.numpy()"
            )
        return owned(self.device, value.array) if type(value) is Variable else value

    def value_of(self, carrier: Any) -> Any:
        """Of a variable the value that it has now; anything else as it is."""
        is_place = type(carrier) is Variable and "operator" in self._layers
        return getattr(self._layers.get("engine"), "reading", self.operator.lift)(carrier) if is_place else carrier

    def tensor(self, value: Any) -> Tensor:
        """A tensor of this stack, of whatever an operator takes in place of one."""
        return value if type(value) is Tensor and value.stack is self else Tensor(self, self.carrier(value))

    def operand(self, value: Any) -> Tensor:
        """As `tensor`, of what a composite is given: an array is copied, of which gradients may keep views."""
        if isinstance(value, np.ndarray):
            return self.tensor(value.copy("K"))
        return self.asarray(value) if is_foreign(value) else self.tensor(value)

    def vmap(self, f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
        """The function applied to every row of its arguments at once; see `nnc_func.vmap`."""
        from nnc_func.batching import vmap

        return vmap(f, in_axes, out_axes, self)

    # --- values ---------------------------------------------------------------------------------------

    @at_users_line
    def asarray(self, value: Any, dtype: Any = None, place: str | None = None) -> Tensor:
        """A tensor of this stack with that value, in a place of its device; of an unknown extent its number, int64."""
        dtype = as_dtype(dtype) if type(dtype) is str else dtype
        if type(value) is Dim:
            value = self.bind(CATALOGUE["full"], shape=(), value=value, dtype=dtype or "int64")
        if place is None and (found := lists.converted(self, value, dtype)) is not None:
            return found
        make = self.engine.asarray if "engine" in self._layers else self.device.asarray
        source = value.numpy() if isinstance(value, Tensor) and value.stack != self.device else value
        return Tensor(self, make(source, dtype) if place is None else make(source, dtype, place=place))

    alias, fresh = aliases.alias, aliases.fresh
    map, fold, scan, foreach, fori = scanning.map_, scanning.fold, scanning.scan, scanning.foreach, scanning.fori
    if TYPE_CHECKING:
        associative_scan, fixed_point = prefixes.associative_scan, fixed_points.fixed_point
        while_loop, loop_until = while_loops.while_loop, breakpoints.loop_until
        cond, case_of = branches.cond, branches.case_of
        applied_rule, program = tracing.applied_rule, program_from_plan.on_stack
        recorded_program = recorded_programs.recorded_program
        recorded_application = recorded_programs.recorded_application
    else:
        associative_scan = LateMethod("nnc_func.control_flow.prefixes", "associative_scan")
        fixed_point = LateMethod("nnc_func.control_flow.fixed_points", "fixed_point")
        while_loop = LateMethod("nnc_func.control_flow.while_loops", "while_loop")
        loop_until = LateMethod("nnc_func.control_flow.breakpoints", "loop_until")
        cond = LateMethod("nnc_func.control_flow.branches", "cond")
        applied_rule = LateMethod("nnc_func.control_flow.tracing", "applied_rule")
        recorded_application = LateMethod("nnc_func.control_flow.recorded_programs", "recorded_application")
        recorded_program = LateMethod("nnc_func.control_flow.recorded_programs", "recorded_program")
        program = LateMethod("nnc_func.engine.files.program_from_plan", "on_stack")
        case_of = LateMethod("nnc_func.control_flow.branches", "case_of")

    def key(self, seed: int) -> Tensor:
        """The key of a random generator: explicit, the same on every stack; a uint64 tensor of shape (2,).

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.eager()
        >>> stack.ops.random_uniform(stack.key(7), shape=(2,)).numpy()
        array([0.8720734 , 0.29536533], dtype=float32)
        """
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, np.timedelta64):
            raise OperatorError(with_line(f"a key is made of an integer, given {seed!r}"))
        return self.asarray(np.array([int(seed) % 2**64, 0], np.uint64))

    def aval(self, x: Any) -> Aval:
        """Shape and dtype of a tensor or an array."""
        if type(x) is Tensor and type(x.hold) is Promise and (x.stack is self or x.stack == self):
            return x.hold.aval  # type: ignore[no-any-return]
        value = x.value if isinstance(x, Tensor) and (x.stack is self or x.stack == self) else x
        while type(value) is Traced:
            value = value.primal
        if isinstance(value, (Value, Variable)):
            return value.aval
        return self.device.aval(value)  # type: ignore[no-any-return]

    def to_numpy(self, x: Any) -> Any:
        """The value of a tensor as a NumPy array: the caller's own, never an alias of what the stack holds.

        Raises
        ------
        UnboundError
            It depends on an input.
        TracingError
            It is under a transformation.
        """
        if type(x) is Tensor and x.stack is self and type(x.hold) is tuple:  # a result without a node yet
            return np.array(self.device.to_numpy(x.hold[0]))
        value = self.carrier(x)
        if type(value) is Traced:
            line = describe(origin())
            raise TracingError(
                f"the value of {self.aval(x)!r} is not known while a function is traced"
                f"{f' (at {line})' if line else ''}: return it from the function, and look at what that gives"
            )
        if type(value) is Variable:
            return value.copied()
        array = self.engine.force([value])[0] if "engine" in self._layers else value
        return np.array(self.device.to_numpy(array))

    def evaluate(self, *tensors: Any) -> tuple[Any, ...]:
        """The values of several tensors, computed together, as NumPy arrays."""
        found = self.engine.force([self.carrier(t) for t in tensors])
        return tuple(np.array(self.device.to_numpy(a)) for a in found)

    def concrete(self, x: Any) -> Any:
        """The device array of a tensor or an array, computed if need be; None where it depends on what is unbound.

        It may be the stack's own: to be read, not written to or donated.
        """
        value = self.carrier(x)
        if type(value) is Traced:
            return None
        if isinstance(value, Value):
            if type(value) is Recorded or value.node.op is CONSTANT:
                return value.array if type(value) is Recorded else value.node.data
            return None if any(n.op is INPUT for n in topological([value])) else self.engine.force([value])[0]
        if type(value) is Variable:
            return value.array
        if isinstance(value, Tensor) and value.stack == self.device:
            return value
        return self.device.asarray(value)

    def fold_constant(self, op: Op, *operands: Any, **params: Any) -> Any:
        """A constant computed while a graph above is optimised: by the stack's device, unless operands are tensors."""
        if any(isinstance(o, Tensor) for o in operands):
            return self.bind(op, *operands, **params)
        device = kernel_device(self.device)
        return getattr(device, "fold_constant", device.bind)(op, *operands, **params)

    def held(self, array: Any) -> Tensor:
        """A tensor that shows a device array; not copied."""
        if "engine" in self._layers and hasattr(self.engine, "held"):
            return Tensor(self, self.engine.held(array))
        return Tensor(self, array)

    # --- graphs ---------------------------------------------------------------------------------------

    def input(self, name: str, shape: Any, dtype: Any = "float32", place: str | None = None) -> Tensor:
        """An unbound tensor: a program's argument. An extent None is unknown, a string names it."""
        try:
            aval = Aval(shape, dtype, None, place)
        except TypeError as error:
            raise DTypeError(f"input {name!r} of shape {shape!r} and dtype {dtype!r}: {error}") from None
        return Tensor(self, self.symbol.input(name, aval))

    def variable(self, name: str, value: Any, dtype: Any = None, place: str | None = None) -> Tensor:
        """A named place for a value, which programs read when they start, and may update when they end."""
        array = owned(self.device, value.numpy() if isinstance(value, Tensor) else value, dtype, place)
        return Tensor(self, Variable(name, array, self.device.aval(array), self.device))

    def compile(
        self,
        inputs: Sequence[Tensor],
        outputs: Any,
        updates: Mapping[Tensor, Tensor] | Sequence[tuple[Tensor, Tensor]] = (),
        name: str = "program",
        retain: str | Sequence[Tensor] = "none",
        donate: Sequence[Tensor] = (),
        effects: Sequence[Tensor] = (),
    ) -> Any:
        """A program from `inputs` to `outputs` (a tensor, or a tree of them).

        Parameters
        ----------
        inputs
            Tensors made by `input`, in the order of the program's arguments.
        outputs
            What a call returns, nested alike.
        updates
            Feedback pairs, variable to new value: after a call each variable has its new value.
        name
            Of the graph, for messages and pictures.
        retain
            ``"none"``; or what is kept so that only what changed runs again: ``"frontier"``, what that may read of the
            rest; ``"all"``; or the outputs and these. See `IncrementalProgram`.
        donate
            Inputs whose arrays the program may write over: their elements are undefined after a call.
        effects
            Tokens of effects, which happen at each call; see `token`.

        Raises
        ------
        GraphError
            An input is missing, no input, or named as another; an update does not fit its variable.
        """
        leaves, structure = flatten(outputs, by_insertion=True)
        pairs = paired(updates)
        graph: ComputationGraph = self.graph.close(
            [self._input(i) for i in listed(inputs, "inputs")],
            [self._symbolic(o) for o in leaves],
            [(self.carrier(v), self._symbolic(u)) for v, u in pairs],
            name,
            structure,
            **effects_of(self._symbolic(t) for t in listed(effects, "effects")),
        )
        given_up = [graph.position(self._input(i)) for i in listed(donate, "donated inputs")]
        if isinstance(retain, str) and retain == "none":
            return self.engine.compile(graph, given_up) if given_up else self.engine.compile(graph)
        if given_up:
            raise GraphError("what is kept from one call to the next is not given up: say retain= or donate=, not both")
        return self.engine.incremental(graph, retain, self._symbolic)

    def body(self, f: Callable[..., Any], *avals: Aval) -> tuple[Body, tuple[Tensor, ...]]:
        """What a function computes of tensors of these avals, as a value; and the tensors that it captures.

        These are further parameters of the body, in that order: tensors that do not depend on the function's arguments.

        Parameters
        ----------
        f
            Takes tensors; returns one, or a tree of them, whose leaves are the results.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.lazy()
        >>> w = stack.variable("w", [1.0, 2.0])
        >>> stack.body(lambda x: stack.ops.tanh(x * w) + 1, Aval((2,), "float64"))[0]  # doctest: +ELLIPSIS
        (%0, %1) { %2 = multiply(%0, %1); %3 = tanh(%2); %4 = full(shape=(), value=1.0, ...); return %5 }
        """
        inputs = [self.input(f"%{i}", a.shape, a.dtype, a.place) for i, a in enumerate(avals)]
        leaves, _ = flatten(f(*inputs))
        found, captured = abstract([self._input(i) for i in inputs], [self._symbolic(leaf) for leaf in leaves])
        return found, tuple(Tensor(self, value) for value in captured)

    def token(self) -> Tensor:
        """The token before all effects of a graph that is built by hand: ``t = ops.print(x, after=stack.token())``."""
        return first(self)

    def _input(self, tensor: Any) -> Node:
        value = self.carrier(tensor)
        if not isinstance(value, Value):
            raise GraphError(f"{tensor!r} is no input; make inputs with stack.input(name, shape, dtype)")
        return value.node

    def _symbolic(self, tensor: Any) -> Any:
        return self.operator.lift(self.carrier(tensor))

    @overload
    def jit(
        self, f: Callable[..., Any], static: Arguments = ..., donate: Arguments = ..., *, control_flow: bool = ...,
        strict: bool = ..., dynamic: bool = ...,
    ) -> Jitted: ...  # fmt: skip

    @overload
    def jit(
        self, *, static: Arguments = ..., donate: Arguments = ..., control_flow: bool = ...,
        strict: bool = ..., dynamic: bool = ...,
    ) -> Callable[[Callable[..., Any]], Jitted]: ...  # fmt: skip

    def jit(
        self, f: Any = LATER, static: Arguments = (), donate: Arguments = (), *,
        control_flow: bool = False, strict: bool = False, dynamic: bool = False,
    ) -> Any:  # fmt: skip
        """The function compiled for each signature it is called with; without a function, what does that to one.

        Parameters
        ----------
        f, static, donate, dynamic
            See `Jitted`.
        control_flow
            Whether `if`, `while` and `for` of the function become branches and loops where a tensor decides; its
            attribute `source` then shows the code. See `nnc_func.control_flow.conversion.runtime.convert`.
        strict
            Whether code that cannot be converted is an error, not a warning.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.lazy()
        >>> double = stack.jit(lambda x: x * 2)
        >>> double(np.array([1.0, 2.0])).numpy()
        array([2., 4.])
        """
        if f is LATER:
            return functools.partial(
                self.jit, static=static, donate=donate, control_flow=control_flow, strict=strict, dynamic=dynamic
            )  # fmt: skip
        if control_flow and callable(f):
            from nnc_func.control_flow.conversion.runtime import convert  # few ask for it

            f = convert(f, strict)
        return Jitted(self, f, static, donate, dynamic=dynamic)
