"""The table of ONNX operators: one decorated entry each, found by domain, name and the version that introduced it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import field, frozen

F = TypeVar("F", bound=Callable[..., Any])

_ENTRIES: dict[tuple[str, str], dict[int, OnnxOperator]] = {}
_families: list[str] = []  # those that are loaded


@frozen
class OnnxOperator:
    """An ONNX operator, made of ours.

    Attributes
    ----------
    name, domain
        As a model names it; the domain of ONNX itself is ``""``.
    since
        The versions of the operator that the function is right for: each is the operator set that introduced it.
    function
        ``function(o, *tensors, **attributes)``.
    known
        The names of inputs whose elements it wants, as NumPy arrays.
    multi_result
        Whether it returns a tuple of results.
    raw
        Whether inputs whose elements are known arrive as NumPy arrays, and others as tensors; else all are tensors.
    """

    name: str
    domain: str
    since: tuple[int, ...]
    function: Callable[..., Any]
    known: tuple[str, ...] = ()
    multi_result: bool = False
    raw: bool = False
    inputs: tuple[str, ...] = field(init=False)
    variadic: bool = field(init=False)
    required: int = field(init=False)
    attributes: Mapping[str, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        parameters = [*inspect.signature(self.function).parameters.values()][1:]
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        put = object.__setattr__
        put(self, "inputs", tuple(p.name for p in positional))
        put(self, "variadic", any(p.kind is p.VAR_POSITIONAL for p in parameters))
        put(self, "required", sum(p.default is p.empty for p in positional))
        put(self, "attributes", keywords)
        wrong = set(self.known) - set(self.inputs)
        if wrong:
            raise TypeError(f"{self.name}: known={self.known} names {sorted(wrong)}, which are no inputs")


def onnx_operator(
    name: str, since: int | Sequence[int], *, domain: str = "", known: Sequence[str] = (), multi_result: bool = False,
    raw: bool = False,
) -> Callable[[F], F]:  # fmt: skip
    """Declare a function to be an ONNX operator; a name may be declared several times, for different versions.

    Parameters
    ----------
    since
        The versions of the operator that the function is right for.
    known
        Names of inputs whose elements it wants: they arrive as NumPy arrays (of ``dtype=object`` with symbolic extents
        in it where those are not known), or None where the node leaves them out.
    multi_result
        It returns a tuple of results.
    raw
        Inputs arrive as they are: as NumPy arrays where their elements are known, else as tensors.

    Raises
    ------
    TypeError
        The table has an entry of that name, domain and version.

    Examples
    --------
    >>> from nnc_func.onnx.table import find, onnx_operator
    >>> @onnx_operator("Twice", since=1, domain="example.org")
    ... def twice(o, x):
    ...     return o.add(x, x)
    >>> find("example.org", "Twice", 1).inputs
    ('x',)
    """

    def declared(function: F) -> F:
        versions = (since,) if isinstance(since, int) else tuple(since)
        entry = OnnxOperator(name, domain, versions, function, tuple(known), multi_result, raw)
        table = _ENTRIES.setdefault((domain, name), {})
        for version in versions:
            if version in table and table[version].function.__qualname__ != function.__qualname__:
                raise TypeError(f"{name} of version {version} is declared already, as {table[version].function!r}")
            table[version] = entry
        return function

    return declared


def entries() -> Mapping[tuple[str, str], Mapping[int, OnnxOperator]]:
    """All entries: by domain and name, then by version."""
    if not _families:
        package = importlib.import_module("nnc_func.onnx.operators")
        for family in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
            importlib.import_module(f"{package.__name__}.{family}")
            _families.append(family)
    return _ENTRIES


def find(domain: str, name: str, since: int) -> OnnxOperator | None:
    """The entry for the operator of that version, if there is one."""
    return entries().get((domain, name), {}).get(since)
