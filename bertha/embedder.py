"""Sentence embeddings, with the interface that users of sentence-transformers know."""

import sys
from contextlib import nullcontext

import numpy as np
import torch

from bertha.errors import UserError
from bertha.models.encoder import load_model
from bertha.progress import progress_bar
from bertha.quantization import quantize_model
from bertha.quantize.recipes import DEFAULT_RECIPE
from bertha.results import RunReport
from bertha.running import run_model
from bertha.runtime.artifact import load_artifact

__all__ = ["Embedder"]

_OUTPUTS = ("sentence_embedding", "token_embeddings")


class Embedder:
    """A model that makes vectors of texts.

        embedder = bertha.Embedder.load("model.bertha")
        vectors = embedder.encode(["A first text.", "A second one."])

    Parameters
    ----------
    model : Artifact or QuantizedEncoder
        A quantised model without a program can be run by the integer model only.
    backend : {"integer", "rtl"}
        Of `encode`, unless it is told another.

    Attributes
    ----------
    model, backend
    report : RunReport or None
        Of the last `encode`.
    """

    def __init__(self, model, *, backend="integer"):
        self.model, self.backend = model, backend
        self.report: RunReport | None = None

    @classmethod
    def from_pretrained(cls, name, recipe=DEFAULT_RECIPE, *, notify=None) -> "Embedder":
        """Of a model's name or folder (`bertha.load_model`), quantised, or as it was kept from the last time."""
        return cls(quantize_model(load_model(name), recipe, notify=notify))

    @classmethod
    def load(cls, path, *, backend="integer") -> "Embedder":
        """Of a file that `bertha compile` or `Artifact.save` wrote."""
        return cls(load_artifact(path), backend=backend)

    @property
    def max_seq_length(self) -> int:
        """Tokens to which texts are cut."""
        program = getattr(self.model, "program", None)
        longest = self.model.host.longest
        return min(longest, program.tokens) if program else longest

    def get_sentence_embedding_dimension(self) -> int:
        """Length of a vector."""
        return self.model.host.dimension

    def encode(
        self,
        sentences,
        *,
        batch_size=32,
        show_progress_bar=False,
        output_value="sentence_embedding",
        convert_to_numpy=True,
        convert_to_tensor=False,
        normalize_embeddings=False,
        backend=None,
    ) -> np.ndarray | torch.Tensor | list:
        """Vectors of texts.

        Parameters
        ----------
        sentences : str, or list of str or (str, str)
            One text gives one vector.
        batch_size : int
            Not used: sentences are put together by their tokens. The result is the same in any case.
        show_progress_bar : bool
            On stderr.
        output_value : {"sentence_embedding", "token_embeddings"}
            The second gives the hidden states of the tokens, a list of [tokens, hidden].
        convert_to_numpy, convert_to_tensor : bool
            A tensor if the second is true; a list of vectors if both are false.
        normalize_embeddings : bool
            Whether vectors get the length 1 in any case; else it is as the model itself says.
        backend : {"integer", "rtl"}, optional

        Returns
        -------
        float32 [texts, dimension], or [dimension] of one text

        Raises
        ------
        UserError, models.text.TextError
            If a text has no token, or an argument is none of those above.
        """
        if output_value not in _OUTPUTS:
            raise UserError(f"output_value must be one of {', '.join(_OUTPUTS)}, not {output_value!r}")
        alone = isinstance(sentences, str)
        texts = [sentences] if alone else list(sentences)
        with progress_bar(sys.stderr) if show_progress_bar else nullcontext() as progress:
            result = run_model(
                self.model,
                texts,
                backend=backend or self.backend,
                normalize=True if normalize_embeddings else None,
                hidden=output_value == "token_embeddings",
                progress=progress,
            )
        self.report = result.report
        found = result.embeddings if result.hidden is None else result.hidden
        if convert_to_tensor:
            found = torch.from_numpy(found) if result.hidden is None else list(map(torch.from_numpy, found))
        elif not convert_to_numpy:
            found = list(found)
        return found[0] if alone else found
