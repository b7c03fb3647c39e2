"""The command `tfsm`: puts the commands together, and turns errors into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Final, NoReturn

import typer

from tfsm import __version__
from tfsm.cli import config, plugins
from tfsm.cli import inspect as runs
from tfsm.cli import plugins as parts
from tfsm.cli.common import Context, DisablePlugin, say
from tfsm.cli.inspect import doctor
from tfsm.cli.model import mutate, sensitivity
from tfsm.cli.replay import replay
from tfsm.cli.report import report, robustness
from tfsm.cli.reproduce import reproduce
from tfsm.cli.run import run
from tfsm.cli.studies import compare, sweep
from tfsm.errors import TfsmError

USER_ERROR: Final = 2
INTERRUPTED: Final = 130

# Plain help starts faster than rich help, and can be piped.
app = typer.Typer(name="tfsm", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(run)
app.command()(compare)
app.command()(sweep)
app.command()(robustness)
app.command()(reproduce)
app.command()(report)
app.command()(replay)
app.command()(doctor)
app.command()(mutate)
app.command()(sensitivity)
app.add_typer(runs.app, name="runs")
app.add_typer(config.app, name="config")
app.add_typer(plugins.app, name="plugins")
app.command()(parts.mutations)
app.command()(parts.domains)
app.command()(parts.selections)
app.command()(parts.observers)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tfsm {__version__}")
        raise typer.Exit


@app.callback()
def tfsm(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Evolve Keras models with safe mutations."""
    ctx.obj = Context(tuple(disable_plugin or ()))


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path may have bytes in its name that are no text: they are shown as they can be, as on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; what is left in the buffer must not be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _run(args: list[str] | None) -> int | str | None:
    try:
        app(args=args, prog_name="tfsm")
    except SystemExit as exit_:
        return exit_.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except TfsmError as error:
        say(f"error: {error}")
        return USER_ERROR
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"error: {_words(error)}")
        return USER_ERROR
    except Exception as error:
        # Ctrl-C within compiled code of a library may come out as an error of that library.
        if _was_interrupted(error):
            return INTERRUPTED
        raise
    return 0


def _was_interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _words(error: OSError) -> str:
    """Say what the system says: of a name that is too long, of a directory that may not be looked into."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"
