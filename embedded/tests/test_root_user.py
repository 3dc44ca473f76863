"""CTL-9: source of root's first credentials."""

import asyncio

import pytest

from headrace_embedded.config import RootConfig, load_config
from headrace_embedded.root_user import RootCredentials, choose_root_credentials, ensure_root_user
from headrace_gateway.access.passwords import Passwords
from headrace_proto.catalog.v1 import User
from headrace_proto.metadata.v1 import Command, Reply
from headrace_proto.well_known import ROOT_USER_ID
from headrace_settings import Secret, SettingsError


def test_configured_credentials_win() -> None:
    chosen = choose_root_credentials(RootConfig(username="root", password=Secret("secret")), use_default=True)
    assert (chosen.username, chosen.password.reveal(), chosen.generated) == ("root", "secret", False)


def test_the_well_known_pair_is_used_only_when_asked_for() -> None:
    chosen = choose_root_credentials(RootConfig(), use_default=True)
    assert (chosen.username, chosen.password.reveal(), chosen.generated) == ("iggy", "iggy", False)


def test_otherwise_a_password_is_generated_each_time_anew() -> None:
    passwords = {choose_root_credentials(RootConfig(), use_default=False).password.reveal() for _ in range(50)}
    assert len(passwords) == 50
    assert all(len(password) == 24 and password.isalnum() for password in passwords)


class SlowReplica:
    """An empty replica that answers when it may."""

    def __init__(self) -> None:
        self.state = self
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    def credentials_of(self, _user_id: int) -> None:
        return None

    async def propose(self, _command: Command) -> Reply:
        self.asked.set()
        await self.may_answer.wait()
        return Reply(user=User(id=ROOT_USER_ID))


async def test_an_interrupted_start_hands_out_the_credentials_of_the_user_that_it_creates() -> None:
    replica = SlowReplica()
    created: list[RootCredentials] = []
    async with Passwords(1) as passwords:
        starting = asyncio.create_task(
            ensure_root_user(replica, passwords, RootConfig(), use_default=False, on_created=created.append)
        )
        await replica.asked.wait()
        starting.cancel()
        await asyncio.sleep(0)
        replica.may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
    (credentials,) = created
    assert credentials.generated


def test_both_names_of_the_variables_are_honoured() -> None:
    root = load_config(None, {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "secret"}).config.root
    assert (root.username, root.password) == ("iggy", Secret("secret"))
    root = load_config(None, {"HEADRACE_ROOT_USERNAME": "ours", "HEADRACE_ROOT_PASSWORD": "secret"}).config.root
    assert root.username == "ours"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"HEADRACE_ROOT_USERNAME": "root"}, "together or not at all"),
        ({"IGGY_ROOT_PASSWORD": "secret"}, "together or not at all"),
        ({"HEADRACE_ROOT_USERNAME": "ro", "HEADRACE_ROOT_PASSWORD": "secret"}, "username has 3 to 50 bytes"),
        ({"HEADRACE_ROOT_USERNAME": "root", "HEADRACE_ROOT_PASSWORD": "x" * 101}, "password has 3 to 100 bytes"),
    ],
)
def test_what_cannot_be_used_stops_the_start(variables: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_config(None, variables)
