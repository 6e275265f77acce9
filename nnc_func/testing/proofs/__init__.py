"""Proofs of rewrite rules: for all elements and all extents, by the theorem prover z3 (extra ``proofs``)."""
