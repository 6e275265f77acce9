"""Machines: what a device says of the hardware under it, so that costs can be estimated. Data only, never measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from nnc_func.errors import DeviceError

REAL = (int, float)


def _rate(machine: Any, attribute: Any, value: Any) -> None:
    if type(value) not in REAL or not 0 < value < math.inf:
        raise DeviceError(f"a machine's {attribute.name} is a positive number, given {value!r}")


def _seconds(machine: Any, attribute: Any, value: Any) -> None:
    if type(value) not in REAL or not 0 <= value < math.inf:
        raise DeviceError(f"a machine's {attribute.name} is a number of seconds, given {value!r}")


def _sizes(machine: Any, attribute: Any, value: Any) -> None:
    if not all(type(n) is int and n > 0 for n in value) or list(value) != sorted(set(value)):
        raise DeviceError(f"a machine's caches are numbers of bytes, the smallest first, given {value!r}")


def _as_tuple(given: Any) -> Any:
    return tuple(given) if isinstance(given, Iterable) else (given,)


@frozen
class Machine:
    """What runs one kernel at a time: a core of a processor, or the whole of a GPU.

    A device describes its machine, and whatever estimates costs reads that. The figures are constants, so that a plan
    is the same wherever it is made. Those by default are a core's of an ordinary processor: NumPy's functions take a
    time there that is estimated within a factor of three.

    Raises DeviceError where a figure is no positive number, or caches are not in the order of their sizes.

    Attributes
    ----------
    arithmetic
        Elementwise FLOPs a second.
    contractions
        FLOPs a second of matrix products and convolutions, in BLAS or the like.
    bandwidth
        Bytes a second, to and from memory.
    launch
        Seconds that a kernel takes whatever its size: to call it, and to start it.
    caches
        Bytes of each cache that need not be shared, the innermost first.

    Examples
    --------
    >>> slow = Machine(bandwidth=1e9, caches=[1 << 15, 1 << 18])
    >>> slow.cache
    262144
    >>> print(slow)
    10 GFLOP/s, 40 in contractions, 1 GB/s, 1.5 µs a launch, caches of 32 KiB and 256 KiB
    >>> slow.seconds(flops=1000, nbytes=4_000_000) > Machine().seconds(flops=1000, nbytes=4_000_000)
    True
    """

    arithmetic: float = field(default=10e9, validator=_rate)
    contractions: float = field(default=40e9, validator=_rate)
    bandwidth: float = field(default=10e9, validator=_rate)
    launch: float = field(default=1.5e-6, validator=_seconds)
    caches: tuple[int, ...] = field(default=(1 << 15, 1 << 21), converter=_as_tuple, validator=_sizes)

    def __str__(self) -> str:
        rates = f"{self.arithmetic / 1e9:g} GFLOP/s, {self.contractions / 1e9:g} in contractions"
        caches = " and ".join([f"{n >> 20} MiB" if n % (1 << 20) == 0 else f"{n / 1024:g} KiB" for n in self.caches])
        cached = f"caches of {caches}" if caches else "no caches"
        return f"{rates}, {self.bandwidth / 1e9:g} GB/s, {self.launch * 1e6:g} µs a launch, {cached}"

    @property
    def cache(self) -> int:
        """Bytes of the outermost cache: a value that fits is still there for the next kernel; 0 without caches."""
        return self.caches[-1] if self.caches else 0

    def seconds(self, flops: float, nbytes: float, threaded: bool = False, cores: int = 1) -> float:
        """Estimated seconds of a kernel.

        Parameters
        ----------
        flops, nbytes
            Its arithmetic; what it reads and writes.
        threaded
            It is a contraction, whose library has threads of its own.
        cores
            How many of these that may use.

        Examples
        --------
        >>> round(1e6 * Machine(launch=0).seconds(flops=40_000_000, nbytes=0, threaded=True, cores=2))
        500
        """
        moved = self.launch + nbytes / self.bandwidth
        return moved + (flops / self.contractions / cores if threaded else flops / self.arithmetic)


CORE = Machine()  # of an ordinary processor
