"""Tests of the soak run itself, with small programs as its suites."""

import sys

from tests.soak.journal import Journal, report
from tests.soak.run import Soak
from tests.soak.suites import SUITES, Round, Suite


def suite(name, program, **fields):
    fields = {"seconds": 1, "seconds_min": 1} | fields
    return Suite(name, "", lambda seed, seconds: Round((sys.executable, "-c", program), {"SEED": str(seed)}), **fields)


def run(tmp_path, *suites, seconds=2.5):
    journal = Journal(tmp_path / "journal.jsonl")
    return Soak(suites, journal, tmp_path, seconds=seconds, say=lambda _: None).run()


def test_each_has_its_share_over_several_runs(tmp_path):
    quick = suite("quick", "import time; time.sleep(0.2)")
    slow = suite("slow", "import time; time.sleep(0.4)", share=2.0)
    for _ in range(2):
        assert run(tmp_path, quick, slow)
    journal = Journal(tmp_path / "journal.jsonl")
    assert 1.2 < journal.seconds_of("slow") / journal.seconds_of("quick") < 3.5
    assert len({entry.seed for entry in journal.entries}) == len(journal.entries)
    assert not list(tmp_path.glob("*.log")), "what passed leaves nothing"


def test_a_failure_is_kept_with_what_repeats_it(tmp_path):
    done = run(tmp_path, suite("bad", "import os; print('because'); raise SystemExit(3)"), seconds=1.5)
    assert {entry.status for entry in done} == {"failed"}
    text = report(done, [], [("decoders", "cargo-fuzz is not installed")])
    assert f"SEED={done[0].seed} {sys.executable} -c" in text
    assert "not run: decoders: cargo-fuzz is not installed" in text
    assert (tmp_path / f"bad-{done[0].seed}.log").read_text(encoding="utf-8") == "because\n"


def test_the_end_is_kept_to(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.soak.run._END_SECONDS", 0.2)
    (entry,) = run(tmp_path, suite("endless", "import time; time.sleep(60)"), seconds=1.2)
    assert entry.status == "cut off"
    assert entry.seconds < 5


def test_a_torn_line_is_left_out(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"suite": "a"}\n{"sui', encoding="utf-8")
    assert Journal(tmp_path / "journal.jsonl").entries == []


def test_every_suite_has_a_name_of_its_own_and_a_command():
    assert len({one.name for one in SUITES}) == len(SUITES)
    for one in SUITES:
        assert one.round_of(5, 60).command
        assert one.seconds_min <= one.seconds
