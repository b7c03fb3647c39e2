"""Run pytest and ruff as the author of a plugin would."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.fake_distribution import FakeSite


def pytest_in(site: FakeSite, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin of tfsm and no other."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tfsm.testing.pytest_plugin", "-q", "--strict-markers", *arguments],
        env=site.environ(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONDONTWRITEBYTECODE="1"),
        cwd=site.root,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def ruff(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ruff."""
    return subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--no-cache"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
