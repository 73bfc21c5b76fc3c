"""Accuracy of single layers, given the float layer's input, by number of duplicated channels."""

from rich.table import Table

from bertha.golden import floating, integer_model, metrics
from bertha.quantize import quantizer

__all__ = ["layer_agreement", "layer_sentences", "print_layers"]

COLUMNS = ("duplicates", "cosine mean", "cosine min", "SNR dB", "largest error", "tokens", "accumulator bits")


def layer_agreement(encoder, index, layer, sentences) -> metrics.Agreement:
    """How near a quantised layer is to PyTorch's, given the float layer's input: an `Agreement`."""
    results, references, masks = [], [], []
    for sentence in sentences:
        inputs, outputs = floating.layer_reference(encoder, sentence, index)
        x16 = integer_model.quantise_input(inputs, layer.input_scale)
        result = integer_model.run_layer(layer, x16, key_mask=sentence.mask)["output16"]
        results.append(integer_model.dequantise(result, layer.output_scale))
        references.append(outputs)
        masks.append(sentence.mask)
    return metrics.pooled(results, references, masks)


def layer_sentences(encoder, count, seed) -> list:
    """Unseen sentences; a third of them are short ones, which are the hardest."""
    short = count // 3
    sentences = quantizer.evaluation_sentences(encoder, count - short, seed=seed)
    if short:
        sentences += quantizer.evaluation_sentences(encoder, short, length=12, seed=seed + 5)
    return sentences


def print_layers(console, encoder, layers, counts, sentences) -> None:
    """Prints a table for each layer, as soon as it is measured; `counts` are `Duplicates`."""
    calibration = quantizer.calibration_sentences(encoder)
    for index in layers:
        table = Table(
            title=f"{encoder.name} layer {index} against PyTorch, {len(sentences)} unseen sentences"
        )
        for column in COLUMNS:
            table.add_column(column, justify="right")
        with console.status(f"layer {index}: tracing {len(calibration)} calibration sentences") as status:
            trace = floating.trace_layer(encoder, calibration, index)
            weights = floating.layer_weights(encoder, index)
            for duplicates in counts:
                status.update(f"layer {index}: duplicates {_shown(duplicates)}")
                layer = quantizer.quantize_trace(weights, trace, duplicates)
                figures = _figures(layer_agreement(encoder, index, layer, sentences))
                table.add_row(_shown(duplicates), *figures, str(_accumulator_bits(layer)))
        console.print(table)


def _accumulator_bits(layer):
    """Bits, with the sign, of the largest accumulator that any input of 128 tokens could reach."""
    return max(integer_model.accumulator_bounds(layer, 128).values()).bit_length() + 1


def _figures(result):
    return (
        f"{result.cosine_mean:.5f}",
        f"{result.cosine_min:.5f}",
        f"{result.snr_db:.1f}",
        f"{result.max_error:.3f}",
        str(result.tokens),
    )


def _shown(duplicates):
    return f"{duplicates.projections},{duplicates.output},{duplicates.intermediate},{duplicates.down}"
