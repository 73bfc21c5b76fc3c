"""Checkpoints, tokenizers and texts."""
