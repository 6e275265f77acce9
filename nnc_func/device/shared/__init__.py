"""What devices share; a new device that computes through an array namespace starts from `base.ArrayDevice`.

- ``base``: the class from which such devices derive: it binds operators and plans in memory.
- ``namespace``: chooses, binds and explains kernels of an array namespace.
- ``kernel_choice``: picks which of an operator's kernels runs.
- ``dispatch``: finds the kernel of an eager call once for all arguments that are alike.
- ``host``: brings data of the host to a device, and refuses arrays of others.
- ``views``: locates views of arrays in the memory that they show.
- ``bounds``: shows arrays in memory only where each element lies inside.
- ``bind_kernels``: makes the `bind` of a user's layer the kernel of each instruction.
- ``narrow_emulation``: computes bfloat16, and products of float16, in float32.
- ``queries``: asks a device for its machine and its kernels, if it says so.
- ``unrolled``: writes several calls out as one function.
- ``workers``: runs jobs side by side on threads of the host.
"""
