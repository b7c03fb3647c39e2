"""Pure tensor functions: noise, divergence, sensitivities, line search.

All of them broadcast over leading axes: a genome may be `[P]` or `[B, P]`, its seed then `[2]` or `[B, 2]`.
"""

from __future__ import annotations
