"""The event log: events are read back as written, and invalid files are errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsm.errors import TfsmError
from tfsm.evolution.event_log import Event, EventLog, parse_events, read_events

EVENTS = st.lists(st.builds(Event, st.sampled_from([">", "<", "!"]), st.integers(0, 10**9), st.integers(0, 10**12)))


@given(EVENTS)
def test_written_events_are_read_back(events: list[Event]) -> None:
    assert parse_events("".join(f"{event}\n" for event in events)) == events


@given(EVENTS.filter(bool), st.data())
def test_a_torn_line_is_ignored(events: list[Event], data: st.DataObject) -> None:
    text = "".join(f"{event}\n" for event in events)
    cut = data.draw(st.integers(0, len(text)))
    assert parse_events(text[:cut]) == events[: text[:cut].count("\n")]


@pytest.mark.parametrize(
    "line", ["", "> 1", "> 1 2 3", "? 1 2", ">1 2", "> -1 2", "> 1 x", "> 1 2.0", " > 1 2", "> 1 ²", "> 1 2\r", "\x00"]
)
def test_an_invalid_line_is_reported_with_its_number(line: str) -> None:
    with pytest.raises(TfsmError, match=r"made-up, line 2: .* is not an event: expected >, < or !, a run and a number"):
        parse_events(f"> 0 1\n{line}\n", "made-up")


def test_events_are_appended_after_the_last_complete_line(tmp_path: Path) -> None:
    file = tmp_path / "events"
    with EventLog(file) as log:
        log(Event(">", 0, 1))
    with file.open("ab") as stream:
        stream.write(b"< 0")
    assert read_events(file) == [Event(">", 0, 1)]
    with EventLog(file) as log:
        log(Event("!", 0, 1))
        log.flush()
        assert read_events(file) == [Event(">", 0, 1), Event("!", 0, 1)]


def test_events_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "events"
    with EventLog(file) as log:
        for number in range(4):
            log(Event(">", 0, number))
    with EventLog(file, keep={0: 2}) as log:
        log(Event("<", 0, 0))
    assert [str(event) for event in read_events(file)] == ["> 0 0", "> 0 1", "< 0 0"]
    with pytest.raises(TfsmError, match="ends after 3 events, but the checkpoint was made after 5"):
        EventLog(file, keep={0: 5})


def test_events_of_restarted_runs_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "events"
    with EventLog(file) as log:
        for run in (0, 1, 11, 1, 0):
            log(Event(">", run, 1))
    with EventLog(file, keep={0: 4, 11: 3}) as log:
        assert log.count == 2
        log(Event("<", 0, 1))
    assert [str(event) for event in read_events(file)] == ["> 0 1", "> 11 1", "< 0 1"]


def test_a_file_that_is_not_a_log_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "events"
    with pytest.raises(TfsmError, match="cannot be read"):
        read_events(file)
    file.write_bytes(b"\xff\xfe\n")
    with pytest.raises(TfsmError, match=r"line 1: .* is not an event"):
        read_events(file)
