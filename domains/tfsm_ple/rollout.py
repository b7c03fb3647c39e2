"""Games in lock step: all that are still on are asked at once, then each plays on by its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tfsm.rollouts.asking import Decide
from tfsm.rollouts.remembering import Memory, spread
from tfsm_ple.observing import Observer
from tfsm_ple.options import PleOptions
from tfsm_ple.playing import Play


class Played(NamedTuple):
    """What came of it."""

    score: np.ndarray
    """`[B, episodes]`, NaN where an answer was no number."""
    frames: np.ndarray
    """`[B, episodes]`"""
    seen: np.ndarray
    """`[B, remembered, ...]`"""


def play(
    plays: Sequence[Play],
    observer: Observer,
    decide: Decide,
    seeds: np.ndarray,
    options: PleOptions,
    watch: Callable[[Play], None] | None = None,
) -> Played:
    """Play all episodes.

    Args:
        plays: B games.
        observer: what is seen of them.
        decide: who plays; B answers at a time.
        seeds: `[B, 2]`, int32.
        options: how long, how often, and how much to remember.
        watch: called after every frame of the first game.
    """
    score, frames = np.zeros((2, len(plays), options.episodes), np.float32)
    memories: list[Memory[np.ndarray]] = [Memory(options.remembered) for _ in plays]
    seen = np.repeat(observer.blank[None], len(plays), axis=0)
    words = np.ascontiguousarray(seeds, np.int32).view(np.uint32)
    for episode in range(options.episodes):
        for each, own in zip(plays, words, strict=True):
            each.start([*own.tolist(), episode])
        on = set(range(len(plays)))
        while on:
            for b in sorted(on):
                seen[b] = observer.see(plays[b])
                if memories[b].passes():
                    memories[b].keep(seen[b].copy())
            answers = decide([seen[:, None]])[:, 0]
            sound = np.logical_and.reduce(np.isfinite(answers), axis=-1)
            for b in sorted(on):
                each = plays[b]
                if sound[b]:
                    times = min(options.hold, options.frames - each.frames)
                    each.act(each.actions[int(answers[b].argmax())], times, watch if b == 0 else None)
                if not sound[b] or each.over or each.frames >= options.frames:
                    score[b, episode] = each.score if sound[b] else np.nan
                    frames[b, episode] = each.frames
                    on.remove(b)
    return Played(score, frames, np.stack([spread(memory.kept, options.remembered) for memory in memories]))
