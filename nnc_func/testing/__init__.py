"""The public test kit: what the library tests itself with, for operators, rules and allocators of one's own.

It needs the extra ``testing``; nothing else in the library imports it.
"""
