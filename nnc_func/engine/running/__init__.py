"""Linked plans are called: inputs are brought in, instructions run, results handed out.

- ``program``: programs, which callers hold: a plan linked to memory.
- ``session``: what every program is called by: inputs in, outputs out, variables written at the end.
- ``inputs``, ``binding``: bring inputs to the device, and check them against what is wanted.
- ``outs``, ``results``: the arrays that results are written into: the caller's, or fresh and recycled ones.
- ``arenas``: the memory that programs share.
- ``array_views``: shows arrays in that memory as avals say.
- ``loops``: runs a planned loop: its body's kernels, so many times.
- ``parallel``: runs each stream on a thread of its own.
- ``unrolled_call``: writes a program's call out as one function.
- ``interpretation``: computes a graph's nodes one after the other without a plan, and frees each after its last use.
- ``observers``: shows a program's instructions to others, one at a time.
- ``checking_observers``: those that look for NaN, poison freed memory, tell each kernel or cancel.
- ``cancelling``: stops a run from another thread.
- ``interrupts``: holds signals back meanwhile.
- ``commit``: puts variables back when a run fails.
- ``lasting``: finds the variables that kernels put into an order of their own once for each value.
"""
