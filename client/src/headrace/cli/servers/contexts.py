"""Named servers with their credentials, in a file of the user; secrets in a keyring where there is one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from headrace.cli.errors import CommandError, those_there

_KEYRING_SERVICE: Final = "headrace"
_KEYRING: Final = "keyring"
_FILE: Final = "file"


@dataclass(frozen=True, slots=True)
class Context:
    """A server, and optionally how to log in there."""

    server: str
    username: str | None = None
    secret_kind: Literal["password", "token"] | None = None
    secret_in: Literal["keyring", "file"] | None = None
    secret: str | None = None
    """The secret, if it is in the file."""
    description: str = ""

    @property
    def has_token(self) -> bool:
        """Return whether its secret is an access token."""
        return self.secret_kind == "token"  # noqa: S105 - the kind, not the secret


@dataclass(slots=True)
class Contexts:
    """All contexts of a user, and the name of the one in use."""

    path: Path
    current: str | None
    by_name: dict[str, Context]

    @classmethod
    def load(cls) -> Contexts:
        """Read the file of contexts; without one there are none.

        Raises:
            CommandError: The file cannot be read, is damaged, or is readable by others.
        """
        path = contexts_path()
        try:
            with path.open(encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode
                import json  # noqa: PLC0415 - slow to import, and most users have no such file

                document = json.load(file)
            by_name = {name: Context(**fields) for name, fields in document["contexts"].items()}
            contexts = cls(path, document["current"], by_name)
        except FileNotFoundError:
            return cls(path, None, {})
        except OSError as error:
            raise CommandError(f"the contexts in {path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CommandError(f"{path} is not a file of contexts ({error}): correct or remove it") from error
        if stat.S_IMODE(mode) & 0o077:
            raise CommandError(f"{path} contains secrets and is open to others: run chmod 600 {path}")
        return contexts

    def save(self) -> None:
        """Replace the file, at once and closed to others."""
        # Slow to import, and most commands only read.
        import json  # noqa: PLC0415
        import tempfile  # noqa: PLC0415

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {
            "current": self.current,
            "contexts": {name: asdict(context) for name, context in sorted(self.by_name.items())},
        }
        descriptor, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".contexts-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def get(self, name: str) -> Context:
        """Return a context.

        Raises:
            CommandError: There is none of this name.
        """
        if name not in self.by_name:
            there = those_there(self.by_name, otherwise="headrace context add NAME --server host:port")
            raise CommandError(f"there is no context {name!r} {there}")
        return self.by_name[name]

    def add(self, name: str, context: Context, secret: str | None) -> Context:
        """Add a context, with its secret in the keyring if there is one; return it as it was stored.

        Raises:
            CommandError: The keyring refused.
        """
        before = self.by_name.get(name)
        keyring = _keyring() if secret is not None else None
        if secret is None:
            stored = context
        elif keyring is not None:
            with _reported():
                keyring.set_password(_KEYRING_SERVICE, name, secret)
            stored = replace(context, secret_in=_KEYRING)
        else:
            stored = replace(context, secret_in=_FILE, secret=secret)
        if before is not None and before.secret_in == _KEYRING and stored.secret_in != _KEYRING:
            _forget(name)
        self.by_name[name] = stored
        return stored

    def remove(self, name: str) -> None:
        """Remove a context with its secret.

        Raises:
            CommandError: There is none of this name, or the keyring refused.
        """
        if self.get(name).secret_in == _KEYRING:
            _forget(name)
        del self.by_name[name]
        if self.current == name:
            self.current = None

    def secret_of(self, name: str) -> str | None:
        """Return the secret of a context.

        Raises:
            CommandError: It is in a keyring that cannot be used now, or that has lost it.
        """
        context = self.get(name)
        if context.secret_in != _KEYRING:
            return context.secret
        keyring = _keyring()
        found = None
        if keyring is not None:
            with _reported():
                found = keyring.get_password(_KEYRING_SERVICE, name)
        if not isinstance(found, str):
            raise CommandError(
                f"the {context.secret_kind} of context {name!r} is not in the keyring any more: add the context again"
            )
        return found


def contexts_path() -> Path:
    """Return the file of contexts: in the directory for configurations of the XDG specification."""
    configured = os.environ.get("XDG_CONFIG_HOME")
    base = Path(configured) if configured and Path(configured).is_absolute() else Path.home() / ".config"
    return base / "headrace" / "contexts.json"


def _keyring() -> Any:
    """Return the module `keyring` if it is installed and can store secrets; None otherwise."""
    try:
        import keyring  # noqa: PLC0415
        from keyring.backends import fail, null  # noqa: PLC0415
    except ImportError:
        return None
    backend = keyring.get_keyring()
    return None if isinstance(backend, (fail.Keyring, null.Keyring)) else keyring


def _forget(name: str) -> None:
    """Delete the secret of a context from the keyring.

    Raises:
        CommandError: The keyring refused, and still has it.
    """
    keyring = _keyring()
    if keyring is None:
        return
    from keyring.errors import PasswordDeleteError  # noqa: PLC0415

    with _reported():
        try:
            keyring.delete_password(_KEYRING_SERVICE, name)
        except PasswordDeleteError:
            # Also the error for a secret that is not there any more, whose context could never be removed.
            if keyring.get_password(_KEYRING_SERVICE, name) is not None:
                raise


@contextmanager
def _reported() -> Iterator[None]:
    """Turn an error of the keyring, which may be locked, into one that a user can correct."""
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        yield
    except KeyringError as error:
        raise CommandError(f"the keyring refused: {str(error) or type(error).__name__}") from error
