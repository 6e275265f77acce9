"""Five lines: a function, its gradient, and the same on a stack that records, optimises and plans before it runs."""

from __future__ import annotations

import nnc_func as nnc

for stack in (nnc.eager(), nnc.lazy()):
    x = stack.asarray([1.0, 2.0, 3.0])
    value, slope = stack.jit(stack.value_and_grad(lambda x: x.stack.ops.tanh(x * x).sum()))(x)
    print(f"{value.numpy():.6f}", slope.numpy().round(6))
