"""Plans are written as text and programs as files, and read back.

- ``text``: writes a plan as text. A printer of other languages is a linker: `engine/linkers`.
- ``parsing``: reads that text; ``drafts`` completes what a person left out.
- ``saving``: writes a program to a file; ``programs`` reads it.
- ``tables``: a plan as plain data; ``loops`` the same of its loops.
- ``program_from_plan``: makes a program of a plan alone: verifies it, gives it constants and variables.
- ``limits``: refuses plans that ask for more than they need.
"""
