"""Names that other systems have for commands and options, with ours: for proposals after a wrong guess."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "produce": ("send",),
        "publish": ("send",),
        "pub": ("send",),
        "write": ("send",),
        "consume": ("poll", "poll --follow"),
        "read": ("poll",),
        "get": ("poll",),
        "subscribe": ("poll --follow",),
        "sub": ("poll --follow",),
        "tail": ("poll --follow",),
        "follow": ("poll --follow",),
        "watch": ("poll --follow",),
        "search": ("poll --grep",),
        "grep": ("poll --grep",),
        "lag": ("group list", "group lag"),
        "offsets": ("group show", "group reset"),
        "seek": ("group reset",),
        "create": ("stream create", "topic create"),
        "delete": ("stream delete", "topic delete"),
        "list": ("stream list", "topic list"),
        "ls": ("stream list", "topic list"),
        "describe": ("topic show", "group show"),
        "show": ("topic show", "group show"),
        "streams": ("stream list",),
        "topics": ("topic list",),
        "groups": ("group list",),
        "users": ("user list",),
        "grant": ("user grant",),
        "acl": ("user grant",),
        "permissions": ("user grant",),
        "login": ("context add",),
        "profile": ("context",),
        "server": ("up",),
        "serve": ("up",),
        "start": ("up",),
        "run": ("up", "connect run"),
        "status": ("stats", "cluster status"),
        "info": ("stats", "cluster status"),
        "health": ("ping", "doctor"),
        "logs": ("audit",),
        "redrive": ("connect redrive",),
        "connector": ("connect",),
        "connectors": ("connect status",),
    }
)
"""Commands of `headrace` by the first word that was typed."""

IN_FAMILY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "add": ("create",),
        "new": ("create",),
        "make": ("create",),
        "rm": ("delete",),
        "remove": ("delete",),
        "drop": ("delete",),
        "ls": ("list",),
        "describe": ("show",),
        "info": ("show",),
        "get": ("show",),
        "alter": ("update",),
        "edit": ("update",),
        "set": ("update",),
        "truncate": ("purge",),
        "clear": ("purge",),
        "seek": ("reset",),
        "offsets": ("show",),
    }
)
"""Commands of a family, such as `topic`, by the word that was typed."""

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "--retention": ("--message-expiry", "--max-size"),
        "--retention-ms": ("--message-expiry",),
        "--retention-bytes": ("--max-size",),
        "--ttl": ("--message-expiry", "--expiry"),
        "--expires": ("--expiry", "--message-expiry"),
        "--max-age": ("--message-expiry",),
        "--max-bytes": ("--max-size",),
        "--from-beginning": ("--from first",),
        "--offset": ("--from",),
        "--since": ("--from",),
        "--start": ("--from",),
        "--tail": ("--follow",),
        "--max-messages": ("--count",),
        "--limit": ("--count",),
        "--filter": ("--grep",),
        "--bootstrap-server": ("--server",),
        "--broker": ("--server",),
        "--brokers": ("--server",),
        "--host": ("--server",),
        "--url": ("--server",),
        "--user": ("--username",),
        "--format": ("--output",),
        "--force": ("--yes",),
    }
)
"""Options by that which was typed; those that the command does not have are no proposals."""
