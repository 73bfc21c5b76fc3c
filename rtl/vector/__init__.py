"""The streaming vector engine: softmax, LayerNorm, requantisation, tables."""
