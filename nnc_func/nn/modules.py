"""Modules: parts of a model as values, attrs classes whose tensors are fields; applying one never changes it.

What an application in training changes (running statistics) is noted in a `Context`, which gives the module after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar, dataclass_transform

import attrs
import numpy as np

from nnc_func.engine.effects import numbers_of_times
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.nn.abstract import Abstract
from nnc_func.nn.inputs import from_shapes, in_tensor, in_tensors, stack_of
from nnc_func.tree import flatten, mapped

NOT_DRAWN = "not drawn"  # in place of a key
C = TypeVar("C", bound=type)
M = TypeVar("M", bound="Module")


# --- declaring -----------------------------------------------------------------------------------------


def parameter(default: None = None) -> Any:
    """A field that holds a trained tensor, or a module; None until `Module.init` makes it.

    Type checkers know that a module is made without it where it is written ``parameter(default=None)``.
    """
    return attrs.field(default=default, metadata={"kind": "parameter"})


def state(default: None = None) -> Any:
    """A field that holds a tensor which applications in training replace; None until `Module.init`."""
    return attrs.field(default=default, metadata={"kind": "state"})


def static(default: Any = attrs.NOTHING, converter: Any = None) -> Any:
    """A field that is configuration: hashable, part of the model's structure, never traced."""
    return attrs.field(default=default, converter=converter, metadata={"static": True})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(attrs.field, parameter, state, static))
def module(cls: C) -> C:
    """Make a subclass of `Module` a frozen attrs class, compared by identity, whose fields are its tree.

    A field declared by `static` is configuration; one declared by `state` is not trained; every other one is a tree
    of tensors and modules.

    Raises
    ------
    OperatorError
        The class is no `Module`, or does not say how it is applied.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> from nnc_func import nn
    >>> @nn.module
    ... class Residual(nn.Module):
    ...     inner: nn.Module
    ...     def forward(self, x, context=None):
    ...         return x + self.inner(x, context)
    >>> model = Residual(nn.Dense(3)).init(seed=0, shape=(None, 3))
    >>> model(nnc.eager().asarray(np.ones((2, 3), "float32"))).shape
    (2, 3)
    """
    if not issubclass(cls, Module):
        raise OperatorError(f"@module is for subclasses of nn.Module: write class {cls.__name__}(nn.Module)")
    if cls.forward is Module.forward:
        raise OperatorError(f"the module {cls.__name__} has no forward(self, x, context): it says how it is applied")
    if "forward" in vars(cls) and "takes_one" not in vars(cls):
        cls.takes_one = False  # whatever another `forward` takes
    return attrs.frozen(eq=False, repr=False, slots=False)(cls)


class Module:
    """What modules are made from: calling one applies it; `init` makes its tensors.

    Subclasses are decorated with `module` and define `forward(self, x, context)`, which applies parts of the module
    by calling them with the same context; those with tensors of their own also define `create`. Where `takes_one` is
    True, a tree of several tensors is refused.
    """

    is_tree: ClassVar[bool] = True
    takes_one: ClassVar[bool] = False  # whether this `forward` takes one tensor, and no tree of several

    def __call__(self, x: Any, context: Context | None = None, **more: Any) -> Any:
        """The module applied to a tensor. Without a context, as in inference: no dropout, no new state.

        An array, or a list of numbers, is made a tensor of the parameters' stack, if they are tensors. What is given
        besides, by name, is what `forward` of that kind of module takes besides.

        Raises
        ------
        OperatorError
            Its parameters have not been made, nothing is a tensor, or the context is none.
        """
        if not isinstance(x, Tensor):
            x = (in_tensor if self.takes_one else in_tensors)(self, x, self)
        if context is not None and not isinstance(context, Context):
            raise OperatorError(f"{self!r} is applied in a context, nn.Context(training=True) say, given {context!r}")
        me = self if context is None else context.entered(self, x)
        if not _made(me):
            raise OperatorError(f"{me!r} has no parameters yet; make them: model = model.init(seed, shape)")
        return me.forward(x, context, **more)

    def forward(self, x: Any, context: Context | None) -> Any:
        """How the module is applied; defined by every kind of module."""
        raise OperatorError(f"{type(self).__name__} does not say how it is applied: define forward(self, x, context)")

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """The fields that `init` makes, by name, for an input of that shape and dtype; nothing unless redefined.

        Of a module with several inputs it is a tree of avals, nested as these are.
        """
        return {}

    def init(self: M, seed: int | None, shape: Any, dtype: Any = "float32") -> M:
        """The module with its tensors, NumPy arrays, for inputs of that shape; equal seeds give equal bits.

        Parameters
        ----------
        seed
            Of the library's generator. None: weights are not drawn, they are outlines, zeros in the memory of one
            element, by which a model of any size is planned on the device `Null`.
        shape
            Of the input, the number of examples included; it may be None. Where `forward` takes a tuple or a dict of
            tensors, a tuple or a dict of their shapes.
        dtype
            Of the input and the parameters; or a tuple or a dict with one for each input.

        Raises
        ------
        ShapeError
            The module does not take such an input.
        """
        own = copied(self)
        context = Context(initialising=NOT_DRAWN if seed is None else key_of(seed))
        stack = Abstract()
        own(from_shapes(shape, dtype, lambda shape, dtype, _: stack.tensor(shape, dtype)), context)
        return context.updated(own)  # type: ignore[no-any-return]

    def replaced(self: M, **changes: Any) -> M:
        """The same module with some fields exchanged.

        Raises
        ------
        OperatorError
            It has no such field.
        """
        names = [f.name for f in _fields(self)]
        unknown = set(changes) - set(names)
        if unknown:
            given = ", ".join(sorted(unknown))
            raise OperatorError(f"{type(self).__name__} has no field {given}; it has {', '.join(names)}")
        made = object.__new__(type(self))
        for name in names:
            object.__setattr__(made, name, changes.get(name, getattr(self, name)))
        return made

    def __repr__(self) -> str:
        shown = []
        for f in _fields(self):
            value = getattr(self, f.name)
            if value is not None and (f.default is attrs.NOTHING or value is not f.default):
                shown.append(f"{f.name}={_brief(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _fields(each: Any) -> tuple[attrs.Attribute[Any], ...]:
    return attrs.fields(type(each))  # type: ignore[no-any-return]


def _brief(value: Any) -> str:
    if isinstance(getattr(value, "shape", None), tuple):  # of an operator it is its rule
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return getattr(value, "__name__", None) or repr(value)


def _made(each: Module) -> bool:
    own = [f for f in _fields(each) if f.metadata.get("kind")]
    return not own or getattr(each, own[0].name) is not None


# --- applying ------------------------------------------------------------------------------------------


class Context:
    """One application of a model: whether it trains, where randomness comes from, and what modules become.

    Attributes
    ----------
    training
        Dropout drops and BatchNorm uses the batch only where it is true.
    key
        The tensor that random draws of this application come from, or None.

    Examples
    --------
    >>> from nnc_func import nn
    >>> context = nn.Context(training=True)
    >>> norm = nn.BatchNorm().init(0, (None, 3))
    >>> after = context.becomes(norm, mean=norm.mean + 1)
    >>> context.updated([norm])[0].mean
    array([1., 1., 1.], dtype=float32)
    """

    def __init__(self, training: bool = False, key: Any = None, *, initialising: Any = None) -> None:
        self.training = training
        self.key = key
        self._initialising = initialising
        self._draws = 0
        self._after: dict[Module, Module] = {}

    def next_key(self, who: Any = "a random module") -> Any:
        """A key that nothing else in this application draws from; within a loop, another one each time.

        Raises
        ------
        OperatorError
            The application was given no key.
        """
        if self.key is None:
            raise OperatorError(f"{who!r} draws random numbers in training: give it a key, Context(True, key)")
        if not isinstance(self.key, Tensor):
            raise OperatorError(f"{who!r} draws from a key that is a tensor, given {self.key!r}: stack.key(seed)")
        self._draws += 1
        stack = self.key.stack
        key = stack.ops.random_fold_in(self.key, np.uint64(self._draws))
        for number in numbers_of_times(stack):
            key = stack.ops.random_fold_in(key, number)
        return key

    def becomes(self, each: M, **changes: Any) -> M:
        """Note that a module has other fields after this application; the module itself stays as it is."""
        after = self._after[each] = each.replaced(**changes)
        return after

    def entered(self, each: Module, x: Any) -> Module:
        """The module as it is by now; made here if this application initialises."""
        now = self._last(each)
        if self._initialising is None or _made(now):
            return now
        from nnc_func.nn.initialise import fold_in

        self._draws += 1
        key = None if self._initialising is NOT_DRAWN else fold_in(self._initialising, self._draws)
        return self.becomes(now, **now.create(key, mapped(lambda each: each.aval, x)))

    def updated(self, tree: Any) -> Any:
        """The tree of modules as they are after this application."""

        def rebuilt(each: Any) -> Any:
            if isinstance(each, Module):
                now = self._last(each)
                dynamic = [f.name for f in _fields(now) if not f.metadata.get("static")]
                return now.replaced(**{name: rebuilt(getattr(now, name)) for name in dynamic})
            if isinstance(each, dict):
                return {k: rebuilt(v) for k, v in each.items()}
            if isinstance(each, (list, tuple)):
                parts = [rebuilt(v) for v in each]
                return type(each)(*parts) if hasattr(each, "_fields") else type(each)(parts)
            return each

        return rebuilt(tree)

    def _last(self, each: Module) -> Module:
        while each in self._after:
            each = self._after[each]
        return each


def apply(model: M, x: Any, key: Any = None) -> tuple[Any, M]:
    """The model applied as in training, and the model after it: with new running statistics, say.

    Parameters
    ----------
    x
        As for `Module.__call__`.
    key
        What random draws come from: a tensor (``stack.key(seed)``), the same as an array (`key_of`), or an integer.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> from nnc_func import nn
    >>> norm = nn.BatchNorm(momentum=0.5).init(0, (None, 1))
    >>> y, after = nn.apply(norm, nnc.eager().asarray(np.float32([[1], [3]])))
    >>> norm.mean, after.mean.numpy()
    (array([0.], dtype=float32), array([1.], dtype=float32))
    """
    own, x = copied(model), in_tensors(model, x, model)
    if key is not None and not isinstance(key, Tensor):
        key = stack_of(x).asarray(key_of(key))
    context = Context(True, key)
    return own(x, context), context.updated(own)


def key_of(seed: Any) -> Any:
    """The key of a generator: an integer gives one, an array of shape ``(2,)`` is one.

    Examples
    --------
    >>> key_of(7)
    array([7, 0], dtype=uint64)
    """
    if isinstance(seed, (int, np.integer)):
        return np.array([int(seed) % 2**64, 0], np.uint64)
    key = np.asarray(seed)
    if key.shape != (2,) or key.dtype != np.uint64:
        raise ShapeError(f"a key is uint64[2], given {key.dtype}{list(key.shape)}; give an integer seed")
    return key


# --- trees of modules ----------------------------------------------------------------------------------


def copied(tree: Any) -> Any:
    """The same tree with a module object of its own at every place, so that one object used twice is two modules."""
    leaves, structure = flatten(tree)
    return structure.build(leaves)


def _walk(tree: Any, path: str, kind: str) -> Iterator[tuple[str, str]]:
    if tree is None:
        return
    if type(tree) is dict:
        _, structure = flatten(tree)
        for key in structure.keys:
            yield from _walk(tree[key], f"{path}.{key}", kind)
    elif isinstance(tree, (list, tuple)):
        for i, each in enumerate(tree):
            yield from _walk(each, f"{path}.{i}", kind)
    elif attrs.has(type(tree)) and getattr(type(tree), "is_tree", False):
        for f in _fields(tree):
            if not f.metadata.get("static"):
                yield from _walk(getattr(tree, f.name), f"{path}.{f.name}", f.metadata.get("kind", kind))
    else:
        dtype = getattr(tree, "dtype", None)
        floating = (kind_of(dtype) if isinstance(dtype, np.dtype) else getattr(dtype, "kind", "")) in "fc"
        yield path.lstrip("."), kind if floating else "state"


def described(tree: Any, kind: str = "parameter") -> list[tuple[str, str]]:
    """(path, ``"parameter"`` or ``"state"``) of each leaf, in the order of `flatten`. What is not floating is state.

    Examples
    --------
    >>> from nnc_func import nn
    >>> described(nn.Sequential(nn.BatchNorm()).init(0, (None, 3)))[1:3]
    [('layers.0.offset', 'parameter'), ('layers.0.mean', 'state')]
    """
    return list(_walk(tree, "", kind))


def partition(tree: Any) -> tuple[list[Any], list[Any], Callable[[Any, Any], Any]]:
    """The trained leaves, the others, and the function that makes the tree of both again.

    Examples
    --------
    >>> from nnc_func import nn
    >>> parameters, rest, merge = partition(nn.BatchNorm().init(0, (None, 3)))
    >>> len(parameters), len(rest), merge(parameters, rest)
    (2, 2, BatchNorm(scale=float32[3], offset=float32[3], mean=float32[3], variance=float32[3]))
    """
    leaves, structure = flatten(tree)
    trained = [kind == "parameter" for _, kind in described(tree)]

    def merge(parameters: Any, rest: Any) -> Any:
        first, second = iter(parameters), iter(rest)
        return structure.build([next(first) if t else next(second) for t in trained])

    pairs = list(zip(leaves, trained, strict=True))
    return [x for x, t in pairs if t], [x for x, t in pairs if not t], merge


def count(tree: Any) -> int:
    """Number of trained elements.

    Examples
    --------
    >>> from nnc_func import nn
    >>> count(nn.Dense(10).init(0, (None, 784)))
    7850
    """
    return sum(int(np.prod(x.shape)) for x in partition(tree)[0])
