"""Rules and the e-graph: from a graph to its saturated classes."""
