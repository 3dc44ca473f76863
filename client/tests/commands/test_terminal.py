"""The tour, typed in a shell on a terminal: questions, completion, progress, colours (USE-4)."""

from __future__ import annotations

import os
import re
import subprocess
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyte
import pytest
from pexpect import TIMEOUT, fdpexpect
from tests.command_line.shell import PROGRAM, Shell

from headrace_embedded import Server

COLUMNS, LINES = 110, 40
PROMPT = "\u00bb "


class Terminal:
    """A shell in a pseudo-terminal, and its screen."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.Stream(self.screen)
        # A process of many threads, such as one with a server, must not run Python after a fork, as pexpect does.
        own, of_shell = os.openpty()
        termios.tcsetwinsize(own, (LINES, COLUMNS))
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-i"],
            stdin=of_shell,
            stdout=of_shell,
            stderr=of_shell,
            env=environment,
        )
        os.close(of_shell)
        self._own = own
        self._shell = fdpexpect.fdspawn(own, encoding="utf-8")
        self.until(PROMPT)

    def until(self, text: str, seconds: float = 60) -> str:
        """Wait for a text, and return what came before it."""
        self._shell.expect_exact(text, timeout=seconds)
        self._stream.feed(self._shell.before + self._shell.after)
        return str(self._shell.before)

    def type(self, text: str) -> None:
        self._shell.send(text)

    def complete(self, typed: str, completed: str) -> None:
        """Type the beginning of a command line, and Tab until the rest is there: a slow server is given up."""
        self.type(typed)
        while True:
            self.type("\t")
            with suppress(TIMEOUT):
                self.until(completed, seconds=20)
                return

    def run(self, command: str) -> str:
        """Type a command, and return what it printed, without colours."""
        self.type(command + "\r")
        printed = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.until(PROMPT))
        return printed.partition("\n")[2].replace("\r\n", "\n")

    def interrupt(self) -> None:
        """Press Ctrl-C when the command waits, and wait for the shell.

        Python keeps a signal that comes between a question and the reading of its answer until there is an answer. No
        person is so quick, but a test is.
        """
        while psutil.Process(os.tcgetpgrp(self._own)).status() != psutil.STATUS_SLEEPING:
            os.sched_yield()
        self.type("\x03")
        self.until(PROMPT)

    @property
    def status(self) -> int:
        """Exit status of the last command."""
        return int(self.run("echo $?"))

    def shown(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._shell.close()


@pytest.fixture
def terminal(headrace: Shell, tmp_path: Path) -> Iterator[Terminal]:
    environment = headrace.environment | headrace.login
    environment |= {
        "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
        "PS1": PROMPT,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "HOME": str(tmp_path),
        "BASH_SILENCE_DEPRECATION_WARNING": "1",
        "TZ": "UTC",
    }
    opened = Terminal(environment)
    # Pasted text would come with marks around it.
    opened.run("bind 'set enable-bracketed-paste off'; bind 'set bell-style none'")
    yield opened
    opened.close()


def test_a_format_does_not_send_commands_of_messages_to_the_terminal(terminal: Terminal) -> None:
    """Files and pipes get the bytes as they are."""
    terminal.run("headrace stream create paint && headrace topic create paint pots")
    terminal.run(r"printf 'a\033[2J\302\233m\342\200\256b' | headrace send paint pots --key $'\e[31mk' --whole")
    assert terminal.run(r"headrace poll paint pots --from first -n 1 --format '%o %v %k\n'").splitlines() == [
        r"0 a\x1b[2J\x9bm\u202eb \x1b[31mk"
    ]
    piped = terminal.run("headrace poll paint pots --from first -n 1 --format %v | od -An -c")
    assert piped.split()[:4] == ["a", "033", "[", "2"]


def test_the_tour(terminal: Terminal) -> None:
    """Commands from a stream to its deletion, with a question that is answered twice."""
    assert terminal.run("headrace stream create shop").splitlines()[0].split()[:3] == ["id", "name", "topics"]
    terminal.run("headrace topic create shop orders --partitions 2")
    assert terminal.run("seq 1000 | headrace send shop orders -p 0").splitlines()[-1] == "sent 1,000 messages"
    polled = terminal.run("headrace poll shop orders --from last --count 3")
    assert [line.split()[-1] for line in polled.splitlines()] == ["998", "999", "1000"]
    terminal.run("headrace group create shop orders billing")
    read = terminal.run("headrace poll shop orders --group billing -n 2 -o raw")
    assert read.split() == ["1", "2"]
    lag = terminal.run("headrace group lag shop orders billing")
    assert "998" in lag.splitlines()[-1]
    reset = "headrace group reset shop orders billing --to first"
    terminal.type(reset + "\r")
    terminal.until("Move group 'billing' of shop/orders? [y/N]: ")
    assert terminal.run("y").splitlines() == ["moved group 'billing' of shop/orders"]

    terminal.type("headrace stream delete shop\r")
    terminal.until("Delete stream 'shop' with 1 topic and 1,000 messages? [y/N]: ")
    assert terminal.run("n").splitlines() == ["error: nothing was changed"]
    assert terminal.status == 1
    terminal.type("headrace stream delete shop\r")
    terminal.until("[y/N]: ")
    assert terminal.run("y").splitlines() == ["deleted stream 'shop' with 1 topic and 1,000 messages"]
    assert terminal.status == 0
    assert "error: there is no stream 'shop'" in terminal.run("headrace topic list shop")


def test_following_ends_with_an_interrupt(terminal: Terminal, topic: tuple[str, str], headrace: Shell) -> None:
    terminal.type(f"headrace poll {' '.join(topic)} --follow -o raw\r")
    headrace("send", *topic, "arrived", "-p", "0")
    terminal.until("arrived\r\n")
    terminal.interrupt()
    assert terminal.status == 130


def test_connectors_show_their_progress_below_the_log(terminal: Terminal, server: Server, tmp_path: Path) -> None:
    """Log records and the line of the connector do not mix; Ctrl-C stops it, with the status 0."""
    login = f'username = "{server.username}"\npassword = "{server.password}"\n'
    (tmp_path / "made-up.toml").write_text(
        f'[server]\nurl = "headrace://{server.address}"\n{login}[http]\naddress = "127.0.0.1:0"\n'
        '[sources.made-up]\nplugin = "random"\nstream = "progress"\ntopic = "t"\n'
        '[sources.made-up.settings]\ncount = 7\ninterval = "1 ms"\n'
    )
    terminal.type("headrace connect run ~/made-up.toml\r")
    terminal.until("connectors run: made-up")
    terminal.until("7 records")
    terminal.interrupt()
    assert terminal.status == 0
    terminal.run("headrace stream delete progress --yes")


def test_a_question_ends_with_an_interrupt(terminal: Terminal, topic: tuple[str, str]) -> None:
    terminal.type(f"headrace stream delete {topic[0]}\r")
    terminal.until("[y/N]: ")
    terminal.interrupt()
    assert terminal.status == 130
    assert topic[0] in terminal.run("headrace stream list")


def test_a_password_is_asked_and_not_shown(terminal: Terminal, headrace: Shell) -> None:
    password = headrace.login["HEADRACE_PASSWORD"]
    terminal.run("unset HEADRACE_PASSWORD")
    terminal.type("headrace stream list\r")
    terminal.until(f"Password of {headrace.login['HEADRACE_USERNAME']}: ")
    assert "created" in terminal.run(password)
    shown = [line for line in terminal.shown().splitlines() if line.startswith("Password")]
    assert shown == [f"Password of {headrace.login['HEADRACE_USERNAME']}:"]


def test_a_password_is_asked_once(terminal: Terminal, topic: tuple[str, str], headrace: Shell) -> None:
    """An export connects twice."""
    headrace("send", *topic, "x", "-p", "0")
    terminal.run("unset HEADRACE_PASSWORD")
    terminal.type(f"headrace export {' '.join(topic)} ~/asked.jsonl\r")
    terminal.until(f"Password of {headrace.login['HEADRACE_USERNAME']}: ")
    assert "exported 1 message to" in terminal.run(headrace.login["HEADRACE_PASSWORD"])
    assert terminal.status == 0


def test_completion_in_a_shell(terminal: Terminal, topic: tuple[str, str]) -> None:
    """A tab completes a command, a stream, and a topic, which come from the server."""
    terminal.run("headrace completion bash > completion && source completion")
    terminal.complete(f"headrace top\tli\t{topic[0][:8]}", f"headrace topic list {topic[0]}")
    assert "partitions" in terminal.run("")
    terminal.complete(f"headrace poll {topic[0]} ", f"{topic[0]} t")
    terminal.run("")


def test_help_and_errors_fit_the_terminal(terminal: Terminal) -> None:
    for command in ("headrace --help", "headrace poll --help", "headrace topic create shop"):
        assert max(len(line) for line in terminal.run(command).splitlines()) <= COLUMNS
    terminal.run("clear")
    terminal.run("headrace poll shop orders --cuont 3")
    assert "error: there is no option --cuont: did you mean --count" in terminal.shown()
    line = next(number for number, text in enumerate(terminal.screen.display) if text.startswith("error:"))
    assert terminal.screen.buffer[line][0].fg == "red"
