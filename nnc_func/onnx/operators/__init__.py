"""Entries of the table, by family; each module here is loaded when the table is first asked."""
