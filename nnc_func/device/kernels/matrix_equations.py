"""Kernels of matrix equations and functions: SciPy's on the host, or linear equations with Kronecker products."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.device.kernels.decompositions import adjoint, conjugate, has_scipy, solving, transposed
from nnc_func.device.kernels.effects import host
from nnc_func.errors import DeviceError
from nnc_func.facets.kernels import Kernel, reference

HERE = frozenset({"numpy"})
LARGE = 10  # rows from which on the equation is too large for Kronecker products

NO_ONE = "the equation has no unique solution: eigenvalues of the two sides meet"
NO_STABLE = "no solution stabilises the system, or it is not determined: see the eigenvalues of a that b does not reach"


def scipy_linalg(what: str) -> Any:
    """SciPy's linear algebra.

    Raises
    ------
    DeviceError
        It is not installed; says how.
    """
    try:
        return importlib.import_module("scipy.linalg")
    except ImportError as error:
        raise DeviceError(f"{what} needs SciPy ({error}); pip install 'nnc_func[scipy]'") from None


def _each(function: Callable[..., Any], *arrays: Any) -> Any:
    """The function of each tuple of matrices, their batches broadcast; the result has the shape of the last one."""
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    wide = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    out = np.empty(wide[-1].shape, wide[-1].dtype)
    for at in np.ndindex(batch):
        if out[at].size:
            out[at] = function(*(a[at] for a in wide))
    return out


# --- Sylvester ---------------------------------------------------------------------------------------------


@solving(NO_ONE)
def _bartels_stewart(xp: Any, a: Any, b: Any, c: Any) -> Any:
    """By Schur forms: Bartels and Stewart, "Solution of the matrix equation AX + XB = C" (1972)."""
    linalg = scipy_linalg("sylvester")
    form = "complex" if a.dtype.kind == "c" else "real"

    def solved(a: Any, b: Any, c: Any) -> Any:
        (r, u), (s, v) = linalg.schur(a, form), linalg.schur(b, form)
        (solver,) = linalg.get_lapack_funcs(("trsyl",), (r, s))
        y, scale, info = solver(r, s, u.conj().T @ c @ v)
        if info:
            raise np.linalg.LinAlgError("Singular equation")
        return u @ (y / scale) @ v.conj().T

    return _each(solved, a, b, c)


def _identity(xp: Any, x: Any) -> Any:
    return xp.eye(x.shape[-1], dtype=x.dtype)


def _flat(xp: Any, x: Any) -> Any:
    """The last two axes as a column."""
    return xp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1], 1))


def _solved_flat(xp: Any, matrix: Any, right: Any) -> Any:
    """The solution of equations for all elements of a matrix at once, in the right side's shape."""
    size = right.shape[-2] * right.shape[-1]
    matrix = xp.reshape(matrix, (*matrix.shape[:-4], size, size))
    batch = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    matrix = xp.broadcast_to(matrix, (*batch, size, size))
    right = xp.broadcast_to(right, (*batch, *right.shape[-2:]))
    return xp.reshape(xp.linalg.solve(matrix, _flat(xp, right)), right.shape)


@solving(NO_ONE)
def _by_kronecker(xp: Any, a: Any, b: Any, c: Any) -> Any:
    left = a[..., :, None, :, None] * _identity(xp, b)[None, :, None, :]
    right = _identity(xp, a)[:, None, :, None] * transposed(xp, b)[..., None, :, None, :]
    return _solved_flat(xp, left + right, c)


# --- discrete Lyapunov -------------------------------------------------------------------------------------


@solving(NO_ONE)
def _discrete_by_kronecker(xp: Any, a: Any, q: Any) -> Any:
    one = _identity(xp, a)
    whole = one[:, None, :, None] * one[None, :, None, :]
    moved = a[..., :, None, :, None] * conjugate(xp, a)[..., None, :, None, :]
    return _solved_flat(xp, whole - moved, q)


@solving(NO_ONE)
def _discrete_by_scipy(xp: Any, a: Any, q: Any) -> Any:
    solver = scipy_linalg("discrete_lyapunov").solve_discrete_lyapunov
    return _each(lambda a, q: solver(a, q, method="bilinear"), a, q)


def _has_scipy(avals: Any, **_: Any) -> bool:
    return has_scipy()


def _is_large(avals: Any, **_: Any) -> bool:
    return has_scipy() and len(avals) == 2 and avals[0].shape[-1] >= LARGE


# --- on the host -------------------------------------------------------------------------------------------


def _on_host(compute: Callable[..., Any]) -> Kernel:
    """A kernel that brings its arguments to the host, and its result back."""

    def run(xp: Any, *arrays: Any, **params: Any) -> Any:
        return xp.asarray(compute(np, *map(host, arrays), **params))

    return reference(run, name="on the host")


def _riccati(name: str, solver: str) -> Kernel:
    @solving(NO_STABLE)
    def compute(xp: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
        solve = getattr(scipy_linalg(name), solver)
        q, r = ((x + adjoint(np, x)) / 2 for x in (q, r))
        return _each(lambda a, b, r, q: solve(a, b, q, r), a, b, r, q)

    return _on_host(compute)


@solving(NO_STABLE)
def _expm(xp: Any, x: Any) -> Any:
    return _each(scipy_linalg("expm").expm, x)


SYLVESTER = (
    Kernel("scipy", compute=_bartels_stewart, accepts=_has_scipy, namespaces=HERE), reference(_by_kronecker)
)  # fmt: skip
DISCRETE_LYAPUNOV = (
    Kernel("scipy", compute=_discrete_by_scipy, accepts=_is_large, by_shape=True, namespaces=HERE),
    reference(_discrete_by_kronecker),
)  # fmt: skip
CARE = _riccati("care", "solve_continuous_are")
DARE = _riccati("dare", "solve_discrete_are")
EXPM = _on_host(_expm)
