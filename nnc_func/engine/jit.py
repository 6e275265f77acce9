"""jit: a function traced once for each signature and compiled; signatures are shapes, dtypes and static arguments."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from nnc_func.engine.effects import recorder, recording
from nnc_func.errors import OperatorError, TracingError, UnboundError
from nnc_func.graph.leaves import INPUT
from nnc_func.graph.node import Value, topological
from nnc_func.graph.origin import reached
from nnc_func.graph.tensor import Tensor
from nnc_func.graph.transfer import effects_of
from nnc_func.tree import exact, flatten

KEPT = 64  # signatures remembered
NOTICE = 8  # distinct signatures after which a notice is given, once


class RetraceWarning(UserWarning):
    """A jitted function is traced again and again: something that changes is not an array."""


class Jitted:
    """A function of trees of tensors, compiled for each signature it is called with.

    Python numbers among the arguments are part of the signature, as are static arguments; arrays and tensors are
    not. Under a transformation, or with an unbound tensor, the function is simply called.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> double = nnc.lazy().jit(lambda x: x * 2)
    >>> double(np.array([1.0, 2.0])).numpy()
    array([2., 4.])
    """

    def __init__(
        self, stack: Any, f: Callable[..., Any], static: Sequence[str | int] | str | int = (), name: str | None = None
    ) -> None:
        functools.update_wrapper(self, f)
        self.stack = stack
        self.f = f
        self.name = name or getattr(f, "__name__", "f")
        self.programs: OrderedDict[Any, Any] = OrderedDict()
        self.traces = 0
        self._lock = RLock()
        self._positions, self._names = _static(f, static)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if recorder(self.stack) is not None:  # part of what is being traced, its effects too
            return self.f(*args, **keywords)
        statics, dynamic = self._split(args, keywords)
        leaves, structure = flatten(dynamic)
        tensors: list[Any] = []
        signature: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, (bool, int, float, complex, str, bytes)) or (
                callable(leaf) and not isinstance(leaf, Tensor)
            ):
                signature.append((leaf, exact(leaf)))
                continue
            concrete = self.stack.concrete(leaf)
            if concrete is None:
                return self.f(*args, **keywords)
            tensors.append(concrete)
            signature.append(self.stack.device.aval(concrete))
        key = (structure, tuple(signature), statics, exact(tuple(v for _, v in statics)))
        found = self._remembered(key)
        if found is None:
            found = self._trace(args, keywords, leaves, structure)
            if found is None:  # it closes over what another transformation traces, or over an unbound tensor
                return self.f(*args, **keywords)
            found = self._remembered(key, found)
        program, shape = found
        results = program.run(tensors)
        return shape.build([self.stack.held(r) for r in results])

    def _remembered(self, key: Any, found: Any = None) -> Any:
        """What is known for that signature; what was found for it, unless another thread was first."""
        with self._lock:
            known = self.programs.get(key)
            if known is None and found is not None:
                if len(self.programs) >= KEPT:
                    self.programs.popitem(last=False)
                known = self.programs[key] = found
            elif known is not None:
                self.programs.move_to_end(key)
            return known

    def program(self, *args: Any, **keywords: Any) -> Any:
        """The program for arguments like these: compiled now, unless it was before."""
        self(*args, **keywords)
        return next(reversed(self.programs.values()))[0]

    def _split(self, args: Any, keywords: Any) -> tuple[Any, Any]:
        fixed: tuple[Any, ...] = tuple((i, args[i]) for i in sorted(self._positions) if i < len(args))
        fixed += tuple((k, keywords[k]) for k in sorted(self._names) if k in keywords)
        try:
            hash(fixed)
        except TypeError:
            raise OperatorError(f"static arguments of {self.name} must be hashable, given {fixed!r}") from None
        moving = tuple(None if i in self._positions else a for i, a in enumerate(args))
        return fixed, (moving, {k: None if k in self._names else v for k, v in keywords.items()})

    def _trace(self, args: Any, keywords: Any, leaves: list[Any], structure: Any) -> Any:
        stack = self.stack
        self._notice()
        inputs: list[Any] = []
        given: list[Any] = []
        for leaf in leaves:
            concrete = None if isinstance(leaf, (bool, int, float, complex, str, bytes)) else stack.concrete(leaf)
            if concrete is None:
                given.append(leaf)
            else:
                aval = stack.device.aval(concrete)
                inputs.append(stack.input(f"argument {len(inputs)}", aval.shape, aval.dtype, place=aval.place))
                given.append(inputs[-1])
        moving, named = structure.build(given)
        whole = [args[i] if i in self._positions else a for i, a in enumerate(moving)]
        words = {k: keywords[k] if k in self._names else v for k, v in named.items()}
        try:
            with recording(stack) as scope:
                result = self.f(*whole, **words)
        except UnboundError as error:
            raise TracingError(
                f"while jit traced {self.name}: Python wanted a tensor's value at {reached(error)}, and {error}. Where "
                "its `if` or `while` depends on it, use ops.where, or name the argument that decides in static=..."
            ) from error
        outputs, shape = flatten(result)
        carriers, own = [stack.carrier(o) for o in outputs], [stack.carrier(i) for i in inputs]
        effects = [t.value for t in scope.effects]
        if not _closed([*carriers, *effects], own):
            return None
        self.traces += 1
        graph = stack.graph.close(own, carriers, (), self.name, **effects_of(effects))
        return stack.engine.compile(graph), shape

    def _notice(self) -> None:
        if self.traces == NOTICE:
            warnings.warn(
                f"{self.name} has been traced for {NOTICE} different signatures; give arrays of few shapes, and pass "
                "Python numbers that change as arrays (numpy.float32(rate)): each new number is traced anew",
                RetraceWarning,
                stacklevel=4,
            )

    def __repr__(self) -> str:
        return f"<jit {self.name}: {len(self.programs)} signatures>"


def _closed(outputs: list[Any], inputs: list[Any]) -> bool:
    """Whether the outputs are values of a graph that depends on no other inputs than these."""
    values = [o for o in outputs if isinstance(o, Value)]
    if any(hasattr(o, "trace") for o in outputs):
        return False
    return all(n.op is not INPUT or n in inputs for n in topological(values))


def _static(f: Any, static: Sequence[str | int] | str | int) -> tuple[frozenset[int], frozenset[str]]:
    try:
        names = [
            p.name
            for p in inspect.signature(f).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    positions, words = set(), set()
    for each in (static,) if isinstance(static, (str, int)) else static:
        if isinstance(each, int):
            positions.add(each)
            if each < len(names):
                words.add(names[each])
        else:
            words.add(each)
            if each in names:
                positions.add(names.index(each))
    return frozenset(positions), frozenset(words)
