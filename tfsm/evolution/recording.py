"""Writing down what became of the children of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import tensorflow as tf

from tfsm.contracts import Admission, Evaluation, Tensor
from tfsm.evolution.state import State


def tally(
    state: State, lanes: Tensor, live: Tensor, fitness: Tensor, parents: Tensor, diagnostics: Mapping[str, Tensor]
) -> None:
    """Count children for the log.

    Args:
        state: where.
        lanes: of the runs, `[W]`.
        live: which of them count, `[W]`.
        fitness: the children's, `[W]`.
        parents: their parents', `[W]`.
        diagnostics: what else is counted, `[W]` each.
    """
    marks = {
        "children": tf.ones_like(live),
        "better": fitness > parents,
        "neutral": tf.equal(fitness, parents),
        "broken": fitness <= state.baseline.sparse_read(lanes),
        **diagnostics,
    }
    with after(fitness):
        for name, mark in marks.items():
            counted = tf.where(live, tf.cast(mark, tf.float32), 0.0)
            state.tallies[name].scatter_nd_add(lanes[:, None], counted)


def record(
    state: State,
    lanes: Tensor,
    live: Tensor,
    admission: Admission,
    genomes: Tensor,
    found: Evaluation,
    strength: Tensor | None = None,
) -> None:
    """Let individuals in, and note who is best, who solved the task, and that there was one evaluation more.

    Args:
        state: where.
        lanes: of the runs, `[W]`.
        live: which of them count, `[W]`.
        admission: who enters, and where.
        genomes: the individuals, `[W, P]`.
        found: what was found of them.
        strength: how many times the intensity they were made with, `[W]`; 1 if None.
    """
    with after(found.fitness):
        _record(state, lanes, live, admission, genomes, found, strength)


def _record(
    state: State,
    lanes: Tensor,
    live: Tensor,
    admission: Admission,
    genomes: Tensor,
    found: Evaluation,
    strength: Tensor | None,
) -> None:
    entering = _only(live & admission.enters)
    places = entering(lanes), entering(admission.slot)
    state.replace(*places, entering(genomes), tf.nest.map_structure(entering, found))
    if strength is not None:
        state.strength.scatter_nd_update(tf.stack(places, axis=-1), entering(strength))
    living = _only(live)
    tf.nest.map_structure(
        lambda v, new: v.scatter_nd_update(living(lanes)[:, None], living(new)), state.memory, admission.memory
    )
    finite = tf.math.is_finite(found.fitness)
    solves = live & found.solved & finite
    before = state.solved.sparse_read(lanes)
    best = state.best_fitness.sparse_read(lanes)
    better = live & finite & (found.fitness > best)
    # Whoever first solves is the champion, whatever its fitness, until a better one does.
    leading = _only((solves & ~before) | (better & (solves | ~before)))
    state.champion.scatter_nd_update(leading(lanes)[:, None], leading(genomes))
    state.champion_fitness.scatter_nd_update(leading(lanes)[:, None], leading(found.fitness))
    improving = _only(better)
    state.best_fitness.scatter_nd_update(improving(lanes)[:, None], improving(found.fitness))
    solving = _only(solves & ~before)(lanes)
    state.solved.scatter_nd_update(solving[:, None], tf.ones_like(solving, tf.bool))
    state.evaluations.scatter_nd_add(lanes[:, None], tf.cast(live, tf.int32))
    state.solved_at.scatter_nd_update(solving[:, None], state.evaluations.sparse_read(solving))


def after(fitness: Tensor) -> AbstractContextManager[None]:
    """Do what follows only if there was an evaluation: where it fails, nothing may look as if there had been one."""
    return tf.control_dependencies([fitness])


def _only(mask: Tensor) -> Callable[[Tensor], Tensor]:
    where = tf.where(mask)[:, 0]
    return lambda x: tf.gather(x, where)
