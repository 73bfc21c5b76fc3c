"""Specialised models: fine-tuned for a task, and without what the task has no use for."""
