"""`python -m tfsm` is the command `tfsm`."""

from __future__ import annotations

from tfsm.cli.main import main

if __name__ == "__main__":
    main()
