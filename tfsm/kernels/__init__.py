"""Pure tensor functions: random numbers, sampling of experiences, divergence, sensitivities and line search.

All functions broadcast over leading axes: a genome may be `[P]` or `[B, P]`, with a seed of `[2]` or `[B, 2]`.
"""

from __future__ import annotations
