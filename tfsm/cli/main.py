"""The `tfsm` command: assembles the commands, and turns errors into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Final, NoReturn

import typer

from tfsm import __version__
from tfsm.cli import config, inspect, plugins
from tfsm.cli.common import INTERRUPTED, USER_ERROR, CliContext, print_message
from tfsm.cli.inspect import doctor
from tfsm.cli.model import mutate, sensitivity
from tfsm.cli.options import DisablePlugin, PanelCommand
from tfsm.cli.replay import replay
from tfsm.cli.report import report, robustness
from tfsm.cli.reproduce import reproduce
from tfsm.cli.run import run
from tfsm.cli.studies import compare, sweep
from tfsm.cli.watch import watch
from tfsm.errors import TfsmError

# Plain help starts faster than help by rich, and can be piped.
app = typer.Typer(name="tfsm", invoke_without_command=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for command in (run, compare, sweep, robustness, reproduce, report, watch, replay, doctor, mutate, sensitivity):
    app.command(cls=PanelCommand)(command)
app.add_typer(inspect.app, name="runs")
app.add_typer(config.app, name="config")
app.add_typer(plugins.app, name="plugins")
for command in (plugins.mutations, plugins.domains, plugins.selections, plugins.observers):
    app.command(cls=PanelCommand)(command)


START: Final = """\
tfsm evolves Keras models with safe mutations. Three commands to start with:

  Evolve a recurrent network that solves a task:
    tfsm run parity --mutation sm-g-sum

  Compare the paper's mutation operators on that task:
    tfsm compare parity --runs 5

  Mutate a model of your own without breaking it:
    tfsm mutate model.keras --experience inputs.npy --out child.keras

All commands: tfsm --help"""


def _print_version(requested: bool) -> None:
    if requested:
        print(f"tfsm {__version__}")
        raise typer.Exit


@app.callback()
def tfsm(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit", callback=_print_version, is_eager=True)
    ] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Evolve Keras models with safe mutations."""
    ctx.obj = CliContext(tuple(disable_plugin or ()))
    if ctx.invoked_subcommand is None:
        print(START)


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Bytes of a path that are not valid text are printed escaped, as on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone; what is left in the buffer must not be flushed at exit.
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
        print_message(f"error: {error}")
        return USER_ERROR
    except BrokenPipeError:
        raise
    except OSError as error:
        print_message(f"error: {_describe(error)}")
        return USER_ERROR
    except Exception as error:
        # Ctrl-C inside a library's compiled code may surface as an error of that library.
        if _was_interrupted(error):
            return INTERRUPTED
        raise
    return 0


def _was_interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _describe(error: OSError) -> str:
    """Return the message of the operating system, such as for a name that is too long or a directory without access."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"
