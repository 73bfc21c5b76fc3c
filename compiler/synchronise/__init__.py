"""Places the semaphores."""
