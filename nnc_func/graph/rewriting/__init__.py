"""The rewriting engine matches rules and applies them, to a graph of nodes of its own.

- ``rewriting``: rewrites a graph, phase after phase; read this first.
- ``driver``: tries the rules on each node, operands first, until none fires.
- ``matchers``: matches a rule: a function written out for each, which tests a node and makes the right side.
- ``compiled``: makes rules ready; ``rule_index``, ``operator_index``: find those that may match a node.
- ``building``: builds right sides.
- ``workspace``: the graph that is being rewritten; ``mutable``, ``wide``, ``places``: its nodes and their order.
- ``copying``, ``shown``: copy nodes into the workspace, and back into the stack.
- ``bodies``, ``loops``, ``branches``: rewrite loops and branches, and what is within them; ``loop_fusion``: makes one
  loop of several; ``recurrent``: makes recurrent layers of loops whose bodies are ``cells``.
- ``termination``: stops rules that never end.
- ``watching``, ``report``: record rewrites, and tell what became of each rule.
- ``evaluating``: computes both sides of a rewrite and compares them.
"""
