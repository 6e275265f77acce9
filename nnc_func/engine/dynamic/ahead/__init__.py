"""Work that is formed ahead: operators that take long are promised, and a thread beside the user's computes them.

- ``former``: which operators are formed ahead, and what they promise.
- ``costs``: what operators were seen to take, by which that is decided.
- ``episodes``: from what is formed first until somebody waits; those that are of no use are left out.
- ``jobs``: an operator that was formed ahead; who computes it, and who waits for it.
- ``storage``: memory that is kept for large results.
- ``worker``: the thread that computes, one for each process.
"""
