"""What a decorated Python signature says: tensor arguments, parameters, and how each is brought to canonical form."""

from __future__ import annotations

import inspect
import math
import operator as python
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from numbers import Number
from typing import Any, ParamSpec, TypeVar

import numpy as np
from attrs import field, frozen

from nnc_func.body import bodies, body, holds_functions
from nnc_func.errors import OperatorError
from nnc_func.facets.dims import DEEPEST
from nnc_func.facets.dtypes import as_dtype

REQUIRED = inspect.Parameter.empty
Items = tuple[tuple[str, Any], ...]
MEMO_LIMIT = 10_000  # parameter sets remembered for an operator
SYNONYMS = {"dim": "axis", "dims": "axes", "keepdim": "keepdims"}  # of other libraries, and what they are here
KEY_LIMIT = 256  # keys remembered for an operator: of parameters that many of its applications in a graph share
FIXED = frozenset((int, float, bool, str, type(None)))
CHANGING = (list, dict, set, np.ndarray)
D = TypeVar("D", bound="Declaration")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


@frozen(eq=False, repr=False, slots=True)
class Declaration:
    """A name, a docstring and a signature: what operators and composites have in common.

    Attributes
    ----------
    name, module, doc
        The name is unique within a catalogue; the docstring's first sentence goes into the generated docs.
    args
        Names of the tensor arguments. With `variadic` the last one stands for any number.
    params
        Keyword parameters: name to default, or `REQUIRED`.
    converters
        Parameter name to the function that brings it to canonical, hashable form.
    optional
        Names of parameters that may be None.
    compares_bits
        Some parameter is a float or any number, or of no known kind: equal keys (``0.0`` and ``-0.0``, 1 and True) may
        differ in bits.
    holds_nests
        Some parameter is a nest of tuples, in which equal numbers may differ in type or bits.
    is_sized
        Some parameter is an extent, a tuple of them, or any number: it may be symbolic.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> CATALOGUE["sum"].canonical({"axis": [0, 1]})
    (('axis', (0, 1)), ('keepdims', False))
    """

    name: str
    module: str
    doc: str
    args: tuple[str, ...]
    variadic: bool
    params: Mapping[str, Any]
    converters: Mapping[str, Callable[[Any], Any]]
    optional: frozenset[str]
    compares_bits: bool = field(init=False)
    is_sized: bool = field(init=False)
    holds_nests: bool = field(init=False)
    holds_body: bool = field(init=False)  # a parameter is a program, a `Body`, or several
    takes_functions: bool = field(init=False)  # of the user's, as a parameter
    _is_memoised: bool = field(init=False)
    _canonical: dict[Any, Items] = field(init=False, factory=dict)
    _keys: dict[int, Any] = field(init=False, factory=dict)  # of parameters that it holds, by their identity

    @is_sized.default
    def _any_sizes(self) -> bool:
        return any(c in (sizes, extent, number, nested, index_key, body, bodies) for c in self.converters.values())

    @compares_bits.default
    def _any_float(self) -> bool:
        return any(self.converters.get(name) in (None, float, number) for name in self.params)

    @holds_nests.default
    def _any_nest(self) -> bool:
        return not {nested, index_key}.isdisjoint(self.converters.values())

    @holds_body.default
    def _any_body(self) -> bool:
        return any(c is body or c is bodies for c in self.converters.values())

    @takes_functions.default
    def _any_function(self) -> bool:
        return any(c is function or c is policy for c in self.converters.values())

    @_is_memoised.default
    def _without_nests(self) -> bool:  # in a tuple 1 and True are equal keys, and as an index they differ
        return not self.compares_bits and not self.holds_nests

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # Hypothesis prints with this
        printer.text(self.name)

    def canonical(self, params: Mapping[str, Any]) -> Items:
        """The parameters in the signature's order, defaults filled in, each one hashable.

        Raises
        ------
        OperatorError
            An unknown parameter, a missing one, or a value of the wrong kind.
        """
        if not self.params and not params:
            return ()
        if not self._is_memoised:  # 0.0 and -0.0, 1 and True are equal keys, so these are converted each time
            return self._convert(params)
        key = (*params.items(), *map(type, params.values()))  # 2 and 2.0 are equal keys
        try:
            found = self._canonical.get(key)
        except TypeError:  # a list among them
            return self._convert(params)
        if found is None:
            if len(self._canonical) >= MEMO_LIMIT:
                self._canonical.clear()
            found = self._convert(params)
            if not holds_functions(self, found):  # which would live as long as the operator
                self._canonical[key] = found
        return found

    def lasting(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters to be kept: themselves, or as they are now where a list or an array is among them.

        Who has given that may change it.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE
        >>> axis = [0]
        >>> kept = CATALOGUE["sum"].lasting({"axis": axis})
        >>> axis.append(1)
        >>> kept
        {'axis': (0,), 'keepdims': False}
        """
        return dict(self.canonical(params)) if any(map(_may_change, params.values())) else params

    def _convert(self, params: Mapping[str, Any]) -> Items:
        for name in params:
            if name not in self.params:
                wanted = ", ".join(self.params) or "none"
                hint = "; cast with ops.cast, or use stack.array_api, where the standard has it" * (name == "dtype")
                meant = SYNONYMS.get(name) if SYNONYMS.get(name) in self.params else None
                hint += f"; write {meant}={params[name]!r}" if meant else ""
                raise OperatorError(f"{self.name} has no parameter {name!r}; it has: {wanted}{hint}")
        items = []
        for name, default in self.params.items():
            value = params.get(name, default)
            if value is REQUIRED:
                raise OperatorError(f"{self.name} needs the parameter {name!r}; call {self.signature()}")
            convert = self.converters.get(name)
            if value is None and convert not in (None, nested, index_key) and name not in self.optional:
                raise OperatorError(f"{self.name}: {name}=None is not usable: wanted {WANTED.get(convert, 'a value')}")
            if convert is not None and value is not None:
                try:
                    value = convert(value)
                except (TypeError, ValueError, OverflowError) as error:
                    kind = WANTED.get(convert)
                    why = str(error) if kind is None else f"wanted {kind}, given a {type(value).__name__}"
                    raise OperatorError(f"{self.name}: {name}={value!r} is not usable: {why}") from None
            items.append((name, value))
        return tuple(items)

    def key(self, items: Items) -> Any:
        """Of the parameters: equal exactly where they are equal in type and bits (``0.0`` and ``-0.0`` differ)."""
        if not self.compares_bits and not (self.holds_nests and _has_bits(items)):
            return items
        if self.takes_functions:  # which are equal or not, and have no bits
            return items, repr([value for _, value in items if not callable(value)])
        found = self._keys.get(id(items))
        if found is None:
            if len(self._keys) >= KEY_LIMIT:
                self._keys.clear()
            found = self._keys[id(items)] = (items, repr(items))
        return found

    def check_arity(self, given: int) -> None:
        """Raise OperatorError unless that many tensor arguments fit."""
        wanted = len(self.args)
        if given != wanted and not (self.variadic and given >= wanted - 1):
            least = f"at least {wanted - 1}" if self.variadic else str(wanted)
            raise OperatorError(f"{self.name} takes {least} tensors, given {given}; call {self.signature()}")

    def signature(self) -> str:
        """As one would write it: ``sum(x, *, axis=None, keepdims=False)``."""
        tensors = [*self.args]
        if self.variadic:
            tensors[-1] = f"*{tensors[-1]}"
        keywords = [n if d is REQUIRED else f"{n}={d!r}" for n, d in self.params.items()]
        star = ["*"] if keywords and not self.variadic else []
        return f"{self.name}({', '.join([*tensors, *star, *keywords])})"


def _has_bits(value: Any) -> bool:
    """Whether a nest of tuples has a number that an equal one differs from in type or bits."""
    return any(map(_has_bits, value)) if type(value) is tuple else isinstance(value, (bool, float, complex))


def cached_by_bits(limit: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that remembers so many results; its first argument is compared as text: 0.0 and -0.0 differ there.

    Examples
    --------
    >>> from math import copysign
    >>> sign = cached_by_bits(2)(lambda value: copysign(1.0, value[0]))
    >>> sign((0.0,)), sign((-0.0,))
    (1.0, -1.0)
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @lru_cache(limit)
        def found(text: str, *args: Any, **kwargs: Any) -> R:
            return function(*args, **kwargs)

        texts: dict[int, Any] = {}  # of first arguments that it holds, by their identity

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            known = texts.get(id(args[0]))
            if known is None:
                if len(texts) >= limit:
                    texts.clear()
                known = texts[id(args[0])] = (args[0], repr(args[0]))
            return found(known[1], *args, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate


# --- converters: from annotation to canonical parameter -----------------------------------------------


def sizes(value: Any) -> tuple[Any, ...]:
    """A tuple of extents; one alone is a tuple of one. Symbolic extents stay as they are."""
    if isinstance(value, (tuple, list)):
        return tuple(extent(v) for v in value)
    return (extent(value),)


def extent(value: Any) -> Any:
    """A whole number, or a symbolic extent."""
    return value if getattr(value, "is_symbolic", False) else python.index(value)


def number(value: Any) -> Any:
    """A Python number, of its own type, and one NaN for all, as text has it; a symbolic extent stays as it is."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, float) and value != value:
        return math.nan
    if isinstance(value, (bool, int, float, complex)) or getattr(value, "is_symbolic", False):
        return plain(value)
    raise TypeError(f"wanted a number, given {type(value).__name__}")


def axes(value: Any) -> Any:
    """An axis or a tuple of axes."""
    return tuple(python.index(v) for v in value) if isinstance(value, (tuple, list)) else python.index(value)


def nested(value: Any, depth: int = 0) -> Any:
    """Lists and arrays become tuples, all the way down; numbers become Python's own, which others may equal."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (tuple, list)):
        return tuple(nested(v, _deeper(depth)) for v in value)
    try:
        hash(value)
    except (TypeError, ValueError):
        raise TypeError(f"wanted numbers, texts, or lists of them, given {type(value).__name__}") from None
    return plain(value)


def plain(value: Any) -> Any:
    """A number as an integer, float or complex of Python's: parameters that are equal are looked at once.

    Examples
    --------
    >>> plain(np.int8(3)), plain("same")
    (3, 'same')
    """
    if type(value) in (int, float, bool, complex, str) or not isinstance(value, (Number, np.generic)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    for kind in (int, float, complex):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"wanted numbers of Python's or NumPy's, given {value!r}, a {type(value).__name__}")


def index_key(value: Any, depth: int = 0) -> Any:
    """As `nested`, of an index: slices and arrays stay what they are."""
    if isinstance(value, (tuple, list)):
        return tuple(index_key(v, _deeper(depth)) for v in value)
    return plain(value)


def _deeper(depth: int) -> int:
    """One more, where a list may be within that many: one that contains itself would have no end."""
    if depth >= DEEPEST:
        raise ValueError(f"lists are nested at most {DEEPEST} deep")
    return depth + 1


def function(value: Any) -> Any:
    """A function of the host."""
    if not callable(value):
        raise TypeError(f"wanted a function, given {type(value).__name__}")
    hash(value)
    return value


def policy(value: Any) -> Any:
    """A text, or a function of the host."""
    return value if isinstance(value, str) else function(value)


CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": python.index,
    "float": float,
    "number": number,
    "str": str,
    "Axes": axes,
    "Sizes": sizes,
    "Extent": extent,
    "DType": as_dtype,
    "Nested": nested,
    "Key": index_key,
    "Body": body,
    "Bodies": bodies,
    "Function": function,
    "Policy": policy,
}


WANTED: Mapping[Any, str] = {  # by the converter
    axes: "an axis, a whole number, or a tuple of them",
    sizes: "an extent, a whole number, or a tuple of them",
    extent: "a whole number",
    python.index: "a whole number",
    float: "a number",
    number: "a number",
    as_dtype: "a dtype",
    bool: "True or False",
    function: "a function that has a hash",
    policy: "a str, or a function that has a hash",
    body: "a Body",
    bodies: "a tuple of bodies",
}


def _converter(annotation: Any) -> Callable[[Any], Any] | None:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return CONVERTERS.get(text.split("|")[0].strip())


def declared(function: Callable[..., Any], leading: int = 0) -> dict[str, Any]:
    """The fields of a declaration, from a function: positional-only arguments after the `leading` ones are tensors.

    Raises
    ------
    OperatorError
        It has no docstring.
    """
    name = function.__name__.rstrip("_")
    found = [*inspect.signature(function).parameters.values()][leading:]
    doc = inspect.getdoc(function)
    if not doc:
        raise OperatorError(f"operator {name} has no docstring")
    keywords = [p for p in found if p.kind is p.KEYWORD_ONLY]
    return {
        "name": name,
        "module": function.__module__,
        "doc": doc,
        "args": tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)),
        "variadic": any(p.kind is p.VAR_POSITIONAL for p in found),
        "params": {p.name: p.default for p in keywords},
        "converters": {p.name: c for p in keywords if (c := _converter(p.annotation)) is not None},
        "optional": frozenset(p.name for p in keywords if p.default is None or "None" in str(p.annotation)),
    }


# --- names of other libraries -----------------------------------------------------------------------------


def wrong_name(name: str, keywords: Mapping[str, Any]) -> OperatorError:
    """The refusal of a keyword that another library has, and one of `keywords` is.

    Examples
    --------
    >>> print(wrong_name("sum", {"dim": 0}))
    sum has no parameter 'dim': it is called axis here; write axis=0
    """
    given = next(k for k in keywords if k in SYNONYMS)
    meant = SYNONYMS[given]
    return OperatorError(
        f"{name} has no parameter {given!r}: it is called {meant} here; write {meant}={keywords[given]!r}"
    )


def checks_names(method: F) -> F:
    """A method with a parameter that must be given: where it is given as in another library, the refusal says so."""

    @wraps(method)
    def checked(*args: Any, **keywords: Any) -> Any:
        if not SYNONYMS.keys().isdisjoint(keywords):
            raise wrong_name(method.__name__, keywords)
        return method(*args, **keywords)

    return checked  # type: ignore[return-value]


def _may_change(value: Any) -> bool:
    """Whether a parameter may be another one later, though it is the same object."""
    if type(value) in FIXED:
        return False
    return isinstance(value, CHANGING) or (isinstance(value, tuple) and any(map(_may_change, value)))
