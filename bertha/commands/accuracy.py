"""Errors of each unit, and accuracy of layers by number of duplicated channels."""

from rich.console import Console
from rich.table import Table

from bertha.arguments import integer, within
from bertha.errors import UserError
from bertha.golden import floating, integer_model, metrics
from bertha.models.encoder import load_model
from bertha.quantize import quantizer, unit_errors

__all__ = ["layer_agreement"]

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


def add_arguments(parser) -> None:
    parser.add_argument("--model", default="minilm", help="minilm, synthetic-base, reduced or a folder")
    parser.add_argument("--layers", type=integer, nargs="+", help="layers to measure (default: all)")
    parser.add_argument(
        "--sentences", type=within(1, 9999), default=120, help="unseen sentences to evaluate on"
    )
    parser.add_argument("--seed", type=within(0, 2**32 - 1), default=0, help="which sentences (default: 0)")
    parser.add_argument(
        "--duplicates",
        nargs="+",
        default=["0,0,0,0"],
        metavar="P,O,I,D",
        help="duplicated channels of projections, output, intermediate and down, comma-separated",
    )


def run(options) -> int:
    counts = [_duplicates(option) for option in options.duplicates]
    encoder = load_model(options.model)
    layers = range(encoder.layers) if options.layers is None else options.layers
    for index in layers:
        encoder.check_layer(index)
    for duplicates in counts:
        quantizer.check_duplicates(
            duplicates, hidden=encoder.config.hidden_size, ffn=encoder.config.intermediate_size
        )
    sentences = _evaluation(encoder, options.sentences, options.seed)
    console = Console()
    console.print(_unit_table())
    _print_layers(console, encoder, layers, counts, sentences)
    return 0


def _evaluation(encoder, count, seed):
    """Unseen sentences; a third of them are short ones, which are the hardest."""
    short = count // 3
    sentences = quantizer.evaluation_sentences(encoder, count - short, seed=seed)
    if short:
        sentences += quantizer.evaluation_sentences(encoder, short, length=12, seed=seed + 5)
    return sentences


def _unit_table():
    table = Table(title="Units against float")
    for column in ("unit", "measure", "largest error", "rms error"):
        table.add_column(column, justify="right" if "error" in column else "left")
    for error in unit_errors.unit_errors():
        table.add_row(error.unit, error.measure, f"{error.largest:.5f}", f"{error.rms:.6f}")
    return table


def _print_layers(console, encoder, layers, counts, sentences):
    """A table for each layer, as soon as it is measured."""
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


def _duplicates(option):
    try:
        numbers = [int(part) for part in option.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 4 or min(numbers) < 0:
        raise UserError(f"duplicates must be four numbers from 0 such as 0,0,4,4, not {option!r}")
    return quantizer.Duplicates(
        projections=numbers[0], output=numbers[1], intermediate=numbers[2], down=numbers[3]
    )


def _shown(duplicates):
    return f"{duplicates.projections},{duplicates.output},{duplicates.intermediate},{duplicates.down}"
