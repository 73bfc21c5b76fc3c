"""How near an integer model's embeddings and hidden states are to PyTorch's, on a corpus of labelled domains."""

from dataclasses import dataclass

import numpy as np

from bertha.evaluate.embedders import pooled

__all__ = ["SHORT_TOKENS", "CorpusAgreement", "Cosines", "corpus_agreement"]

SHORT_TOKENS = range(3, 10)
"""Tokens of a short sentence, special tokens included."""

CHUNK = 48
"""Sentences whose hidden states are held at once."""


@dataclass(frozen=True, kw_only=True)
class Cosines:
    """Cosines of embeddings to the float model's: the worst, the 1st percentile, the mean."""

    min: float
    p1: float
    mean: float
    sentences: int

    @classmethod
    def of(cls, cosines) -> "Cosines":
        """Figures of an array of cosines, at least one."""
        return cls(
            min=float(np.min(cosines)),
            p1=float(np.percentile(cosines, 1)),
            mean=float(np.mean(cosines)),
            sentences=len(cosines),
        )


@dataclass(frozen=True, kw_only=True)
class CorpusAgreement:
    """What a corpus showed.

    Attributes
    ----------
    cosines : list of float
        Of every sentence's embedding.
    overall, short : Cosines
        Of all sentences, and of those of 3 to 9 tokens (None if there are none).
    domains : dict of str to Cosines
    snr_db : list of float
        By layer: energy of the float model's hidden states over that of their difference, all tokens together.
    saturations : dict of str to int
        Saturated values by stream, such as `layer 3: hidden`.
    values : dict of str to int
        Values there are in each of these streams.
    """

    cosines: list
    overall: Cosines
    short: Cosines | None
    domains: dict
    snr_db: list
    saturations: dict
    values: dict

    @property
    def saturated_share(self) -> dict[str, float]:
        """Share of saturated values by stream, all layers together."""
        counts = {}
        for name, saturated in self.saturations.items():
            total = counts.setdefault(name.split(": ")[-1], [0, 0])
            total[0] += saturated
            total[1] += self.values[name]
        return {name: saturated / values for name, (saturated, values) in counts.items()}

    def worst(self, count) -> list[int]:
        """Numbers of the sentences with the lowest cosines."""
        return np.argsort(self.cosines, kind="stable")[:count].tolist()


def corpus_agreement(reference, embedder, sentences, domains, advance=lambda tokens: None) -> CorpusAgreement:
    """The agreement of an `IntegerEmbedder` with a `FloatEmbedder`.

    Parameters
    ----------
    reference : FloatEmbedder
    embedder : IntegerEmbedder
    sentences : list of Sentence
    domains : list of str
        One a sentence.
    advance : callable
        Is called with the number of tokens that are done.
    """
    encoder = reference.encoder
    cosines = np.zeros(len(sentences))
    signal, noise = np.zeros(encoder.layers), np.zeros(encoder.layers)
    saturations = {}
    order = np.argsort([sentence.tokens for sentence in sentences], kind="stable")
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        chunk = [sentences[row] for row in rows]
        results = embedder.states(chunk, saturations)
        for row, right, found in zip(rows, reference.states(chunk), results, strict=True):
            cosines[row] = pooled(encoder, right[-1]) @ pooled(encoder, found[-1])
            for layer, (exact, state) in enumerate(zip(right[1:], found, strict=True)):
                exact = exact.astype(np.float64)
                signal[layer] += np.square(exact).sum()
                noise[layer] += np.square(state - exact).sum()
        advance(sum(sentence.tokens for sentence in chunk))
    short = np.array([sentence.tokens in SHORT_TOKENS for sentence in sentences])
    labels = np.array(domains)
    return CorpusAgreement(
        cosines=cosines.tolist(),
        overall=Cosines.of(cosines),
        short=Cosines.of(cosines[short]) if short.any() else None,
        domains={name: Cosines.of(cosines[labels == name]) for name in dict.fromkeys(domains)},
        snr_db=[_decibels(*pair) for pair in zip(signal, noise)],
        saturations=saturations,
        values=_values(embedder.model, saturations, sum(sentence.tokens for sentence in sentences)),
    )


def _decibels(signal, noise):
    return float(10 * np.log10(signal / noise)) if noise else float("inf")


def _values(model, saturations, tokens):
    """How many values each stream has."""
    counts = {}
    for name in saturations:
        layer = model.layers[int(name.split(":")[0].split()[1]) if ":" in name else 0]
        width = {"context": layer.heads * layer.head_dim, "hidden": layer.ffn}
        counts[name] = tokens * width.get(name.split(": ")[-1], layer.hidden)
    return counts
