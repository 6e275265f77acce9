"""What fails while code is traced, and is not for a `try` of the user's around it; and what is tried, and may fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nnc_func.errors import BatchingError
from nnc_func.override import Override

_failures: ContextVar[list[Exception] | None] = ContextVar("failures", default=None)


def attempts() -> Override:
    """While failures are noted: by whoever asks for the first one at the end."""
    return Override(_failures, [])


@contextmanager
def noting() -> Iterator[None]:
    """While a block that a tensor decides is traced: what it raises is not for a `try` of the user's around it."""
    try:
        yield
    except BatchingError:  # somebody tries without vmap then
        raise
    except Exception as error:
        noted = _failures.get()
        if noted is not None and not any(error is each for each in noted):
            noted.append(error)
        raise


@contextmanager
def trial() -> Iterator[None]:
    """While something is tried that may fail: what blocks raise then is of no account.

    Examples
    --------
    >>> with attempts():
    ...     try:
    ...         with trial(), noting():
    ...             raise ValueError("it is tried otherwise then")
    ...     except ValueError:
    ...         print(first_failure())
    None
    """
    noted = _failures.get()
    before = 0 if noted is None else len(noted)
    try:
        yield
    except Exception:
        if noted is not None:
            del noted[before:]
        raise


def first_failure() -> Exception | None:
    """The first that was noted; None: there is none."""
    noted = _failures.get()
    return noted[0] if noted else None
