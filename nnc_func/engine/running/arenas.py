"""Arenas that programs share, and the frames bound to them: memory for one running call at a time.

Programs of one graph for different extents run in the same arena, as large as the largest of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnc_func.engine.plan import Plan
from nnc_func.engine.running import located
from nnc_func.engine.running.frame import Frame
from nnc_func.engine.running.results import memory
from nnc_func.facets.places import Place


class Arena:
    """A run of memory in each place, and for each program that has run there, its frame.

    Attributes
    ----------
    memory, sizes
        Place to the device's array of bytes, and to how many they are.
    frames
        Program to the kernels bound to views of this memory.
    """

    __slots__ = ("frames", "memory", "sizes")

    def __init__(self, found: Mapping[Place, Any], sizes: Mapping[Place, int]) -> None:
        self.memory = found
        self.sizes = sizes
        self.frames: dict[Any, Frame] = {}

    def holds(self, wanted: Mapping[Place, int]) -> bool:
        """Whether there is so much memory in each place."""
        return all(self.sizes.get(place, -1) >= nbytes for place, nbytes in wanted.items())


class Arenas:
    """Arenas of one device. A call takes one, and gives it back; a concurrent or recursive call takes another.

    An arena that is too small is given up for one that is large enough, with the frames that were bound to it.
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

    def take(self, program: Any, plan: Plan, bind: Callable[[Any], Frame]) -> Frame:
        """The program's frame in an arena that is large enough; bound there by `bind(memory)` if need be."""
        try:
            arena = self.free.pop()
        except IndexError:
            arena = self._make(plan.arenas, plan.name)
        frame = arena.frames.get(program)
        return self._bound(arena, program, plan, bind) if frame is None else frame

    def give(self, frame: Frame) -> None:
        """The call that took the frame is over."""
        self.free.append(frame.home)

    def forget(self, program: Any) -> None:
        """Drop what is bound for a program that will not run again."""
        for arena in list(self.arenas):
            arena.frames.pop(program, None)

    @property
    def nbytes(self) -> int:
        """Bytes of all arenas."""
        return sum(sum(arena.sizes.values()) for arena in list(self.arenas))

    def _bound(self, arena: Arena, program: Any, plan: Plan, bind: Callable[[Any], Frame]) -> Frame:
        if not arena.holds(plan.arenas):
            arena = self._larger(arena, plan)
        try:
            frame = arena.frames.get(program)
            if frame is None:
                frame = arena.frames[program] = bind(arena.memory)
                frame.home = arena
        except BaseException:
            self.free.append(arena)
            raise
        return frame

    def _make(self, sizes: Mapping[Place, int], name: str) -> Arena:
        with memory(sum(sizes.values()), f"the arena of {name!r}"):
            arena = Arena({place: located.arena(self._device, n, place) for place, n in sizes.items()}, sizes)
        self.arenas.append(arena)
        self.made += 1
        return arena

    def _drop(self, arena: Arena) -> None:
        self.arenas.remove(arena)
        arena.frames.clear()
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
