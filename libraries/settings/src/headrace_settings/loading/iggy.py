"""Settings of the server that existing clients come from, given as its environment variables (`IGGY_...`).

Settings that a service has under the same name, or under one in its list of renamed ones, are applied. For all others a
warning is issued: a server that starts without encryption although a variable requests it must report this.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from headrace_settings.loading.sources import Collected, put_text
from headrace_settings.origin import EnvironmentOrigin
from headrace_settings.section import Setting

PREFIX: Final = "IGGY"

_TLS: Final = ("enabled", "self_signed", "cert_file", "key_file")
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "tcp": ("enabled", "address", "socket_migration", "ipv6"),
    "tcp.tls": _TLS,
    "tcp.socket": ("override_defaults", "recv_buffer_size", "send_buffer_size", "keepalive", "nodelay", "linger"),
    "quic": (
        "enabled",
        "address",
        "max_concurrent_bidi_streams",
        "datagram_send_buffer_size",
        "initial_mtu",
        "send_window",
        "receive_window",
        "keep_alive_interval",
        "max_idle_timeout",
    ),
    "quic.certificate": ("self_signed", "cert_file", "key_file"),
    "quic.socket": ("override_defaults", "recv_buffer_size", "send_buffer_size", "keepalive"),
    "websocket": (
        "enabled",
        "address",
        "read_buffer_size",
        "write_buffer_size",
        "max_write_buffer_size",
        "max_message_size",
        "max_frame_size",
        "accept_unmasked_frames",
    ),
    "websocket.tls": _TLS,
    "http": ("enabled", "address", "max_request_size", "web_ui"),
    "http.cors": (
        "enabled",
        "allowed_methods",
        "allowed_origins",
        "allowed_headers",
        "exposed_headers",
        "allow_credentials",
        "allow_private_network",
    ),
    "http.jwt": (
        "algorithm",
        "issuer",
        "audience",
        "valid_issuers",
        "valid_audiences",
        "access_token_expiry",
        "clock_skew",
        "not_before",
        "encoding_secret",
        "decoding_secret",
        "use_base64_secret",
    ),
    "http.metrics": ("enabled", "endpoint"),
    "http.tls": ("enabled", "cert_file", "key_file"),
    "system": ("path",),
    "system.stream": ("path",),
    "system.topic": ("path", "max_size", "message_expiry"),
    "system.partition": (
        "path",
        "messages_required_to_save",
        "size_of_messages_required_to_save",
        "enforce_fsync",
        "validate_checksum",
    ),
    "system.segment": ("size", "cache_indexes", "archive_expired"),
    "system.message_deduplication": ("enabled", "max_entries", "expiry"),
    "system.encryption": ("enabled", "key"),
    "system.compression": ("default_algorithm", "allow_override"),
    "system.state": ("enforce_fsync", "max_file_operation_retries", "retry_delay"),
    "system.backup": ("path",),
    "system.backup.compatibility": ("path",),
    "system.recovery": ("recreate_missing_state",),
    "system.runtime": ("path",),
    "system.memory_pool": ("enabled", "size", "bucket_capacity"),
    "system.sharding": ("cpu_allocation",),
    "system.logging": (
        "level",
        "file_enabled",
        "path",
        "max_file_size",
        "max_total_size",
        "rotation_check_interval",
        "retention",
        "sysinfo_print_interval",
    ),
    "message_saver": ("enabled", "interval", "enforce_fsync"),
    "data_maintenance.messages": ("cleaner_enabled", "interval"),
    "heartbeat": ("enabled", "interval"),
    "consumer_group": ("rebalancing_timeout", "rebalancing_check_interval"),
    "personal_access_token": ("max_tokens_per_user",),
    "personal_access_token.cleaner": ("enabled", "interval"),
    "telemetry": ("enabled", "service_name"),
    "telemetry.logs": ("transport", "endpoint"),
    "telemetry.traces": ("transport", "endpoint"),
    "cluster": ("enabled", "name"),
    "cluster.node.current": ("name", "ip"),
}
KEYS: Final = tuple(f"{table}.{name}" for table, names in _KEYS.items() for name in names)
"""Every setting of that server's release 0.8.0 that is not in a list of tables."""
_LISTS: Final = ("IGGY_CLUSTER_NODE_OTHERS_", "IGGY_HTTP_JWT_TRUSTED_ISSUERS_")

# Replacements, by setting or by the table that contains it.
_INSTEAD: Final = {
    "system.encryption": "messages are stored as they come; encrypt the volume that holds system.path",
    "system.partition.enforce_fsync": "see the setting durability",
    "message_saver.enabled": "see the settings of message_saver",
    "system.logging": "the log is written to standard error",
    "telemetry": "see the settings of tracing",
    "IGGY_CONFIG_PATH": "give the file with --config, or in the service's own variable",
}
# Values that have another name here.
_VALUES: Final = {"system.segment.cache_indexes": {"true": "all", "false": "none"}}


def read_iggy(
    collected: Collected, environment: Mapping[str, str], *, renamed: Mapping[str, str], taken: Collection[str]
) -> list[str]:
    """Apply the variables whose settings exist; returns a warning for each of the others. An empty one counts as unset.

    Args:
        collected: Receives the values.
        environment: The variables.
        renamed: That server's settings that have another name here, with this name.
        taken: Variables with another meaning, which are skipped.
    """
    by_name = {setting.dotted: setting for setting in collected.settings}
    keys = {_variable(key): key for key in KEYS}
    warnings = []
    for variable in sorted(environment):
        value = environment[variable]
        if not variable.startswith(f"{PREFIX}_") or not value or variable in taken:
            continue
        key = keys.get(variable)
        setting = by_name.get(renamed.get(key, key)) if key is not None else None
        if key is None or setting is None:
            warnings.append(_warning(variable, key, keys))
        else:
            value = _VALUES.get(key, {}).get(value.strip().lower(), value)
            put_text(collected, setting, value, EnvironmentOrigin(variable))
    return warnings


def mapping(settings: Collection[Setting], *, renamed: Mapping[str, str]) -> list[tuple[str, str | None, str]]:
    """List the variables, each with the corresponding setting, or otherwise with its replacement."""
    names = {setting.dotted for setting in settings}
    rows = []
    for key in KEYS:
        name = renamed.get(key, key)
        rows.append((_variable(key), name if name in names else None, _instead(key) or ""))
    return rows


def _variable(key: str) -> str:
    return f"{PREFIX}_{key}".replace(".", "_").upper()


def _warning(variable: str, key: str | None, known: Collection[str]) -> str:
    if key is not None or variable.startswith(_LISTS):
        reason = "this service has no such setting"
    else:
        reason = "no equivalent setting exists"
        nearest = difflib.get_close_matches(variable, known, n=1, cutoff=0.8)
        if nearest:
            reason += f"; did you mean {nearest[0]}?"
    instead = _instead(key or variable)
    return f"{variable} has no effect: {reason}{f'; {instead}' if instead else ''}"


def _instead(name: str) -> str | None:
    while name not in _INSTEAD and "." in name:
        name = name.rpartition(".")[0]
    return _INSTEAD.get(name)
