"""A model's tokenizer: its tokenizer.json, or WordPiece from its vocab.txt as Hugging Face's BertTokenizer."""

import json
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from bertha.errors import UserError

__all__ = ["TextError", "find_tokenizer", "load_tokenizer"]

SPECIAL = ("unk_token", "cls_token", "sep_token", "pad_token", "mask_token")


class TextError(UserError):
    """A text can't be used; the message is one sentence that says why."""


def find_tokenizer(folder) -> Path | None:
    """The file that a model folder's tokenizer is made from, or None: tokenizer.json, else vocab.txt."""
    files = (Path(folder) / name for name in ("tokenizer.json", "vocab.txt"))
    return next((file for file in files if file.is_file()), None)


def load_tokenizer(path) -> Tokenizer:
    """A tokenizer that neither pads nor truncates, and takes `[PAD]` or `[MASK]` in a text for plain text.

    Parameters
    ----------
    path : Path
        As `find_tokenizer` gave it. For a vocab.txt, special tokens, do_lower_case, strip_accents and
        tokenize_chinese_chars are those of tokenizer_config.json beside it; without one, a vocabulary with
        capital letters is taken to be cased.

    Raises
    ------
    TextError
        If the file can't be read, or lacks a special token.
    """
    tokenizer = _from_vocabulary(path) if path.name == "vocab.txt" else _from_json(path)
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
    for token in (special["unk_token"], special["cls_token"], special["sep_token"]):
        if token not in vocabulary:
            raise TextError(f"{path} must hold the special token {token}, but doesn't")
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
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    return tokenizer


def _config(path):
    """tokenizer_config.json, or nothing if there is none."""
    if not path.is_file():
        return {}
    try:
        config = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise TextError(f"{path} must be JSON, but can't be read: {error}") from None
    if not isinstance(config, dict):
        raise TextError(f"{path} must be a JSON object, not a {type(config).__name__}")
    for name, kinds in (
        ("do_lower_case", (bool,)),
        ("tokenize_chinese_chars", (bool,)),
        ("strip_accents", (bool, type(None))),
    ):
        if name in config and not isinstance(config[name], kinds):
            raise TextError(f"{path}: {name} must be true or false, not {config[name]!r}")
    return config


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
