"""The verifier proves that a plan is right from the plan alone: no code is shared with what made it.

- ``verify``: the proof; the other files are its parts. ``fast_path`` is its replay of usual instructions.
- ``references``, ``columns``: numbers are numbers, and what they refer to is there.
- ``applications``: each instruction applies its operator as that allows.
- ``bounds``, ``regions``, ``nearby``: values lie in their buffers, and which of them a write meets.
- ``arena_overlap``, ``offsets``: buffers that are alive together do not overlap.
- ``assembly``: tensors that are put together of parts are whole.
- ``endings``: outputs and updates survive the run.
- ``races``: instructions on several streams do not disturb each other.
- ``bodies``, ``inner_plans``: the plans of bodies fit where they are, and compute the bodies.
- ``loops``, ``branches``: each time of a planned loop finds what it reads; each body of a branch gives all results.
- ``graphs``: the plan computes what a graph says.
- ``work``: bounds what a proof may take.
"""
