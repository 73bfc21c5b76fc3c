"""Compares the runs of a whole model with the integer model, packed and each sentence alone, and with PyTorch."""

import numpy as np

from bertha.golden import integer_model
from bertha.golden.metrics import agreement, pooled
from bertha.sim.cost import by_kind, by_layer
from bertha.sim.report import RunReport, describe_difference, own_macs, printable, shared_figures

__all__ = ["model_report"]


def model_report(options, prepared, outcomes) -> RunReport:
    """The report of a model's runs.

    Parameters
    ----------
    options : ModelOptions
    prepared : sim.packed.PreparedModel
    outcomes : list of sim.job.Outcome
        Of each of its runs.
    """
    saturations = {}
    alone = integer_model.run_sentences(prepared.model, prepared.embedded16, saturations)
    figures, sentences = [], [None] * len(prepared.sentences)
    for run, outcome in zip(prepared.runs, outcomes, strict=True):
        result = run.program.unpack_output(outcome.output.tobytes())
        found = _sentences(prepared, run, result, len(figures))
        figures.append(_figures(prepared, run, outcome, result, alone, found))
        for item in found:
            sentences[item.pop("number")] = item
    values = [item.pop("values") for item in sentences]
    whole = pooled(values, prepared.references)
    cosines = [item["embedding_cosine"] for item in sentences]
    costs = by_layer(prepared.runs, outcomes)
    different = next((item["first_difference"] for item in figures if not item["bit_exact"]), None)
    return RunReport(
        **shared_figures(options, prepared, outcomes),
        layers=[cost for cost in costs if cost.index is not None],
        input_operand="accelerator",
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
        sentences=sentences,
        embedding_cosine_min=min(cosines),
        embedding_cosine_mean=float(np.mean(cosines)),
        recipe=options.recipe,
        packing=prepared.packing,
        embedding=next((cost for cost in costs if cost.index is None), None),
        kinds=by_kind(prepared.runs, outcomes),
        saturations={name: count for name, count in saturations.items() if count},
    )


def _sentences(prepared, run, result, run_number):
    """What each of a run's sentences gave; its `number` and its dequantised `values` are for this module alone."""
    found = []
    pooling = prepared.encoder.pooling
    for number, place in zip(run.packing.sentences, run.packing.places, strict=True):
        sentence, reference = prepared.sentences[number], prepared.references[number]
        values = integer_model.dequantise(result[place], prepared.model.output_scale)
        embeddings = [pooling(states, sentence.mask)[None] for states in (values, reference)]
        tokens = agreement(values, reference)
        found.append(
            {
                "text": sentence.text,
                "tokens": sentence.tokens,
                "truncated": sentence.truncated,
                "run": run_number,
                "row": place.start,
                "embedding_cosine": agreement(*embeddings).cosine_mean,
                "cosine_min": tokens.cosine_min,
                "cosine_mean": tokens.cosine_mean,
                "number": number,
                "values": values,
            }
        )
    return found


def _figures(prepared, run, outcome, result, alone, found):
    """The run's own figures, as those of a sequence."""
    difference = _difference(prepared, run, outcome, result, alone)
    references = [prepared.references[item["number"]] for item in found]
    tokens = pooled([item["values"] for item in found], references)
    macs = own_macs(run)
    texts = printable(prepared.sentences[run.packing.sentences[0]].text[:60]) or "random tokens"
    return {
        "name": texts if len(found) == 1 else f"{len(found)} sentences: {texts}",
        "tokens": run.packing.tokens - run.packing.padding,
        "padding": run.packing.padding,
        "truncated": sum(item["truncated"] for item in found),
        "cycles": outcome.cycles,
        "macs": macs,
        "utilization": macs / (prepared.config.array_n**2 * outcome.cycles),
        "bit_exact": difference is None,
        "first_difference": difference,
        "cosine_min": tokens.cosine_min,
        "cosine_mean": tokens.cosine_mean,
        "snr_db": tokens.snr_db,
        "max_error": tokens.max_error,
        "sim_seconds": outcome.seconds,
    }


def _difference(prepared, run, outcome, result, alone):
    """What is wrong with a run's bytes, or None."""
    packed = integer_model.run_model(prepared.model, run.x16, run.ranges)["output16"]
    difference = describe_difference(result, packed)
    if difference is not None:
        return difference
    for number, place in zip(run.packing.sentences, run.packing.places, strict=True):
        difference = describe_difference(result[place], alone[number])
        if difference is not None:
            return f"sentence {number + 1}, which alone gives other values: {difference}"
    if outcome.stray_bytes:
        return f"{outcome.stray_bytes} bytes outside the results and the scratch were changed"
    return None
