"""NN, the tenth layer: it trains modules on whatever differentiates below."""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any, ClassVar, Generic, Literal, TypeVar

from nnc_func.layer import Layer, forwards, layer
from nnc_func.layer_protocols import AutodiffSignature

A = TypeVar("A")


@layer(on="autodiff", needs=AutodiffSignature)
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

    def train(self, stack: Any, *args: Any, **settings: Any) -> Any:
        """Train a model on a stack whose layer this is: what `nnc_func.nn.train` asks, with the same arguments.

        Examples
        --------
        >>> import numpy as np
        >>> import nnc_func as nnc
        >>> from nnc_func import nn
        >>> x, stack = np.ones((4, 1), "float32"), nnc.eager()
        >>> batches = nn.Batches(x, x, size=4)
        >>> model = nn.Dense(1).init(0, (None, 1))
        >>> done = stack.nn.train(stack, model, nn.quadratic, nn.SGD(), batches, rate=0.1, steps=1, progress=False)
        >>> len(done.losses)
        1
        """
        from nnc_func.nn.training import train  # few train

        return unwrap(train)(stack, *args, **settings)
