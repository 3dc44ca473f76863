"""Tests of the soak run itself, with small programs as its suites."""

import sys

import pytest

from tests.soak.journal import Entry, Journal, report
from tests.soak.run import Soak
from tests.soak.suites import SUITES, Round, Suite


def suite(name, program, **fields):
    fields = {"seconds": 1, "seconds_min": 1} | fields
    return Suite(name, "", lambda seed, seconds: Round((sys.executable, "-c", program), {"SEED": str(seed)}), **fields)


def run(tmp_path, *suites, rounds):
    """Run so many rounds, however long they take."""
    ended = []

    def say(line):
        if " after " in line:
            ended.append(line)
        if len(ended) == rounds:
            soak.stop()

    soak = Soak(suites, Journal(tmp_path / "journal.jsonl"), tmp_path, seconds=3600, say=say)
    return soak.run()


def add(tmp_path, name, seconds):
    """Add a round of an earlier run."""
    Journal(tmp_path / "journal.jsonl").add(Entry(name, len(name), seconds, "passed", "", "", ""))


@pytest.mark.parametrize(("seconds", "following"), [(190_000, "slow"), (210_000, "quick")])
def test_each_has_its_share_over_several_runs(tmp_path, seconds, following):
    add(tmp_path, "quick", 100_000)
    add(tmp_path, "slow", seconds)
    for _ in range(2):
        # Rounds of seconds change nothing.
        done = run(tmp_path, suite("quick", ""), suite("slow", "", share=2.0), rounds=2)
        assert [(entry.suite, entry.status) for entry in done] == [(following, "passed")] * 2
    journal = Journal(tmp_path / "journal.jsonl")
    assert len(journal.entries) == 6
    assert len({entry.seed for entry in journal.entries}) == len(journal.entries)
    assert not list(tmp_path.glob("*.log")), "what passed leaves nothing"


def test_a_failure_is_kept_with_what_repeats_it(tmp_path):
    done = run(tmp_path, suite("bad", "import os; print('because'); raise SystemExit(3)"), rounds=1)
    assert {entry.status for entry in done} == {"failed"}
    text = report(done, [], [("decoders", "cargo-fuzz is not installed")])
    assert f"SEED={done[0].seed} {sys.executable} -c" in text
    assert "not run: decoders: cargo-fuzz is not installed" in text
    assert (tmp_path / f"bad-{done[0].seed}.log").read_text(encoding="utf-8") == "because\n"


def test_the_end_is_kept_to(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.soak.run._END_SECONDS", 0.2)
    endless = suite("endless", "import time; time.sleep(600)", seconds_min=0)
    (entry,) = Soak([endless], Journal(tmp_path / "journal.jsonl"), tmp_path, seconds=3, say=lambda _: None).run()
    assert entry.status == "cut off"
    assert entry.seconds < 30


def test_a_torn_line_is_left_out(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"suite": "a"}\n{"sui', encoding="utf-8")
    assert Journal(tmp_path / "journal.jsonl").entries == []


def test_every_suite_has_a_name_of_its_own_and_a_command():
    assert len({one.name for one in SUITES}) == len(SUITES)
    for one in SUITES:
        assert one.round_of(5, 60).command
        assert one.seconds_min <= one.seconds
