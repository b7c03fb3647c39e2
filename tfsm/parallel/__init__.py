"""Places where work can be done: pools of workers that know nothing of what they work on."""

from __future__ import annotations
