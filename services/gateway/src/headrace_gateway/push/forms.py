"""JSON messages of clients: one form for each message type, and errors for invalid messages."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace_gateway.json_api.errors import Refused, reason_of
from headrace_gateway.json_api.numbers import U32, with_whole_numbers
from headrace_proto.errors import Status

U64_MAX: Final = 2**64 - 1
DECODED_AT_ONCE_MAX: Final = 16 * 1024
"""Maximum length in characters of a message decoded on the event loop; longer ones are decoded in a thread."""
# Numbers up to 2**53 - 1, which JavaScript represents exactly.
Id = Annotated[int, Meta(ge=0, le=2**53 - 1)]
# The constraint cannot hold a bound of 64 bits; codecs refuse larger numbers.
Natural = Annotated[int, Meta(ge=0)]
Name = U32 | Annotated[str, Meta(min_length=1, max_length=255)]


class NotUnderstood(Exception):
    """A message that cannot be answered: not a JSON object, or without a request id."""


class Form(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The base of all forms."""

    def __post_init__(self) -> None:
        """Refuse numbers of more than 64 bits."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value > U64_MAX:
                raise ValueError(f"{name} is 0 to 2^64-1")


class Request(Form, tag_field="type", frozen=True, kw_only=True):
    """The base of the message types that `type` distinguishes."""


class Login(Request, tag="login", frozen=True, kw_only=True):
    """Login, or renewal of the login with a newer token."""

    id: Id
    token: str


class Start(Form, frozen=True, kw_only=True):
    """Start position."""

    kind: Literal["first", "last", "next", "offset", "timestamp"]
    value: Natural = 0


class Position(Form, frozen=True, kw_only=True):
    """Position at which a client stopped reading a partition."""

    partition_id: U32
    offset: Natural
    epoch: str


class TopicForm(Form, frozen=True, kw_only=True):
    """Topic of a subscription."""

    stream: Name
    topic: Name
    partitions: list[U32] | None = None
    start: Start = Start(kind="last")
    positions: list[Position] = []


class Consumer(Form, frozen=True, kw_only=True):
    """Consumer whose stored offsets are used."""

    id: Name


HeaderValue = bool | int | float | str


class HeaderCondition(Form, frozen=True, kw_only=True):
    """Condition on a header; exactly one of the three."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    equals: HeaderValue | UnsetType = UNSET
    prefix: str | UnsetType = UNSET
    exists: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Require exactly one condition."""
        if [self.equals, self.prefix, self.exists].count(UNSET) != 2:
            raise ValueError("a condition has one of equals, prefix and exists")


class FilterForm(Form, frozen=True, kw_only=True):
    """Filter of a subscription."""

    headers: Annotated[list[HeaderCondition], Meta(max_length=32)] = []
    key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class CreditForm(Form, frozen=True, kw_only=True):
    """Credit in messages and bytes."""

    messages: Natural
    bytes: Natural


class Subscribe(Request, tag="subscribe", frozen=True, kw_only=True):
    """Starts a subscription."""

    id: Id
    subscription: U32
    topics: Annotated[list[TopicForm], Meta(min_length=1)]
    consumer: Consumer | None = None
    filter: FilterForm | None = None
    credit: CreditForm = CreditForm(messages=0, bytes=0)


class GiveCredit(Request, tag="credit", frozen=True, kw_only=True):
    """Adds credit to a subscription."""

    subscription: U32
    messages: Natural = 0
    bytes: Natural = 0


class Acknowledge(Request, tag="ack", frozen=True, kw_only=True):
    """Stores an offset."""

    id: Id | None = None
    subscription: U32
    stream_id: U32
    topic_id: U32
    partition_id: U32
    offset: Natural


class Unsubscribe(Request, tag="unsubscribe", frozen=True, kw_only=True):
    """Ends a subscription."""

    id: Id
    subscription: U32


class Partitioning(Form, frozen=True, kw_only=True):
    """Partitioning of sent messages."""

    kind: Literal["balanced", "partition_id", "messages_key"] = "balanced"
    value: U32 | Annotated[str, Meta(min_length=1, max_length=255)] | None = None

    def __post_init__(self) -> None:
        """Require a value of the right kind."""
        expected = {"balanced": type(None), "partition_id": int, "messages_key": str}[self.kind]
        if not isinstance(self.value, expected):
            raise ValueError(
                "value must be a number for partition_id, a text for messages_key, and absent for balanced"
            )


class NewMessage(Form, frozen=True, kw_only=True):
    """A message to append. Native code decodes it."""

    payload: msgspec.Raw
    id: msgspec.Raw = msgspec.Raw(b"null")
    headers: msgspec.Raw = msgspec.Raw(b"null")


class Produce(Request, tag="produce", frozen=True, kw_only=True):
    """Sends messages."""

    id: Id
    stream: Name
    topic: Name
    partitioning: Partitioning = Partitioning()
    messages: Annotated[list[NewMessage], Meta(min_length=1)]


class Ping(Request, tag="ping", frozen=True, kw_only=True):
    """Asks for an answer."""

    id: Id


AnyRequest = Login | Subscribe | GiveCredit | Acknowledge | Unsubscribe | Produce | Ping

_requests: Final[msgspec.json.Decoder[AnyRequest]] = msgspec.json.Decoder(AnyRequest)


class Malformed(Exception):
    """An invalid message with a request id to answer to."""

    def __init__(self, request_id: int, refused: Refused) -> None:
        super().__init__(request_id, refused)
        self.request_id = request_id
        self.refused = refused


def decode(text: str) -> AnyRequest:
    """Decode a message.

    Raises:
        Malformed: The message has no known form.
        NotUnderstood: The message cannot be answered.
    """
    try:
        try:
            return _requests.decode(text)
        except msgspec.ValidationError:
            # Conversion may be needed only for numbers such as 1.0.
            return _requests.decode(msgspec.json.encode(with_whole_numbers(msgspec.json.decode(text))))
    except msgspec.ValidationError as error:
        found = msgspec.json.decode(text)
        request_id = found.get("id") if isinstance(found, dict) else None
        if not isinstance(request_id, int) or isinstance(request_id, bool) or not 0 <= request_id < 2**53:
            raise NotUnderstood(str(error)) from error
        what, _, path = str(error).partition(" - at `$")
        field = path.removesuffix("`").removeprefix(".") or None
        raise Malformed(request_id, Refused(Status.INVALID_COMMAND, f"{what}.", field=field)) from error
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise NotUnderstood(f"the message is not JSON: {error}") from error


def encode(kind: str, /, **fields: Any) -> bytes:
    """Encode a message for a client."""
    return msgspec.json.encode({"type": kind, **fields})


def encode_error(request_id: int, refused: Refused) -> bytes:
    """Encode the refusal of a request."""
    reason = reason_of(refused)
    return encode("error", id=request_id, code=refused.status, reason=reason, field=refused.field)
