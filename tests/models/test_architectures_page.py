"""The tables in docs/architectures.md are what is found."""

from __future__ import annotations

from tests.models.write_architectures import COMMAND, PAGE, written


def test_the_tables_in_the_documents_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, f"docs/architectures.md is out of date: run `{COMMAND}`"
