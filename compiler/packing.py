"""Packs sentences into programs: one after another, each seeing itself alone.

Best fit, the longest first: a sentence goes where the least room is left behind it. Within a program the longest
sentence is first, so that short ones share row panels with their like.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

__all__ = ["Packing", "pack_sentences"]


@dataclass(frozen=True)
class Packing:
    """The sentences of one run.

    Attributes
    ----------
    tokens : int
        Rows of the program (S).
    sentences : tuple of int
        Which sentences, in the order of their rows.
    starts, lengths : tuple of int
        First row and rows of each of them.
    """

    tokens: int
    sentences: tuple
    starts: tuple
    lengths: tuple

    @property
    def ranges(self) -> np.ndarray:
        """int64 [tokens, 2]: the keys that each row sees, its own sentence's; (0, 0) for padding."""
        ranges = np.zeros((self.tokens, 2), dtype=np.int64)
        for place in self.places:
            ranges[place] = (place.start, place.stop)
        return ranges

    @property
    def places(self) -> list[slice]:
        """Rows of each sentence."""
        return [slice(start, start + length) for start, length in zip(self.starts, self.lengths, strict=True)]

    @property
    def padding(self) -> int:
        """Rows that hold no token."""
        return self.tokens - sum(self.lengths)

    def gather(self, rows, width) -> np.ndarray:
        """int16 [tokens, width] from each sentence's int16 [length, width]; padding is zero."""
        packed = np.zeros((self.tokens, width), dtype=np.int16)
        for place, number in zip(self.places, self.sentences, strict=True):
            packed[place] = rows[number]
        return packed


def pack_sentences(lengths, tokens) -> list[Packing]:
    """Packings of `tokens` rows each, that hold every sentence once.

    Parameters
    ----------
    lengths : list of int
        Tokens of each sentence, at least 1.
    tokens : int
        Most tokens of a run.

    Raises
    ------
    ValueError
        If a sentence has no token, or more than a run takes.
    """
    for number, length in enumerate(lengths):
        if not 1 <= length <= tokens:
            raise ValueError(f"a sentence must have 1 to {tokens} tokens, but number {number} has {length}")
    room = []  # (rows left, program), ascending
    programs = []
    for number in sorted(range(len(lengths)), key=lambda number: (-lengths[number], number)):
        place = bisect_left(room, (lengths[number], -1))
        if place == len(room):
            left, program = tokens, len(programs)
            programs.append([])
        else:
            left, program = room.pop(place)
        programs[program].append(number)
        insort(room, (left - lengths[number], program))
    return [_packing(program, lengths, tokens) for program in programs]


def _packing(sentences, lengths, tokens):
    own = [lengths[number] for number in sentences]
    starts = np.concatenate([[0], np.cumsum(own)[:-1]]).tolist()
    return Packing(tokens, tuple(sentences), tuple(starts), tuple(own))
