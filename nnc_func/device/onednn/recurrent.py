"""Recurrent layers: all times of a long short-term memory, or of gated recurrent units, by one primitive."""

from __future__ import annotations

from functools import lru_cache

from attrs import frozen

from nnc_func.device.onednn.handles import ANY, Handle, attributes, row_major, tagged
from nnc_func.device.onednn.library import Library, present, threads
from nnc_func.device.onednn.primitives import (
    ALIKE,
    INFERENCE,
    RESULT,
    SOURCE,
    WEIGHTS,
    Primitive,
    assemble,
    for_threads,
)

STATE, CELL = 2, 3  # arguments: what the first time is given
STATE_WEIGHTS, BIAS = 34, 41
LAST_STATE, LAST_CELL = 18, 19
FORWARD, BACKWARD = 1, 2  # ``dnnl_rnn_direction_t``
GATES = {"lstm": 4, "gru": 3}
BIASES = {"lstm": 4, "gru": 4}  # of gated recurrent units one more for the candidate's state


@frozen
class Recurrent:
    """A layer over times, samples and channels, row by row in memory.

    Attributes
    ----------
    kind
        ``"lstm"``, gates in the order i, f, g, o; or ``"gru"``, gates in the order z, r, n, which resets after the
        product.
    times, samples, inputs, hidden
        Extents.
    reverse
        Whether it goes from the last time to the first.
    """

    kind: str
    times: int
    samples: int
    inputs: int
    hidden: int
    reverse: bool

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products."""
        return 2 * self.times * self.samples * GATES[self.kind] * self.hidden * (self.inputs + self.hidden)


@lru_cache(ALIKE)
def _recurrent(of: Recurrent, lasting: tuple[int, ...], count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        gates, hidden = GATES[of.kind], of.hidden

        def weights(channels: int) -> tuple[Handle, Handle]:
            """As they are given, and in whichever order the library likes best."""
            shape = (1, 1, channels, gates, hidden)
            return row_major(library, shape), tagged(library, shape, ANY)

        x = row_major(library, (of.times, of.samples, of.inputs))
        y = row_major(library, (of.times, of.samples, hidden))
        state = row_major(library, (1, 1, of.samples, hidden))
        bias = row_major(library, (1, 1, BIASES[of.kind], hidden))
        w, w_wanted = weights(of.inputs)
        r, r_wanted = weights(hidden)
        is_lstm = of.kind == "lstm"
        cells = (state,) * is_lstm
        made = library.made(
            "lstm_forward_primitive_desc_create" if is_lstm else "lbr_gru_forward_primitive_desc_create",
            library.engine, INFERENCE, BACKWARD if of.reverse else FORWARD, x, state, *cells, w_wanted, r_wanted,
            *(None, None) * is_lstm, bias, y, state, *cells, 0, attributes(library),
        )  # fmt: skip
        given = [
            (SOURCE, x), (WEIGHTS, w), (STATE_WEIGHTS, r), (BIAS, bias), (STATE, state), *[(CELL, c) for c in cells],
            (RESULT, y), (LAST_STATE, state), *[(LAST_CELL, c) for c in cells],
        ]  # fmt: skip
        return assemble(library, Handle(library, "primitive_desc", made), given, lasting, 2 + len(cells))

    return for_threads(of.flops, make)


def recurrent(of: Recurrent, lasting: tuple[int, ...] = ()) -> Primitive:
    """The primitive of a layer.

    Its arrays are inputs, weights of inputs and of states, both (channels, gates * hidden), biases, the first state, of
    a long short-term memory also the first cell; then outputs, the last state and the last cell. Those at the positions
    `lasting`, of weights, stay the same.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _recurrent(of, lasting, threads(present()))
