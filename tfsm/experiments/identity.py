"""Which experiment it is: settings as far as they matter for what comes of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from tfsm.experiments.collect import flattened

WITHOUT_EFFECT: Final = (
    "engine.",
    "observers",
    "observer_options",
    "checkpoint_every",
    "evaluation_timeout",
    "failures",
    "trust_model",
)
"""Settings that do not matter for what comes of a run: how the engine works, what is kept, and who is told."""
LARGER: Final = ("evaluations", "runs")
"""Settings of which there may be more when an experiment goes on: what is there stays as it is."""


def different(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return in words what matters and is another than before, of settings as plain JSON values."""
    old, new = flattened(before), flattened(wanted)
    return [
        f"{key} was {old.get(key)} and is now {new[key]}"
        for key in new
        if old.get(key) != new[key] and not key.startswith(WITHOUT_EFFECT)
    ]


def fingerprint(settings: Mapping[str, Any]) -> str:
    """Return a text that is another for another experiment, and the same for more of this one."""
    kept = {
        key: value
        for key, value in flattened(settings).items()
        if not key.startswith(WITHOUT_EFFECT) and key not in LARGER
    }
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
