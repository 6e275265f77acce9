"""Graphs are written as text and files, and read back; no code is run.

- ``writing``, ``parsing``: to text and back.
- ``literals``, ``nesting``: parameters and array elements, and how outputs are nested, in that text.
- ``files``: graphs in files.
- ``trust``: which operators a file may apply.
"""
