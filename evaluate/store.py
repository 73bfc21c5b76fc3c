"""Embeddings kept on disk by model and sentence, since thousands of them take a while."""

import contextlib
import hashlib
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

__all__ = ["EmbeddingStore"]

CHUNK_TOKENS = 4096
"""Tokens whose embeddings are computed, and put on disk, together."""


class EmbeddingStore:
    """Embeddings in files below a folder.

    Each model has a folder, named by its digest, with a file for every chunk of sentences that was computed; so
    whoever is interrupted goes on where they were. Files that can't be read are made anew. A folder that can't be
    written to costs time only.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder):
        self._folder = Path(folder)
        self._known = {}

    def embed(self, embedder, sentences, advance=lambda tokens: None) -> np.ndarray:
        """float32 [n, hidden] of the sentences; `advance` is called with the tokens of each that is ready."""
        known = self._load(embedder)
        keys = [_key(sentence) for sentence in sentences]
        fresh = {key: sentence for key, sentence in zip(keys, sentences) if key not in known}
        for key, sentence in zip(keys, sentences):
            if key not in fresh:
                advance(sentence.tokens)
        repeated = sum(sentence.tokens for key, sentence in zip(keys, sentences) if key in fresh)
        advance(repeated - sum(sentence.tokens for sentence in fresh.values()))

        def compute(chunk):
            return chunk, embedder.embed([fresh[key] for key in chunk])

        if fresh:
            with _limited(embedder.threads), ThreadPoolExecutor(embedder.threads) as pool:
                for chunk, vectors in _finished(pool, compute, _chunks(fresh)):
                    known.update(zip(chunk, vectors))
                    self._save(embedder, chunk, vectors)
                    advance(sum(fresh[key].tokens for key in chunk))
        return np.array([known[key] for key in keys])

    def _load(self, embedder):
        if embedder.digest not in self._known:
            known = {}
            for path in sorted(self._place(embedder).glob("*.npz")):
                try:
                    with np.load(path) as arrays:
                        known.update(zip(arrays["keys"].tolist(), arrays["vectors"]))
                except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                    continue
            self._known[embedder.digest] = known
        return self._known[embedder.digest]

    def _save(self, embedder, keys, vectors):
        place = self._place(embedder)
        name = hashlib.sha256("".join(keys).encode()).hexdigest()[:32]
        partial = place / f".{name}.{os.getpid()}"
        try:
            place.mkdir(parents=True, exist_ok=True)
            with open(partial, "wb") as file:
                np.savez(file, keys=np.array(keys), vectors=vectors)
            partial.replace(place / f"{name}.npz")
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    def _place(self, embedder):
        return self._folder / f"{embedder.name}-{embedder.digest[:32]}"


def _key(sentence):
    return hashlib.sha256(np.ascontiguousarray(sentence.ids[sentence.mask]).tobytes()).hexdigest()[:32]


def _chunks(sentences):
    """Keys of sentences of similar length, of about `CHUNK_TOKENS` tokens together; long ones first."""
    order = sorted(sentences, key=lambda key: -sentences[key].tokens)
    chunk, tokens = [], 0
    for key in order:
        chunk.append(key)
        tokens += sentences[key].tokens
        if tokens >= CHUNK_TOKENS:
            yield chunk
            chunk, tokens = [], 0
    if chunk:
        yield chunk


def _limited(threads):
    """One BLAS thread for each of ours, if there are several."""
    return threadpool_limits(1 if threads > 1 else None, user_api="blas")


def _finished(pool, compute, chunks):
    """Results in the order of the chunks; what hasn't begun is dropped when the caller is interrupted."""
    waiting = [pool.submit(compute, chunk) for chunk in chunks]
    try:
        for future in waiting:
            yield future.result()
    finally:
        for future in waiting:
            future.cancel()
