"""The pytest plugin: its fixtures, its errors, and that it does not affect other tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.fake_distribution import FakeSite
from tests.testing.running import pytest_in


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    return FakeSite(tmp_path)


def test_other_tests_are_not_affected(site: FakeSite) -> None:
    site.module("test_plain", "import sys\ndef test_nothing_was_imported(): assert 'tensorflow' not in sys.modules\n")
    ended = pytest_in(site, "-p", "no:cacheprovider")
    assert "1 passed" in ended.stdout, ended.stdout


def test_checks_are_collected_without_tensorflow_and_named_by_requirement(site: FakeSite) -> None:
    source = """
        import pytest

        @pytest.mark.tfsm("mutation:control")
        def test_it(tfsm_check):
            tfsm_check()

        @pytest.mark.tfsm("plugin:tfsm-toy")
        def test_all(tfsm_check):
            tfsm_check()
        """
    site.module("test_marked", source)
    site.module("conftest", "import sys\ndef pytest_collection_finish(): assert 'tensorflow' not in sys.modules\n")
    ended = pytest_in(site, "--collect-only")
    assert ended.returncode == 0, ended.stdout
    lines = ended.stdout.splitlines()
    assert "test_marked.py::test_it[zero-intensity-returns-the-parent]" in lines
    assert "test_marked.py::test_all[plugin:tfsm-toy-loads-and-registers-parts]" in lines
    assert "test_marked.py::test_all[domain:simple-easy-runs-are-identical-alone-and-in-lock-step]" in lines


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("", "name the part under test with a marker: @pytest.mark.tfsm('mutation:my-noise')"),
        ('@pytest.mark.tfsm("mutation:my-nose")', "no mutation named 'my-nose'"),
        ('@pytest.mark.tfsm("mutation:my-nose")', "is the package installed? pip install --editable '.[test]'"),
        ('@pytest.mark.tfsm("tournament", sise=3)', "tfsm marker: sise=3: no such option, did you mean 'size'?"),
        ('@pytest.mark.tfsm("tournament", size=0)', "tfsm marker: size=0: expected an integer >= 1"),
    ],
)
def test_a_mistake_in_a_marker_is_reported(site: FakeSite, marker: str, message: str) -> None:
    site.module("test_wrong", f"import pytest\n{marker}\ndef test_it(tfsm_check): tfsm_check()\n")
    ended = pytest_in(site)
    assert ended.returncode == 2
    assert message in ended.stdout
    assert "Traceback" not in ended.stdout
