"""Inspection of the array API: what the namespace of a stack can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from nnc_func.errors import DeviceError, OperatorError

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
KINDS = {
    "bool": ("bool",),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *REAL, *COMPLEX),
}
EVERY = ("bool", *KINDS["numeric"])


@frozen
class Info:
    """What ``__array_namespace_info__()`` gives.

    Attributes
    ----------
    xp
        The namespace that is asked about.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.__array_namespace_info__().default_dtypes()["integral"]
    dtype('int64')
    """

    xp: ArrayNamespace

    def capabilities(self) -> dict[str, Any]:
        """What the standard lets a namespace leave out.

        Shapes may depend on elements, and masks may be indices, of every tensor whose value is known: on a lazy stack
        of what does not depend on an unbound input, and not of what jit is tracing.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where tensors are made unless it is said."""
        return self.xp.places[0]

    def devices(self) -> list[str]:
        """Where tensors can be."""
        return list(self.xp.places)

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes that Python's numbers and indices have.

        Raises
        ------
        DeviceError
            There is no such device.
        """
        self._check(device)
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: str | Sequence[str] | None = None) -> dict[str, Any]:
        """The standard's dtypes that a device has, by name; of one kind, or of several.

        Raises
        ------
        DeviceError
            There is no such device.
        OperatorError
            There is no such kind.
        """
        self._check(device)
        kinds = [*KINDS] if kind is None else [kind] if isinstance(kind, str) else [*kind]
        for each in kinds:
            if each not in KINDS:
                raise OperatorError(f"kinds of dtypes are {', '.join(map(repr, KINDS))}, given {each!r}")
        wanted = {name for each in kinds for name in KINDS[each]}
        return {name: np.dtype(name) for name in EVERY if name in wanted}

    def _check(self, device: Any) -> None:
        if device is not None and device not in self.xp.places:
            raise DeviceError(f"the devices of {self.xp!r} are {', '.join(self.xp.places)}, given {device!r}")
