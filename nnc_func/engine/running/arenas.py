"""Arenas that programs share, and the executables linked to them: memory for one running call at a time.

Programs of one graph for different extents run in the same arena, as large as the largest of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnc_func.engine.linkers.base import Executable
from nnc_func.engine.plan import Plan
from nnc_func.engine.running import array_views
from nnc_func.engine.running.results import memory
from nnc_func.facets.places import Place


class Arena:
    """A run of memory in each place, and for each program that has run there, what it is linked to.

    Attributes
    ----------
    memory, sizes
        Place to the device's array of bytes, and to how many they are.
    leases
        Program to its plan, linked to this memory.
    """

    __slots__ = ("leases", "memory", "sizes")

    def __init__(self, found: Mapping[Place, Any], sizes: Mapping[Place, int]) -> None:
        self.memory = found
        self.sizes = sizes
        self.leases: dict[Any, Lease] = {}

    def holds(self, wanted: Mapping[Place, int]) -> bool:
        """Whether there is so much memory in each place."""
        return all(self.sizes.get(place, -1) >= nbytes for place, nbytes in wanted.items())


class Lease:
    """What a call of a program has to itself: an arena, and the program's plan linked to it.

    Attributes
    ----------
    home
        The arena.
    executable
        The plan, linked to it.
    early, late
        Its instructions before the commit section, and those in it.
    call
        All of a run as one function, if there is one; see `Executable.as_function`.
    has_run
        Whether it has, in the general way.
    """

    __slots__ = ("call", "early", "executable", "has_run", "home", "late")

    def __init__(self, home: Arena, executable: Executable, plan: Plan) -> None:
        self.home = home
        self.executable = executable
        self.early = executable.section(range(plan.commit))
        self.late = executable.section(range(plan.commit, len(plan.instructions)))
        self.call: Callable[[Any, bool], list[Any]] | None = None
        self.has_run = False


class Arenas:
    """Arenas of one device. A call takes one, and gives it back; a concurrent or recursive call takes another.

    An arena that is too small is given up for one that is large enough, with what was linked to it.
    Safe among threads: an arena is off the list while it is looked at.

    Attributes
    ----------
    arenas
        Those that there are.
    free
        Those that no call runs in.
    made
        How many were made since the beginning.
    """

    __slots__ = ("_device", "arenas", "free", "made")

    def __init__(self, device: Any) -> None:
        self._device = device
        self.free: list[Arena] = []
        self.arenas: list[Arena] = []
        self.made = 0

    def take(self, program: Any, plan: Plan, link: Callable[[Any], Executable]) -> Lease:
        """An arena that is large enough, and the program's plan there; linked by `link(memory)` if need be."""
        try:
            arena = self.free.pop()
        except IndexError:
            arena = self._make(plan.arenas, plan.name)
        try:
            lease = arena.leases.get(program)
        except BaseException:  # an interrupt
            self.free.append(arena)
            raise
        return self._linked(arena, program, plan, link) if lease is None else lease

    def give(self, lease: Lease) -> None:
        """The call that took it is over; `Program.run` does the same itself, in its hot path."""
        self.free.append(lease.home)

    def forget(self, program: Any) -> None:
        """Drop what is linked for a program that will not run again."""
        for arena in list(self.arenas):
            arena.leases.pop(program, None)

    @property
    def nbytes(self) -> int:
        """Bytes of all arenas."""
        return sum(sum(arena.sizes.values()) for arena in list(self.arenas))

    def _linked(self, arena: Arena, program: Any, plan: Plan, link: Callable[[Any], Executable]) -> Lease:
        if not arena.holds(plan.arenas):
            arena = self._larger(arena, plan)
        try:
            lease = arena.leases.get(program)
            if lease is None:
                lease = arena.leases[program] = Lease(arena, link(arena.memory), plan)
        except BaseException:
            self.free.append(arena)
            raise
        return lease

    def _make(self, sizes: Mapping[Place, int], name: str) -> Arena:
        with memory(sum(sizes.values()), f"the arena of {name!r}"):
            arena = Arena({place: array_views.arena(self._device, n, place) for place, n in sizes.items()}, sizes)
        self.arenas.append(arena)
        self.made += 1
        return arena

    def _drop(self, arena: Arena) -> None:
        self.arenas.remove(arena)
        arena.leases.clear()
        arena.memory = {}

    def _larger(self, small: Arena, plan: Plan) -> Arena:
        """Another free arena that is large enough, or one made in the place of the small one."""
        wanted = plan.arenas
        looked_at = [small]
        try:
            while not looked_at[-1].holds(wanted):
                try:
                    looked_at.append(self.free.pop())
                except IndexError:
                    first = looked_at.pop(0)
                    self._drop(first)  # its memory is freed before the larger one is made
                    sizes = {p: max(wanted.get(p, 0), first.sizes.get(p, 0)) for p in {**first.sizes, **wanted}}
                    looked_at.append(self._make(sizes, plan.name))
            return looked_at.pop()
        finally:
            self.free.extend(looked_at)
