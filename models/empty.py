"""A BertModel without weights, and with them."""

import torch
from transformers import BertModel

from bertha.models.embedding import ProjectedEmbeddings

__all__ = ["empty_bert", "fill_bert"]


def empty_bert(config, embedding_size=None) -> BertModel:
    """A BertModel of PyTorch's meta tensors, which have shapes but no values: none are drawn in vain.

    Parameters
    ----------
    config : BertConfig
    embedding_size : int, optional
        Width of the embeddings, if a projection to the hidden size comes behind them.
    """
    config._attn_implementation = "eager"
    with torch.device("meta"):
        bert = BertModel(config, add_pooling_layer=False).float()
        if embedding_size is not None:
            bert.embeddings = ProjectedEmbeddings(config, embedding_size).float()
    return bert.eval()


def fill_bert(bert, state) -> None:
    """Give an empty BertModel its weights, all of them, as they are (no copies)."""
    bert.load_state_dict(state, assign=True)
    positions = torch.arange(bert.config.max_position_embeddings)[None]
    bert.embeddings.position_ids = positions
    bert.embeddings.token_type_ids = torch.zeros_like(positions)
    bert.requires_grad_(False)
