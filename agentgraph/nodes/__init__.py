"""The stations of an agent: one file a kind of node."""
