"""NumPy's functions that do not work on tensors, and why."""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.errors import OperatorError

_DATES = "no device has dates"
_PYTHON = "it calls a Python function for parts of an array: nnc_func.vmap, stack.map and ops.where do so in graphs"
_BITS = "no operator takes bytes apart"
_EIGENVALUES = "eigenvalues are known of symmetric and Hermitian matrices only, numpy.linalg.eigh"
_SHAPE = "its result's shape depends on the elements"
_EXPONENTS = "no operator takes the representation of a number apart"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("busday_count", "busday_offset", "datetime_as_string", "is_busday", "isnat"), _DATES),
    **dict.fromkeys(("apply_along_axis", "apply_over_axes", "piecewise"), _PYTHON),
    **dict.fromkeys(("packbits", "unpackbits", "bitwise_count"), _BITS),
    **dict.fromkeys(("linalg.eig", "linalg.eigvals", "poly", "roots"), _EIGENVALUES),
    **dict.fromkeys(("trim_zeros", "polydiv", "real_if_close"), _SHAPE),
    **dict.fromkeys(("frexp", "ldexp", "spacing"), _EXPONENTS),
    **dict.fromkeys(("gcd", "lcm"), "no operator has common divisors"),
    **dict.fromkeys(("histogram2d", "histogramdd"), "histograms are of one axis, numpy.histogram"),
    "i0": "no operator is this Bessel function",
    "sort_complex": "numpy.sort orders complex numbers as it does",
}


def refused(name: str, why: str = "") -> OperatorError:
    """What says that a function of NumPy's is none of ours.

    Examples
    --------
    >>> print(refused("isnat"))
    numpy.isnat does not work on tensors (no device has dates); use stack.ops or stack.array_api, or numpy.asarray(x) \
for a value
    """
    reason = f" ({REFUSED[name]})" if not why and name in REFUSED else why
    return OperatorError(
        f"numpy.{name} does not work on tensors{reason}; "
        "use stack.ops or stack.array_api, or numpy.asarray(x) for a value"
    )
