"""The joint choice of order, kernels, what is written over what, offsets and what is computed again, by one measure.

What each is chosen for elsewhere, one after the other, is chosen here at once: the bytes of the arena. Nothing here
knows of graphs.

- ``problem``: what is to be chosen, as data; it is saved as text.
- ``choice``: an answer, what it takes, and whether it is valid.
- ``solution``: an answer, and what is proven of it.
- ``states``: the least load of all choices, by the best first of states.
- ``placed_states``: whether a capacity does, by states with places.
- ``placement``: where the memory of runs lies.
- ``completion``: the best kernels for a sequence.
- ``local_search``: better sequences, step by step.
- ``search``: all of these together.
- ``cp_sat``: the same problem for OR-tools' solver, the peer.
- ``generators``: problems to try.
"""
