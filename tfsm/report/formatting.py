"""Numbers and names, formatted for people. Imports neither NumPy nor TensorFlow."""

from __future__ import annotations

from typing import Final

MISSING: Final = "-"
RATE_SECONDS: Final = 15.0
"""How far back a rate looks."""


def format_number(value: float | None) -> str:
    """Return a number with as many digits as are worth reading.

    >>> format_number(12345.678), format_number(0.0123456), format_number(-0.5), format_number(None)
    ('12,346', '0.01235', '-0.5', '-')
    """
    if value is None:
        return MISSING
    return f"{value:,.0f}" if 1_000 <= abs(value) < 1e15 else f"{value:.4g}"


def format_percent(share: float) -> str:
    """Return a share as a percentage.

    >>> format_percent(5 / 6), format_percent(0.0042), format_percent(1.0)
    ('83%', '0.4%', '100%')
    """
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"


def format_p_value(p: float | None) -> str:
    """Return a p-value.

    >>> format_p_value(0.0496), format_p_value(1e-9), format_p_value(0.5), format_p_value(None)
    ('0.0496', '< 0.0001', '0.500', '-')
    """
    if p is None:
        return MISSING
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.1 else f"{p:.3f}"


def format_interval(low: float | None, high: float | None) -> str:
    """Return an interval, either end of which may be unknown.

    >>> format_interval(1, 2.5), format_interval(1, None), format_interval(None, None)
    ('1 to 2.5', '1 or more', 'interval unknown')
    """
    if low is None and high is None:
        return "interval unknown"
    if high is None:
        return f"{format_number(low)} or more"
    return f"up to {format_number(high)}" if low is None else f"{format_number(low)} to {format_number(high)}"


def format_duration(seconds: float) -> str:
    """Return a duration as minutes and seconds, with hours if there are any.

    >>> format_duration(75.4), format_duration(3 * 3600 + 62)
    ('1:15', '3:01:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_rate(rate: float | None) -> str:
    """Return a number per second; slow ones have decimals.

    >>> format_rate(12345.6), format_rate(12.34), format_rate(0.0625), format_rate(None)
    ('12,346', '12', '0.062', '-')
    """
    if rate is None:
        return MISSING
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def format_count(count: int, noun: str) -> str:
    """Return a number of things.

    >>> format_count(1, "run"), format_count(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def join_words(words: list[str]) -> str:
    """Join words with commas, and with "and" before the last.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def shorten(text: str, length: int) -> str:
    """Shorten a text to a maximum length by leaving out its middle.

    >>> shorten("sm-r in runs/parity", 11)
    'sm-r …arity'
    """
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def replace_unprintable(text: str) -> str:
    """Replace what no terminal, font or page can show: control characters and undecodable bytes.

    >>> replace_unprintable("a" + chr(27) + "b") == "a" + chr(0xFFFD) + "b"
    True
    """
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


class RateMeter:
    """Measures how fast a count has recently grown.

    >>> meter = RateMeter()
    >>> meter.add(0.0, 100), meter.add(2.0, 500)
    (None, 200.0)
    """

    def __init__(self, seconds: float = RATE_SECONDS) -> None:
        self._seconds = seconds
        self._changes: list[tuple[float, int]] = []

    def add(self, when: float, count: int) -> float | None:
        """Add an observation and return the counts per second; None until the count has grown."""
        if self._changes and count < self._changes[-1][1]:
            self._changes = []
        if not self._changes or count > self._changes[-1][1]:
            self._changes.append((when, count))
        # A count that seldom changes needs two changes, however old they are.
        while len(self._changes) > 2 and when - self._changes[0][0] > self._seconds:
            del self._changes[0]
        (first, count_then), (last, count_now) = self._changes[0], self._changes[-1]
        return (count_now - count_then) / (last - first) if last > first else None
