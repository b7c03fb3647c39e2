"""Run the `tfsm` command as `python -m tfsm`."""

from __future__ import annotations

from tfsm.cli.main import main

if __name__ == "__main__":
    main()
