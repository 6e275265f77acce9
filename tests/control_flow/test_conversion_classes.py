"""Methods of classes within, and properties, of converted functions (`control_flow/conversion/transform`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

each_stack = pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy()], ids=["eager", "lazy"])
ROWS = ([1.0, -2.0, 3.0], [-1.0, 2.0, -3.0], [2.0, 2.0, 0.5])


class Reading:
    """A value that its class computes."""

    def __init__(self, value: Any) -> None:
        self.kept = value

    @property
    def size(self) -> Any:
        if self.kept > 0:
            return self.kept
        return -self.kept

    @property
    def value(self) -> Any:
        return self.kept

    @value.setter
    def value(self, new: Any) -> None:
        if new > 1:
            self.kept = new * 2
        else:
            self.kept = new


class Half(Reading):
    @property
    def size(self) -> Any:
        found = super().size
        if found > 1:
            found = found / 2
        return found


def methods_of_a_class_within(x: Any) -> Any:
    scale = 2.0
    if x[0] > 1.5:
        scale = 3.0

    class Sum:
        """Adds what is positive."""

        start = 0.5

        def __init__(self) -> None:
            self.total = self.start

        def add(self, y: Any) -> None:
            """Adds."""
            if y > 0:
                self.total = self.total + y * scale
            else:
                self.total = self.total - y

        @property
        def bounded(self) -> Any:
            if self.total > 8:
                return 8.0 + self.total * 0
            return self.total

        @staticmethod
        def twice(y: Any) -> Any:
            return y * 2 if y < 5 else y

    class Longer(Sum):
        def add(self, y: Any) -> None:
            super().add(y)
            while self.total < 2:
                self.total = self.total + 0.75

    found = Longer()
    for i in range(3):
        found.add(x[i])
    return Sum.twice(found.total) + found.bounded


def properties(x: Any) -> Any:
    return Reading(x[0]).size + Half(x[1]).size * 10 + Reading(x[2]).value


def properties_in_blocks(x: Any) -> Any:
    reading = Reading(x[0])
    if x[1] > 0:
        y = reading.size
    else:
        y = reading.size * 2
    return y + reading.kept


def setters(x: Any) -> Any:
    reading = Reading(x[0])
    if x[1] > 0:
        reading.value = x[2]
    else:
        reading.value = x[0] + 1
    reading.kept = reading.value + 1
    return reading.size


@each_stack
@pytest.mark.parametrize("row", ROWS, ids=["first", "second", "third"])
@pytest.mark.parametrize("program", [methods_of_a_class_within, properties, properties_in_blocks, setters])
def test_it_is_what_python_computes(stack: Any, program: Callable[[Any], Any], row: list[float]) -> None:
    f = stack.jit(program, control_flow=True)
    x = np.array(row)
    np.testing.assert_allclose(f(x).numpy(), program(x), rtol=1e-12)
    slope = stack.grad(lambda x: f(x) * 1.0)(stack.asarray(x)).numpy()
    for n, step in enumerate(np.eye(3) * 1e-6):
        slopes = [(program(x + step) - program(x)) / 1e-6, (program(x) - program(x - step)) / 1e-6]
        if abs(slopes[0] - slopes[1]) < 1e-3:  # else another way is taken there
            np.testing.assert_allclose(slope[n], sum(slopes) / 2, rtol=1e-4, atol=1e-4)


def test_a_method_that_cannot_be_converted_is_left_to_python() -> None:
    def f(x: Any) -> Any:
        class Rows:
            def __init__(self) -> None:
                self.__hidden = 2.0

            def parts(self) -> Any:
                yield from (1.0, self.__hidden)

            def chosen(self, y: Any) -> Any:
                if y > 0:
                    return y
                return -y

        rows = Rows()
        return sum(rows.parts()) * rows.chosen(x)

    with pytest.warns(nnc.errors.ControlFlowWarning, match=r"test_conversion_classes.py:\d+: a statement of f runs as"):
        compiled = nnc.lazy().jit(f, control_flow=True)
    assert [compiled(np.asarray(x)).item() for x in (2.0, -3.0)] == [6.0, 9.0]
