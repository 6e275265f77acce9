"""The operators and composites as methods of one class, each made when it is first asked for.

A type checker and an editor read the stub beside this file, which `scripts/generate.py` writes: it has every signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Never, TypeVar

import numpy as np
import numpy.typing as npt

from nnc_func.body import Body
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.method_source import method

T = TypeVar("T")
Scalar = bool | int | float | complex | np.generic  # stands for any tensor argument: it takes the others' dtype
Axes = int | Sequence[int]
Sizes = int | Sequence[Any]  # an extent may be symbolic
NAMES = {"__name__": __name__, "T": T, "Scalar": Scalar, "Axes": Axes, "Sizes": Sizes, "Any": Any, "Never": Never}
NAMES |= {"Callable": Callable, "Body": Body, "npt": npt}  # what the methods' annotations are of


class MethodsOnDemand(type):
    """The type of a class whose methods are the operators and the composites.

    A class that has no attribute of some name asks its type: the method is made, and the class has it from then on.
    """

    def __getattr__(cls, name: str) -> Any:
        if not name.startswith("_") and name not in cls.__annotations__:  # its fields are no operators
            declared = name.removesuffix("_")  # which stands behind a word of Python's
            of = CATALOGUE[declared] if declared in CATALOGUE else _composites().get(declared)
            if of is not None:
                setattr(cls, name, made := method(of, cls, NAMES))
                return made
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *CATALOGUE, *_composites()})


class OperatorMethods(Generic[T], metaclass=MethodsOnDemand):
    """Every operator of the default catalogue, and every composite, as a method."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(type(self), name, None)
        if found is None:
            raise self._unknown(name)
        return found.__get__(self)

    def _unknown(self, name: str) -> AttributeError:
        return AttributeError(f"no operator {name!r}")


def _composites() -> Any:
    from nnc_func.graph.composites import COMPOSITES  # few ask for them

    return COMPOSITES
