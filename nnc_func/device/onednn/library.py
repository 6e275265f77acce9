"""Finds oneDNN, calls its C functions, and says in words what failed.

The functions and numbers are those of the C API, version 3 (``dnnl.h``, ``dnnl_types.h``).
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ctypes.util import find_library
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import frozen

from nnc_func.errors import AllocationError, DeviceError

WHEEL = "onednn-cpu-gomp"
SETTING = "NNC_ONEDNN"  # environment: the path of a shared library, or an empty text for none
SPINS = "3000"  # turns that a thread waits for work before it sleeps: GOMP_SPINCOUNT where nobody has set one
INSTALL = f'pip install "nnc_func[onednn]", or set {SETTING} to the path of a libdnnl.so.3'
STATUS = ("success", "out of memory", "invalid arguments", "not implemented", "the last implementation was passed",
          "a run failed", "not required")  # fmt: skip
OUT_OF_MEMORY = 1
HARD = 2  # ``omp_pause_hard``: threads end, and are started again when they are wanted
ISA = {
    0x0: "none said", 0x1: "SSE 4.1", 0x3: "AVX", 0x7: "AVX2", 0xF: "AVX2, VNNI", 0x1F: "AVX2, VNNI, bfloat16",
    0x27: "AVX-512", 0x67: "AVX-512, VNNI", 0xE7: "AVX-512, VNNI, bfloat16", 0x1EF: "AVX-512, VNNI, bfloat16, float16",
    0xFEF: "AMX", 0x1FEF: "AMX, float16",
}  # fmt: skip


class Version(ctypes.Structure):
    """``dnnl_version_t``."""

    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


@frozen(eq=False)
class Library:
    """A loaded oneDNN.

    Attributes
    ----------
    path
        Where it was found.
    version
        As ``"3.2.0"``.
    functions
        The shared library.
    engine
        Its engine of the host, which lasts as long as the process.
    spins
        What GOMP_SPINCOUNT was when it was loaded; None: a library of OpenMP was there before, and had none.
    """

    path: str
    version: str
    functions: Any
    engine: ctypes.c_void_p
    spins: str | None

    def call(self, name: str, *args: Any) -> None:
        """Call ``dnnl_name``, which gives a status.

        Raises
        ------
        AllocationError
            There is not the memory.
        DeviceError
            It refuses, or has no such function; says which one, and why.
        """
        status = getattr(self.functions, f"dnnl_{name}")(*args)
        if status:
            self.failed(name, status)

    def failed(self, name: str, status: int) -> None:
        """Raise what a status means."""
        said = STATUS[status] if 0 <= status < len(STATUS) else f"status {status}"
        kind = AllocationError if status == OUT_OF_MEMORY else DeviceError
        raise kind(f"oneDNN {self.version}, dnnl_{name}: {said}")

    def made(self, name: str, *args: Any) -> ctypes.c_void_p:
        """What ``dnnl_name`` writes behind its first argument."""
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *args)
        return out

    @property
    def instructions(self) -> str:
        """The best instruction set for which it makes code here."""
        found = self.functions.dnnl_get_effective_cpu_isa()
        return ISA.get(found, f"instruction set {found:#x}")


def _places() -> Iterator[str]:
    """Where a library may be, the best place first."""
    files: Any = ()
    with suppress(importlib.metadata.PackageNotFoundError):
        files = importlib.metadata.files(WHEEL) or ()
    for each in files:
        if each.name == "libdnnl.so.3":
            yield str(Path(str(each.locate())).resolve())
    if sys.platform.startswith("linux"):
        yield "libdnnl.so.3"
    named = find_library("dnnl")
    if named:
        yield named


def _loaded(path: str) -> Library:
    """The library at a path.

    Raises
    ------
    OSError
        There is none.
    DeviceError
        It is no oneDNN of version 3.
    """
    if "libgomp" not in _mapped():  # which reads it when it is loaded
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    spins = os.environ.get("GOMP_SPINCOUNT")
    functions = ctypes.CDLL(path)
    try:
        functions.dnnl_version.restype = ctypes.POINTER(Version)
        said = functions.dnnl_version().contents
        functions.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        functions.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
    except AttributeError:
        raise DeviceError(f"{path} is no oneDNN: it has no dnnl_version") from None
    version = f"{said.major}.{said.minor}.{said.patch}"
    if said.major != 3:
        raise DeviceError(f"{path} is oneDNN {version}: version 3 is wanted; {INSTALL}")
    engine = ctypes.c_void_p()
    if functions.dnnl_engine_create(ctypes.byref(engine), 1, ctypes.c_size_t(0)):
        raise DeviceError(f"{path}, oneDNN {version}, has no engine for this processor")
    pause = getattr(functions, "omp_pause_resource_all", None)
    if pause is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=partial(pause, HARD))  # a child would wait for ever for threads that it has not got
    return Library(path, version, functions, engine, spins)


def _mapped() -> str:
    """Which files this process has mapped, where the system tells."""
    try:
        return Path("/proc/self/maps").read_text()
    except OSError:
        return ""


@cache
def library() -> Library | str:
    """The library of this process, looked for once; or in a line why there is none.

    The path in the environment's ``NNC_ONEDNN`` is taken alone; without it come the file of the wheel
    ``onednn-cpu-gomp``, then what the system has.

    Raises
    ------
    DeviceError
        What ``NNC_ONEDNN`` names cannot be loaded.
    """
    asked = os.environ.get(SETTING)
    if asked is not None:
        if not asked:
            return f"{SETTING} is empty: oneDNN is not to be used"
        try:
            return _loaded(asked)
        except OSError as error:
            raise DeviceError(f"{SETTING}={asked}: {error}") from None
    why = ""
    for path in _places():
        try:
            return _loaded(path)
        except (OSError, DeviceError) as error:
            why = why or f" ({error})"
    return f"no oneDNN was found{why}: {INSTALL}"


def present() -> Library:
    """The library.

    Raises
    ------
    DeviceError
        There is none here; says how to get it.
    """
    found = library()
    if isinstance(found, str):
        raise DeviceError(found)
    return found


@cache
def switches(path: str) -> tuple[Any, Any] | None:
    """What asks how many threads this thread's calls of OpenMP take, and what sets it; None where there is neither.

    Unlike other functions they keep the interpreter: a call takes an eighth of a microsecond.
    """
    functions = ctypes.PyDLL(path)
    if not hasattr(functions, "omp_set_num_threads"):
        return None
    functions.omp_set_num_threads.restype = None
    return functions.omp_get_max_threads, functions.omp_set_num_threads


def threads(found: Library) -> int:
    """How many threads the library takes, called from here and now; 0 where it does not say."""
    asked = getattr(found.functions, "omp_get_max_threads", None)
    return int(asked()) if asked is not None else 0
