"""Evaluates a model: recipes on the corpus, then downstream tasks on their embeddings."""

import platform
import random
from pathlib import Path

from bertha.evaluate.corpus_agreement import SHORT_TOKENS, corpus_agreement
from bertha.evaluate.cost import model_cost
from bertha.evaluate.downstream import NEIGHBOURS, neighbours, run_task, task_texts
from bertha.evaluate.embedders import FloatEmbedder, IntegerEmbedder
from bertha.evaluate.options import EvaluationOptions
from bertha.evaluate.progress import Stages
from bertha.evaluate.report import Evaluation, RecipeResult, corpus_tables, task_tables
from bertha.evaluate.store import EmbeddingStore
from bertha.folders import BUILD
from bertha.models import text
from bertha.models.corpus import corpus
from bertha.models.encoder import load_model
from bertha.models.tasks import film_review_tasks, read_tasks
from bertha.quantize.cache import cached_model
from bertha.rtl.config import preset

__all__ = ["evaluate"]

RANDOM_SENTENCES = 60
"""Of random tokens, for a model with random weights."""


def evaluate(options=None, console=None, folder=None) -> Evaluation:
    """Recipes of a model beside PyTorch, on real text.

    Parameters
    ----------
    options : EvaluationOptions, optional
    console : rich.console.Console, optional
        Where tables go as soon as they are there, while progress goes to stderr. Without it nothing is printed.
    folder : Path, optional
        Where quantised models and embeddings are kept; by default the folder of builds.

    Raises
    ------
    UserError
        If the model, the preset or a task can't be used.
    """
    options = options or EvaluationOptions()
    folder = Path(folder or BUILD)
    encoder, config = load_model(options.model), preset(options.preset)
    tasks = _tasks(encoder, options)  # what can't be used is refused before anything takes long
    sentences, domains = _corpus(encoder, options)
    stages = Stages(shown=console is not None)
    evaluation = Evaluation(
        about=_about(options, sentences), texts=[sentence.text for sentence in sentences], domains=domains
    )
    embedders = [FloatEmbedder(encoder)]
    for recipe in options.recipes:
        with stages.stage(recipe) as stage:
            model = cached_model(encoder, recipe, folder=folder / "quantized", notify=stage.say)
        embedder = IntegerEmbedder(encoder, recipe, model)
        with stages.stage(f"{recipe}: {len(sentences)} sentences", _tokens(sentences)) as stage:
            agreement = corpus_agreement(embedders[0], embedder, sentences, domains, stage.advance)
        with stages.stage(f"{recipe}: compiling for {options.preset}"):
            cost = model_cost(model, config, options.tokens)
        evaluation.recipes[recipe] = RecipeResult(agreement=agreement, cost=cost)
        embedders.append(embedder)
    _print(console, corpus_tables(evaluation))
    store = EmbeddingStore(folder / "accuracy" / "embeddings")
    for task, texts in tasks:
        evaluation.tasks += _results(task, texts, embedders, store, options, stages)
    _print(console, task_tables(evaluation))
    return evaluation


def _tasks(encoder, options):
    """The tasks, at most as large as the options say, each with the sentences that it needs embeddings of."""
    if not options.tasks:
        return []
    found = film_review_tasks() if encoder.trained else []
    names = {task.name for task in found}
    found += [task for task in read_tasks(options.folders) if task.name not in names]
    tasks = [task.limited(**options.rows(task.name), seed=options.seed) for task in found]
    return [(task, _trimmed(encoder, task_texts(task), options)) for task in tasks]


def _trimmed(encoder, texts, options):
    return [text.trim(sentence) for sentence in text.tokenize(encoder, texts, options.tokens)]


def _corpus(encoder, options):
    """Sentences and their domains."""
    if not encoder.trained and encoder.tokenizer_file is None:
        count = options.sentences or RANDOM_SENTENCES
        lengths = [3 + (7 * index) % (options.tokens - 2) for index in range(count)]
        sentences = [
            text.random_sentences(encoder, 1, length, seed=1_000_000 * (options.seed + 1) + index)[0]
            for index, length in enumerate(lengths)
        ]
        return sentences, ["random tokens"] * count
    texts = corpus(options.seed)
    if options.sentences is not None and options.sentences < len(texts):
        chosen = random.Random(f"corpus {options.seed}").sample(range(len(texts)), options.sentences)
        texts = [texts[index] for index in sorted(chosen)]
    return _trimmed(encoder, [item.text for item in texts], options), [item.domain for item in texts]


def _results(task, sentences, embedders, store, options, stages):
    """A task's results; of film reviews' sentences also the neighbours."""
    vectors = {}
    for embedder in embedders:
        name = f"{task.name}: {len(sentences)} texts, {embedder.name}"
        with stages.stage(name, _tokens(sentences)) as stage:
            vectors[embedder.name] = store.embed(embedder, sentences, stage.advance)
    with stages.stage(f"{task.name}: probes", options.seeds * len(embedders)) as stage:
        results = [run_task(task, vectors, seeds=options.seeds, advance=stage.advance)]
    if task.name == "reviews-short":
        results.append(neighbours({name: rows[:NEIGHBOURS] for name, rows in vectors.items()}))
    return results


def _about(options, sentences):
    return {
        "model": str(options.model),
        "preset": options.preset,
        "tokens": options.tokens,
        "corpus": {
            "sentences": len(sentences),
            "short": sum(sentence.tokens in SHORT_TOKENS for sentence in sentences),
            "tokens": _tokens(sentences),
            "seed": options.seed,
            "python": platform.python_version(),  # whose library gives code and documentation
        },
    }


def _tokens(sentences):
    return sum(sentence.tokens for sentence in sentences)


def _print(console, tables):
    if console:
        for table in tables:
            console.print(table)
