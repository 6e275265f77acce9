"""Recurring sequences of operators, which are replayed as programs.

- ``replay``: stands before a stack's operators.
- ``follower``: defers a thread's operators while their sequence is known, and has them computed when somebody looks.
- ``places``: sequences that have occurred, as a tree.
- ``sequence``: the one that is under way in a thread, and what it promises.
- ``needs``: what is to be computed of a sequence, and recorded, by what is held when it ends.
- ``computed``: a sequence, one operator after another.
- ``written``: a sequence as a program.
"""
