"""Define by run: Python decides, gradients are asked of values, and a step that recurs becomes a program by itself.

Usage: python define_by_run.py. Two spirals are told apart by a small network, whose learning stops once it is good
enough; then a function of Python, with a loop of its own, is part of a static program.
"""

from __future__ import annotations

import numpy as np

import nnc_func as nnc

stack = nnc.dynamic(replay_after=3)
ops, rng = stack.ops, np.random.default_rng(0)

angles = np.sqrt(rng.uniform(size=400)) * 3 * np.pi
sides = rng.integers(2, size=400)
spirals = np.stack([np.cos(angles + np.pi * sides), np.sin(angles + np.pi * sides)], 1) * angles[:, None] / 9
points, wanted = stack.asarray(spirals), stack.asarray(2.0 * sides[:, None] - 1)

sizes = [(2, 32), (1, 32), (32, 32), (1, 32), (32, 1)]
weights = [+stack.variable(f"w{n}", rng.normal(size=size) / np.sqrt(size[0])) for n, size in enumerate(sizes)]
speeds = [stack.asarray(np.zeros(size)) for size in sizes]


def step() -> nnc.Tensor:
    """Forward, backward and update: operators come one by one, and are one program from the fourth time on."""
    hidden = ops.tanh(points * 3 @ weights[0] + weights[1])
    said = ops.tanh(hidden @ weights[2] + weights[3]) @ weights[4]
    loss = ((said - wanted) ** 2).mean()
    with stack.no_grad():
        for n, gradient in enumerate(stack.gradients([loss], weights)):
            speeds[n] = 0.9 * speeds[n] - 0.05 * gradient
    weights[:] = [w + v for w, v in zip(weights, speeds, strict=True)]
    return loss


steps, loss = 0, 1.0
while loss > 0.1 and steps < 3000:  # looking at the loss is what ends a sequence
    loss, steps = step().item(), steps + 1
print(
    f"a loss of {loss:.2f} after {steps} steps; {stack.replays.programs} program, {stack.replays.prefixes} steps of it"
)


def halved(x: nnc.Tensor) -> nnc.Tensor:
    """Halved until its sum is at most 1."""
    while x.sum().item() > 1:
        x = x / 2
    return x


lazy, by_value = nnc.lazy(), nnc.DynamicFunction(halved, nnc.dynamic())


@lazy.jit
@lazy.grad
def slope(x: nnc.Tensor) -> nnc.Tensor:
    """Of the sum of squares of what a function of Python gives, within a program."""
    (y,) = lazy.ops.callback(x, function=by_value, shapes=(x.shape,), dtypes=("float64",), pure=True)
    return (y * y).sum()


print(f"the slope of a static program with a loop of Python in it: {slope(np.array([1.0, 2.0])).numpy()}")
