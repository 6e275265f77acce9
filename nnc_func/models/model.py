"""What the zoo knows of a network: a frozen record, from which graphs, weights and training steps are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal

import numpy as np
from attrs import evolve, field, frozen

from nnc_func.errors import NncError, OperatorError, ShapeError
from nnc_func.facets.dtypes import as_dtype, kind_of
from nnc_func.garbage_collection import no_full_collections

Task = Literal["classification", "segmentation", "language", "detection"]


def _frozen(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(dict(options).items()))


def counted(batch: Any) -> int:
    """The number of examples, checked to be one.

    Raises
    ------
    ShapeError
        It is none.

    Examples
    --------
    >>> counted(3)
    3
    """
    if isinstance(batch, bool) or not isinstance(batch, (int, np.integer)) or batch < 1:
        raise ShapeError(f"a batch is a number of examples here, at least 1; given {batch!r}")
    return int(batch)


@frozen
class Model:
    """A network of the zoo; nothing of it is made before one of its methods is called.

    Attributes
    ----------
    name
        In the registry.
    title, source
        What it is, and the publication that it follows.
    shape, dtype
        Of one example, without the batch; images have channels last, sequences are class numbers.
    classes
        How many there are to choose from.
    task
        ``"classification"``: scores of an example. ``"segmentation"``: of each pixel. ``"language"``: of each position.
        ``"detection"``: boxes, classes, scores, masks; inference only.
    builder
        Module and function that give the `nn.Module` without tensors, ``"package.module:function"``.
    options
        Arguments of the builder, as pairs.
    parameters
        Number of trained elements.
    small
        What a small one differs in: its shape, its classes, its options. See `reduced`.

    Examples
    --------
    >>> from nnc_func import models
    >>> models.get("lenet-5")
    <model lenet-5: 61,706 parameters, float32[n, 28, 28, 1] to 10 classes>
    """

    name: str
    title: str
    source: str
    shape: tuple[int, ...]
    classes: int
    builder: str
    parameters: int
    task: Task = "classification"
    dtype: str = "float32"
    options: tuple[tuple[str, Any], ...] = field(default=(), converter=_frozen)
    small: tuple[tuple[str, Any], ...] = field(default=(), converter=_frozen)

    def __repr__(self) -> str:
        shape = ", ".join(["n", *map(str, self.shape)])
        return f"<model {self.name}: {self.parameters:,} parameters, {self.dtype}[{shape}] to {self.classes} classes>"

    # --- weights --------------------------------------------------------------------------------------

    @property
    def trains(self) -> bool:
        """Whether there is a training graph of it."""
        return self.task != "detection"

    def network(self, seed: int | None = 0) -> Any:
        """The `nn.Module` with weights drawn from a seed; with None they are outlines, as `Module.init` says.

        Raises
        ------
        OperatorError
            Its builder does not take its options.
        ShapeError
            Its examples have a shape that its layers do not take.
        """
        home, name = self.builder.split(":")
        build: Callable[..., Any] = getattr(import_module(home), name)
        if type(self.classes) is not int or self.classes < 1:
            raise OperatorError(f"{self.name} tells classes apart, a number of at least 1; given {self.classes!r}")
        try:
            return build(classes=self.classes, **dict(self.options)).init(seed, (None, *self.shape), self.dtype)
        except NncError:
            raise
        except (TypeError, ValueError, ArithmeticError, IndexError) as error:
            given = ", ".join(f"{key}={value!r}" for key, value in self.options)
            raise OperatorError(f"{self.name} is not built with {given}: {error}") from error

    def with_options(self, shape: tuple[int, ...] | None = None, classes: int | None = None, **options: Any) -> Model:
        """The same network for other examples or classes, or with other arguments of its builder, its count with it.

        Examples
        --------
        >>> from nnc_func import models
        >>> models.get("lenet-5").with_options(classes=3)
        <model lenet-5: 61,111 parameters, float32[n, 28, 28, 1] to 3 classes>
        """
        from nnc_func.nn import count

        other = evolve(
            self, shape=shape or self.shape, classes=classes or self.classes,
            options=dict(self.options) | options, small={},
        )  # fmt: skip
        return evolve(other, parameters=count(other.network(None)))

    def reduced(self) -> Model:
        """One of the same structure that computes in milliseconds: fewer channels, fewer layers, smaller examples."""
        return self.with_options(**dict(self.small))

    # --- graphs ---------------------------------------------------------------------------------------

    def make(self, stack: Any, batch: Any = 1, training: bool = False, seed: int | None = 0) -> Any:
        """The closed graph of inference or of a training step, not optimised, weights as variables.

        Parameters
        ----------
        stack
            Whose nodes it is made of. On a stack over `Null`, give no seed: weights are not drawn then.
        batch
            Number of examples, or a name for a number that is not known yet.
        seed
            Of the weights.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> from nnc_func import models
        >>> models.get("lenet-5").make(nnc.lazy(), batch="n").outputs[0].aval
        float32[n, 10]
        """
        with no_full_collections():
            return self.training(stack, batch, seed) if training else self.inference(stack, batch, seed)

    def inference(self, stack: Any, batch: Any = 1, seed: int | None = 0) -> Any:
        """The closed graph from a batch ``"x"`` to scores, or to what is detected."""
        from nnc_func.nn import inference_graph

        return inference_graph(stack, self.network(seed), (batch, *self.shape), self.dtype, self.name)

    def training(self, stack: Any, batch: Any = 1, seed: int | None = 0, update: Any = None) -> Any:
        """The closed graph of a training step: forward, backward, update; see `step`."""
        from nnc_func.aval import Aval

        x, y = Aval((batch, *self.shape), self.dtype), Aval((batch, *self._targets()), "int64")
        return self.step(stack, seed, update).graph(x, y)

    def step(self, stack: Any, seed: int | None = 0, update: Any = None) -> Any:
        """A training step that takes batches, their class numbers and a rate; see `nn.Step`.

        Parameters
        ----------
        update
            The update; stochastic gradient descent with momentum unless given.

        Raises
        ------
        OperatorError
            The network is for inference only.
        """
        from nnc_func.nn import SGD, Step

        if not self.trains:
            raise OperatorError(f"{self.name} is for inference only: its training needs losses of boxes and masks")
        from nnc_func.models.losses import scored

        return Step(stack, self.network(seed), scored, update or SGD(momentum=0.9), seed=seed or 0)

    # --- examples -------------------------------------------------------------------------------------

    def examples(self, batch: int = 1, seed: int = 0) -> tuple[Any, Any]:
        """Random examples and class numbers, as NumPy arrays: noise, drawn from a seed.

        Raises
        ------
        ShapeError
            The batch is no number of examples.

        Examples
        --------
        >>> from nnc_func import models
        >>> x, y = models.get("lenet-5").examples(batch=2)
        >>> x.shape, y.shape
        ((2, 28, 28, 1), (2,))
        """
        generator = np.random.default_rng(seed)
        shape = (counted(batch), *self.shape)
        dtype = as_dtype(self.dtype)
        if kind_of(dtype) == "f":
            drawn = dtype if dtype in (np.float32, np.float64) else np.dtype("float32")  # what the generator has
            x = generator.standard_normal(shape, drawn.type).astype(dtype, copy=False)
        else:
            x = generator.integers(0, dict(self.options).get("vocabulary", self.classes), shape)
        return x, generator.integers(0, self.classes, (batch, *self._targets()))

    def _targets(self) -> tuple[int, ...]:
        """The shape of an example's class numbers, without the batch."""
        if self.task == "classification":
            return ()
        if self.task == "segmentation":
            from nnc_func.nn.abstract import Abstract

            return tuple(self.network(None)(Abstract().tensor((1, *self.shape), self.dtype)).shape[1:-1])
        return self.shape
