"""Compares the runs of a layer with the integer model and with PyTorch."""

from bertha.golden import integer_model
from bertha.golden.metrics import agreement, pooled
from bertha.sim.report import RunReport, describe_difference, own_macs, printable, shared_figures

__all__ = ["layer_report"]


def layer_report(options, prepared, outcomes) -> RunReport:
    """The report of a layer's runs.

    Parameters
    ----------
    options : LayerOptions
    prepared : sim.prepare.Prepared
    outcomes : list of sim.job.Outcome
        Of each of its runs.
    """
    sequences = prepared.runs
    compared = [
        _compare(prepared, sequence, outcome) for sequence, outcome in zip(sequences, outcomes, strict=True)
    ]
    figures = [item for item, _ in compared]
    masks = [sequence.sentence.mask for sequence in sequences]
    whole = pooled([values for _, values in compared], [s.reference for s in sequences], masks)
    different = next((item["first_difference"] for item in figures if not item["bit_exact"]), None)
    return RunReport(
        **shared_figures(options, prepared, outcomes),
        layers=[options.layer],
        input_operand="host",
        tokens=sum(item["tokens"] for item in figures),
        padding=sum(item["padding"] for item in figures),
        truncated=sum(item["truncated"] for item in figures),
        bit_exact=different is None,
        first_difference=different,
        cosine_min=whole.cosine_min,
        cosine_mean=whole.cosine_mean,
        snr_db=whole.snr_db,
        max_error=whole.max_error,
        sequences=figures,
        sentences=[
            {"text": sequence.sentence.text, "tokens": sequence.sentence.tokens, "embedding_cosine": None}
            for sequence in sequences
        ],
    )


def _compare(prepared, sequence, outcome):
    """The sequence's figures, and its dequantised result."""
    layer, array_n = prepared.layer, prepared.config.array_n
    expected = integer_model.run_layer(layer, sequence.x16, sequence.ranges)["output16"]
    result = sequence.program.unpack_output(outcome.output.tobytes())
    difference = describe_difference(result, expected)
    if difference is None and outcome.stray_bytes:
        difference = f"{outcome.stray_bytes} bytes outside the results and the scratch were changed"
    values = integer_model.dequantise(result, layer.output_scale)
    found = agreement(values, sequence.reference, sequence.sentence.mask)
    tokens, mask = sequence.sentence.tokens, sequence.sentence.mask
    macs = own_macs(sequence)
    figures = {
        "name": printable(sequence.sentence.text[:60]) or "random tokens",
        "tokens": tokens,
        "padding": len(mask) - tokens,
        "truncated": sequence.sentence.truncated,
        "cycles": outcome.cycles,
        "macs": macs,
        "utilization": macs / (array_n**2 * outcome.cycles),
        "bit_exact": difference is None,
        "first_difference": difference,
        "cosine_min": found.cosine_min,
        "cosine_mean": found.cosine_mean,
        "snr_db": found.snr_db,
        "max_error": found.max_error,
        "sim_seconds": outcome.seconds,
    }
    return figures, values
