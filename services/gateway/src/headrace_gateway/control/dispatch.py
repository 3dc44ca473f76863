"""Dispatch of all requests of a front other than moving messages."""

from __future__ import annotations

import asyncio
import logging
from typing import assert_never

from headrace_gateway.access.accounts import AccountCommands
from headrace_gateway.access.login_limits import LoginLimits
from headrace_gateway.access.logins import Login, Logins
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.audit.audit_log import AuditLog
from headrace_gateway.audit.limits import EventLimits
from headrace_gateway.audit.requests import action_of, caller_of, change_of, is_own
from headrace_gateway.control.diagnostics import Diagnostics
from headrace_gateway.control.memberships import Memberships
from headrace_gateway.control.topic_defaults import TopicDefaults
from headrace_gateway.observability.host_statistics import Host
from headrace_gateway.ports import (
    AccountDirectory,
    CatchUp,
    Clock,
    CodedError,
    CredentialsReader,
    Proposer,
    StreamNames,
    TransactionReader,
    wall_clock_micros,
)
from headrace_gateway.replies import control_reply
from headrace_node import Publications
from headrace_node.connections.caller import CALLER
from headrace_proto.control.v1 import Credential, GetDiagnostics, Reply, Request
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command
from headrace_proto.trace_context import REQUEST, Recorded, TraceContext

_log = logging.getLogger(__name__)

# These commands have request types of their own because a front cannot compute hashes and digests.
_COMMANDS_WITH_SECRETS = frozenset({"create_user", "change_password", "create_access_token"})


class Control:
    """Answers the requests of fronts.

    A front has already decoded the request, authenticated the user and checked the permission. The existence of objects
    is checked when the command is applied, in the order of all commands.
    """

    def __init__(
        self,
        *,
        proposer: Proposer,
        accounts: AccountDirectory,
        credentials: CredentialsReader,
        streams: StreamNames,
        logins: Logins,
        passwords: Passwords,
        password_limits: LoginLimits,
        memberships: Memberships,
        transactions: TransactionReader,
        publications: Publications,
        topic_defaults: TopicDefaults,
        tokens_per_user_max: int,
        own_changes: EventLimits,
        host: Host,
        diagnostics: Diagnostics,
        catch_up: CatchUp | None = None,
        audit: AuditLog | None = None,
        clock: Clock = wall_clock_micros,
    ) -> None:
        self._proposer = proposer
        self._streams = streams
        self._memberships = memberships
        self._transactions = transactions
        self._publications = publications
        self._topic_defaults = topic_defaults
        self._host = host
        self._diagnostics = diagnostics
        self._catch_up = catch_up
        self._audit = audit
        self._own_changes = own_changes
        self._clock = clock
        self._logins = logins
        self._accounts = AccountCommands(
            proposer=proposer,
            accounts=accounts,
            credentials=credentials,
            passwords=passwords,
            password_limits=password_limits,
            tokens_per_user_max=tokens_per_user_max,
            clock=clock,
        )

    async def handle(self, request: Request) -> Reply:
        """Answer one request. Every outcome, including an exception, produces a reply: the front waits for it."""
        marked, traced = CALLER.set(caller_of(request)), REQUEST.set(_recorded(request))
        try:
            return await self._audited(request)
        except Exception as error:  # noqa: BLE001  (whatever it is, it ends this request only)
            if isinstance(error, CodedError):
                _log.warning("%s of client %d: %s", request.WhichOneof("operation"), request.client_id, error)
                return Reply(status=error.code)
            _log.exception("%s of client %d failed", request.WhichOneof("operation"), request.client_id)
            return Reply(status=Status.ERROR)
        finally:
            REQUEST.reset(traced)
            CALLER.reset(marked)

    async def _audited(self, request: Request) -> Reply:
        change = change_of(request) if request.HasField("user_id") else None
        if is_own(request) and self._own_changes.take(self._clock(), request.user_id) is None:
            if self._audit is not None and change is not None:
                status, client_id = Status.TOO_MANY_CHANGES, request.client_id
                await self._audit.refused(change[0], status, user_id=request.user_id, client_id=client_id)
            return Reply(status=Status.TOO_MANY_CHANGES)
        if self._audit is None or change is None:
            return await self._dispatch(request)
        action, subject = change
        begun = await self._audit.begun(action, subject, user_id=request.user_id, client_id=request.client_id)
        try:
            reply = await self._dispatch(request)
        except Exception as error:
            await self._audit.ended(begun, error.code if isinstance(error, CodedError) else Status.ERROR)
            raise
        await self._audit.ended(begun, reply.status)
        return reply

    async def _dispatch(self, request: Request) -> Reply:  # noqa: PLR0912  (a table)
        match request.WhichOneof("operation"):
            case "login_with_password":
                return _logged_in(await self._logins.with_password(request.login_with_password, request.address))
            case "login_with_token":
                return _logged_in(await self._logins.with_token(request.login_with_token, request.address))
            case "client_gone" | "complete_revocation" | "publications_applied" | "noted" | "certificate_login":
                return await self._notice(request)
            case None:
                return Reply(status=Status.INVALID_COMMAND)
            case _ if not request.HasField("user_id"):
                return Reply(status=Status.UNAUTHENTICATED)
            case "create_user":
                return await self._accounts.create_user(request.user_id, request.create_user)
            case "change_password":
                return await self._accounts.change_password(request.user_id, request.change_password)
            case "create_access_token":
                return await self._accounts.create_access_token(request.user_id, request.create_access_token)
            case "command":
                return await self._command(request.user_id, request.client_id, request.command)
            case "get_transaction":
                asked = request.get_transaction
                return Reply(transaction=await self._transactions.transaction(asked.stream_id, asked.name))
            case "catch_up":
                if self._catch_up is not None:
                    await self._catch_up()
                return Reply()
            case "get_host_statistics":
                return Reply(host_statistics=await asyncio.to_thread(self._host.statistics))
            case "get_diagnostics":
                return await self._get_diagnostics(request.get_diagnostics)
            case unknown:
                assert_never(unknown)

    async def _notice(self, request: Request) -> Reply:
        if request.HasField("complete_revocation"):
            await self._memberships.revocation_completed(request.complete_revocation)
        elif request.HasField("publications_applied"):
            self._publications.applied(request.publications_applied)
        elif request.HasField("noted"):
            await self._noted(request)
        elif request.HasField("certificate_login"):
            await self._certificate_shown(request)
        elif request.HasField("client_gone"):
            await self._memberships.client_gone(request.client_id)
        return Reply()

    async def _noted(self, request: Request) -> None:
        if self._audit is None:
            return
        noted, client_id = request.noted, request.client_id
        user_id = request.user_id if request.HasField("user_id") else None
        action = action_of(noted.command)
        if noted.status == Status.OK:
            await self._audit.changed(action, {"name": noted.subject}, user_id=user_id, client_id=client_id)
        else:
            suppressed = noted.suppressed_count
            await self._audit.refused(action, noted.status, user_id=user_id, client_id=client_id, suppressed=suppressed)

    async def _certificate_shown(self, request: Request) -> None:
        if self._audit is None:
            return
        shown, user_id = request.certificate_login, request.user_id if request.HasField("user_id") else None
        await self._audit.logged_in(
            "login_with_certificate",
            Status.INVALID_CREDENTIALS if shown.refusal else Status.OK,
            username=None,
            user_id=user_id,
            client_id=request.client_id,
            subject={"reason": shown.refusal} if shown.refusal else None,
            suppressed=shown.suppressed_count,
        )

    async def _command(self, user_id: int, client_id: int, received: Command) -> Reply:
        operation = received.WhichOneof("operation")
        if operation is None or operation in _COMMANDS_WITH_SECRETS:
            return Reply(status=Status.INVALID_COMMAND)
        command = Command()
        command.CopyFrom(received)
        command.actor_user_id = user_id
        match operation:
            case "create_consumer_group":
                return control_reply(await self._memberships.create(command))
            case "join_consumer_group":
                return control_reply(await self._memberships.join(client_id, command))
            case "leave_consumer_group":
                return control_reply(await self._memberships.leave(client_id, command))
        if operation == "create_topic":
            refusal = self._topic_defaults.refusal_of(command.create_topic)
            if refusal != Status.OK:
                return Reply(status=refusal)
            self._topic_defaults.resolve(command.create_topic)
            stream_name = self._streams.stream_name(command.create_topic.stream_id)
            # Without a stream the command is refused when it is applied, in the order of all commands.
            if stream_name is not None:
                self._topic_defaults.resolve_durability(command.create_topic, stream_name)
        elif operation == "update_topic":
            self._topic_defaults.resolve_update(command.update_topic)
        return control_reply(await self._proposer.propose(command))

    async def _get_diagnostics(self, request: GetDiagnostics) -> Reply:
        try:
            archive = await asyncio.to_thread(self._diagnostics.archive, request.compression, list(request.kinds))
        except OSError:
            _log.exception("the diagnostics cannot be collected")
            return Reply(status=Status.SNAPSHOT_FILE_COMPLETION_FAILED)
        return Reply(diagnostics=archive)


def _recorded(request: Request) -> Recorded | None:
    """Return the trace that contains the request, so that requests to other services join the trace."""
    if not request.HasField("trace"):
        return None
    trace_id, span_id = (int.from_bytes(part, "big") for part in (request.trace.trace_id, request.trace.span_id))
    return Recorded(TraceContext(trace_id, span_id))


def _logged_in(login: Login) -> Reply:
    if login.status != Status.OK:
        return Reply(status=login.status)
    credential = Credential(password_version=login.password_version)
    if login.access_token is not None:
        credential.token_incarnation = login.access_token.incarnation
        credential.expires_at_micros = login.access_token.expires_at_micros
    return Reply(user_id=login.user_id, credential=credential)
