"""A model's tokenizer: its tokenizer.json, or made from a vocabulary as Hugging Face's own classes do.

A vocab.txt is WordPiece's (BertTokenizer), a vocab.json with merges.txt byte-level BPE's (RobertaTokenizer).
"""

import json
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from bertha.errors import UserError

__all__ = ["TextError", "find_tokenizer", "load_tokenizer"]

SPECIAL = ("unk_token", "cls_token", "sep_token", "pad_token", "mask_token")


class TextError(UserError):
    """A text can't be used; the message is one sentence that says why."""


def find_tokenizer(folder) -> Path | None:
    """The file that a model folder's tokenizer is made from, or None.

    It is tokenizer.json, else vocab.txt, else vocab.json if merges.txt is beside it.
    """
    for names in (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt")):
        files = [Path(folder) / name for name in names]
        if all(file.is_file() for file in files):
            return files[0]
    return None


def load_tokenizer(path) -> Tokenizer:
    """A tokenizer that neither pads nor truncates, and takes `[PAD]` or `[MASK]` in a text for plain text.

    Parameters
    ----------
    path : Path
        As `find_tokenizer` gave it. For a vocab.txt, special tokens, do_lower_case, strip_accents and
        tokenize_chinese_chars are those of tokenizer_config.json beside it; without one, a vocabulary with
        capital letters is taken to be cased. For a vocab.json, merges.txt is beside it, and special tokens
        and add_prefix_space are those of tokenizer_config.json.

    Raises
    ------
    TextError
        If the file can't be read, or lacks a special token.
    """
    make = {"vocab.txt": _from_vocabulary, "vocab.json": _from_merges}.get(path.name, _from_json)
    tokenizer = make(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _from_json(path):
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise TextError(f"{path} must be a tokenizer, but can't be read: {error}") from None


def _from_vocabulary(path):
    tokens = [line.removesuffix("\r") for line in _read(path).split("\n")]
    if not tokens[-1]:
        tokens.pop()  # the last line's end
    vocabulary = {token: number for number, token in enumerate(tokens)}
    config = _config(path.with_name("tokenizer_config.json"))
    special = {name: _content(config.get(name)) or f"[{name[:-6].upper()}]" for name in SPECIAL}
    _check_special(path, vocabulary, [special[name] for name in ("unk_token", "cls_token", "sep_token")])
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token=special["unk_token"]))
    tokenizer.normalizer = BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=config.get("do_lower_case", "A" not in vocabulary),
    )
    tokenizer.pre_tokenizer = BertPreTokenizer()
    first, last = special["cls_token"], special["sep_token"]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    return tokenizer


def _from_merges(path):
    vocabulary = _json(path)
    if not vocabulary or not all(type(number) is int and number >= 0 for number in vocabulary.values()):
        raise TextError(f"{path} must give a number to every token, but doesn't")
    pairs = path.with_name("merges.txt")
    merges = [
        tuple(line.split(" "))
        for line in (line.removesuffix("\r") for line in _read(pairs).split("\n"))
        if line and not line.startswith("#version")
    ]
    for merge in merges:
        if len(merge) != 2:
            raise TextError(f"{pairs} must have two tokens a line, not {' '.join(merge)[:40]!r}")
    config = _config(path.with_name("tokenizer_config.json"))
    prefix = config.get("add_prefix_space", False)
    first = _content(config.get("cls_token")) or "<s>"
    last = _content(config.get("sep_token")) or "</s>"
    _check_special(path, vocabulary, [first, last])
    try:
        model = BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="")
    except Exception as error:  # the library raises nothing more special
        raise TextError(f"{pairs} must merge tokens of {path.name}, but can't: {error}") from None
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=prefix)
    tokenizer.post_processor = RobertaProcessing(
        (last, vocabulary[last]), (first, vocabulary[first]), trim_offsets=True, add_prefix_space=prefix
    )
    return tokenizer


def _check_special(path, vocabulary, tokens):
    for token in tokens:
        if token not in vocabulary:
            raise TextError(f"{path} must hold the special token {token}, but doesn't")


def _config(path):
    """tokenizer_config.json, or nothing if there is none."""
    if not path.is_file():
        return {}
    config = _json(path)
    for name, kinds in (
        ("do_lower_case", (bool,)),
        ("tokenize_chinese_chars", (bool,)),
        ("strip_accents", (bool, type(None))),
        ("add_prefix_space", (bool,)),
    ):
        if name in config and not isinstance(config[name], kinds):
            raise TextError(f"{path}: {name} must be true or false, not {config[name]!r}")
    return config


def _json(path):
    try:
        values = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise TextError(f"{path} must be JSON, but can't be read: {error}") from None
    if not isinstance(values, dict):
        raise TextError(f"{path} must be a JSON object, not a {type(values).__name__}")
    return values


def _content(token):
    """A special token's text; Hugging Face writes a string or an object."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _read(path):
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
        raise TextError(f"{path} can't be read: {reason}") from None
