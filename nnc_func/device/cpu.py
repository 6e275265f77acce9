"""NumPy is the reference device: it computes on the host, in arenas where the engine plans them. CPU adds kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nnc_func.device.kernels.onednn import FAST, LIBRARY
from nnc_func.device.shared.base import PlannedDevice
from nnc_func.device.shared.bounds import check_view
from nnc_func.device.shared.host import HOST, numbers
from nnc_func.device.shared.views import HostViews
from nnc_func.device.shared.workers import shared, together
from nnc_func.errors import DeviceError, DeviceWarning
from nnc_func.facets.machine import CORE, Machine
from nnc_func.layer import layer
from nnc_func.layer_protocols import ViewsSignature

Array = npt.NDArray[Any]
ALIGNMENT = 64  # bytes: a cache line, and what AVX-512 loads at once


@layer()
class NumPy(PlannedDevice):
    """The host, through NumPy.

    Attributes
    ----------
    machine
        A core of it, as far as the costs of kernels depend on it; an ordinary one if nothing is said.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> NumPy().bind(CATALOGUE["add"], np.float32([1, 2]), 1)
    array([2., 3.], dtype=float32)
    """

    machine: Machine = CORE

    name: ClassVar[str] = "numpy"
    alignment: ClassVar[int] = ALIGNMENT
    array_type: ClassVar[Any] = np.ndarray
    xp: ClassVar[Any] = np
    ours: ClassVar[tuple[Any, ...]] = HOST
    binds_kernels: ClassVar[bool] = True
    views: ClassVar[ViewsSignature | None] = HostViews()

    def __repr__(self) -> str:
        return "NumPy()" if self.machine == CORE else f"NumPy(machine={self.machine!r})"

    def place(self, array: Any) -> Array:
        """Itself, or a NumPy scalar as an array of rank 0."""
        return np.asarray(array)

    def asarray(self, value: Any, dtype: Any = None) -> Array:
        """An array of this device with that value; copies what is not one already.

        Raises
        ------
        DeviceError
            The value is not numbers.
        """
        found: Array = numbers(self, value, dtype)
        return found

    def to_numpy(self, array: Array) -> Array:
        """The array on the host; not copied."""
        return array

    def together(self, jobs: Sequence[Callable[[], None]], stop: Callable[[], None]) -> None:
        """Run the jobs side by side, the first one in this thread, with BLAS held to its share of the cores."""
        if len(jobs) == 1:
            jobs[0]()
            return
        with shared(len(jobs)):
            together(jobs, stop)

    def arena(self, nbytes: int) -> Array:
        """An uninitialised run of `nbytes` bytes, whose address is a multiple of `alignment`."""
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + nbytes]

    def view(self, arena: Array, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Array:
        """The array of that shape that lies `offset` bytes into the arena; strides in bytes, None for row-major.

        Raises
        ------
        DeviceError
            It would lie outside, or the arena is no run of bytes.
        """
        wanted = np.dtype(dtype)
        check_view(arena.nbytes, offset, shape, strides, wanted.itemsize)
        try:
            return np.ndarray(shape, wanted, arena, offset, None if 0 in shape else strides)
        except (TypeError, ValueError) as error:
            raise DeviceError(f"memory for {wanted}{list(shape)} is no run of bytes: {error}") from None

    def empty(self, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Array:
        """An uninitialised array that owns its memory; strides in bytes, None for row-major."""
        return np.ndarray(shape, dtype, strides=strides)


@layer()
class CPU(NumPy):
    """The host with all kernels that this machine offers: NumPy's, and oneDNN's where its library is found.

    Arrays are NumPy's, and so is whatever the library has no kernel for. What it has is as exact as NumPy's
    kernels, NaN and infinities included, but for three: zeros around images are left out, so that they make no NaN
    of infinite weights; means of windows of negative zeros are zero; and gates of recurrent layers below 2^-126
    are. Products of bfloat16 are the processor's own where it has instructions for them, with sums in float32, and
    are computed in float32 where these could lose small numbers or infinities. The library is looked for when the
    device is first asked: that of the extra ``onednn``, else a ``libdnnl.so.3`` of the system, or the one whose
    path the environment names as ``NNC_ONEDNN``. Without it a warning says in a line how to get it, and NumPy
    computes.

    Attributes
    ----------
    machine
        A core of it, as far as the costs of kernels depend on it; an ordinary one if nothing is said.
    fast_math
        Kernels may be taken that make something else of NaN and of infinities: rectifiers, clips, sigmoids, swishes and
        GELUs behind convolutions, products and chains, and these lose digits of what is small; maxima of windows, of
        which one of -inf alone gives the least finite number; maxima, minima and softmaxes of rows, which have zeros
        for what is below 2^-126; sums of rows, and rows that are normalised, which are rounded otherwise than in groups
        of operators; and products and convolutions of bfloat16 that read and write numbers below 2^-126 as zero, and,
        where an odd number is summed, make NaN of an infinity, or put one beside its own result.

    Raises
    ------
    DeviceError
        ``NNC_ONEDNN`` names what cannot be loaded.

    References
    ----------
    oneDNN, the oneAPI Deep Neural Network Library, version 3.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> eager = nnc.eager(nnc.CPU())
    >>> (eager.asarray(np.ones((2, 3), "float32")) @ eager.asarray(np.ones((3, 1), "float32"))).numpy()
    array([[3.],
           [3.]], dtype=float32)
    """

    fast_math: bool = False

    def __repr__(self) -> str:
        said = [] if self.machine == CORE else [f"machine={self.machine!r}"]
        said += ["fast_math=True"] if self.fast_math else []
        return f"CPU({', '.join(said)})"

    @property
    def libraries(self) -> frozenset[str]:
        """``{"oneDNN"}``, or nothing where it is not to be found; with `fast_math` also ``"oneDNN, fast math"``."""
        found = _libraries()
        return found | {FAST} if found and self.fast_math else found

    @property
    def library_setting(self) -> str:
        """oneDNN's version, the instruction set for which it makes code, and its threads, as ``"oneDNN 3.2.0, …"``."""
        if not self.libraries:
            return ""
        from nnc_func.device.onednn.library import present, threads

        found = present()
        count = threads(found)
        return f"oneDNN {found.version}, {found.instructions}, {count} {'thread' if count == 1 else 'threads'}"

    def note_version(self, array: Array, owner: Hashable, version: Hashable) -> None:
        """Hear of which version of its owner's the elements of an array are that kernels put into order once."""
        from nnc_func.device.onednn.packing import note_version

        note_version(array, owner, version)

    def describe(self) -> str:
        """Instruction sets, cores, libraries with their versions, and settings of threads: a line each."""
        from nnc_func.device.description import description

        return description()


@cache
def _libraries() -> frozenset[str]:
    from nnc_func.device.onednn.library import library

    found = library()
    if isinstance(found, str):
        warnings.warn(f"CPU() computes with NumPy alone: {found}", DeviceWarning, stacklevel=3)
        return frozenset()
    return frozenset({LIBRARY})
