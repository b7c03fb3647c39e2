from __future__ import annotations

import doctest
import subprocess
import sys

from tfsm import analysis as statistics
from tfsm.analysis import significance as family


def test_importing_the_statistics_imports_no_tensorflow() -> None:
    code = "import sys, tfsm.analysis; print(sorted({'keras', 'tensorflow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert sorted(statistics.__all__) == statistics.__all__
    assert all(callable(getattr(statistics, name)) for name in statistics.__all__)


def test_the_example_runs() -> None:
    found = doctest.testmod(family)
    assert found.attempted == 1
    assert found.failed == 0
