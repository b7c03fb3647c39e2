"""What commands share besides options: output, plugins, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

import typer

from tfsm.utils.files import to_json
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from rich.console import Console

    from tfsm.plugins import Plugins
    from tfsm.plugins.registry import Entry
    from tfsm.settings import Settings

USER_ERROR: Final = 2
INTERRUPTED: Final = 130
"""Exit codes."""

_UNLIMITED: Final = 10_000


def make_console(*, stderr: bool = False) -> Console:
    """Return a console on stdout or stderr that prints text as it is."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    # A pipe has no width: its reader expects one line per row.
    width = None if file.isatty() else _UNLIMITED
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def print_message(message: str) -> None:
    """Print a message to stderr, neither wrapped nor styled."""
    print(message, file=sys.stderr)


def print_json(value: object) -> None:
    """Print a value as JSON; dataclasses become objects, and numbers that JSON lacks become null."""
    print(json.dumps(to_json(value), indent=2))


@dataclass(frozen=True)
class CliContext:
    """The options given before the name of the command."""

    disabled: tuple[str, ...] = ()

    def load_plugins(self) -> Plugins:
        """Load the plugins and warn about broken ones."""
        from tfsm.plugins import load_plugins

        plugins = load_plugins(disabled=self.disabled)
        for warning in plugins.warnings():
            print_message(f"warning: {warning}")
        return plugins


def get_plugins(ctx: typer.Context, disabled: list[str] | None = None) -> Plugins:
    """Load the plugins for a command, without those that were disabled before or after the command's name."""
    outer = ctx.obj if isinstance(ctx.obj, CliContext) else CliContext()
    context = CliContext((*outer.disabled, *disabled)) if disabled else outer
    return context.load_plugins()


def import_tensorflow_for(*entries: Entry) -> None:
    """Import TensorFlow now if a part has to be imported to learn its options."""
    if any(entry.options is None for entry in entries):
        import_tensorflow()


def import_tensorflow_to_run(plugins: Plugins, settings: Settings) -> None:
    """Import TensorFlow with as many threads as a run needs."""
    from tfsm.settings import choose_threads

    threads = choose_threads(settings, plugins.domains[settings.domain])
    import_tensorflow(threads, required=settings.engine.get("threads") is not None)


class InterruptHandler:
    """While entered, turns the first SIGINT or SIGTERM into a request to stop; the second one interrupts."""

    def __init__(self) -> None:
        self._requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def requested(self) -> bool:
        """Return whether a stop was requested."""
        return self._requested

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        print_message("Stopping after this step; results are saved. Press Ctrl-C again to quit now.")
