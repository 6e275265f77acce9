"""Errors: what was given, what was wanted, what to do, and the user's line where there is one."""

from __future__ import annotations

import os
from typing import Any


class NncError(Exception):
    """Root of every error that this library raises on purpose.

    Attributes
    ----------
    instruction
        Number of the plan's instruction that failed, where a program ran; else None.

    Examples
    --------
    >>> issubclass(ShapeError, NncError) and issubclass(ShapeError, ValueError)
    True
    """

    instruction: int | None = None


class LayerError(NncError, TypeError):
    """Layers that do not fit on each other."""


class OperatorError(NncError, TypeError):
    """An operator called with the wrong number or kind of arguments."""


class UnknownOperatorError(OperatorError, KeyError):
    """A catalogue has no operator of that name."""

    __str__ = Exception.__str__  # that of a KeyError puts the message in quotes


class ShapeError(NncError, ValueError):
    """Shapes that do not go together."""


class IndexingError(ShapeError, IndexError):
    """An index that does not fit the shape of what is indexed: too large, too many, or a mask of another shape."""


class ExtentError(ShapeError):
    """A shape that depends on elements, which are not known when it is asked for."""


class DTypeError(NncError, TypeError):
    """Dtypes that an operator does not take."""


class DeviceError(NncError, RuntimeError):
    """A device that is missing, refuses, or meets an array of another device."""


class PlaceError(DeviceError):
    """Operands that are in different places, or a place that the device does not have."""


class GraphError(NncError, ValueError):
    """A graph that is not well formed: names, outputs, foreign nodes."""


class FileFormatError(GraphError):
    """A file that is none of this library's, is damaged, or was written in a newer version."""


class OnnxError(GraphError):
    """An ONNX model that is damaged, contradicts itself, or asks for what is not supported; names the node."""


class UnboundError(NncError, ValueError):
    """A value was asked for that depends on an input without a value."""


class TracingError(NncError, TypeError):
    """Python wanted the elements of a tensor that has none yet, or a traced method writes into its object."""


class ControlFlowError(NncError, TypeError):
    """Python's control flow that cannot be turned into loops and branches, or not where a tensor decides."""


class TracedFunctionError(ControlFlowError):
    """An error of Python in a function that is traced whether it is ever called: it is of that error's class, too."""

    def __reduce__(self) -> Any:
        return TracedFunctionError, self.args

    __str__ = Exception.__str__


class UndefinedVariableError(NncError, UnboundLocalError):
    """A variable is read that has no value on some way, or values that no tensor is both of: names it and why."""


class DerivativeError(NncError, TypeError):
    """A derivative that does not exist, or not with respect to this."""


class BatchingError(NncError, ValueError):
    """A function that cannot be applied to every row of its arguments, or not to these."""


class RuleError(NncError, ValueError):
    """A rewrite rule that is not well formed, or not sound."""


class PlanError(NncError, RuntimeError):
    """A memory plan that contradicts itself."""


class AnswerError(PlanError):
    """What an allocator, an order or a strategy returned is no answer to what it was asked."""


class RunError(NncError, RuntimeError):
    """A kernel failed while a program ran, or a run would meet another that it cannot wait for."""


class AllocationError(NncError, MemoryError):
    """Memory that cannot be had."""


class CommitError(RunError):
    """A run failed amid the commit section, so that some variables have their next values and others have not.

    Attributes
    ----------
    written
        Names of the variables that were written, wholly or in part.
    kept
        Names of those that are as before the run.
    """

    def __init__(self, message: str, written: tuple[str, ...] = (), kept: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.written = written
        self.kept = kept


class CancelledError(NncError):
    """A run that was cancelled from another thread, before it wrote any variable."""


class CheckError(NncError, AssertionError):
    """A condition that a program was told to check is false."""


class NumericsError(NncError, FloatingPointError):
    """A NaN or an infinity where a check was asked for."""


class KernelTableWarning(UserWarning):
    """A table of kernels of another machine, or with choices that are passed over."""


class DeviceWarning(UserWarning):
    """A device computes by other means than it was made for, because a library is not there."""


class GradientWarning(UserWarning):
    """Gradients that are zero because nothing was recorded of the values that they are of."""


class ControlFlowWarning(UserWarning):
    """Code of a function with `control_flow=True` that runs as Python: names file, line and reason."""


class OnnxWarning(UserWarning):
    """A model that says what is not so of its own outputs."""


def line_of(function: Any, number: int | None = None) -> str:
    """File and line of a function, or of a line in it; empty of one that has no source.

    Examples
    --------
    >>> line_of(line_of).startswith("errors.py:")
    True
    """
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{os.path.basename(code.co_filename)}:{number or code.co_firstlineno}"


def check_hash(function: Any, name: str) -> None:
    """Raise OperatorError where a function has no hash, by which programs tell functions apart.

    Parameters
    ----------
    name
        Of what is given it.

    Examples
    --------
    >>> check_hash(print, "host")
    """
    try:
        hash(function)
    except TypeError:
        raise OperatorError(
            f"{name} wants a function that has a hash, given a {type(function).__name__}, which has none: give its "
            "class a __hash__, or give a function that calls it"
        ) from None


def check_function(given: object, name: str) -> None:
    """Raise unless what is to be transformed can be called.

    Parameters
    ----------
    name
        Of the transformation: ``"grad"``, ``"jit"``.

    Raises
    ------
    OperatorError
        It is no function.

    Examples
    --------
    >>> check_function(3.0, "grad")
    Traceback (most recent call last):
    nnc_func.errors.OperatorError: grad wants a function of tensors, given 3.0, a float: write grad(lambda x: ...)
    """
    if not callable(given):
        raise OperatorError(
            f"{name} wants a function of tensors, given {repr(given)[:60]}, a {type(given).__name__}: write "
            f"{name}(lambda x: ...)"
        )
