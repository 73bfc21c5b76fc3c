"""Whole models on real text: integer embeddings beside PyTorch's, and what downstream tasks make of them."""
