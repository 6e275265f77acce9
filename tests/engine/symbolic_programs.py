"""Random programs whose inputs have unknown extents, which can be built with known ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import NncError

SIZES = (16, 21)  # what each program is tried for when it is drawn: large enough for all that shrinks
SHAPES: tuple[tuple[Any, ...], ...] = (
    ("n", 3), ("n", 3), ("m", 3), ("n", 1), (1, 3), (3,), ("n",), ("2*n", 3), ("n + 1", 3), (3, "n"), ("n", 2, "n"),
)  # fmt: skip
SHRINKING = {
    "tail": lambda o, x: x[1:],
    "head": lambda o, x: x[:-1],
    "halved": lambda o, x: x[::2],
    "last": lambda o, x: x[-2:],
}
ONE: dict[str, Any] = {
    "tanh": lambda o, x: o.tanh(x),
    "relu": lambda o, x: o.relu(x),
    "twice": lambda o, x: x * 2 - 1,
    "backwards": lambda o, x: x[::-1],
    "summed": lambda o, x: o.sum(x, axis=0),
    "mean": lambda o, x: o.mean(x, axis=-1, keepdims=True),
    "largest": lambda o, x: o.max(x, axis=0, keepdims=True),
    "flat": lambda o, x: x.reshape(-1),
    "rows": lambda o, x: x.reshape(x.shape[0], -1),
    "transposed": lambda o, x: x.T,
    "tiled": lambda o, x: o.tile(x, repetitions=(2,) + (1,) * (len(x.shape) - 1)),
    "padded": lambda o, x: o.pad(x, widths=((1, 0),) * len(x.shape)),
    "softmax": lambda o, x: o.softmax(x, axis=-1),
    "new axis": lambda o, x: x[None],
    "first": lambda o, x: x[0],
    "filled": lambda o, x: x + o.full(shape=x.shape, value=1.5, dtype="float64"),
    **SHRINKING,
}
TWO: dict[str, Any] = {
    "added": lambda o, x, y: x + y,
    "multiplied": lambda o, x, y: x * y,
    "larger": lambda o, x, y: o.maximum(x, y),
    "joined": lambda o, x, y: o.concat(x, y, axis=0),
    "contracted": lambda o, x, y: o.tanh(x @ y),
    "stacked": lambda o, x, y: o.stack(x, y, axis=0),
    "spread": lambda o, x, y: o.broadcast_to(x, shape=y.shape),
}
Move = tuple[str, tuple[int, ...]]


@frozen
class Symbolic:
    """Shapes of inputs, and what is done: names of moves with numbers of values. All values are returned."""

    shapes: tuple[tuple[Any, ...], ...]
    moves: tuple[Move, ...]

    def build(self, stack: Any, rows: int | None = None) -> Any:
        """It compiled, for unknown extents or for so many rows."""
        inputs = [stack.input(f"x{i}", s, "float64") for i, s in enumerate(self.known(rows) if rows else self.shapes)]
        values = list(inputs)
        for name, args in self.moves:
            values.append((ONE | TWO)[name](stack.ops, *[values[a] for a in args]))
        return stack.compile(inputs, values[len(inputs) :] or inputs)

    def known(self, rows: int) -> list[tuple[int, ...]]:
        """The inputs' shapes where n and m are that number."""
        extents = {"n": rows, "m": rows, "2*n": 2 * rows, "n + 1": rows + 1}
        return [tuple(extents.get(n, n) for n in shape) for shape in self.shapes]

    def feeds(self, rows: int) -> list[Any]:
        """An array for each input."""
        random = np.random.default_rng(rows)
        return [random.integers(-64, 65, shape) / 64 for shape in self.known(rows)]

    def runs(self) -> bool:
        """Whether it can be built and called, for unknown extents and for known ones: moves want axes and extents."""
        try:
            program = self.build(NULL)
            for rows in SIZES:
                program(*[NULL.device.asarray(x) for x in self.feeds(rows)])
                self.build(NULL, rows)
        except (NncError, IndexError):
            return False
        return True


NULL = nnc.lazy(nnc.Null())


@st.composite
def symbolic_programs(draw: Any) -> Symbolic:
    """Programs over the moves above; each move is kept if the program still runs with it."""
    shapes = tuple(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3)))
    found, shrunk = Symbolic(shapes, ()), 0
    for _ in range(draw(st.integers(2, 10))):
        count = len(shapes) + len(found.moves)
        name = draw(st.sampled_from([*ONE, *TWO, *TWO]))
        args = tuple(count - 1 - draw(st.integers(0, count - 1)) for _ in range(1 if name in ONE else 2))
        longer = Symbolic(shapes, (*found.moves, (name, args)))
        if shrunk + (name in SHRINKING) <= 3 and longer.runs():
            found, shrunk = longer, shrunk + (name in SHRINKING)
    return found
