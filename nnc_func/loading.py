"""Programs from files, on a stack that one need not compose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnc_func.archives.archive import MAX_BYTES
from nnc_func.stack import Stack
from nnc_func.stacks import lazy


def load_program(
    path: Any,
    stack: Stack | None = None,
    classes: Iterable[type] = (),
    *,
    max_bytes: int = MAX_BYTES,
    sha256: str | None = None,
    allow: Iterable[str] = (),
) -> Any:
    """The program in a file that ``program.save(path)`` wrote, ready to be called: nothing is optimised or planned.

    The file is not trusted. Whatever it says, loading and calling its program runs no code of it, and touches no byte
    outside of the program's own arrays: all of the plan is verified, in exact integers, before memory is made. What it
    computes is what the file says, and so is how long that takes.

    Parameters
    ----------
    stack
        Has the operators and the kernels that the plan names. None: ``lazy()``, on NumPy.
    classes
        Named tuples and attrs classes in which the outputs may be nested.
    max_bytes
        As much memory may it take: what is read, constants, variables, arenas and results, counted before any of it is
        there.
    sha256
        Of the whole file, in hexadecimal digits, from somebody who is trusted. It shortens no check.
    allow
        Names of operators that the program may apply although they are not this library's, or do more than compute:
        ``allow=("print", "check")``.

    Raises
    ------
    FileFormatError
        It is no such file, it is damaged or cut short, a newer version wrote it, its plan contradicts itself, it does
        not fit the stack, takes more than `max_bytes`, has another digest, or applies what is not allowed. From
        ``program.graph``: the graph is not what the plan computes.

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

    made = lazy() if stack is None else stack
    return programs.load_program(path, made, classes, max_bytes=max_bytes, sha256=sha256, allow=allow)
