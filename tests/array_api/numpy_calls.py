"""Calls of NumPy's functions, by name: each is given what makes an array of NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

M = np.array([[1.0, -2.5, 3.0], [0.5, 4.0, -1.0]])
N = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 2.0]])
V = np.array([3.0, 1.0, 2.0])
W = np.array([0.5, 2.0])
S = np.array([[4.0, 1.0], [1.0, 3.0]])
B = np.array([True, False, True])
I = np.array([3, 1, 2])  # noqa: E741
J = np.array([0, 3, 3, 1, 0, 2])
K = np.array([[2, 0, 1], [1, 2, 0]])
P = np.array([[1.0, np.nan, 3.0], [np.nan, 4.0, -1.0]])
X = np.array([0.0, 1.0, 3.0, 4.5])
Y = np.array([2.0, -1.0, 0.5, 4.0])
C = np.array([1 + 2j, -1j])
F = np.array([0.0, -np.inf, np.inf, np.nan, 2.5])
T = np.arange(24.0).reshape(2, 3, 4)
D = np.array([3.0, np.nan, 1.0, np.nan, 3.0])
METHODS = ("linear", "lower", "higher", "nearest", "midpoint")

Calls = Mapping[str, Callable[[Any], Any]]


def written(function: Any, x: Any, *args: Any, **keywords: Any) -> Any:
    """What has been written into, of a copy."""
    copied = x + 0
    assert function(copied, *args, **keywords) is None
    return copied


SHAPES: Calls = {
    "atleast_1d": lambda t: (np.atleast_1d(t(V)), np.atleast_1d(t(2.0)), np.atleast_1d(t(2.0), t(M))),
    "atleast_2d": lambda t: (np.atleast_2d(t(V)), np.atleast_2d(t(2.0), t(M))),
    "atleast_3d": lambda t: (np.atleast_3d(t(2.0)), np.atleast_3d(t(V)), np.atleast_3d(t(M)), np.atleast_3d(t(T))),
    "rollaxis": lambda t: (np.rollaxis(t(T), 2), np.rollaxis(t(T), 0, 2), np.rollaxis(t(T), -1, -2)),
    "fliplr": lambda t: np.fliplr(t(M)),
    "flipud": lambda t: np.flipud(t(M)),
    "rot90": lambda t: (np.rot90(t(M)), np.rot90(t(M), 2), np.rot90(t(T), axes=(1, 2))),
    "resize": lambda t: (np.resize(t(M), (3, 3)), np.resize(t(M), 2), np.resize(t(V), (0, 2))),
    "append": lambda t: (np.append(t(M), N, axis=0), np.append(t(M), V)),
    "block": lambda t: (
        np.block([[t(S), t(S)], [t(W), t(W)]]), np.block([t(V), 1.0]), np.block([[t(S)], [W]]), np.block(t(V)),
        np.block([t(S), t(S)]),
    ),
    "column_stack": lambda t: np.column_stack([t(W), t(S)]),
    "dstack": lambda t: (np.dstack([t(V), t(V)]), np.dstack([t(M), t(N)])),
    "array_split": lambda t: (np.array_split(t(T), 3, axis=2), np.array_split(t(V), [1, 5])),
    "split": lambda t: (np.split(t(V), 3), np.split(t(M), [1, 2], axis=1), np.split(t(V), [2, 1])),
    "hsplit": lambda t: (np.hsplit(t(M), 3), np.hsplit(t(V), [1])),
    "vsplit": lambda t: np.vsplit(t(M), 2),
    "dsplit": lambda t: np.dsplit(t(T), 2),
    "delete": lambda t: (
        np.delete(t(M), 1), np.delete(t(M), [0, -1], axis=1), np.delete(t(V), slice(None, 2)), np.delete(t(V), B),
    ),
    "insert": lambda t: (
        np.insert(t(V), 1, 9.0), np.insert(t(M), 1, 5.0, axis=1), np.insert(t(M), [0, 2], 7, axis=1),
        np.insert(t(M), 1, [1, 2], axis=1), np.insert(t(V), [1, 1], [8, 9]), np.insert(t(M), 0, [1, 2, 3], axis=0),
        np.insert(t(M), slice(0, 2), W[:, None], axis=1), np.insert(t(I), -1, 3.7),
    ),
    "pad": lambda t: (
        np.pad(t(V), 2), np.pad(t(M), ((1, 0), (2, 1)), constant_values=3), np.pad(t(V), (1, 2), mode="edge"),
        np.pad(t(M), 1, "reflect"), np.pad(t(V), 1, mode="symmetric"), np.pad(t(V), 4, mode="wrap"),
        np.pad(t(M), 1, constant_values=((1, 2), (3, 4))), np.pad(t(M), ((1, 2), (0, 1)), mode="maximum"),
        np.pad(t(M), 1, mode="minimum"), np.pad(t(M), (1, 0), mode="mean"), np.pad(t(V), 1, mode="median"),
        np.pad(t(V), 0, "empty"),
    ),
}  # fmt: skip
POSITIONS: Calls = {
    "argwhere": lambda t: np.argwhere(t(M) > 0),
    "flatnonzero": lambda t: np.flatnonzero(t(M) > 0),
    "extract": lambda t: np.extract(t(M) > 0, t(M)),
    "compress": lambda t: (np.compress(B, t(M), axis=1), np.compress([True, False], t(V))),
    "choose": lambda t: np.choose(t(I % 2), [t(V), -V]),
    "select": lambda t: np.select([t(M) > 2, t(M) > 0], [t(M), t(N)], default=-1.0),
    "partition": lambda t: np.partition(t(V), 1)[1],
    "argpartition": lambda t: np.argpartition(t(V), 1)[1],
    "lexsort": lambda t: (np.lexsort((t(J), t(J[::-1]))), np.lexsort([t(M), t(N)], axis=1)),
    "digitize": lambda t: (
        np.digitize(t(V), W), np.digitize(t(V), t(np.array([1.0, 3.0])), right=True), np.digitize(t(V), W[::-1]),
    ),
    "ravel_multi_index": lambda t: np.ravel_multi_index((t(I), t(I)), (4, 5)),
    "unravel_index": lambda t: (np.unravel_index(t(J), (2, 3)), np.unravel_index(t(I), 4)),
    "ix_": lambda t: np.ix_(t(I), t(B)),
    "tril_indices_from": lambda t: (np.tril_indices_from(t(M)), np.tril_indices_from(t(S), k=-1)),
    "triu_indices_from": lambda t: np.triu_indices_from(t(M), 1),
    "diag_indices_from": lambda t: np.diag_indices_from(t(S)),
}  # fmt: skip
ELEMENTS: Calls = {
    "around": lambda t: np.around(t(M) / 3, 2),
    "fix": lambda t: np.fix(t(M)),
    "isclose": lambda t: np.isclose(t(M), M + 1e-9),
    "nan_to_num": lambda t: (np.nan_to_num(t(F)), np.nan_to_num(t(F), nan=1.0, posinf=2.0)),
    "sinc": lambda t: np.sinc(t(M)),
    "angle": lambda t: (np.angle(t(C)), np.angle(t(C), deg=True), np.angle(t(M))),
    "iscomplex": lambda t: (np.iscomplex(t(C)), np.iscomplex(t(V))),
    "isreal": lambda t: np.isreal(t(C)),
    "isneginf": lambda t: (np.isneginf(t(F)), np.isneginf(t(I))),
    "isposinf": lambda t: np.isposinf(t(F)),
    "result_type": lambda t: (np.result_type(t(I), t(V)), np.result_type(t(V), np.float32, 1)),
    "can_cast": lambda t: (np.can_cast(t(V), "float32"), np.can_cast(t(I), np.float64)),
    "common_type": lambda t: np.common_type(t(I), t(V)),
    "min_scalar_type": lambda t: np.min_scalar_type(t(V)),
    "linspace": lambda t: (
        np.linspace(t(W), 3.0, 4), np.linspace(0, t(2.0), 5, endpoint=False), np.linspace(t(W), W + 1, 3, axis=1),
        np.linspace(t(1.5), 4, 3, dtype=int), np.linspace(t(1.0), 2, 1), np.linspace(t(1.0), 2.0, 5, retstep=True),
        np.linspace(t(1.0), 2, 0),
    ),
    "logspace": lambda t: (np.logspace(t(W), 2.0, 3), np.logspace(t(0.0), 3, 4, base=2.0)),
    "geomspace": lambda t: (np.geomspace(t(1.0), 1000.0, 4), np.geomspace(t(W), W * 8, 4, endpoint=False),
                            np.geomspace(t(-1.0), -8.0, 4)),
}  # fmt: skip
SETS: Calls = {
    "unique": lambda t: (
        np.unique(t(J)), np.unique(t(K), return_index=True, return_inverse=True, return_counts=True),
        np.unique(t(D), return_index=True, return_inverse=True, return_counts=True),
        np.unique(t(D), equal_nan=False),
    ),
    "intersect1d": lambda t: (np.intersect1d(t(J), I), np.intersect1d(t(I), t(J[:3]))),
    "union1d": lambda t: np.union1d(t(J), [7, 1]),
    "setdiff1d": lambda t: (np.setdiff1d(t(J), [1, 2]), np.setdiff1d(t(I), t(J[:2]), assume_unique=True)),
    "setxor1d": lambda t: (np.setxor1d(t(J), [1, 9]), np.setxor1d(t(J[:0]), J[:0])),
}  # fmt: skip
STATISTICS: Calls = {
    "median": lambda t: (np.median(t(M)), np.median(t(M), axis=1, keepdims=True)),
    "ptp": lambda t: (np.ptp(t(M)), np.ptp(t(M), axis=0)),
    "quantile": lambda t: (
        np.quantile(t(M), 0.3), np.quantile(t(M), [0.1, 0.9], axis=1), np.quantile(t(M), [[0.5, 0.2]], axis=0),
        *(np.quantile(t(V), 0.4, method=m) for m in METHODS),
    ),
    "percentile": lambda t: (np.percentile(t(M), 25), np.percentile(t(M), (5, 95), axis=(0, 1), keepdims=True)),
    "average": lambda t: (
        np.average(t(M)), np.average(t(M), axis=1, weights=V), np.average(t(M), weights=t(N)),
        np.average(t(M), axis=0, weights=t(W), returned=True), np.average(t(I)), np.average(t(V), returned=True),
        np.average(t(T), axis=(2, 0), weights=T[:, 0].T),
    ),
    "cov": lambda t: (np.cov(t(M)), np.cov(t(V)), np.cov(t(V), V[::-1]), np.cov(t(M), rowvar=False, bias=True),
                      np.cov(t(C), ddof=0)),
    "corrcoef": lambda t: (np.corrcoef(t(M)), np.corrcoef(t(V), V[::-1]), np.corrcoef(t(V))),
    "bincount": lambda t: (np.bincount(t(J)), np.bincount(t(J), weights=J * 0.5, minlength=7)),
    "histogram": lambda t: (
        np.histogram(t(M)), np.histogram(t(M), bins=4, range=(-1, 3)), np.histogram(t(M), bins=[-3.0, 0, 1, 4]),
        np.histogram(t(M), bins=[-3.0, 0, 1, 4], density=True), np.histogram(t(V), bins=2, weights=V),
        np.histogram(t(V), bins=t(np.array([0.0, 2.0, 3.0])), weights=t(V)),
    ),
    "histogram_bin_edges": lambda t: np.histogram_bin_edges(t(M), bins=3),
    "nancumsum": lambda t: (np.nancumsum(t(P)), np.nancumsum(t(P), axis=1)),
    "nancumprod": lambda t: np.nancumprod(t(P), axis=0),
    "nanargmax": lambda t: (np.nanargmax(t(P)), np.nanargmax(t(P), axis=1), np.nanargmax(t(I))),
    "nanargmin": lambda t: (np.nanargmin(t(P)), np.nanargmin(t(P), axis=0, keepdims=True)),
    "nanmedian": lambda t: (np.nanmedian(t(P)), np.nanmedian(t(P), axis=1), np.nanmedian(t(D), keepdims=True)),
    "nanquantile": lambda t: (
        np.nanquantile(t(P), 0.3), np.nanquantile(t(P), [0.1, 0.9], axis=1), np.nanquantile(t(I), 0.5),
        *(np.nanquantile(t(P), 0.4, axis=0, method=m) for m in METHODS),
    ),
    "nanpercentile": lambda t: np.nanpercentile(t(P), 25, axis=0, keepdims=True),
}  # fmt: skip
SAMPLES: Calls = {
    "ediff1d": lambda t: (np.ediff1d(t(M)), np.ediff1d(t(I), to_begin=[7], to_end=t(I))),
    "gradient": lambda t: (
        np.gradient(t(Y)), np.gradient(t(M)), np.gradient(t(M), axis=1), np.gradient(t(Y), 0.5, edge_order=2),
        np.gradient(t(Y), X), np.gradient(t(Y), t(X), edge_order=2), np.gradient(t(M), 2.0, 0.5),
        np.gradient(t(T), X, axis=2), np.gradient(t(T), axis=(0, 2)), np.gradient(t(I)), np.gradient(t(W)),
    ),
    "trapezoid": lambda t: (
        np.trapezoid(t(Y)), np.trapezoid(t(Y), X), np.trapezoid(t(M), dx=0.5, axis=0), np.trapezoid(t(T), X, axis=2),
        np.trapezoid(t(M), t(N)),
    ),
    "interp": lambda t: (
        np.interp(t(F), X, Y), np.interp(t(V), t(X), t(Y), left=-9.0, right=9.0), np.interp(2.0, t(X), t(Y)),
        np.interp(t(M), X % 4, Y, period=4.0), np.interp(t(V), [1.0], [5.0]), np.interp(t(X), X, Y),
    ),
    "unwrap": lambda t: (np.unwrap(t(Y * 3)), np.unwrap(t(T), axis=0, period=7.0), np.unwrap(t(Y * 3), discont=4.0)),
    "convolve": lambda t: tuple(
        np.convolve(t(a), b, mode=m) for a, b in ((Y, V), (W, Y), (I, I), (C, V), (Y, W), (W, V))
        for m in ("full", "same", "valid")
    ),
    "correlate": lambda t: tuple(
        np.correlate(t(a), b, mode=m) for a, b in ((Y, V), (W, Y), (I, I), (V, C), (C, V), (W, V), (V, W))
        for m in ("full", "same", "valid")
    ),
    "polyval": lambda t: (np.polyval(t(V), M), np.polyval(V, t(2.0))),
    "polyadd": lambda t: np.polyadd(t(V), W),
    "polysub": lambda t: np.polysub(W, t(V)),
    "polymul": lambda t: np.polymul(t(V), W),
    "polyder": lambda t: (np.polyder(t(V)), np.polyder(t(Y), 2)),
    "polyint": lambda t: (np.polyint(t(V)), np.polyint(t(V), m=2, k=[3.0, 1.0])),
    "polyfit": lambda t: (np.polyfit(t(X), Y, 2), np.polyfit(X, t(np.stack([Y, X], 1)), 1, w=Y + 3)),
    "vander": lambda t: (np.vander(t(V)), np.vander(t(I), 2, increasing=True)),
}  # fmt: skip
MATRICES: Calls = {
    "kron": lambda t: np.kron(t(M), t(S)),
    "cross": lambda t: (np.cross(t(M), V), np.cross(t(M.T), V, axisa=0, axisc=0), np.cross(t(V), t(V[::-1]), axis=0)),
    "einsum": lambda t: (
        np.einsum("ij,kj->ik", t(M), N), np.einsum("ii", t(S)), np.einsum("ij->j", t(M), optimize=True),
    ),
    "einsum_path": lambda t: np.einsum_path("ij,jk->ik", t(M), M.T, optimize="greedy"),
    "diag": lambda t: (np.diag(t(V)), np.diag(t(M)), np.diag(t(S), k=1)),
    "diagflat": lambda t: np.diagflat(t(S), -1),
    "linalg.cond": lambda t: (np.linalg.cond(t(S)), np.linalg.cond(t(S), 1), np.linalg.cond(t(S), -2)),
    "linalg.lstsq": lambda t: (
        np.linalg.lstsq(t(M.T), V), np.linalg.lstsq(t(S), S), np.linalg.lstsq(t(M), t(W), rcond=None),
        np.linalg.lstsq(t(np.ones((3, 2))), M.T),
    ),
    "linalg.multi_dot": lambda t: np.linalg.multi_dot([t(W), t(M), t(N.T), S]),
    "linalg.tensorinv": lambda t: np.linalg.tensorinv(t(np.eye(6).reshape(2, 3, 6) + 0.1), ind=2),
    "linalg.tensorsolve": lambda t: (
        np.linalg.tensorsolve(t(np.eye(6).reshape(2, 3, 6) + 0.1), M),
        np.linalg.tensorsolve(t((np.eye(6) + 0.1).reshape(6, 2, 3)), t(np.arange(6.0)), axes=None),
        np.linalg.tensorsolve(t((np.eye(6) + np.arange(6.0)).reshape(6, 2, 3)), np.ones((2, 3)), axes=(0,)),
    ),
    **{f"fft.{n}": lambda t, n=n: (getattr(np.fft, n)(t(T)), getattr(np.fft, n)(t(T), axes=(0, 1), norm="ortho"))
       for n in ("fft2", "ifft2", "rfft2", "irfft2")},
}  # fmt: skip
WRITING: Calls = {
    "copyto": lambda t: (
        written(np.copyto, t(M), N), written(np.copyto, t(M), t(V), where=t(M) > 0), written(np.copyto, t(V), 7),
        written(np.copyto, M, t(N)),
    ),
    "put": lambda t: (written(np.put, t(M), [0, -1], [7.0, 8.0]), written(np.put, t(V), t(I) - 1, 9.0)),
    "place": lambda t: (written(np.place, t(M), t(M) > 0, [7.0, 8.0]), written(np.place, V, t(B), t(W))),
    "putmask": lambda t: written(np.putmask, t(M), t(M) > 0, t(V)),
    "put_along_axis": lambda t: (
        written(np.put_along_axis, t(M), K[:, :1], 9.0, 1), written(np.put_along_axis, t(V), t(I) - 1, t(V), None),
    ),
    "fill_diagonal": lambda t: (
        written(np.fill_diagonal, t(M), 5.0), written(np.fill_diagonal, t(np.zeros((5, 2))), [1, 2], wrap=True),
    ),
}  # fmt: skip
CREATION: Calls = {
    "arange": lambda t: np.arange(3, like=t(V)),
    "array": lambda t: np.array([1, 2], like=t(V)),
    "asanyarray": lambda t: np.asanyarray([1, 2], like=t(V)),
    "asarray": lambda t: np.asarray([1, 2], dtype="float32", like=t(V)),
    "ascontiguousarray": lambda t: np.ascontiguousarray([1, 2], like=t(V)),
    "asfortranarray": lambda t: np.asfortranarray([1, 2], like=t(V)),
    "empty": lambda t: np.empty((2, 0), like=t(V)),
    "eye": lambda t: np.eye(2, 3, like=t(V)),
    "frombuffer": lambda t: np.frombuffer(b"ab", "uint8", like=t(V)),
    "fromfunction": lambda t: np.fromfunction(lambda i: i + 1, (3,), like=t(V)),
    "fromiter": lambda t: np.fromiter(range(3), "int64", like=t(V)),
    "fromstring": lambda t: np.fromstring("1 2", sep=" ", like=t(V)),
    "full": lambda t: np.full((2,), 3.0, like=t(V)),
    "genfromtxt": lambda t: np.genfromtxt(["1 2"], like=t(V)),
    "identity": lambda t: np.identity(2, like=t(V)),
    "loadtxt": lambda t: np.loadtxt(["1 2"], like=t(V)),
    "ones": lambda t: np.ones(3, like=t(V)),
    "require": lambda t: np.require([1, 2], like=t(V)),
    "tri": lambda t: np.tri(3, like=t(V)),
    "zeros": lambda t: np.zeros(3, like=t(V)),
}  # fmt: skip
UFUNCS: Calls = {
    "degrees": lambda t: np.degrees(t(M)),
    "radians": lambda t: np.radians(t(M)),
    "rint": lambda t: np.rint(t(M)),
    "cbrt": lambda t: np.cbrt(t(M)),
    "exp2": lambda t: np.exp2(t(M)),
    "deg2rad": lambda t: np.deg2rad(t(M)),
    "rad2deg": lambda t: np.rad2deg(t(M)),
    "fmax": lambda t: np.fmax(t(P), M),
    "fmin": lambda t: np.fmin(t(P), M),
    "heaviside": lambda t: np.heaviside(t(M), 0.5),
    "divmod": lambda t: (np.divmod(t(M), N), np.divmod(7, t(I)), divmod(t(M), t(N))),
    "fmod": lambda t: (np.fmod(t(M), N), np.fmod(t(-I), 2), np.fmod(t(F), 2.0), np.fmod(t(M), -0.7)),
    "modf": lambda t: (np.modf(t(M)), np.modf(t(F)), np.modf(t(I))),
    "logaddexp2": lambda t: np.logaddexp2(t(M), N),
    "matvec": lambda t: np.matvec(t(M), V),
    "vecmat": lambda t: (np.vecmat(t(W), M), np.vecmat(C, t(S))),
    "vecdot": lambda t: np.vecdot(t(M), N),
}  # fmt: skip
FAMILIES: Calls = {
    **SHAPES,
    **POSITIONS,
    **ELEMENTS,
    **SETS,
    **STATISTICS,
    **SAMPLES,
    **MATRICES,
    **WRITING,
    **CREATION,
    **UFUNCS,
}
