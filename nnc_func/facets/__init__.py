"""Vocabularies of the operator table: leaf modules of plain values that import no layer."""
