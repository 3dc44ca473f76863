"""Control plane of a gateway behind its listeners; independent of where the metadata service runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace_chassis.background import background
from headrace_gateway.access.access_tokens import AccessTokens
from headrace_gateway.access.login_limits import LoginLimits
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.access.token_cleaner import TokenCleaner
from headrace_gateway.access.tokens import Reach, Tokens, everything_is_known
from headrace_gateway.audit.audit_log import AuditLog
from headrace_gateway.audit.limits import EventLimits, Rate
from headrace_gateway.config import GatewayConfig
from headrace_gateway.control.diagnostics import Diagnostics
from headrace_gateway.control.dispatch import Control
from headrace_gateway.control.memberships import MembershipLimits, Memberships
from headrace_gateway.control.topic_defaults import TopicDefaults
from headrace_gateway.observability.host_statistics import Host
from headrace_gateway.ports import (
    AccountDirectory,
    CatchUp,
    CredentialsReader,
    MembershipReader,
    Proposer,
    Revocations,
    StreamNames,
    TransactionReader,
    wall_clock_micros,
)
from headrace_node import Publications


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Interface of one gateway to the metadata service."""

    proposer: Proposer
    credentials: CredentialsReader
    transactions: TransactionReader
    accounts: AccountDirectory
    streams: StreamNames
    members: MembershipReader
    revocations: Revocations
    reach: Reach = everything_is_known
    """Waits until the catalog contains what another gateway knew already."""
    catch_up: CatchUp | None = None
    """Waits until the catalog contains everything any gateway may know; None if the only gateway shares the metadata
    service's own catalog.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayIdentity:
    """Identity and environment of this gateway."""

    gateway_id: int
    """Id of this run of the process."""
    gateway_name: str
    """Name of this gateway, the same in every run."""
    data_directory: Path
    """Existing directory; the free space of its device is reported."""
    settings: str
    """Effective settings without secrets."""


class ControlPlane:
    """Logins, accounts, memberships and all catalog changes, for all listeners of a gateway."""

    def __init__(
        self,
        config: GatewayConfig,
        topic_defaults: TopicDefaults,
        metadata: Metadata,
        passwords: Passwords,
        identity: GatewayIdentity,
        *,
        login_keys: Sequence[bytes] = (),
    ) -> None:
        """Assemble the control plane.

        Args:
            config: Settings.
            topic_defaults: Defaults for topics whose creator leaves a property to the server.
            metadata: The metadata service.
            passwords: Hashes and verifies passwords.
            identity: Identity of this gateway.
            login_keys: Keys of login tokens. The first one signs where the settings have no secret, all are accepted;
                empty: a random key is used.
        """
        self._config = config
        self._metadata = metadata
        self.audit = AuditLog(
            config.audit,
            identity.data_directory,
            gateway=identity.gateway_name,
            accounts=metadata.accounts,
            clock=wall_clock_micros,
        )
        access_tokens = AccessTokens(
            accounts=metadata.accounts, credentials=metadata.credentials, clock=wall_clock_micros
        )
        self.logins = Logins(
            accounts=metadata.accounts,
            credentials=metadata.credentials,
            access_tokens=access_tokens,
            passwords=passwords,
            limits=_login_limits(config),
            clock=wall_clock_micros,
            audit=self.audit,
        )
        self.tokens = Tokens(
            config.http.jwt,
            accounts=metadata.accounts,
            access_tokens=access_tokens,
            revocations=metadata.revocations,
            shared_keys=login_keys,
            reach=metadata.reach,
        )
        limits = config.consumer_group
        self.memberships = Memberships(
            proposer=metadata.proposer,
            reader=metadata.members,
            gateway_id=identity.gateway_id,
            gateway_name=identity.gateway_name,
            limits=MembershipLimits(
                revocation_micros=limits.rebalancing_timeout.micros,
                gateway_micros=limits.gateway_timeout.micros,
                check_seconds=limits.rebalancing_check_interval.seconds,
            ),
        )
        self._publications = Publications(metadata.proposer.propose)
        host = Host(identity.data_directory)
        self.control = Control(
            proposer=metadata.proposer,
            accounts=metadata.accounts,
            credentials=metadata.credentials,
            streams=metadata.streams,
            logins=self.logins,
            passwords=passwords,
            password_limits=_login_limits(config),
            memberships=self.memberships,
            transactions=metadata.transactions,
            publications=self._publications,
            topic_defaults=topic_defaults,
            own_changes=EventLimits(Rate(config.own_changes.burst, config.own_changes.interval.micros)),
            tokens_per_user_max=config.personal_access_token.max_tokens_per_user,
            host=host,
            catch_up=metadata.catch_up,
            audit=self.audit,
            diagnostics=Diagnostics(
                host=host, data_directory=identity.data_directory, log_directory=None, configuration=identity.settings
            ),
        )

    async def members_left(self) -> None:
        """End the memberships of connections that ended with the node, before they time out."""
        await self.memberships.ended()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Send heartbeats for members and run cleanups for the duration of an ``async with`` block.

        Raises:
            CodedError: The members of earlier runs cannot be removed.
        """
        cleaning = self._config.personal_access_token.cleaner
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.audit.working())
            await self.memberships.started()
            await stack.enter_async_context(background(self.memberships.run(), "memberships"))
            await stack.enter_async_context(background(self._publications.run(), "publications"))
            if cleaning.enabled:
                cleaner = TokenCleaner(
                    proposer=self._metadata.proposer,
                    accounts=self._metadata.accounts,
                    interval_seconds=cleaning.interval.seconds,
                )
                await stack.enter_async_context(background(cleaner.run(), "token-cleaner"))
            yield


def _login_limits(config: GatewayConfig) -> LoginLimits:
    return LoginLimits(failures_max=config.login.failures_max, interval_micros=config.login.failures_interval.micros)
