"""Draws that are the same whatever else is loaded: Hypothesis prefers constants of the modules that happen to be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis.internal.conjecture import providers


@contextmanager
def constants_of_no_module() -> Iterator[None]:
    """While something is drawn from a seed.

    Hypothesis draws numbers and texts that stand in the code of a user's modules, those that are loaded by then, so
    that the same seed gives other draws after another import. Where a version of it does not, nothing is done.

    Examples
    --------
    >>> from hypothesis import strategies as st
    >>> from nnc_func.testing.agreement import drawn
    >>> with constants_of_no_module():
    ...     drawn(st.integers(), lambda n: None, 5)
    5
    """
    known: Any = providers
    if not all(hasattr(known, name) for name in ("_get_local_constants", "CONSTANTS_CACHE", "Constants")):
        yield
        return
    own, none, cache = known._get_local_constants, known.Constants, known.CONSTANTS_CACHE
    cache.cache.clear()
    known._get_local_constants = none
    try:
        yield
    finally:
        known._get_local_constants = own
        cache.cache.clear()
