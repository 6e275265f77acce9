"""Matrix equations of control theory, and the matrix exponential; batched over front axes.

Derivatives follow from the implicit function theorem: what changes in the solution solves an equation of the same kind.
Of Hermitian arguments (q and r of Riccati's equations) the Hermitian part is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels import matrix_equations as kernels
from nnc_func.errors import ShapeError
from nnc_func.facets import domains
from nnc_func.facets.derivatives import Custom
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.samples import INEXACT, Samples
from nnc_func.facets.shapes import ShapeT, broadcast
from nnc_func.graph.ops import matrices as m
from nnc_func.graph.ops.families import Tensor
from nnc_func.op import operator


def _samples(prepare: Any, *cases: Any) -> Samples:
    listed: Any = tuple((case, {}) for case in cases)
    return Samples(relation="cases", dtypes=INEXACT, domain=(-1.0, 1.0), cases=listed, prepare=prepare)


def _fits(name: str, what: str, found: ShapeT, rows: Any, columns: Any) -> None:
    if not same_extent(found[-2], rows) or not same_extent(found[-1], columns):
        raise ShapeError(f"{name} wants {what} of shape (…, {rows}, {columns}), given {found}")


def _three(o: Any, a: Any, b: Any, c: Any) -> Any:
    return o.matmul(o.matmul(a, b), c)


def _sum(o: Any, *terms: Any) -> Any:
    """Of those that are not None."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else o.add(total, term)
    return total


# --- Sylvester ---------------------------------------------------------------------------------------------


def _sylvester_shape(a: ShapeT, b: ShapeT, c: ShapeT) -> ShapeT:
    m.square(a), m.square(b)
    _fits("sylvester", "c", m.matrix(c), a[-1], b[-1])
    return (*broadcast(a[:-2], b[:-2], c[:-2]), *c[-2:])


def _sylvester_jvp(o: Any, ts: Any, y: Any, a: Any, b: Any, c: Any) -> Any:
    ta, tb, tc = ts
    moved = [None if ta is None else o.negative(o.matmul(ta, y)), None if tb is None else o.negative(o.matmul(y, tb))]
    return o.broadcast_like(o.sylvester(a, b, _sum(o, tc, *moved)), y)


def _sylvester_back(o: Any, g: Any, a: Any, b: Any) -> Any:
    return o.sylvester(m.transpose(o, a), m.transpose(o, b), g)


@operator(
    shape=_sylvester_shape, dtype=m.solvable, kernels=kernels.SYLVESTER, cost=m.cubic(25), tolerance=m.FACTORED,
    derivative=Custom(_sylvester_jvp, (
        lambda o, g, y, a, b, c: o.sum_to(
            o.negative(o.matmul(_sylvester_back(o, g, a, b), y, transpose_b=True)), a.shape
        ),
        lambda o, g, y, a, b, c: o.sum_to(
            o.negative(o.matmul(y, _sylvester_back(o, g, a, b), transpose_a=True)), b.shape
        ),
        lambda o, g, y, a, b, c: o.sum_to(_sylvester_back(o, g, a, b), c.shape),
    )),
    onnx=m.NOT_IN_ONNX,
    samples=_samples(
        lambda a, b, c: [*m.dominant(a), *m.dominant(b), c],
        ((2, 2), (3, 3), (2, 3)), ((2, 2, 2), (1, 1), (2, 1)), ((1, 1), (1, 1), (2, 1, 1)), ((0, 0), (2, 2), (0, 2)),
    ),
    takes_all=domains.something,
)  # fmt: skip
def sylvester(a: Tensor, b: Tensor, c: Tensor, /) -> Tensor:
    """The x with ``a x + x b = c``.

    Shapes: ``(…, m, m)``, ``(…, n, n)`` and ``(…, m, n)``; batches broadcast. There is one if no eigenvalue of a is
    the negative of one of b; else it is an error when it runs. With SciPy it is found by Schur forms, without it by
    m·n linear equations.
    """


# --- discrete Lyapunov -------------------------------------------------------------------------------------


def _lyapunov_shape(a: ShapeT, q: ShapeT) -> ShapeT:
    _fits("discrete_lyapunov", "q", m.matrix(q), m.square(a)[-1], a[-1])
    return (*broadcast(a[:-2], q[:-2]), *q[-2:])


def _discrete_jvp(o: Any, ts: Any, y: Any, a: Any, q: Any) -> Any:
    ta, tq = ts
    moved = []
    if ta is not None:
        moved = [_three(o, ta, y, m.adjoint(o, a)), _three(o, a, y, m.adjoint(o, ta))]
    return o.broadcast_like(o.discrete_lyapunov(a, _sum(o, tq, *moved)), y)


def _discrete_left(o: Any, g: Any, y: Any, a: Any, q: Any) -> Any:
    back = o.discrete_lyapunov(m.transpose(o, a), g)
    first = o.matmul(o.matmul(back, m.conjugate(o, a)), y, transpose_b=True)
    second = m.conjugate(o, o.matmul(o.matmul(back, a, transpose_a=True), y))
    return o.sum_to(o.add(first, second), a.shape)


def _contracting(a: Any, *others: Any) -> list[Any]:
    return [a / a.dtype.type(8), *others]


@operator(
    shape=_lyapunov_shape, dtype=m.solvable, kernels=kernels.DISCRETE_LYAPUNOV, cost=m.cubic(30), tolerance=m.FACTORED,
    derivative=Custom(_discrete_jvp, (
        _discrete_left,
        lambda o, g, y, a, q: o.sum_to(o.discrete_lyapunov(m.transpose(o, a), g), q.shape),
    )),
    onnx=m.NOT_IN_ONNX,
    samples=_samples(
        _contracting, ((2, 2), (2, 2)), ((2, 2, 2), (2, 2)), ((1, 1), (2, 1, 1)), ((3, 3), (3, 3)),
        ((11, 11), (11, 11)), ((0, 0), (0, 0)),
    ),
    takes_all=domains.something,
)  # fmt: skip
def discrete_lyapunov(a: Tensor, q: Tensor, /) -> Tensor:
    """The x with ``a x aᴴ - x + q = 0``.

    Shapes: ``(…, n, n)`` both; batches broadcast. There is one if no product of an eigenvalue of a with the conjugate
    of another is 1; else it is an error when it runs. From ten rows on SciPy solves it where it is installed.
    """


# --- Riccati -----------------------------------------------------------------------------------------------


def _riccati_shape(name: str) -> Any:
    def shape(a: ShapeT, b: ShapeT, q: ShapeT, r: ShapeT) -> ShapeT:
        n, k = m.square(a)[-1], m.matrix(b)[-1]
        if known(k) and k == 0:
            raise ShapeError(f"{name} wants a system with an input at least, given b of shape {b}; see lyapunov")
        _fits(name, "b", b, n, k)
        _fits(name, "q", m.matrix(q), n, n)
        _fits(name, "r", m.matrix(r), k, k)
        return (*broadcast(a[:-2], b[:-2], q[:-2], r[:-2]), *q[-2:])

    return shape


def _continuous_gain(o: Any, x: Any, a: Any, b: Any, r: Any) -> tuple[Any, Any]:
    """The feedback that is best, and the closed loop."""
    gain = o.solve(m.hermitian(o, r), o.matmul(m.adjoint(o, b), x))
    return gain, o.subtract(a, o.matmul(b, gain))


def _discrete_gain(o: Any, x: Any, a: Any, b: Any, r: Any) -> tuple[Any, Any]:
    back = o.matmul(m.adjoint(o, b), x)
    gain = o.solve(o.add(m.hermitian(o, r), o.matmul(back, b)), o.matmul(back, a))
    return gain, o.subtract(a, o.matmul(b, gain))


def _change(o: Any, ts: Any, weight: Any, gain: Any) -> Any:
    """What changes in the equation at a fixed solution: `weight` is the derivative by half of the closed loop."""
    ta, tb, tq, tr = ts
    loop = _sum(o, ta, None if tb is None else o.negative(o.matmul(tb, gain)))
    half = None if loop is None else o.matmul(weight, loop)
    whole = None if half is None else o.add(half, m.adjoint(o, half))
    cost = None if tr is None else _three(o, m.adjoint(o, gain), m.hermitian(o, tr), gain)
    return _sum(o, whole, cost, None if tq is None else m.hermitian(o, tq))


def _care_jvp(o: Any, ts: Any, y: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
    gain, loop = _continuous_gain(o, y, a, b, r)
    change = _change(o, ts, y, gain)
    return o.broadcast_like(o.sylvester(m.adjoint(o, loop), loop, o.negative(change)), y)


def _dare_jvp(o: Any, ts: Any, y: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
    gain, loop = _discrete_gain(o, y, a, b, r)
    loop = m.adjoint(o, loop)
    return o.broadcast_like(o.discrete_lyapunov(loop, _change(o, ts, o.matmul(loop, y), gain)), y)


def _care_back(o: Any, g: Any, y: Any, a: Any, b: Any, r: Any) -> tuple[Any, Any, Any]:
    """The gain, what flows back through the equation, and that times the derivative by the closed loop."""
    gain, loop = _continuous_gain(o, y, a, b, r)
    back = o.sylvester(loop, m.adjoint(o, loop), o.negative(m.conjugate(o, g)))
    back = m.hermitian(o, back)
    return gain, back, o.matmul(y, back)


def _dare_back(o: Any, g: Any, y: Any, a: Any, b: Any, r: Any) -> tuple[Any, Any, Any]:
    gain, loop = _discrete_gain(o, y, a, b, r)
    back = m.hermitian(o, o.discrete_lyapunov(loop, m.conjugate(o, g)))
    return gain, back, _three(o, y, loop, back)


def _riccati(jvp: Any, back: Any) -> Custom:
    def by_a(o: Any, g: Any, y: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
        _, _, half = back(o, g, y, a, b, r)
        return o.sum_to(m.conjugate(o, o.multiply(half, 2)), a.shape)

    def by_b(o: Any, g: Any, y: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
        gain, _, half = back(o, g, y, a, b, r)
        return o.sum_to(m.conjugate(o, o.multiply(o.matmul(half, m.adjoint(o, gain)), -2)), b.shape)

    def by_q(o: Any, g: Any, y: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
        return o.sum_to(m.conjugate(o, back(o, g, y, a, b, r)[1]), q.shape)

    def by_r(o: Any, g: Any, y: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
        gain, flow, _ = back(o, g, y, a, b, r)
        return o.sum_to(m.conjugate(o, _three(o, gain, flow, m.adjoint(o, gain))), r.shape)

    return Custom(jvp, (by_a, by_b, by_q, by_r))


def _definite(x: Any) -> Any:
    return x @ x.conj().swapaxes(-1, -2) + 4 * np.eye(x.shape[-1], dtype=x.dtype)


def _stable(a: Any, b: Any, q: Any, r: Any) -> list[Any]:
    return [a - 4 * np.eye(a.shape[-1], dtype=a.dtype), b, _definite(q), _definite(r)]


def _stable_discrete(a: Any, b: Any, q: Any, r: Any) -> list[Any]:
    return [a / a.dtype.type(4), b, _definite(q), _definite(r)]


_SYSTEMS = (
    ((2, 2), (2, 1), (2, 2), (1, 1)),
    ((1, 1), (1, 2), (1, 1), (2, 2)),
    ((2, 2, 2), (2, 2), (2, 2), (2, 2)),
    ((3, 3), (2, 3, 1), (3, 3), (1, 1)),
)


@operator(
    shape=_riccati_shape("care"), dtype=m.solvable, kernels=kernels.CARE, cost=m.cubic(200), tolerance=m.FACTORED,
    derivative=_riccati(_care_jvp, _care_back), onnx=m.NOT_IN_ONNX, samples=_samples(_stable, *_SYSTEMS),
    takes_all=domains.something,
)  # fmt: skip
def care(a: Tensor, b: Tensor, q: Tensor, r: Tensor, /) -> Tensor:
    """The stabilising x of Riccati's continuous equation ``aᴴ x + x a - x b r⁻¹ bᴴ x + q = 0``.

    Shapes: ``(…, n, n)``, ``(…, n, k)``, ``(…, n, n)``, ``(…, k, k)``; batches broadcast. It is SciPy's, on the host
    whatever the device; without SciPy, or without a stabilising solution, it is an error when it runs.
    """


@operator(
    shape=_riccati_shape("dare"), dtype=m.solvable, kernels=kernels.DARE, cost=m.cubic(200), tolerance=m.FACTORED,
    derivative=_riccati(_dare_jvp, _dare_back), onnx=m.NOT_IN_ONNX, samples=_samples(_stable_discrete, *_SYSTEMS),
    takes_all=domains.something,
)  # fmt: skip
def dare(a: Tensor, b: Tensor, q: Tensor, r: Tensor, /) -> Tensor:
    """The stabilising x of Riccati's discrete equation ``aᴴ x a - x - aᴴ x b (r + bᴴ x b)⁻¹ bᴴ x a + q = 0``.

    Shapes and failures are those of `care`.
    """


# --- exponential -------------------------------------------------------------------------------------------


def _along(o: Any, x: Any, t: Any) -> Any:
    """The derivative along t: a block of the exponential of a block matrix (Mathias 1996)."""
    n, rank = x.shape[-1], len(x.shape)
    upper = o.concat(x, t, axis=-1)
    lower = o.concat(o.zeros_like(x), x, axis=-1)
    found = o.expm(o.concat(upper, lower, axis=-2))
    starts, front = (*(0,) * (rank - 1), n), x.shape[:-2]
    return o.slice(found, starts=starts, stops=(*front, n, n + n), steps=(1,) * rank)


@operator(
    shape=m.square, dtype=m.solvable, kernels=kernels.EXPM, cost=m.cubic(30), tolerance=m.FACTORED, onnx=m.NOT_IN_ONNX,
    derivative=Custom(
        lambda o, ts, y, x: _along(o, x, ts[0]), (lambda o, g, y, x: _along(o, m.transpose(o, x), g),)
    ),
    samples=_samples(lambda x: [x], ((1, 1),), ((2, 2),), ((2, 3, 3),), ((0, 2, 2),), ((0, 0),)),
)  # fmt: skip
def expm(x: Tensor, /) -> Tensor:
    """The exponential of square matrices ``(…, n, n)``, by Padé approximants.

    It is SciPy's, on the host whatever the device; without SciPy it is an error when it runs.
    """
