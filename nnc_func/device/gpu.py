"""CuPy is the device of an NVIDIA GPU: it runs NumPy's kernels there. It is imported where it is used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from attrs import field

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.shared.base import PlannedDevice
from nnc_func.device.shared.bounds import check_view
from nnc_func.device.shared.host import foreign
from nnc_func.device.shared.namespace import namespace
from nnc_func.errors import DeviceError
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.machine import Machine
from nnc_func.layer import layer
from nnc_func.op import Op

INSTALL = (
    "for a GPU with CUDA 12 run pip install 'nnc_func[cuda12x]', with CUDA 13 pip install 'nnc_func[cuda13x]' "
    "(nvidia-smi tells which); without a GPU use NumPy()"
)

GPU = Machine(arithmetic=19.5e12, contractions=19.5e12, bandwidth=1.5e12, launch=10e-6, caches=(192 << 10, 40 << 20))
"""An NVIDIA A100, by its data sheet, in float32; a kernel is called from Python."""


@layer()
class CuPy(PlannedDevice):
    """A GPU, through CuPy.

    Making one imports nothing, so a stack on a GPU can be composed, compared and pickled anywhere; using it without
    CuPy or without a GPU raises one DeviceError that says what is missing. NumPy arrays are data of the host: an
    operator that is given one copies it over, as it does Python numbers.

    Attributes
    ----------
    index
        Which GPU: the number that CUDA gives it.
    machine
        The GPU, as far as the costs of kernels depend on it; an A100 if nothing is said.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> gpu = nnc.lazy().swap(device=nnc.CuPy())
    >>> gpu.device
    CuPy()
    >>> gpu.ops.add([1.0, 2.0], 1).numpy()  # doctest: +SKIP
    array([2., 3.])
    """

    index: int = 0
    machine: Machine = GPU
    _found: dict[str, Any] = field(init=False, factory=dict, eq=False, repr=False)

    name: ClassVar[str] = "cupy"
    alignment: ClassVar[int] = 256  # what CUDA aligns memory to, at least

    def __repr__(self) -> str:
        said = [str(self.index)] if self.index else []
        said += [f"machine={self.machine!r}"] if self.machine != GPU else []
        return f"CuPy({', '.join(said)})"

    # --- the GPU --------------------------------------------------------------------------------------

    @property
    def xp(self) -> Any:
        """The array namespace.

        Raises
        ------
        DeviceError
            CuPy is not installed, or there is no such GPU.
        """
        return self._found.get("xp") or self._import()

    def _import(self) -> Any:
        xp = namespace("cupy", INSTALL)
        if not xp.cuda.is_available():
            raise DeviceError(
                f"{self!r} needs a GPU, and CUDA sees none on this machine (is there a driver? does "
                "CUDA_VISIBLE_DEVICES hide it?); use NumPy() here"
            )
        count = xp.cuda.runtime.getDeviceCount()
        if not 0 <= self.index < count:
            raise DeviceError(f"{self!r}: there are {count} GPUs on this machine, numbered from 0")
        self._found["array"] = xp.ndarray
        # with one GPU it is the current one, always; entering it at each kernel would be for nothing
        self._found["alone"] = count == 1
        self._found["xp"] = xp
        return xp

    @property
    def array_type(self) -> Any:
        """The class of CuPy's arrays."""
        return self._found.get("array") or self.xp.ndarray

    def _current(self) -> AbstractContextManager[Any]:
        """Within it, CuPy works on this GPU."""
        xp = self.xp
        return nullcontext() if self._found["alone"] else xp.cuda.Device(self.index)

    def owns(self, array: Any) -> bool:
        """Whether it is an array in this GPU's memory."""
        return isinstance(array, self.array_type) and (self._found["alone"] or array.device.id == self.index)

    def synchronise(self) -> None:
        """Wait for the kernels that were started."""
        self.xp.cuda.Device(self.index).synchronize()

    # --- operators ------------------------------------------------------------------------------------

    def resolve(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Callable[..., Any]:
        """The kernel as a function of arrays of this GPU, which starts it.

        Raises
        ------
        DeviceError
            There is none for these arguments; or, where it is called, an array of another GPU.
        """
        call, own = super().resolve(op, avals, items), self.array_type
        if self._found["alone"]:
            return call

        def here(*arrays: Any) -> Any:
            for a in arrays:
                if isinstance(a, own) and not self.owns(a):
                    raise foreign(self, a, op.name)
            with self._current():
                return call(*arrays)

        return here

    def writing(self, op: Op, kernel: Kernel, items: Items, outs: int, scratch: tuple[Any, ...]) -> Callable[..., Any]:
        """The kernel as a function ``f(*arrays, *outs)``."""
        call = super().writing(op, kernel, items, outs, scratch)
        if self._found["alone"]:
            return call

        def here(*arrays: Any) -> None:
            with self._current():
                call(*arrays)

        return here

    # --- memory ---------------------------------------------------------------------------------------

    def place(self, array: Any) -> Any:
        """A host array copied to the GPU."""
        xp = self.xp
        with self._current():
            return xp.asarray(array)

    def to_numpy(self, array: Any) -> Any:
        """The array copied to the host, when all that it depends on has been computed."""
        return self.xp.asnumpy(array)

    def empty(self, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Any:
        """An uninitialised array; strides in bytes, None for row-major.

        Raises
        ------
        DeviceError
            The GPU's memory is full.
        """
        xp = self.xp
        try:
            with self._current():
                found = xp.empty(shape, dtype)
                return found if strides is None else xp.lib.stride_tricks.as_strided(found, shape, strides)
        except MemoryError as error:
            raise DeviceError(f"{self!r} has no room for {np.dtype(dtype)}{list(shape)}: {error}") from None

    def arena(self, nbytes: int) -> Any:
        """An uninitialised run of `nbytes` bytes; CuPy's memory pool aligns it to 512."""
        return self.empty((nbytes,), np.uint8)

    def view(self, arena: Any, offset: int, shape: tuple[int, ...], dtype: Any, strides: Any = None) -> Any:
        """The array of that shape that lies `offset` bytes into the arena; strides in bytes, None for row-major.

        Raises
        ------
        DeviceError
            It would lie outside.
        """
        wanted = np.dtype(dtype)
        check_view(arena.nbytes, offset, shape, strides, wanted.itemsize)
        if strides is not None:  # it may span more bytes than it has
            return self.xp.ndarray(shape, wanted, arena.data + offset, strides)
        size = int(np.prod(shape, dtype=np.int64)) * wanted.itemsize
        return arena.reshape(-1).view(np.uint8)[offset : offset + size].view(wanted).reshape(shape)
