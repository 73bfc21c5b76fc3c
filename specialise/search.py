"""The search: how small a fine-tuned model can get at no more than a budget of accuracy, told by rows of its training set.

A ladder of cycles is gone down. On each rung the knapsack chooses what goes, the rest is repaired in closed form, and
the rows that no weight was fitted to say what that costs. The first rung that costs more than a budget ends it, and a
bisection between the last two rungs follows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from bertha.specialise.ablation import FFN, Curve, curves, measure
from bertha.specialise.batches import label_sentences
from bertha.specialise.cycles import Costs
from bertha.specialise.knapsack import cycles_of, kept_of, levels_for
from bertha.specialise.parts import Training
from bertha.specialise.prune import Pruned, Repair, embedded_in, prune
from bertha.specialise.rows import RowBatch, embed_rows, score

__all__ = ["Rung", "Search", "SearchOptions", "best_rung"]

LADDER = (0.85, 0.72, 0.61, 0.52, 0.44, 0.37, 0.31, 0.26, 0.22, 0.18, 0.15)
"""Parts of the whole model's cycles."""

BISECTIONS = 2


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How to search.

    Parameters
    ----------
    method : str
        One of `bertha.specialise.ablation.METHODS`.
    repair : bool
        Whether what is left is fitted anew.
    tokens : int
        About as many calibration tokens are used.
    judge : int
        At most so many rows judge.
    longest : int
        Tokens to which texts are cut.
    seed : int
    """

    method: str = "reconstruct"
    repair: bool = True
    tokens: int = 8_000
    judge: int = 2000
    longest: int = 128
    seed: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Rung:
    """One pruned model, and what the rows that judge say of it.

    Attributes
    ----------
    kept : dict
        See `prune`.
    cycles : float
        Estimated.
    accuracy, loss : float
    fallen : float
        Accuracy lost to the whole model, in points.
    """

    kept: dict
    cycles: float
    accuracy: float
    loss: float
    fallen: float

    @property
    def heads(self) -> int:
        return sum(len(units) for key, units in self.kept.items() if key[1] != FFN)

    @property
    def neurons(self) -> int:
        return sum(len(units) for key, units in self.kept.items() if key[1] == FFN)


@dataclass(eq=False)
class Search:
    """A search on one model and one training set: nothing else of the task is known to it.

    Attributes
    ----------
    evaluations : int
        Pruned models that were judged so far.
    """

    encoder: object
    training: Training
    costs: Costs
    options: SearchOptions = field(default_factory=SearchOptions)
    notify: Callable = lambda event: None
    advance: Callable = lambda done, total: None
    evaluations: int = 0

    def __post_init__(self):
        fit = self.training.limited(fit=4000, judge=self.options.judge, seed=self.options.seed)
        self.judge = self._batches(fit.judge, math.inf)
        self.fit = self._batches(fit.fit, self.options.tokens)
        self.statistics = measure(self.encoder, self.fit, seed=self.options.seed, advance=self.advance)
        self.curves: dict[tuple[int, str], Curve] = curves(
            self.statistics,
            self.options.method,
            heads=self.encoder.config.num_attention_heads,
            seed=self.options.seed,
        )
        self.repair = Repair.of(self.encoder, self.fit, self.statistics) if self.options.repair else None
        layers = self.encoder.bert.encoder.layer
        self.whole = score(self.encoder.classifier, layers, self.judge)
        self.notify({"what": "whole", "accuracy": self.whole.accuracy, "loss": self.whole.loss})

    def _batches(self, part, tokens) -> list[RowBatch]:
        """The part's first rows that have so many tokens together."""
        sentences, used = label_sentences(self.encoder, part, self.options.longest), 0.0
        count = 0
        while count < len(sentences) and used < tokens:
            used += sentences[count].tokens
            count += 1
        return embed_rows(self.encoder, sentences[:count], self.training.numbers(part)[:count])

    def build(self, kept) -> Pruned:
        """The model with these heads and neurons."""
        return prune(self.encoder, kept, self.repair)

    def rung(self, share) -> Rung:
        """The best model that is known at this part of the whole one's cycles."""
        levels = levels_for(self.curves, self.costs, share * self.costs.whole)
        kept = kept_of(self.curves, levels)
        found = self.judged(self.build(kept), kept, cycles_of(self.curves, levels, self.costs))
        self.notify(
            {
                "what": "rung",
                "cycles": found.cycles,
                "share": found.cycles / self.costs.whole,
                "accuracy": found.accuracy,
                "loss": found.loss,
                "fallen": found.fallen,
                "layers": _sizes(found.kept),
            }
        )
        return found

    def judged(self, pruned, kept, cycles) -> Rung:
        """What the rows that judge say of a pruned model."""
        judged = score(self.encoder.classifier, pruned.layers, embedded_in(pruned, self.encoder, self.judge))
        self.evaluations += 1
        return Rung(
            kept=kept,
            cycles=cycles,
            accuracy=judged.accuracy,
            loss=judged.loss,
            fallen=100 * (self.whole.accuracy - judged.accuracy),
        )

    def descend(self, budgets) -> list[Rung]:
        """Rungs in descending order of cycles, fine around each budget (in points of accuracy)."""
        rungs, worst = [], max(budgets)
        for share in LADDER:
            rungs.append(self.rung(share))
            nothing_left = not (rungs[-1].heads or rungs[-1].neurons)
            if rungs[-1].fallen > worst + 1e-9 or nothing_left:
                break
        for budget in sorted(set(budgets)):
            for _ in range(BISECTIONS):
                good = best_rung(rungs, budget)
                above = good.cycles if good else self.costs.whole
                below = max((rung.cycles for rung in rungs if rung.cycles < above), default=None)
                if below is None:
                    break
                rungs.append(self.rung((above + below) / 2 / self.costs.whole))
                rungs.sort(key=lambda rung: -rung.cycles)
        return rungs


def best_rung(rungs, budget) -> Rung | None:
    """The rung with the fewest cycles such that neither it nor one above it costs more than a budget; None: none.

    One that costs less again, further down, is luck of the rows that judge.
    """
    best = None
    for rung in rungs:
        if rung.fallen > budget + 1e-9:
            break
        best = rung
    return best


def _sizes(kept):
    layers = sorted({index for index, _ in kept})
    return [[len(kept[index, "attention"]), len(kept[index, FFN])] for index in layers]
