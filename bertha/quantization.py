"""From a checkpoint to integers: the encoder's, beside the part of the model that stays on the host."""

from dataclasses import dataclass, field

from bertha.folders import BUILD
from bertha.golden.model import QuantizedModel
from bertha.models.host import HostModel
from bertha.quantize.recipes import DEFAULT_RECIPE

__all__ = ["QuantizedEncoder", "quantize_model"]


@dataclass(frozen=True, eq=False)
class QuantizedEncoder:
    """A model that is ready to be compiled, or to be run by the integer model.

    Attributes
    ----------
    host : HostModel
        What the host computes: tokenizer, embeddings, pooling, head.
    model : QuantizedModel
        The encoder in integers.
    recipe : str
        How it was quantised.
    """

    host: HostModel
    model: QuantizedModel = field(repr=False)
    recipe: str


def quantize_model(
    encoder, recipe=DEFAULT_RECIPE, settings=None, *, folder=None, notify=None
) -> QuantizedEncoder:
    """Quantises a whole model, or takes the integers that are kept from the last time.

    Parameters
    ----------
    encoder : Encoder
        As `bertha.load_model` gives it.
    recipe : str
        `w8a8`, `w8a8-split`, `mixed` or `a16`: what is spent on accuracy.
    settings : bertha.quantize.quantizer.Settings, optional
        Calibration.
    folder : Path, optional
        Where quantised models are kept; below the build folder by default.
    notify : function of str, optional
        Called with what is being done.

    Raises
    ------
    UserError, models.encoder.ModelError, models.text.TextError
        If there is no such recipe, or the model can't be quantised.
    """
    from bertha.quantize.cache import cached_model

    folder = BUILD / "quantized" if folder is None else folder
    model = cached_model(encoder, recipe, settings, folder=folder, notify=notify)
    return QuantizedEncoder(HostModel.from_encoder(encoder), model, recipe)
