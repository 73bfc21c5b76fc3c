"""From a fine-tuned model and a task to a specialised one, and what both come to on the test set."""

import json
from dataclasses import dataclass
from pathlib import Path

from bertha.errors import UserError
from bertha.models.encoder import load_model, model_folder
from bertha.models.folders import transformer_folder
from bertha.models.structure import FILE
from bertha.models.tasks import read_task
from bertha.specialise.ablation import ATTENTION, FFN, METHODS
from bertha.specialise.batches import label_sentences
from bertha.specialise.cycles import measure_costs
from bertha.specialise.export import DENSE, check_output, export, structure_of
from bertha.specialise.greedy import descend_greedily
from bertha.specialise.hard import search_hard_attention
from bertha.specialise.log import DecisionLog, readable
from bertha.specialise.measured import measure_model, run_tokens
from bertha.specialise.parts import training_parts
from bertha.specialise.prune import embedded_in
from bertha.specialise.search import Search, SearchOptions, best_rung

__all__ = ["GREEDY", "REPORT", "SpecialiseOptions", "search_model", "specialise"]

GREEDY = ("greedy", "flat")
"""Methods of `bertha.specialise.greedy`, beside `bertha.specialise.ablation.METHODS`."""

REPORT = "report.json"
_SHOWN_BUDGETS = (0.0, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True)
class SpecialiseOptions:
    """How a model is specialised.

    Parameters
    ----------
    budget : float
        Points of accuracy that may be lost on the rows that judge.
    hard_attention : tuple of int
        Numbers of keys to try in each layer; none: all layers attend to all keys.
    renormalised : bool
    method : str
        One of `METHODS` and `GREEDY`.
    repair : bool
    longest : int
        Tokens to which texts are cut.
    judge : int or None
        At most so many rows judge.
    seed : int
    integer_rows : int
        Rows of the test set that the integer models are scored on.
    """

    budget: float = 0.0
    hard_attention: tuple = ()
    renormalised: bool = True
    method: str = METHODS[0]
    repair: bool = True
    longest: int = 128
    judge: int | None = None
    seed: int = 0
    integer_rows: int = 0

    def __post_init__(self):
        if not 0 <= self.budget <= 100:
            raise UserError(f"the budget must be from 0 to 100 points, not {self.budget:g}")
        if self.method not in (*METHODS, *GREEDY):
            raise UserError(f"--method must be one of {', '.join((*METHODS, *GREEDY))}, not {self.method!r}")


def search_model(encoder, training, options, *, notify, advance) -> tuple:
    """The search alone, which gets no more of the task than its training set.

    Returns
    -------
    pruned : Pruned or None
        None: nothing can go.
    kept : dict
    hard : HardAttention or None
    facts : dict
        Evaluations, and the rungs as JSON has them.
    """
    sentences = [
        *label_sentences(encoder, training.fit, options.longest),
        *label_sentences(encoder, training.judge, options.longest),
    ]
    tokens = run_tokens(sentences)
    for keys in options.hard_attention:
        if not 1 <= keys <= tokens:
            raise UserError(
                f"keys of hard attention must be from 1 to the {tokens} tokens of a run, not {keys}"
            )
    settings = SearchOptions(
        method=options.method if options.method in METHODS else METHODS[0],
        repair=options.repair,
        longest=options.longest,
        judge=options.judge or SearchOptions.judge,
        seed=options.seed,
    )
    costs = measure_costs(encoder.config, tokens)
    search = Search(encoder, training, costs, settings, notify, advance)
    rungs = []
    if options.method in GREEDY:
        kept = descend_greedily(search, options.budget, blocks=options.method == "greedy")
        pruned = search.build(kept)
    else:
        rungs = search.descend(sorted({*_SHOWN_BUDGETS, options.budget}))
        best = best_rung(rungs, options.budget)
        kept = best.kept if best else None
        pruned = search.build(kept) if best else None
    if pruned is None:
        kept = _everything(encoder)
    hard = None
    if options.hard_attention:
        result = pruned.encoder if pruned else encoder
        rows = embedded_in(pruned, encoder, search.judge) if pruned else search.judge
        hard = search_hard_attention(
            result, rows, options.hard_attention, renormalised=options.renormalised, notify=notify
        )
    return (
        pruned,
        kept,
        hard,
        {
            "tokens": tokens,
            "evaluations": search.evaluations,
            "judged_rows": len(search.whole.losses),
            "whole": {"accuracy": search.whole.accuracy, "loss": search.whole.loss, "cycles": costs.whole},
            "rungs": [
                {"cycles": rung.cycles, "accuracy": rung.accuracy, "loss": rung.loss, "fallen": rung.fallen}
                for rung in rungs
            ],
        },
    )


def _everything(encoder) -> dict[tuple[int, str], tuple]:
    """All heads and neurons."""
    config = encoder.config
    units = {ATTENTION: config.num_attention_heads, FFN: config.intermediate_size}
    return {
        (index, kind): tuple(range(count)) for index in range(encoder.layers) for kind, count in units.items()
    }


def specialise(name, task_folder, output, options, *, quantize=None, say=lambda line: None, advance) -> dict:
    """Specialises a model, writes it, and scores it and the whole one on the test set, once, when all is decided.

    Parameters
    ----------
    name, task_folder, output : str or Path
    options : SpecialiseOptions
    quantize : callable, optional
        Gives an encoder's integers (QuantizedModel), if they are to be scored too.
    say : callable
        Called with a line of text for each decision.
    advance : callable
        Called with how much of how much is done.

    Returns
    -------
    What report.json holds.

    Raises
    ------
    UserError
        If the model, the task or an option can't be used.
    """
    check_output(output)
    task = read_task(task_folder)
    training = training_parts(task)
    encoder = load_model(name)
    _check(encoder, name, training)
    log = DecisionLog()

    def notify(event):
        log.add(event)
        say(readable(event))

    pruned, kept, hard, facts = search_model(encoder, training, options, notify=notify, advance=advance)
    result = pruned.encoder if pruned else encoder
    export(name, result, structure_of(encoder, kept, hard), output)
    log.write(output)
    models = {"baseline": encoder, "pruned": result}
    if hard:
        models["hard attention"] = result.with_hard_attention(hard)
    report = {
        "task": task.name,
        "model": Path(name).resolve().name,
        "classes": len(training.classes),
        "seed": options.seed,
        "method": options.method,
        "repair": options.repair,
        "budget": options.budget,
        "search": facts,
        "models": {},
    }
    for title, model in models.items():
        found = measure_model(
            model,
            task,
            training,
            tokens=facts["tokens"],
            longest=options.longest,
            quantized=quantize(model) if quantize else None,
            integer_rows=options.integer_rows,
        )
        report["models"][title] = found.as_dict()
    (Path(output) / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def _check(encoder, name, training):
    if encoder.classifier is None:
        raise UserError(
            f"a model to specialise must have a classification head (bertha finetune), but {name} has none"
        )
    if (transformer_folder(model_folder(name)) / FILE).is_file():
        raise UserError(
            f"a model to specialise must be whole, but {name} has been specialised: take its {DENSE} folder"
        )
    labels = tuple(encoder.classifier.labels)
    if labels != training.classes:
        raise UserError(
            f"a model to specialise must have the labels of its task, {', '.join(training.classes)[:80]}, "
            f"not {', '.join(labels)[:80]}"
        )
