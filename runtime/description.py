"""What is in an artifact, as JSON has it."""

__all__ = ["describe_artifact", "memory_map"]

_DATA = "weights, parameters and tables"


def describe_artifact(artifact) -> dict[str, object]:
    """Model, recipe, accelerator, program, memory map, versions and members of an `Artifact`."""
    host, model, program = artifact.host, artifact.model, artifact.program
    return {
        "model": {
            "name": host.name,
            "family": host.family,
            "digest": host.digest,
            "trained": host.trained,
            "hidden": model.hidden,
            "layers": [
                {"heads": layer.heads, "head_dim": layer.head_dim, "ffn": layer.ffn} for layer in model.layers
            ],
            "dimension": host.dimension,
            "pooling": list(host.pooling.modes),
            "normalize": host.pooling.normalize,
            "labels": list(host.classifier.labels) if host.classifier else None,
            "longest": min(host.longest, program.tokens),
        },
        "recipe": artifact.recipe,
        "preset": artifact.preset,
        "program": {
            "tokens": program.tokens,
            "commands": len(program.commands),
            "code_bytes": program.code_bytes,
            "image_bytes": sum(len(content) for address, content in _data(program)),
            "macs": program.macs,
            "predicted_cycles": artifact.predicted_cycles,
            "window": list(program.window),
            "config": program.config.as_dict(),
        },
        "memory": memory_map(program),
        "plan": artifact.plan,
        "versions": artifact.versions,
        "members": artifact.members,
    }


def memory_map(program) -> list[dict[str, object]]:
    """Regions of DRAM in the order of their addresses: `address`, `bytes`, `what`."""
    n = program.config.array_n
    regions = [{"address": address, "bytes": nbytes, "what": "input"} for address, nbytes in program.inputs]
    names = {program.x16.address: "input int16", program.ranges_address: "input ranges of the rows"}
    if program.mask_address is not None:
        names[program.mask_address] = "input key mask"
    for region in regions:
        region["what"] = names.get(region["address"], "input int8")
    place = program.output16
    regions.append({"address": place.address, "bytes": place.nbytes(n), "what": "output int16"})
    regions += [
        {"address": address, "bytes": nbytes, "what": "scratch"} for address, nbytes in program.scratch
    ]
    regions.append({"address": program.program_address, "bytes": program.code_bytes, "what": "program"})
    regions += [
        {"address": address, "bytes": len(content), "what": _DATA} for address, content in _data(program)
    ]
    return _merged(sorted(regions, key=lambda region: region["address"]))


def _data(program):
    """The pieces of DRAM without the code, and without the empty ones."""
    return [piece for piece in program.pieces if piece[1] and piece[0] != program.program_address]


def _merged(regions):
    """Pieces of data with nothing but room between them are one region."""
    merged = []
    for region in regions:
        if merged and merged[-1]["what"] == region["what"] == _DATA:
            merged[-1]["bytes"] = region["address"] + region["bytes"] - merged[-1]["address"]
        else:
            merged.append(region)
    return merged
