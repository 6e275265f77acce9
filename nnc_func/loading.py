"""Programs from files, on a stack that one need not compose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnc_func.stacks import Stack, lazy


def load_program(path: Any, stack: Stack | None = None, classes: Iterable[type] = ()) -> Any:
    """The program in a file that ``program.save(path)`` wrote, ready to be called: nothing is optimised or planned.

    Parameters
    ----------
    stack
        Has the operators and the kernels that the plan names. None: ``lazy()``, on NumPy.
    classes
        Named tuples and attrs classes in which the outputs may be nested.

    Raises
    ------
    FileFormatError
        It is no such file, it is damaged or cut short, a newer version wrote it, its plan contradicts itself, or it
        does not fit the stack.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> stack = lazy()
    >>> x = stack.input("x", (2,), "float32")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "twice.program"
    ...     stack.compile(inputs=[x], outputs=x * 2).save(path)
    ...     load_program(path)([1.0, 2.0])
    array([2., 4.], dtype=float32)
    """
    from nnc_func.engine.files import programs  # what few ask for is imported when it is asked for

    return programs.load_program(path, lazy() if stack is None else stack, classes)
