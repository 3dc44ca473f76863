from pathlib import Path

import pytest

from tests.performance import cases
from tests.performance.options import CASES, FULL, QUICK, Options, parse

HERE = Path("scratch")


def parsed(*argv: str) -> Options:
    return parse(argv, HERE)


def test_everything_in_full_by_default() -> None:
    options = parsed()
    assert options.scale == FULL
    assert options.cases == CASES
    assert options.directory == HERE
    assert not options.official
    assert not options.kafka
    assert options.connectors == ()
    assert options.json_file is None


def test_less_of_it() -> None:
    options = parsed("--quick", "--rounds", "2", "--only", "fsync", "--only", "large", "--json", "out.json")
    assert options.scale.rounds == 2
    assert options.scale.stored_bytes == QUICK.stored_bytes
    # Cases always run in their fixed order.
    assert options.cases == ("large", "fsync")
    assert options.json_file == Path("out.json")
    assert options.scale.spark_bytes == QUICK.spark_bytes


def test_what_spark_reads() -> None:
    options = parsed("--spark-mb", "20", "--spark-messages", "5000", "--kafka")
    assert options.scale.spark_bytes == 20_000_000
    assert options.scale.spark_messages == 5000
    assert options.kafka


def test_some_of_the_connectors() -> None:
    assert parsed("--connector", "sink", "--connector", "CSV").connectors == ("sink", "CSV")


def test_the_topic_of_a_scan() -> None:
    assert parsed("--scan-messages", "200000").scale.scan_messages == 200_000


@pytest.mark.parametrize(
    "argv",
    [
        ("--rounds", "0"),
        ("--spark-mb", "0"),
        ("--spark-messages", "10"),
        ("--scan-messages", "10"),
        ("--only", "nothing"),
        ("--fast",),
    ],
)
def test_wrong_options_end_the_program(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*argv)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_every_case_has_a_name() -> None:
    assert tuple(cases.RUN) == CASES
