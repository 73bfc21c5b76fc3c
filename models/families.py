"""The families of encoders, and how each one's names and configuration map to BERT's."""

import re
from dataclasses import dataclass, field

from bertha.models.errors import ModelError

__all__ = ["FAMILIES", "Family", "find_family"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of encoder that computes as BERT does, under other names.

    Attributes
    ----------
    name : str
        `model_type` in config.json.
    prefix : str
        Before the encoder's weights in a model with a head.
    classes : str
        What the names of its Hugging Face classes begin with.
    segments : bool
        Whether its tokens have segment ids: the others' are all 0, whatever their tokenizer says.
    has_types : bool
        Whether there are segment embeddings at all.
    projects : bool
        Whether its embeddings may be narrower than the hidden size, with a projection behind them.
    positions_from_padding : bool
        Whether the first token's position is the padding's id + 1 (fairseq's way) and not 0.
    keys : dict of str to str
        Its own names of BERT's configuration keys.
    weights : dict of str to str
        Its own names of parts of BERT's weight names; the first that fits is taken.
    epsilon : float or None
        Of its LayerNorms, where no configuration changes it.
    padding : int
        The padding's id where config.json doesn't say.
    """

    name: str
    prefix: str
    classes: str
    segments: bool = True
    has_types: bool = True
    projects: bool = False
    positions_from_padding: bool = False
    keys: dict = field(default_factory=dict)
    weights: dict = field(default_factory=dict)
    epsilon: float | None = None
    padding: int = 0

    def weight(self, name) -> str:
        """The family's own name of BERT's weight `name`."""
        for part, own in self.weights.items():
            name = name.replace(part, own)
        return name

    def value(self, config, key, default=None) -> object:
        """A value of config.json by BERT's name of its key."""
        return config.get(self.keys.get(key, key), config.get(key, default))


FAMILIES = {
    family.name: family
    for family in (
        Family(name="bert", prefix="bert", classes="Bert"),
        Family(
            name="roberta",
            prefix="roberta",
            classes="Roberta",
            segments=False,
            positions_from_padding=True,
            padding=1,
        ),
        Family(
            name="xlm-roberta",
            prefix="roberta",
            classes="XLMRoberta",
            segments=False,
            positions_from_padding=True,
            padding=1,
        ),
        Family(
            name="distilbert",
            prefix="distilbert",
            classes="DistilBert",
            segments=False,
            has_types=False,
            keys={
                "hidden_size": "dim",
                "num_attention_heads": "n_heads",
                "num_hidden_layers": "n_layers",
                "intermediate_size": "hidden_dim",
                "hidden_act": "activation",
            },
            weights={
                "encoder.layer.": "transformer.layer.",
                "attention.self.query.": "attention.q_lin.",
                "attention.self.key.": "attention.k_lin.",
                "attention.self.value.": "attention.v_lin.",
                "attention.output.dense.": "attention.out_lin.",
                "attention.output.LayerNorm.": "sa_layer_norm.",
                "intermediate.dense.": "ffn.lin1.",
                "output.dense.": "ffn.lin2.",
                "output.LayerNorm.": "output_layer_norm.",
            },
            epsilon=1e-12,
        ),
        Family(
            name="electra",
            prefix="electra",
            classes="Electra",
            projects=True,
            weights={"embeddings.projection.": "embeddings_project."},
        ),
    )
}

_OWN_WEIGHTS = {
    "transformer.layer.0.attention.q_lin.weight": "distilbert",
    "embeddings_project.weight": "electra",
    "discriminator_predictions.dense.weight": "electra",
    "generator_predictions.dense.weight": "electra",
    "lm_head.dense.weight": "roberta",
    "cls.predictions.transform.dense.weight": "bert",
    "cls.seq_relationship.weight": "bert",
}
"""Weights that only one family has. Roberta's and XLM-Roberta's are the same, and mean the same."""


def find_family(config, path, weights=None) -> Family | None:
    """The family of a model.

    Parameters
    ----------
    config : dict
        config.json.
    path : Path
        Its file, for errors.
    weights : Weights, optional
        Their names decide if neither `model_type` nor `architectures` does. Without them that is None.

    Raises
    ------
    ModelError
        If the model is of none of the families, or of no certain one.
    """
    kind = config.get("model_type")
    if kind is not None:
        if not isinstance(kind, str) or kind not in FAMILIES:
            raise ModelError(
                f"{path} must describe a BERT encoder (model_type {', '.join(FAMILIES)}), "
                f"not model_type {kind!r}"
            )
        return FAMILIES[kind]
    architectures = config.get("architectures")
    architectures = architectures if isinstance(architectures, list) else []
    found = {name for name in FAMILIES if any(_is_class_of(FAMILIES[name], each) for each in architectures)}
    if not found:
        if weights is None:
            return None
        found = _families_of(weights)
    if len(found) != 1:
        raise ModelError(
            f"{path} must describe a BERT encoder by a model_type ({', '.join(FAMILIES)}), but has none, and "
            f"its architectures and the weights' names don't tell either"
        )
    return FAMILIES[found.pop()]


def _is_class_of(family, architecture):
    return isinstance(architecture, str) and bool(
        re.match(f"{family.classes}(Model|For|LMHead)", architecture)
    )


def _families_of(weights):
    """Families that weights are named after; `bert.` says little beside another one's name."""
    parts = weights.encoder_prefix().split(".")
    found = {family.prefix for family in FAMILIES.values() if family.prefix in parts}
    plain = weights.plain()
    found |= {family for name, family in _OWN_WEIGHTS.items() if name in plain}
    return found - {"bert"} or found
