"""An extension of griffe, which reads docstrings for the site: examples become blocks of code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", flags=re.M | re.S)


class DoctestBlocks(Extension):
    """Fences the examples of all docstrings, which Markdown would take for quotations."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = fence_examples(obj.docstring.value)


def fence_examples(docstring: str) -> str:
    r"""Return a docstring with its examples in fences.

    >>> print(fence_examples("Add.\n\n>>> 1 + 1\n2").replace("`", "'"))
    Add.
    <BLANKLINE>
    '''pycon
    >>> 1 + 1
    2
    '''
    """
    return EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", docstring)
