"""The rewriting engine: applies rules to a graph of nodes of its own; read `rewriting`, `driver`, `workspace` first."""
