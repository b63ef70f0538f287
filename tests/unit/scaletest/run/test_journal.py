"""The diary: a disk that is full silences the file, never the run."""

import json
from pathlib import Path

from scaletest.run.journal import Event, RunJournal


def test_events_are_written_as_they_happen(tmp_path: Path) -> None:
    seen: list[Event] = []
    journal = RunJournal(tmp_path / "events.jsonl", seen.append, clock=lambda: 10.0)
    journal.say("soak", "holding", gates={"a": 1.0})
    journal.close()
    [line] = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "time": 10.0,
        "elapsed": 0.0,
        "phase": "soak",
        "message": "holding",
        "gates": {"a": 1.0},
    }
    assert seen[0].message == "holding"
    assert journal.problem == ""


def test_a_full_disk_is_remembered_and_people_still_hear(tmp_path: Path) -> None:
    seen: list[Event] = []
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    journal = RunJournal(tmp_path / "events.jsonl", seen.append)
    journal.say("soak", "holding")
    journal.say("soak", "still holding")
    journal.close()
    assert [event.message for event in seen] == ["holding", "still holding"]
    assert "No space left" in journal.problem
