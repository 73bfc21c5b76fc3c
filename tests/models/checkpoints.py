"""Tiny model folders of every family, with random weights, as Hugging Face writes them."""

import json

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from bertha.models.text import Sentence

CLASSES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "distilbert": "DistilBert",
    "electra": "Electra",
}

VOCABULARY = 40


def tiny_config(family, **changes):
    """Two layers, four heads of five channels."""
    roberta = "roberta" in family
    common = {"vocab_size": VOCABULARY, "max_position_embeddings": 18 if roberta else 16, **changes}
    if family == "distilbert":
        sizes = {"dim": 20, "n_heads": 4, "n_layers": 2, "hidden_dim": 24}
    else:
        sizes = {
            "hidden_size": 20,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "intermediate_size": 24,
            "type_vocab_size": 1 if roberta else 2,
        }
    if family == "electra":
        sizes["embedding_size"] = 20
    return getattr(transformers, f"{CLASSES[family]}Config")(**{**sizes, **common})


def tiny_model(family, kind="Model", seed=0, **changes):
    """A model of Hugging Face's class `kind` of the family; every parameter is random, biases too."""
    model = getattr(transformers, f"{CLASSES[family]}{kind}")(tiny_config(family, **changes)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def write_config(folder, model, **changes):
    """config.json as `save_pretrained` writes it; a change to None leaves the key out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**model.config.to_dict(), "architectures": [type(model).__name__], **changes}
    kept = {key: value for key, value in config.items() if value is not None or key == "pad_token_id"}
    (folder / "config.json").write_text(json.dumps(kept))


def write_model(folder, model, state=None, **changes):
    """config.json and model.safetensors."""
    write_config(folder, model, **changes)
    state = dict(model.state_dict()) if state is None else state
    save_file(
        {name: tensor.clone().contiguous() for name, tensor in state.items()}, folder / "model.safetensors"
    )
    return folder


def random_sentence(encoder, tokens, padding=0, segments=0, seed=0):
    """A sentence of random tokens, none of them padding; the last `segments` ones are a second text's."""
    generator = np.random.default_rng([seed, tokens])
    pad = encoder.config.pad_token_id
    ids = generator.choice([number for number in range(VOCABULARY) if number != pad], size=tokens)
    kinds = np.zeros(tokens + padding, dtype=np.int64)
    kinds[tokens - segments : tokens] = 1
    padded = np.concatenate([ids, np.full(padding, pad)]).astype(np.int64)
    return Sentence("", padded, np.arange(tokens + padding) < tokens, segments=kinds)


def own_states(model, sentence):
    """Hidden states of the family's own class for a sentence, float32 [S, hidden] each."""
    arguments = {
        "input_ids": torch.from_numpy(sentence.ids)[None],
        "attention_mask": torch.from_numpy(sentence.mask)[None].long(),
    }
    if model.config.model_type != "distilbert":
        arguments["token_type_ids"] = torch.from_numpy(sentence.segments)[None]
    with torch.inference_mode():
        output = model(**arguments, output_hidden_states=True)
    return [state[0].numpy() for state in output.hidden_states]
