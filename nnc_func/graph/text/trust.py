"""Which operators a file may apply: those of this library that only compute, and others that the caller names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nnc_func.errors import FileFormatError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op


def allowed_names(allow: Any) -> frozenset[str]:
    """Names of operators, of one name or several.

    Raises
    ------
    FileFormatError
        They are no names.

    Examples
    --------
    >>> sorted(allowed_names(("print", "check"))), sorted(allowed_names("print"))
    (['check', 'print'], ['print'])
    """
    found = (allow,) if isinstance(allow, str) else tuple(allow) if isinstance(allow, Collection) else (allow,)
    if not all(isinstance(name, str) for name in found):
        raise FileFormatError(f"allow= wants names of operators, such as ('print',), given {allow!r}")
    return frozenset(found)


def check_operator(op: Op, allow: Collection[str]) -> None:
    """Raise unless an operator is this library's own and does nothing but compute, or is allowed by name.

    Raises
    ------
    FileFormatError
        It is not; says what to write where it is wanted.

    Examples
    --------
    >>> check_operator(CATALOGUE["add"], ())
    >>> check_operator(CATALOGUE["print"], ())
    Traceback (most recent call last):
    nnc_func.errors.FileFormatError: it applies 'print', which does more than compute: ... allow=('print',)
    """
    is_own = CATALOGUE.get(op.name) is op
    if op.name in allow or (is_own and op.pure):
        return
    why = "does more than compute" if is_own else "is no operator of this library"
    raise FileFormatError(
        f"it applies {op.name!r}, which {why}: if you trust the file, load it with allow=({op.name!r},)"
    )
