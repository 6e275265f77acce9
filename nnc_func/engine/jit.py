"""jit: a function traced once for each signature and compiled; signatures are shapes, dtypes and static arguments."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np
from attrs import define, frozen

from nnc_func.engine.compile_stats import plans
from nnc_func.engine.dynamic.records import Recorded, is_smooth_value, meet, meeting, takes_gradients
from nnc_func.engine.effects import innermost, recorder, recording
from nnc_func.engine.methods import Bound, unwritten
from nnc_func.engine.reading import substituted
from nnc_func.engine.running.program import Program
from nnc_func.engine.unrolled_jit import LARGEST, OTHER, Fixed, written
from nnc_func.errors import DeviceError, GraphError, OperatorError, TracingError, UnboundError, check_function
from nnc_func.facets.late_extents import Late, late_extents
from nnc_func.garbage_collection import no_full_collections, uncollected
from nnc_func.graph.leaves import INPUT, owned
from nnc_func.graph.node import Value, topological
from nnc_func.graph.origin import reached
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.graph.transfer import effects_of
from nnc_func.locks import forkable_lock
from nnc_func.tree import Structure, exact, flatten

KEPT = 64  # signatures remembered
QUICK = 8  # of them, whose calls are written out
Arguments: TypeAlias = Sequence[str | int] | str | int  # some of a function's, by name or position
NOTICE = 8  # distinct signatures after which a notice is given, once


class RetraceWarning(UserWarning):
    """A jitted function is traced again and again: something that changes is not an array."""


@frozen(eq=False)
class Itself:
    """An object in a signature, which no other one equals."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return type(other) is Itself and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@define(eq=False)
class Known:
    """What is known for a signature.

    Attributes
    ----------
    key
        The signature.
    program
        What the function was compiled to.
    structure
        How its outputs are nested.
    call
        A call of it written out, once there were two; see `unrolled_jit.written`.
    has_run
        Whether there was one.
    """

    key: Any
    program: Any
    structure: Structure
    call: Any = None
    has_run: bool = False


class Jitted:
    """A function of trees of tensors, compiled for each signature it is called with.

    Python numbers among the arguments are part of the signature, as are static arguments; arrays, tensors and NumPy's
    scalars are not. Under a transformation, and with an unbound tensor, the function is simply called. Where a dynamic
    stack records what is computed of variables it is one program and one application, if it can be: see
    `docs/dynamic.md`. It is copied and pickled as functions are: a copy is itself.

    In the body of a class it is a method, and its first argument the object. Of a tree (a module, an attrs class) the
    tensors are arguments. Any other object is part of the signature, by its identity: what the method reads of it is
    what it was when that was traced, but for the values of variables. A method that writes into its object is refused,
    and the object left as it was: see `engine.methods.unwritten`, also for what it may keep there.

    Parameters
    ----------
    f
        Of trees of tensors.
    static
        Names or positions of arguments that are part of the signature: hashable, of any type.
    donate
        Names or positions of arguments whose NumPy arrays the program may write over: their elements are undefined
        after a call. What a tensor holds is copied first, since the tensor can be read again.
    name
        For messages.
    dynamic
        Extents may depend on elements: of ``x[mask]``, `nonzero`, `unique_values`, exact outputs of a `while_loop`, and
        of loops whose carries grow. The function is then a program of regions (`engine.growing.regions`), between which
        such extents are found out, and such loops computed.

    Raises
    ------
    OperatorError
        An argument is static and donated, or what is given is no function.
    TracingError
        At a call: a tensor's value is wanted while there is none, or a method writes into its object.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> double = nnc.lazy().jit(lambda x: x * 2)
    >>> double(np.array([1.0, 2.0])).numpy()
    array([2., 4.])

    >>> class Scale:
    ...     def __init__(self, by):
    ...         self.by = by
    ...     @nnc.lazy().jit
    ...     def __call__(self, x):
    ...         return x * self.by
    >>> Scale(3.0)(np.array([1.0, 2.0])).numpy()
    array([3., 6.])
    """

    def __init__(
        self,
        stack: Any,
        f: Callable[..., Any],
        static: Arguments = (),
        donate: Arguments = (),
        name: str | None = None,
        dynamic: bool = False,
    ) -> None:
        check_function(f, "jit")
        functools.update_wrapper(self, f)
        self.stack = stack
        self.f = f
        self.dynamic = dynamic
        self.name = name or getattr(f, "__name__", "f")
        self.programs: OrderedDict[Any, Known] = OrderedDict()
        self.traces = 0
        self._quick: tuple[Known, ...] = ()  # whose calls are written out: that of the last call comes first
        self._noticed = False
        self._is_method = False
        self._lock = forkable_lock()
        self._recording: Any = getattr(getattr(stack, "engine", None), "recording", None)
        self._memo: Any = getattr(getattr(stack, "engine", None), "memo", None)
        # signatures with which it reads variables, which a dynamic stack records; True: or closes over what these made
        self._called_for = dict[Any, bool]()
        self._records = dict[Any, Any]()  # signatures to programs that it records, False where there is none
        self._positions, self._names = _named(f, static)
        self._donated = _named(f, donate)
        both = [*(self._positions & self._donated[0]), *(self._names & self._donated[1])]
        if both:
            raise OperatorError(f"{self.name}: static arguments are no arrays to donate, given both: {both[0]!r}")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if innermost() is None and self._recording is None:
            quick = self._quick
            for known in quick:
                found = known.call(args, keywords)
                if found is not OTHER:
                    if known is not quick[0]:
                        self._prefer(known)
                    return found
        if self.dynamic and not plans(self.stack.engine):  # where operators are computed at once every extent is known
            return self._called(args, keywords)
        met = self._met(args, keywords)
        if met is None:
            recorded = self._recorded(args, keywords)
            return self._called(args, keywords) if recorded is None else recorded[0]
        known, tensors = met
        is_memoised = self._memo is not None and not any(self._donated)
        results = self._memo.run(known.program, tensors) if is_memoised else known.program.run(tensors)
        if known.has_run and known not in self._quick and isinstance(known.program, Program):
            self._write(known, tensors, results, args, keywords)
        known.has_run = True
        return known.structure.build([self.stack.held(r) for r in results])

    def __set_name__(self, owner: type, name: str) -> None:
        self._is_method = True

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        self._is_method = True  # it may have been given to a class that was there
        return Bound(self, instance)

    def _write(self, known: Known, tensors: list[Any], results: list[Any], args: Any, keywords: Any) -> None:
        """Write out the calls like this one: the next one need not find out what is known of it."""
        if known.call is None:
            size = max(len(known.key[0][0]), len(known.structure.outline))
            if any(self._donated) or self.stack.places or size > LARGEST:
                return
            fixed = self._fixed(args)
            places = [Fixed(a, i not in self._positions) if i in fixed else a for i, a in enumerate(args)]
            words = {k: Fixed(v) if k in self._names else v for k, v in keywords.items()}
            leaves, arguments = flatten((tuple(places), words))
            rest = iter(tensors)
            like = [a if isinstance(a, Fixed) else Fixed(a) if _is_static(a) else next(rest) for a in leaves]
            known.call = written(self.stack, like, arguments, known.program.run, known.structure, results)
        self._prefer(known)

    def _prefer(self, known: Known) -> None:
        """Try that signature first from now on."""
        with uncollected(self._lock), self._lock:
            if self.programs.get(known.key) is known:
                self._quick = (known, *[each for each in self._quick if each is not known][: QUICK - 1])

    def _met(self, args: Any, keywords: Any) -> Any:
        """What is known for the signature, and the arrays given; None where the function is simply called."""
        if recorder(self.stack) is not None:  # part of what is being traced, its effects too
            return None
        statics, dynamic = self._split(args, keywords)
        leaves, structure = flatten(dynamic)
        donated = self._given_up(dynamic)
        tensors: list[Any] = []
        signature: list[Any] = []
        records = self._recording is not None and self._recording.is_on
        for at, leaf in enumerate(leaves):
            if _is_static(leaf):
                signature.append((leaf, exact(leaf)))
                continue
            if records and (takes_gradients(leaf) or self._recording.noted(getattr(leaf, "value", None))):
                return None
            try:
                concrete = self.stack.concrete(leaf)
            except DeviceError as error:
                raise self._no_array(structure, at, leaf, error) from None
            if concrete is None:
                return None
            tensors.append(owned(self.stack.device, concrete) if at in donated and type(leaf) is Tensor else concrete)
            signature.append(self.stack.device.aval(concrete))
        key = (structure.signature, tuple(signature), statics, exact(tuple(v for _, v in statics)))
        closes = self._called_for.get(key)
        if closes or (records and closes is not None):
            return None
        found = self._remembered(key)
        if found is None:
            with meeting() as met:
                found = self._trace(args, keywords, leaves, structure, donated)
            if found is not None and met:
                if len(self._called_for) >= KEPT:
                    self._called_for.clear()
                closes = self._called_for[key] = any(type(x) is Recorded for x in met)
                if records or closes:
                    return None
            if found is None:  # it closes over what another transformation traces, or over an unbound tensor
                return None
            found = self._remembered(key, Known(key, *found))
        return found, tensors

    def _recorded(self, args: Any, keywords: Any) -> Any:
        """The result, in a list, of one program whose application a dynamic stack records; None where there is none."""
        recording = self._recording
        if recording is None or not recording.is_on or self.dynamic or recorder(self.stack) is not None:
            return None
        statics, dynamic = self._split(args, keywords)
        leaves, structure = flatten(dynamic)
        if self._given_up(dynamic):
            return None
        carriers, signature, moving = list[Any](), list[Any](), list[int]()
        for leaf in leaves:
            if _is_static(leaf):
                signature.append((leaf, exact(leaf)))
                continue
            array = self.stack.concrete(leaf)
            if array is None:
                return None
            carrier = self.stack.carrier(leaf) if takes_gradients(leaf) else getattr(leaf, "value", array)
            carrier = recording.known(carrier, array) if recording.noted(carrier) else carrier
            takes = is_smooth_value(carrier)
            moving += [len(carriers)] if takes else []
            kept = array if isinstance(leaf, Tensor) else owned(self.stack.device, array)  # its owner may write into it
            carriers.append(self.stack.value_of(carrier) if takes else kept)
            signature.append((self.stack.device.aval(array), takes))
        key = (structure.signature, tuple(signature), statics, exact(tuple(v for _, v in statics)))
        known: Any = self._records.get(key)
        if known is None:
            avals = [aval for aval, takes in signature if type(takes) is bool]
            known = self._recordable(args, keywords, leaves, structure, avals, moving) or False
            if len(self._records) >= KEPT:
                self._records.clear()
            self._records[key] = known
        return [known.run(self.stack, carriers)] if known else None

    def _recordable(
        self, args: Any, keywords: Any, leaves: list[Any], structure: Structure, avals: list[Any], moving: list[int]
    ) -> Any:
        """The function as a program that is recorded; None where its operators are to be, one by one."""

        def f(tensors: list[Tensor]) -> Any:
            rest = iter(tensors)
            moving, named = structure.build([leaf if _is_static(leaf) else next(rest) for leaf in leaves])
            return self._applied(*self._with_statics(args, keywords, moving, named))

        with no_full_collections():
            found = self.stack.recorded_program(f, avals, moving, str(self.name))
        if found is not None:
            with uncollected(self._lock), self._lock:
                self.traces += 1
        return found

    def _given_up(self, dynamic: Any) -> frozenset[int]:
        """Which of the leaves belong to arguments that are donated."""
        positions, names = self._donated
        if not positions and not names:
            return frozenset()
        moving, named = dynamic
        flags = [i in positions for i, a in enumerate(moving) for _ in flatten(a)[0]]
        flags += [k in names for k in sorted(named) for _ in flatten(named[k])[0]]
        return frozenset(at for at, flag in enumerate(flags) if flag)

    def _remembered(self, key: Any, found: Any = None) -> Any:
        """What is known for that signature; what was found for it, unless another thread was first."""
        with uncollected(self._lock), self._lock:
            known = self.programs.get(key)
            if known is None and found is not None:
                if len(self.programs) >= KEPT:
                    self._forget()
                known = self.programs[key] = found
            elif known is not None:
                self.programs.move_to_end(key)
            return known

    def _forget(self) -> None:
        """Make room for another signature: which call was the last is seen where it is written out."""
        for known in reversed(self._quick):
            self.programs.move_to_end(known.key)
        _, gone = self.programs.popitem(last=False)
        self._quick = tuple([each for each in self._quick if each is not gone])

    def program(self, *args: Any, **keywords: Any) -> Any:
        """The program for arguments like these: compiled now, unless it was before; it is not run.

        Raises
        ------
        TracingError
            There is none: the function is simply called there.
        """
        return self._wanted(self._met(args, keywords))[0].program

    def autotune(self, *args: Any, budget: float = 2.0, workspace: int | None = None, **keywords: Any) -> Any:
        """Tune the program for arguments like these; calls like this one run the tuned program from then on.

        Parameters
        ----------
        *args, **keywords
            As in a call. Nothing of them is written over.
        budget, workspace
            See `Program.autotune`.

        Returns
        -------
        Tuning
            See `Program.autotune`.

        Raises
        ------
        TracingError
            There is no program: the function is simply called there.
        GraphError
            The engine's programs have no kernels to choose, or the function has effects.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> gram = nnc.lazy().jit(lambda x: x @ x.T)
        >>> tuning = gram.autotune(np.ones((8, 4), "float32"), budget=0.1)
        >>> gram.program(np.ones((8, 4), "float32")) is tuning.program
        True
        """
        known, tensors = self._wanted(self._met(args, keywords))
        tuning = known.program.autotune(*tensors, budget=budget, workspace=workspace)
        with uncollected(self._lock), self._lock:
            self.programs[known.key] = Known(known.key, tuning.program, known.structure)
            self._quick = tuple([each for each in self._quick if each is not known])
        return tuning

    def _wanted(self, met: Any) -> Any:
        if met is None:
            raise TracingError(
                f"{self.name} has no program for these arguments: under a transformation, or with a tensor that "
                "depends on an input, it is simply called; give arrays"
            )
        return met

    def _split(self, args: Any, keywords: Any) -> tuple[Any, Any]:
        positions = self._fixed(args)
        fixed: tuple[Any, ...] = tuple(
            (i, args[i] if i in self._positions else Itself(args[i])) for i in sorted(positions) if i < len(args)
        )
        fixed += tuple((k, keywords[k]) for k in sorted(self._names) if k in keywords)
        try:
            hash(fixed)
        except TypeError:
            raise OperatorError(f"static arguments of {self.name} must be hashable, given {fixed!r}") from None
        moving = tuple(None if i in positions else a for i, a in enumerate(args))
        return fixed, (moving, {k: None if k in self._names else v for k, v in keywords.items()})

    def _fixed(self, args: Any) -> frozenset[int]:
        """Positions of arguments that are static; the object of a method is, unless it is a tree."""
        return self._positions | {0} if self._is_method and args and _is_object(args[0]) else self._positions

    def _trace(self, args: Any, keywords: Any, leaves: list[Any], structure: Any, donated: frozenset[int]) -> Any:
        stack = self.stack
        self._notice()
        inputs: list[Any] = []
        given: list[Any] = []
        given_up: list[int] = []
        for at, leaf in enumerate(leaves):
            concrete = None if _is_static(leaf) else stack.concrete(leaf)
            if concrete is None:
                given.append(leaf)
            else:
                aval = stack.device.aval(concrete)
                given_up += [len(inputs)] if at in donated else []
                inputs.append(stack.input(f"argument {len(inputs)}", aval.shape, aval.dtype, place=aval.place))
                given.append(inputs[-1])
        moving, named = structure.build(given)
        own = [stack.carrier(i) for i in inputs]  # a function that writes into an argument rebinds its handle
        whole, words = self._with_statics(args, keywords, moving, named)
        try:
            with recording(stack) as scope, no_full_collections(), self._extents() as late:
                result = self._applied(whole, words)
        except UnboundError as error:
            raise TracingError(
                f"while jit traced {self.name}: Python wanted a tensor's value at {reached(error)}, and {error}. Where "
                "its `if` or `while` depends on it, use ops.where, or name the argument that decides in static=..."
            ) from error
        outputs, shape = flatten(result)
        carriers = [stack.carrier(o) for o in outputs]
        for each in carriers:
            meet(each)
        effects = [t.value for t in scope.effects]
        told = [stack.carrier(count) for _, count in late.extents]
        given_later = [x for _, given, _, _ in late.loops for x in given]
        results = [x for _, _, found, _ in late.loops for x in found]
        if not _closed([*carriers, *effects, *told, *given_later], [*own, *results]):
            return None
        count, last = len(carriers), len(carriers) + len(told)
        carriers += [*told, *given_later]
        carriers, effects = self._of_values(carriers, effects)
        with uncollected(self._lock), self._lock:
            self.traces += 1
        if late.extents or late.loops:
            from nnc_func.engine.growing.regions import Between, Regions  # few functions have such extents

            if effects:
                raise GraphError(
                    f"{self.name} has effects, and extents that depend on elements, which are found out between its "
                    "regions; give size=, or do one of them outside"
                )
            nodes = [*map(stack.operator.lift, carriers)]
            by_symbol = {str(n): number for (n, _), number in zip(late.extents, nodes[count:last], strict=True)}
            inputs, rest = [stack.operator.lift(x).node for x in own], iter(nodes[last:])
            loops = [Between(loop, [next(rest) for _ in given], *more) for loop, given, *more in late.loops]
            return Regions(stack.engine, str(self.name), inputs, nodes[:count], by_symbol, loops), shape
        graph = stack.graph.close(own, carriers, (), self.name, **effects_of(effects))
        return stack.engine.compile(graph, given_up) if given_up else stack.engine.compile(graph), shape

    def _called(self, args: Any, keywords: Any) -> Any:
        """The function on tensors, other ones than the caller's: what it writes into them is its own affair."""
        leaves, structure = flatten(self._split(args, keywords)[1])
        own: list[Any] = []
        for at, leaf in enumerate(leaves):
            try:
                own.append(leaf if _is_static(leaf) else self._own(leaf))
            except DeviceError as error:
                raise self._no_array(structure, at, leaf, error) from None
        moving, named = structure.build(own)
        return self._applied(*self._with_statics(args, keywords, moving, named))

    def _no_array(self, structure: Structure, at: int, leaf: Any, error: DeviceError) -> DeviceError:
        """The error where a leaf of the arguments is no array, with what to do about an object of a user's."""
        if not _is_object(leaf):
            return error
        group, first, *rest = structure.paths[at]
        by_position = _by_position(self.f)
        name: Any = first if group == "1" else int(first)
        name = by_position[name] if group == "0" and name < len(by_position) else name
        return DeviceError(
            f"argument {'.'.join([str(name), *rest])} of {self._shown}: {error}. Where it is part of the signature, "
            f"say static={name!r}; where its fields are tensors, let it be an attrs class or a dataclass with "
            "is_tree = True"
        )

    def _applied(self, args: Any, keywords: Any) -> Any:
        """The function itself, of which a method leaves its object alone."""
        if not self._is_method or not args or isinstance(args[0], type):
            return self.f(*args, **keywords)
        with unwritten(args[0], self._shown, not _is_object(args[0])):
            return self.f(*args, **keywords)

    @property
    def _shown(self) -> str:
        """What messages call it."""
        return str(getattr(self, "__qualname__", self.name)).rpartition("<locals>.")[2]

    def _own(self, leaf: Any) -> Tensor:
        if type(leaf) is Tensor:
            return Tensor(leaf.stack, leaf.value)
        return leaf if isinstance(leaf, Tensor) else self.stack.asarray(leaf)

    def _with_statics(self, args: Any, keywords: Any, moving: Any, named: Any) -> tuple[list[Any], dict[str, Any]]:
        """Arguments, with those that are static as they were given."""
        fixed = self._fixed(args)
        whole = [args[i] if i in fixed else a for i, a in enumerate(moving)]
        return whole, {k: keywords[k] if k in self._names else v for k, v in named.items()}

    def _extents(self) -> Any:
        return late_extents() if self.dynamic else nullcontext(Late())

    def _of_values(self, carriers: list[Any], effects: list[Any]) -> tuple[list[Any], list[Any]]:
        """Outputs and effects, where values of variables that were built outside of the function are constants.

        A variable itself is a place, and read at each call.
        """
        values = [c for c in (*carriers, *effects) if isinstance(c, Value)]
        found = iter(substituted(self.stack.engine, values, constant=True))
        turned = [next(found) if isinstance(c, Value) else c for c in (*carriers, *effects)]
        return turned[: len(carriers)], turned[len(carriers) :]

    def _notice(self) -> None:
        with uncollected(self._lock), self._lock:
            due = self.traces >= NOTICE and not self._noticed
            self._noticed |= due
        if due:
            warnings.warn(
                f"{self.name} has been traced for {NOTICE} different signatures; give arrays of few shapes, and pass "
                "Python numbers that change as arrays (numpy.float32(rate)): each new number is traced anew",
                RetraceWarning,
                stacklevel=5,
            )

    def __reduce__(self) -> str:
        return str(getattr(self, "__qualname__", self.name))

    def __repr__(self) -> str:
        return f"<jit {self.name}: {len(self.programs)} signatures>"


def _is_static(leaf: Any) -> bool:
    """Whether an argument is part of the signature: Python's numbers are, NumPy's, subclasses of them too, are not."""
    if isinstance(leaf, (bool, int, float, complex, str, bytes)):
        return not isinstance(leaf, np.number)
    return callable(leaf) and not isinstance(leaf, Tensor)


def _is_object(value: Any) -> bool:
    """Whether it is of a class that jit knows nothing of: no tree, no number, no text, no array."""
    if isinstance(value, (Tensor, int, float, complex, str, bytes)) or hasattr(value, "__array__"):
        return False
    leaves, _ = flatten(value)
    return len(leaves) == 1 and leaves[0] is value


def _closed(outputs: list[Any], inputs: list[Any]) -> bool:
    """Whether the outputs are values of a graph that depends on no other inputs than these."""
    values = [o for o in outputs if isinstance(o, Value)]
    if any(hasattr(o, "primal") for o in outputs):
        return False
    return all(n.op is not INPUT or n in inputs for n in topological(values))


def _by_position(f: Any) -> list[str]:
    """Names of the parameters that can be given by position; none where Python does not know."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _named(f: Any, arguments: Arguments) -> tuple[frozenset[int], frozenset[str]]:
    """Positions and names of some arguments: an argument has both where it can be given either way."""
    names = _by_position(f)
    positions, words = set(), set()
    for each in (arguments,) if isinstance(arguments, (str, int)) else arguments:
        if isinstance(each, int):
            positions.add(each)
            if each < len(names):
                words.add(names[each])
        else:
            words.add(each)
            if each in names:
                positions.add(names.index(each))
    return frozenset(positions), frozenset(words)
