"""NumPy's own functions on tensors build the stack's graphs, with NumPy's values (`array_api/numpy_functions`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.array_api.numpy_functions.calls import COMPOSED, own
from nnc_func.array_api.numpy_functions.names import CREATED, OF_VALUES, UFUNCS, WRITTEN_IN_C, rows
from nnc_func.array_api.numpy_functions.refusals import REFUSED
from nnc_func.errors import OperatorError
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from tests.array_api.numpy_calls import FAMILIES

STACKS = (nnc.eager(), nnc.lazy())
BOTH = pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])

M = np.array([[1.0, -2.5, 3.0], [0.5, 4.0, -1.0]])
N = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 2.0]])
V = np.array([3.0, 1.0, 2.0])
S = np.array([[4.0, 1.0], [1.0, 3.0]])
B = np.array([True, False, True])
I = np.array([3, 1, 2])  # noqa: E741
P = np.array([[1.0, np.nan, 3.0], [np.nan, 4.0, -1.0]])
NANS = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
C = np.array([1 + 2j, -1j])

CALLS: dict[str, Any] = {
    "sum": lambda t: (np.sum(t(M)), np.sum(t(M), 0), np.sum(t(I), dtype="float32", keepdims=True)),
    "prod": lambda t: np.prod(t(M), axis=1),
    "mean": lambda t: (np.mean(t(M)), np.mean(t(M), axis=(0, 1), keepdims=True), np.mean(t(I), dtype="float64")),
    "std": lambda t: np.std(t(M), axis=1, ddof=1),
    "var": lambda t: (np.var(t(M)), np.var(t(M), 0, correction=1)),
    "max": lambda t: np.max(t(M), axis=1, keepdims=True),
    "amax": lambda t: np.amax(t(M)),
    "min": lambda t: np.min(t(M)),
    "amin": lambda t: np.amin(t(M), 0),
    "any": lambda t: np.any(t(B)),
    "all": lambda t: np.all(t(B), axis=0),
    "argmax": lambda t: np.argmax(t(M), axis=1),
    "argmin": lambda t: np.argmin(t(M)),
    "count_nonzero": lambda t: np.count_nonzero(t(M), axis=0),
    "cumulative_sum": lambda t: np.cumulative_sum(t(V), include_initial=True),
    "cumulative_prod": lambda t: np.cumulative_prod(t(M), axis=1),
    "cumsum": lambda t: (np.cumsum(t(M)), np.cumsum(t(M), axis=1)),
    "cumprod": lambda t: np.cumprod(t(M), 0),
    "diff": lambda t: np.diff(t(M), n=1, axis=0),
    "concatenate": lambda t: (
        np.concatenate([t(M), N]), np.concatenate((t(M), t(N)), axis=1), np.concatenate([t(M)], None),
    ),
    "stack": lambda t: np.stack([t(M), t(N)], axis=1),
    "hstack": lambda t: (np.hstack([t(V), t(V)]), np.hstack([t(M), t(N)])),
    "vstack": lambda t: np.vstack([t(V), t(M)]),
    "unstack": lambda t: np.unstack(t(M), axis=1),
    "expand_dims": lambda t: np.expand_dims(t(V), 0),
    "squeeze": lambda t: (np.squeeze(t(M[None])), np.squeeze(t(M[None]), axis=0)),
    "reshape": lambda t: (np.reshape(t(M), (3, 2)), np.reshape(t(M), -1)),
    "ravel": lambda t: np.ravel(t(M)),
    "transpose": lambda t: (np.transpose(t(M)), np.transpose(t(M), (1, 0))),
    "swapaxes": lambda t: np.swapaxes(t(M), 0, -1),
    "moveaxis": lambda t: np.moveaxis(t(M), 0, 1),
    "matrix_transpose": lambda t: np.matrix_transpose(t(M)),
    "broadcast_to": lambda t: np.broadcast_to(t(V), (2, 3)),
    "broadcast_arrays": lambda t: np.broadcast_arrays(t(M), t(V)),
    "flip": lambda t: np.flip(t(M), 1),
    "roll": lambda t: np.roll(t(V), 1),
    "repeat": lambda t: np.repeat(t(V), 2),
    "tile": lambda t: np.tile(t(V), (2, 1)),
    "take": lambda t: (np.take(t(M), [0, 5]), np.take(t(M), I - 1, axis=1)),
    "take_along_axis": lambda t: np.take_along_axis(t(V), I - 1, axis=0),
    "nonzero": lambda t: np.nonzero(t(M)),
    "where": lambda t: (np.where(t(M) > 0, t(M), 0.0), np.where(t(B))),
    "searchsorted": lambda t: np.searchsorted(t(np.sort(V)), t(V), side="right"),
    "sort": lambda t: np.sort(t(M), axis=0),
    "argsort": lambda t: np.argsort(t(V)),
    "isin": lambda t: np.isin(t(I), [1, 2]),
    "unique_all": lambda t: np.unique_all(t(I)),
    "unique_counts": lambda t: np.unique_counts(t(I)),
    "unique_inverse": lambda t: np.unique_inverse(t(I)),
    "unique_values": lambda t: np.sort(np.unique_values(t(I))),
    "astype": lambda t: np.astype(t(M), np.dtype("float32")),
    "copy": lambda t: np.copy(t(M)),
    "zeros_like": lambda t: np.zeros_like(t(M)),
    "ones_like": lambda t: np.ones_like(t(M), dtype="int32"),
    "empty_like": lambda t: np.empty_like(t(M)) * 0,
    "full_like": lambda t: np.full_like(t(M), 2),
    "tril": lambda t: np.tril(t(S)),
    "triu": lambda t: np.triu(t(M), 1),
    "meshgrid": lambda t: np.meshgrid(t(V), t(I), indexing="ij"),
    "clip": lambda t: (np.clip(t(M), 0, 2), np.clip(t(M), None, t(N))),
    "round": lambda t: (np.round(t(M)), np.round(t(V) / 3, 2)),
    "dot": lambda t: (np.dot(t(V), t(V)), np.dot(t(M), t(V)), np.dot(t(V), 2)),
    "inner": lambda t: np.inner(t(M), t(N)),
    "vdot": lambda t: np.vdot(t(C), t(C)),
    "outer": lambda t: np.outer(t(V), t(I)),
    "tensordot": lambda t: np.tensordot(t(M), t(N), axes=2),
    "diagonal": lambda t: np.diagonal(t(S)),
    "trace": lambda t: np.trace(t(S)),
    "real": lambda t: np.real(t(C)),
    "imag": lambda t: np.imag(t(C)),
    "shape": lambda t: np.shape(t(M)),
    "ndim": lambda t: np.ndim(t(M)),
    "size": lambda t: np.size(t(M)),
    "allclose": lambda t: np.allclose(t(M), M),
    "array_equal": lambda t: np.array_equal(t(M), t(N)),
    "array_equiv": lambda t: np.array_equiv(t(V), V),
    "array_repr": lambda t: np.array_repr(t(V)),
    "array_str": lambda t: np.array_str(t(V)),
    "array2string": lambda t: np.array2string(t(V)),
    "iscomplexobj": lambda t: np.iscomplexobj(t(C)),
    "isrealobj": lambda t: np.isrealobj(t(V)),
    "shares_memory": lambda t: np.shares_memory(t(V), np.ones(3)),
    "may_share_memory": lambda t: np.may_share_memory(t(V), np.ones(3)),
    **{n: lambda t, n=n: (getattr(np, n)(t(P)), getattr(np, n)(t(P), axis=1)) for n in NANS},
    "linalg.norm": lambda t: (
        np.linalg.norm(t(V)), np.linalg.norm(t(M)), np.linalg.norm(t(M), 1), np.linalg.norm(t(M), axis=1, ord=3),
    ),
    "linalg.cholesky": lambda t: np.linalg.cholesky(t(S)),
    "linalg.cross": lambda t: np.linalg.cross(t(M), t(N)),
    "linalg.det": lambda t: np.linalg.det(t(S)),
    "linalg.diagonal": lambda t: np.linalg.diagonal(t(S)),
    "linalg.eigh": lambda t: np.linalg.eigh(t(S)).eigenvalues,
    "linalg.eigvalsh": lambda t: np.linalg.eigvalsh(t(S)),
    "linalg.inv": lambda t: np.linalg.inv(t(S)),
    "linalg.matmul": lambda t: np.linalg.matmul(t(S), t(S)),
    "linalg.matrix_norm": lambda t: np.linalg.matrix_norm(t(S)),
    "linalg.matrix_power": lambda t: np.linalg.matrix_power(t(S), 3),
    "linalg.matrix_rank": lambda t: np.linalg.matrix_rank(t(S)),
    "linalg.matrix_transpose": lambda t: np.linalg.matrix_transpose(t(S)),
    "linalg.outer": lambda t: np.linalg.outer(t(V), t(V)),
    "linalg.pinv": lambda t: np.linalg.pinv(t(M)),
    "linalg.qr": lambda t: abs(np.linalg.qr(t(S)).R),
    "linalg.slogdet": lambda t: np.linalg.slogdet(t(S)),
    "linalg.solve": lambda t: np.linalg.solve(t(S), t(S)),
    "linalg.svd": lambda t: np.linalg.svd(t(S), full_matrices=False).S,
    "linalg.svdvals": lambda t: np.linalg.svdvals(t(S)),
    "linalg.tensordot": lambda t: np.linalg.tensordot(t(M), t(N), axes=2),
    "linalg.trace": lambda t: np.linalg.trace(t(S)),
    "linalg.vecdot": lambda t: np.linalg.vecdot(t(M), t(N)),
    "linalg.vector_norm": lambda t: np.linalg.vector_norm(t(M), axis=1),
    **{f"fft.{n}": lambda t, n=n: getattr(np.fft, n)(t(C)) for n in ("fft", "ifft", "fftshift", "ifftshift")},
    **{f"fft.{n}": lambda t, n=n: getattr(np.fft, n)(t(V)) for n in ("rfft", "ihfft", "rfftn")},
    **{f"fft.{n}": lambda t, n=n: getattr(np.fft, n)(t(C), 4) for n in ("irfft", "hfft")},
    "fft.fftn": lambda t: np.fft.fftn(t(C), axes=(0,)),
    "fft.ifftn": lambda t: np.fft.ifftn(t(C), axes=(0,)),
    "fft.irfftn": lambda t: np.fft.irfftn(t(C), s=(4,), axes=(0,)),
    **FAMILIES,
}  # fmt: skip
NOT_CALLED = {"save", "savetxt", "savez", "savez_compressed", "fromfile"}  # by the table above, but of files
ONE = [
    "absolute", "arccos", "arcsin", "arctan", "arccosh", "arcsinh", "arctanh", "ceil", "conjugate", "cos", "cosh",
    "exp", "expm1", "fabs", "floor", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "negative",
    "positive", "reciprocal", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
TWO = [
    "add", "arctan2", "copysign", "divide", "equal", "float_power", "floor_divide", "greater", "greater_equal",
    "hypot", "less", "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter", "not_equal", "power",
    "remainder", "subtract", "true_divide",
]  # fmt: skip
WHOLE = ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
LOGICAL = ["logical_and", "logical_or", "logical_xor"]


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value.numpy() if isinstance(value, nnc.Tensor) else value


def same(ours: Any, theirs: Any, rtol: float = 1e-12) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, rtol)
    elif isinstance(theirs, (np.ndarray, np.generic)):
        assert isinstance(ours, np.ndarray) or np.isscalar(ours)
        assert (np.shape(ours), np.asarray(ours).dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-12)
    else:
        assert ours == theirs


MODULES = {"": np, "linalg.": np.linalg, "fft.": np.fft}
DISPATCHED = type(np.mean)


def asking() -> dict[str, Any]:
    """The functions of NumPy that ask their arguments, by their own names."""
    found: dict[str, Any] = {}
    for prefix, module in MODULES.items():
        for name in module.__all__:
            function = getattr(module, name)
            if isinstance(function, np.ufunc):
                found[function.__name__] = function
            elif isinstance(function, DISPATCHED):
                found[f"{function.__module__}.{function.__name__}".removeprefix("numpy.")] = prefix
    return found


def test_every_function_of_the_table_is_called() -> None:
    functions = {*rows(), *own(), *OF_VALUES, *CREATED}
    assert functions <= {*CALLS} | NOT_CALLED
    assert {*WRITTEN_IN_C} <= {*CALLS}
    assert {*UFUNCS, *COMPOSED} <= {*ONE, *TWO, *WHOLE, *FAMILIES, "invert", "positive", "matmul"}


def test_every_function_of_numpys_is_supported_or_refused_with_a_reason() -> None:
    ours = {*rows(), *own(), *OF_VALUES, *CREATED, *UFUNCS, *COMPOSED, "vecdot"} | {*CATALOGUE, *COMPOSITES}
    functions = asking()
    assert len(functions) > 300
    assert {*functions} - ours - {*REFUSED} == set()
    for name, function in functions.items():
        if isinstance(function, np.ufunc) and name not in REFUSED:
            assert name in {*ONE, *TWO, *WHOLE, *LOGICAL, *FAMILIES, "invert", "logical_not", "matmul"}, name
    assert not {*REFUSED} & {*rows(), *own(), *OF_VALUES, *CREATED, *UFUNCS, *COMPOSED}
    assert all(REFUSED.values())


@BOTH
@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # by NumPy 2.5
@pytest.mark.parametrize("name", CALLS)
def test_functions_have_numpys_values(stack: nnc.Stack, name: str) -> None:
    found = CALLS[name](stack.asarray)
    same(plain(found), plain(CALLS[name](np.asarray)))


@BOTH
@pytest.mark.parametrize("name", [*ONE, *TWO, *WHOLE, *LOGICAL, "invert", "logical_not", "matmul"])
def test_ufuncs_have_numpys_values(stack: nnc.Stack, name: str) -> None:
    function = getattr(np, name)
    if name in ONE or name in ("invert", "logical_not"):
        given: list[Any] = [(np.array([0.25, 0.75]),)] if name in ONE else [(B,)] + [(I,)] * (name == "invert")
        given = [(np.array([1.25, 3.5]),)] if name == "arccosh" else given
    else:
        a, b = (I, np.array([1, 0, 2])) if name in WHOLE else (B, ~B) if name in LOGICAL else (V, V[::-1] / 2)
        given = [(a, b)]
    for arrays in given:
        theirs = function(*arrays)
        for i in range(len(arrays)):  # NumPy's array may be the first or the second, or none is
            same(plain(function(*(stack.asarray(a) if i == k else a for k, a in enumerate(arrays)))), theirs)
        found = function(*map(stack.asarray, arrays))
        assert type(found) is nnc.Tensor
        same(plain(found), theirs)


MIXED = (
    "add", "copysign", "divide", "divmod", "float_power", "floor_divide", "fmax", "fmin", "fmod", "hypot", "logaddexp",
    "logaddexp2", "maximum", "power", "remainder", "subtract",
)  # fmt: skip


@BOTH
@pytest.mark.parametrize("name", MIXED)
def test_a_number_of_pythons_gives_way_to_the_dtype_of_a_tensor(stack: nnc.Stack, name: str) -> None:
    for dtype in ("float32", "float64", "int64"):
        x = np.array([5, -3, 1], dtype)
        for number in (2, 2.5):
            for pair in ((x, number), (number, np.abs(x))):
                found = getattr(np, name)(*(stack.asarray(a) if a is not number else a for a in pair))
                same(plain(found), plain(getattr(np, name)(*pair)), rtol=1e-6 if dtype == "float32" else 1e-12)


@BOTH
def test_methods_of_ufuncs(stack: nnc.Stack) -> None:
    x, v = stack.asarray(M), stack.asarray(V)
    for ours, theirs in [
        (np.add.reduce(x), np.add.reduce(M)), (np.add.reduce(x, axis=None), np.add.reduce(M, axis=None)),
        (np.multiply.reduce(x, axis=1, keepdims=True), np.multiply.reduce(M, axis=1, keepdims=True)),
        (np.maximum.reduce(x), np.maximum.reduce(M)), (np.add.accumulate(v), np.add.accumulate(V)),
        (np.subtract.outer(v, v), np.subtract.outer(V, V)), (np.exp(x, dtype="float32"), np.exp(M.astype("float32"))),
        (M @ stack.asarray(M.T), M @ M.T), (V @ v, V @ V), (np.float64(2) * v, 2 * V), (M + v, M + V),
    ]:  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)


@BOTH
def test_what_does_not_work_is_refused_by_name(stack: nnc.Stack) -> None:
    x = stack.asarray(V)
    for call, said in [
        (
            lambda: np.trim_zeros(x),
            r"numpy\.trim_zeros does not work on tensors \(its result's shape depends on the ele",
        ),
        (lambda: np.histogram(x, bins="auto"), r"say how many, or the edges"),
        (lambda: np.cov(x, fweights=I), r"numpy\.cov does not work on tensors with fweights"),
        (lambda: np.pad(x, 1, mode="linear_ramp"), "linear_ramp"),
        (lambda: np.pad(x, 1, mode="edge", end_values=3), "end_values"),
        (lambda: np.unique(x, axis=0), r"numpy\.unique does not work on tensors with axis"),
        (lambda: np.quantile(x, 0.5, method="weibull"), "weibull"),
        (lambda: np.sum(x, where=B), r"numpy\.sum does not work on tensors with where"),
        (lambda: np.mean(x, out=np.empty(())), r"numpy\.mean does not work on tensors with out"),
        (lambda: np.squeeze(x, wrong=1), "wrong"),
        (lambda: np.reshape(x, 3, order="F"), r"numpy\.reshape does not work on tensors with order"),
        (lambda: np.add(x, x, out=V), r"numpy\.add does not work on tensors with out"),
        (lambda: np.frexp(x), r"numpy\.frexp does not work on tensors \(no operator takes"),
        (lambda: np.subtract.reduce(x), r"numpy\.subtract\.reduce does not work"),
        (lambda: np.add.at(x, [0], 1), r"numpy\.add\.at does not work"),
        (lambda: np.add.reduce(x, initial=1), r"numpy\.add\.reduce does not work on tensors with initial"),
    ]:
        with pytest.raises((OperatorError, TypeError), match=said):
            call()


def test_on_unbound_tensors_they_build_graphs_and_are_differentiated() -> None:
    stack = STACKS[1]
    x = stack.input("x", (2, 3), "float64")
    y = np.concatenate([np.exp(x) + np.ones(3), np.where(x > 0, x, 0.0)]).mean(axis=0)
    program = stack.compile([x], np.linalg.norm(y))
    wanted = np.linalg.norm(np.concatenate([np.exp(M) + 1, np.where(M > 0, M, 0.0)]).mean(axis=0))
    np.testing.assert_allclose(program(M), wanted)
    gradient = stack.grad(lambda v: np.sum(np.square(v)) + np.mean(v))(V)
    np.testing.assert_allclose(gradient.numpy(), 2 * V + 1 / 3)


def test_files_are_written(tmp_path: Any) -> None:
    x = STACKS[1].asarray(V) + 1
    np.save(tmp_path / "x.npy", x)
    np.savetxt(tmp_path / "x.txt", x)
    assert np.load(tmp_path / "x.npy").tolist() == np.loadtxt(tmp_path / "x.txt").tolist() == [4, 2, 3]
