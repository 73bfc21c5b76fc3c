"""The host's part before the first layer, and the float model of whole sentences."""

import numpy as np
import torch
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEmbeddings

__all__ = ["ProjectedEmbeddings", "embedding_sums", "float_hidden_states"]


class ProjectedEmbeddings(BertEmbeddings):
    """Embeddings narrower than the hidden size, with a linear layer behind their LayerNorm, as Electra's."""

    def __init__(self, config, width):
        super().__init__(BertConfig(**{**config.to_dict(), "hidden_size": width, "num_attention_heads": 1}))
        self.projection = nn.Linear(width, config.hidden_size)

    def forward(self, *args, **kwargs) -> torch.Tensor:
        """As BertEmbeddings', [B, S, hidden]."""
        return self.projection(super().forward(*args, **kwargs))


def embedding_sums(encoder, sentence) -> np.ndarray:
    """What the host gives the accelerator for one sentence.

    Parameters
    ----------
    encoder : Encoder or HostModel
    sentence : Sentence

    Returns
    -------
    float32 [S, hidden]
        Word, segment and position embeddings summed, before their LayerNorm; padding included. If
        `encoder.embedding_norm` is false, the input of the first layer: an electra's projection comes after
        the LayerNorm, so that both are the host's.
    """
    embeddings = encoder.embeddings
    ids, segments = torch.from_numpy(sentence.ids), torch.from_numpy(sentence.segments)
    with torch.inference_mode():
        if not encoder.embedding_norm:
            return embeddings(input_ids=ids[None], token_type_ids=segments[None])[0].numpy()
        # In Hugging Face's order, so that nothing differs by rounding.
        sums = embeddings.word_embeddings(ids) + embeddings.token_type_embeddings(segments)
        return (sums + embeddings.position_embeddings.weight[: len(ids)]).numpy()


def float_hidden_states(encoder, sentence) -> list[np.ndarray]:
    """The float model's hidden states for one sentence.

    Returns
    -------
    list of float32 [S, hidden]
        The first layer's input, then each layer's output; padding rows included.
    """
    with torch.inference_mode():
        states = encoder.run(
            torch.from_numpy(sentence.ids)[None],
            torch.from_numpy(sentence.mask)[None],
            torch.from_numpy(sentence.segments)[None],
            output_hidden_states=True,
        ).hidden_states
    return [state[0].numpy() for state in states]
