"""NN, the tenth layer: it trains modules on whatever differentiates below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Literal, TypeVar

from nnc_func.layer import Layer, forwards, layer
from nnc_func.signatures import AutodiffSignature

A = TypeVar("A")


@layer(on="autodiff", needs=("bind", "vjp", "jvp"))
class NN(Layer, Generic[A]):
    """Neural networks: the topmost layer.

    Examples
    --------
    >>> from nnc_func.autodiff import Autodiff
    >>> from nnc_func.device import NumPy
    >>> NN(Autodiff(NumPy()))
    NN(autodiff=Autodiff(engine=NumPy()))
    """

    autodiff: AutodiffSignature[A]
    bind: Callable[..., Any] = forwards()

    role: ClassVar[Literal["nn"]] = "nn"
