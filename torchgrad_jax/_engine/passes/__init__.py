"""One run of the engine over a graph: order, leaves, the walk, compiled segments, recorded passes."""
