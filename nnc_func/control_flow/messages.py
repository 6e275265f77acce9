"""What messages of loops and branches say: whose function it is and where it stands, trees, and paths of leaves."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any

from nnc_func.control_flow.conversion.users import is_users
from nnc_func.control_flow.tracing import SCALARS, is_numbers
from nnc_func.errors import NncError, OperatorError, TracedFunctionError, check_function, line_of
from nnc_func.facets.dims import Dim
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Container, Structure, flatten, has_fields


def whose(name: str, f: Any) -> str:
    """What messages end with: which frontend was given which function, and the line where that stands.

    Examples
    --------
    >>> def step(carry, x):
    ...     return carry, x
    >>> whose("scan", step).startswith(" (scan of step at ")
    True
    """
    while isinstance(f, partial):
        f = f.func
    f = inspect.unwrap(f)
    code = getattr(f, "__code__", None)
    if code is None:
        return f" ({name} of {getattr(f, '__name__', type(f).__name__)})"
    return f" ({name} of {code.co_name} at {line_of(f)})"


def check_body(f: Any, name: str, arguments: Sequence[str], what: str = "the body") -> None:
    """Raise OperatorError unless it is a function that can be called with these arguments.

    Examples
    --------
    >>> check_body(lambda x: x, "map", ["x"])
    >>> check_body(lambda: 0, "map", ["x"], "the function")
    Traceback (most recent call last):
    nnc_func.errors.OperatorError: the function of map is called with (x), and takes (); ...
    """
    check_function(f, name)
    try:
        found = inspect.signature(f, follow_wrapped=False)
    except (TypeError, ValueError):  # a function of C may have none
        return
    try:
        found.bind(*arguments)
    except TypeError:
        takes = f"({', '.join(map(str, found.parameters.values()))})"
        raise OperatorError(
            f"{what} of {name} is called with ({', '.join(arguments)}), and takes {takes}; write it with as many "
            f"arguments{whose(name, f)}"
        ) from None


def shown(structure: Structure) -> str:
    """A tree as messages show it, a star for each leaf.

    Examples
    --------
    >>> shown(flatten({"a": 1, "b": [2, None]})[1]), shown(flatten(1)[1])
    ("{'a': *, 'b': [*, None]}", 'one tensor')
    """
    text: str = structure.fold(["*"] * structure.size, Container.shown)
    return "one tensor" if text == "*" else text


def at(path: Sequence[str]) -> str:
    """Where a leaf stands.

    Examples
    --------
    >>> at(("h", "0")), at(())
    (' at h.0', '')
    """
    return f" at {'.'.join(path)}" if path else ""


def given(found: Any) -> str:
    """What a function returned in place of something else.

    Examples
    --------
    >>> given(None), given((1, 2, 3)), given(3.0)
    ('None: is there a return?', 'a tuple of 3', 'a float')
    """
    if found is None:
        return "None: is there a return?"
    if inspect.isgenerator(found):
        return "a generator: write return in place of yield"
    if isinstance(found, (tuple, list)):
        return f"a {type(found).__name__} of {len(found)}"
    return f"a {type(found).__name__}"


def pair(found: Any, wanted: str, told: str) -> tuple[Any, Any]:
    """What a body returned, which is a pair.

    Raises
    ------
    OperatorError
        It is none.
    """
    if not isinstance(found, tuple) or len(found) != 2:
        raise OperatorError(f"{wanted}; given {given(found)}{told}")
    return found


def leaves_of(
    tree: Any, what: str, told: str, is_leaf: Callable[[Any], bool] | None = is_numbers, skipped: int = 0
) -> tuple[list[Any], Structure]:
    """The leaves of what a function returned, tensors, arrays and numbers, and its structure.

    Parameters
    ----------
    what, told
        How a message begins, and ends.
    skipped
        How many parts of a path are not the user's.

    Raises
    ------
    OperatorError
        A leaf is something else.
    """
    leaves, structure = flatten(tree, is_leaf=is_leaf)
    for leaf, path in zip(leaves, structure.paths, strict=True):
        if type(leaf) not in SCALARS and not isinstance(leaf, (Tensor, list, Dim)) and not hasattr(leaf, "__array__"):
            found = "a generator: write return in place of yield" if inspect.isgenerator(leaf) else (
                f"a {type(leaf).__name__}"
            )  # fmt: skip
            raise OperatorError(
                f"{what}{at(path[skipped:])} is {found}; wanted a tensor, an array, a number, or a tree"
                f"{of_fields(leaf)}{told}"
            )
    return leaves, structure


def of_fields(value: Any) -> str:
    """What to do where something is an object with fields.

    Examples
    --------
    >>> of_fields(1.0)
    ''
    """
    if not has_fields(type(value)):
        return ""
    return f"; where the fields of a {type(value).__name__} are tensors, say so in its class: is_tree = True"


OURS = __name__.split(".")[0]


@contextmanager
def traced_always(why: str) -> Iterator[None]:
    """While a function is traced that may never be called: an error of Python in it becomes one that says so.

    It is of the same class besides. Errors of this library stay as they are.

    Parameters
    ----------
    why
        That it is traced.

    Raises
    ------
    TracedFunctionError
        Python has raised an error.

    Examples
    --------
    >>> with traced_always("both sides are traced"):
    ...     [][0]
    Traceback (most recent call last):
    nnc_func.errors.TracedFunctionError: IndexError: list index out of range ...: both sides are traced. ...
    """
    try:
        yield
    except (NncError, RecursionError, MemoryError, Warning):
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] == OURS:
            raise
        line = _users_line(error.__traceback__)
        said = (
            f"{type(error).__name__}: {error}{f' (at {line})' if line else ''}: {why}. If it would never be called "
            "like that, write it so that it can be computed in any case, or let Python decide by what it knows"
        )
        raise _of_class(type(error), said).with_traceback(error.__traceback__) from error


def _users_line(traceback: TracebackType | None) -> str:
    """The last line of a user's code on the way to an error."""
    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_users(code):
            found = f"{os.path.basename(code.co_filename)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found


def _of_class(kind: type[Exception], said: str) -> Exception:
    """A TracedFunctionError that is an error of another class, too, if there is such a one."""
    try:
        made = type(
            TracedFunctionError.__name__, (TracedFunctionError, kind), {"__module__": TracedFunctionError.__module__}
        )
        return made(said)  # type: ignore[no-any-return]
    except Exception:  # a class of a user's, which is made as it likes
        return TracedFunctionError(said)
