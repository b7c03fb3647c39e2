"""Ways to damage a file."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st

ODD: Final = (None, True, False, 0, 1, -1, 0.5, 1e308, float("inf"), float("nan"), 2**31, 2**64, 10**40, -(10**400))
"""Values that are seldom meant."""
SNIPPETS: Final = st.sampled_from(
    [
        b"9" * 5000,
        b"[" * 3000,
        b'{"a":' * 3000,
        b"a." * 3000,
        b"\\u0000",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b'"""',
        b"1e400",
        b"NaN",
    ]
)
"""What readers of text have stumbled over."""
VALUES: Final = st.recursive(
    st.sampled_from([*ODD, "\x1b[2J", "\x00", "../up", "/etc", "~nobody", "\ud800", "a" * 400]) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Flip bits, overwrite, cut out, double or cut off; or give something else altogether."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60))
    content = bytearray(whole)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 4, 16]))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        length = draw(st.sampled_from([1, 2, 4, 8, 40]))
        match draw(st.sampled_from(["flip", "flip", "write", "number", "remove", "double", "insert", "cut"])):
            case "flip":
                content[at : at + 1] = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in content[at : at + 1])
            case "write":
                content[at : at + length] = draw(st.binary(min_size=length, max_size=length))
            case "number":
                number = draw(st.sampled_from([0, 1, 2**15, 2**31 - 1, 2**32 - 1, len(whole)]))
                content[at : at + 4] = number.to_bytes(4, "little")
            case "remove":
                del content[at : at + length]
            case "double":
                content[at:at] = content[at : at + length]
            case "insert":
                content[at:at] = draw(SNIPPETS)
            case "cut":
                del content[at:]
    return bytes(content)


@st.composite
def changed(draw: st.DrawFn, value: Any, others: st.SearchStrategy[Any] = VALUES) -> Any:
    """Change some places of what JSON or TOML can say: other values, keys that go or come, items twice."""
    value = deepcopy(value)
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        places = list(_places(value))
        if not places:
            return deepcopy(draw(others))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["other", "other", "remove", "copy", "swap"])):
            case "other":
                holder[key] = deepcopy(draw(others))
            case "remove":
                del holder[key]
            case "copy" if isinstance(holder, dict):
                holder[draw(st.text(max_size=4))] = deepcopy(holder[key])
            case "copy":
                holder.append(deepcopy(holder[key]))
            case _:
                other, place = places[draw(st.integers(0, len(places) - 1))]
                holder[key], other[place] = deepcopy((other[place], holder[key]))
    return value


def _places(value: Any) -> Sequence[tuple[Any, Any]]:
    """Return every place in a value, as what holds it and the key or index."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, item in items:
            found.append((holder, key))
            waiting.append(item)
    return found
