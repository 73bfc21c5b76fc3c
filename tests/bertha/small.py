"""Small models for what users call: a folder with a vocabulary, and random integers in the place of its encoder."""

from dataclasses import replace

from bertha.models.encoder import load_model
from bertha.models.host import HostModel
from bertha.quantization import QuantizedEncoder
from tests.compiler.layers import chained, random_layer
from tests.models.checkpoints import tiny_model, write_model
from tests.models.test_pairs import write_wordpiece

__all__ = ["TEXTS", "random_integers", "small_folder", "small_model"]

TEXTS = [
    "the film was good",
    "slow , slow , slow . a bad film ?",
    "a",
    "was the film as bad as the caf\u00e9s ?",
    "slowly .",
    "the the the the the the the the the the the",
]

SUM_SCALE = 1 / 2000  # sums of a small model's embeddings are about 0.5
OUTPUT_SCALE = 1 / 4000


def small_folder(folder, family="bert", kind="Model", **changes):
    """A model folder with random weights: 2 layers, 20 channels, up to 64 tokens."""
    model = tiny_model(family, kind, max_position_embeddings=64, **changes)
    write_model(folder, model)
    write_wordpiece(folder)
    return folder


def random_integers(encoder, *, seed=0):
    """A QuantizedModel of the encoder's shape, with embedding LayerNorm if it has one; the integers are random."""
    config = encoder.config
    size = config.hidden_size // config.num_attention_heads
    layers = [
        random_layer(
            seed=seed + number,
            heads=config.num_attention_heads,
            head_dim=size + size % 2,
            ffn=config.intermediate_size,
            hidden=config.hidden_size,
            wide=(False, number == 1, False, False),
        )
        for number in range(config.num_hidden_layers)
    ]
    layers[-1] = replace(layers[-1], output_scale=OUTPUT_SCALE)
    model = chained(layers, embedding_norm=encoder.embedding_norm)
    return replace(model, embedding_scale=SUM_SCALE) if encoder.embedding_norm else model


def small_model(folder, family="bert", kind="Model", **changes):
    """A QuantizedEncoder: the host's part is the folder's, the encoder's integers are random."""
    encoder = load_model(small_folder(folder, family, kind, **changes))
    return QuantizedEncoder(HostModel.from_encoder(encoder), random_integers(encoder), "w8a8")
