"""The planner makes a plan of a graph: which kernel computes what, in which order, and where each value lies.

- ``passes``: the passes on one page; read this first.
- ``planner``: runs them, for one graph or for several.
- ``request``, ``draft``: what a planning is given, and what the passes hand on.
- ``kernel_table``, ``layout_pass``: choose kernels, and lay images out for the faster ones.
- ``ordering``: chooses the order of instructions, by one of `engine/orders`; ``readers_first``: before that, what reads
  a carry comes before what may be written over it.
- ``schedule``, ``streams``: deal instructions out to streams.
- ``sub_buffers``: aliases: parts of a tensor are computed where they lie in it.
- ``liveness``: when each value is born and when it is freed: its first and last use.
- ``in_place_reuse``: decides which results are written over operands that die; ``row_reuse``: what a loop stacks, over
  rows that it has read.
- ``output_borrowing``: lends the memory of results to values that are dead before these are written.
- ``negotiation``: takes kernels with less scratch where most bytes are alive; ``variants``: those that there are.
- ``offsets``: gives each buffer an address, by one of `engine/allocators`.
- ``committing``: finds where a program may begin to write its variables.
- ``retaining``: keeps values that outlive a run apart.
- ``bodies``, ``loops``, ``branches``: plan the bodies of loops and branches.
- ``alternatives``: plans several drafts and keeps the one with the fewest bytes.
- ``budgets``, ``recomputed``: plan within a budget of memory, by computing values again; ``answers``: what strategies
  answer as plans, and the least of these; ``unavoidable``: what no plan goes without.
- ``joint_plan``: chooses order, kernels, aliases, offsets and recomputation together, by `engine/joint_choice`, and
  keeps the smaller plan; ``joint_problem``: the problem of a draft; ``joint_passes``: follow an answer.
- ``levels``, ``spills``: plan within a small fast memory, by moving values to a slow one; ``overlap``: how long that
  takes, beside kernels. ``reapplication``: makes the graphs in which values are computed again, or moved.
"""
