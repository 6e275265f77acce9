"""Set functions of the array API: their shapes depend on the elements, which must be known."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


def unique_all(xp: ArrayNamespace, x: Any, /) -> UniqueAll:
    """Distinct elements in order, where each is first, which of them each element is, and how often each occurs.

    Each NaN is distinct from all others.

    Raises
    ------
    ExtentError
        The elements are not known: they decide the shape.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> [a.numpy().tolist() for a in nnc.eager().array_api.unique_all([3, 1, 3])]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return UniqueAll(*xp.ops.unique_all(x))


def unique_counts(xp: ArrayNamespace, x: Any, /) -> UniqueCounts:
    """Distinct elements in order, and how often each occurs; see `unique_all`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.unique_counts([3, 1, 3]).counts.numpy()
    array([1, 2])
    """
    return UniqueCounts(*xp.ops.unique_counts(x))


def unique_inverse(xp: ArrayNamespace, x: Any, /) -> UniqueInverse:
    """Distinct elements in order, and which of them each element is; see `unique_all`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.unique_inverse([3, 1, 3]).inverse_indices.numpy()
    array([1, 0, 1])
    """
    return UniqueInverse(*xp.ops.unique_inverse(x))


def unique_values(xp: ArrayNamespace, x: Any, /) -> Any:
    """Distinct elements in order; see `unique_all`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.unique_values([3, 1, 3]).numpy()
    array([1, 3])
    """
    return xp.ops.unique_values(x)


def isin(xp: ArrayNamespace, x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Which elements of the first are among those of the second; or which are not.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.isin([1, 2, 3], [3, 1]).numpy()
    array([ True, False,  True])
    """
    return xp.ops.isin(xp.asarray(x1), xp.asarray(x2), invert=invert)
