"""What NumPy's functions and their parameters are called here, where they mean the same: one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

UFUNCS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj", "degrees": "rad2deg", "fabs": "abs",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "radians": "deg2rad",
    "right_shift": "bitwise_right_shift", "rint": "round", "true_divide": "divide",
}  # fmt: skip
REDUCED = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
LOGICAL = {  # what they are of booleans
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor", "invert": "logical_not",
}  # fmt: skip
ACCUMULATED = {"add": "cumulative_sum", "multiply": "cumulative_prod"}

# NumPy's function: ours; its tensors in order; its other parameters, with our names where they differ
TABLE = """
sum sum a axis dtype keepdims
prod prod a axis dtype keepdims
mean mean a axis dtype keepdims
std std a axis dtype keepdims ddof=correction correction
var var a axis dtype keepdims ddof=correction correction
max max a axis keepdims
amax max a axis keepdims
min min a axis keepdims
amin min a axis keepdims
any any a axis keepdims
all all a axis keepdims
argmax argmax a axis keepdims
argmin argmin a axis keepdims
count_nonzero count_nonzero a axis keepdims
cumulative_sum cumulative_sum x axis dtype include_initial
cumulative_prod cumulative_prod x axis dtype include_initial
diff diff a n axis prepend append
median ops.median a axis keepdims
isclose ops.isclose a,b rtol atol equal_nan
nan_to_num ops.nan_to_num x nan posinf neginf
sinc ops.sinc x
fix trunc x
kron ops.kron a,b
rot90 ops.rot90 m k axes
argwhere ops.argwhere a
concatenate concat arrays axis dtype
stack stack arrays axis dtype
unstack unstack x axis
expand_dims expand_dims a axis
broadcast_to broadcast_to array shape
broadcast_arrays broadcast_arrays *args
moveaxis moveaxis a,source,destination
flip flip m axis
roll roll a,shift axis
repeat repeat a,repeats axis
tile tile A,reps
matrix_transpose matrix_transpose x
take_along_axis take_along_axis arr,indices axis
nonzero nonzero a
searchsorted searchsorted a,v side sorter
isin isin element,test_elements invert
unique_all unique_all x
unique_counts unique_counts x
unique_inverse unique_inverse x
unique_values unique_values x
astype astype x,dtype copy device
copy asarray a
zeros_like zeros_like a dtype device
ones_like ones_like a dtype device
empty_like empty_like prototype dtype device
full_like full_like a,fill_value dtype device
tril tril m k
triu triu m k
meshgrid meshgrid *xi indexing
tensordot tensordot a,b axes
linalg.cholesky linalg.cholesky a upper
linalg.cross linalg.cross x1,x2 axis
linalg.det linalg.det a
linalg.diagonal linalg.diagonal x offset
linalg.eigh linalg.eigh a
linalg.eigvalsh linalg.eigvalsh a
linalg.inv linalg.inv a
linalg.matmul linalg.matmul x1,x2
linalg.matrix_norm linalg.matrix_norm x keepdims ord
linalg.matrix_power linalg.matrix_power a,n
linalg.matrix_rank linalg.matrix_rank A rtol
linalg.matrix_transpose matrix_transpose x
linalg.outer linalg.outer x1,x2
linalg.pinv linalg.pinv a rtol rcond=rtol
linalg.qr linalg.qr a mode
linalg.slogdet linalg.slogdet a
linalg.solve linalg.solve a,b
linalg.svd linalg.svd a full_matrices
linalg.svdvals linalg.svdvals x
linalg.tensordot tensordot x1,x2 axes
linalg.trace linalg.trace x offset dtype
linalg.vecdot linalg.vecdot x1,x2 axis
linalg.vector_norm linalg.vector_norm x axis keepdims ord
fft.fft fft.fft a n axis norm
fft.ifft fft.ifft a n axis norm
fft.rfft fft.rfft a n axis norm
fft.irfft fft.irfft a n axis norm
fft.hfft fft.hfft a n axis norm
fft.ihfft fft.ihfft a n axis norm
fft.fftn fft.fftn a s axes norm
fft.ifftn fft.ifftn a s axes norm
fft.rfftn fft.rfftn a s axes norm
fft.irfftn fft.irfftn a s axes norm
fft.fftshift fft.fftshift x axes
fft.ifftshift fft.ifftshift x axes
"""
WRITTEN_IN_C = {  # what older versions of NumPy do not tell of their own functions
    "concatenate": ("arrays", "axis"), "where": ("condition", "x", "y"), "dot": ("a", "b"), "vdot": ("a", "b"),
    "inner": ("a", "b"), "empty_like": ("prototype", "dtype"), "lexsort": ("keys", "axis"),
    "can_cast": ("from_", "to", "casting"), "bincount": ("x", "weights", "minlength"),
    "ravel_multi_index": ("multi_index", "dims", "mode", "order"), "unravel_index": ("indices", "shape", "order"),
    "copyto": ("dst", "src", "casting", "where"), "putmask": ("a", "mask", "values"),
}  # fmt: skip
OF_VALUES = (  # they give no array, but words or a yes or no
    "allclose", "array_equal", "array_equiv", "array_repr", "array_str", "array2string", "min_scalar_type", "save",
    "savetxt", "savez", "savez_compressed", "shares_memory", "may_share_memory", "iscomplexobj", "isrealobj",
)  # fmt: skip
CREATED = (  # with ``like=t`` they make a tensor of its stack
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "empty", "eye", "frombuffer",
    "fromfile", "fromfunction", "fromiter", "fromstring", "full", "genfromtxt", "identity", "loadtxt", "ones",
    "require", "tri", "zeros",
)  # fmt: skip


@cache
def rows() -> Mapping[str, tuple[str, tuple[str, ...], Mapping[str, str]]]:
    """The table by NumPy's names: our function, its tensors, and what the other parameters are called.

    Examples
    --------
    >>> rows()["std"][0], rows()["std"][2]["ddof"]
    ('std', 'correction')
    """
    found = {}
    for line in TABLE.strip().split("\n"):
        name, ours, tensors, *rest = line.split(" ")
        others = {each.partition("=")[0]: each.rpartition("=")[2] for each in rest}
        found[name] = (ours, tuple(tensors.split(",")), others)
    return found
