"""The error of a model that can't be used."""

from bertha.errors import UserError

__all__ = ["ModelError"]


class ModelError(UserError):
    """A model can't be used; the message is one sentence that says why."""
