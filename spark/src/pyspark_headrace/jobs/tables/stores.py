"""Storage of archives: a directory, or a bucket of an object store."""

from __future__ import annotations

import datetime
import os
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, from_url

from pyspark_headrace.jobs.environment import RETRY_TIMEOUT
from pyspark_headrace.jobs.tables.errors import StoreError
from pyspark_headrace.jobs.tables.failures import FAILURES, lacks_place, said
from pyspark_headrace.jobs.tables.handles import Input, Output, sync_directories
from pyspark_headrace.jobs.uris import PLACES, SCHEMES
from pyspark_headrace.options.values import Unsuitable, milliseconds

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_TIMEOUT: Final = "60s"
_RETRY_TIMEOUT_MAX_MS: Final = 240_000
"""Maximum retry time: a request must not outlive its signature."""
_PAUSES: Final = (datetime.timedelta(milliseconds=100), datetime.timedelta(seconds=5))
"""Back-off before a retry: first and maximum."""
_EXCLUSIVE: Final = "_headrace/exclusive"
"""Object used to test whether a store supports conditional writes."""
_ASKED_AT_ONCE: Final = 16


class Stored(NamedTuple):
    """An object in a listing."""

    path: str
    size_bytes: int
    modified: datetime.datetime


class Store:
    """A store of immutable objects.

    A local store syncs to disk before a call returns, because topics may drop archived messages.
    """

    def __init__(self, uri: str, objects: ObjectStore) -> None:
        self.uri = uri
        self._objects = objects
        self._directory = Path(objects.prefix) if isinstance(objects, LocalStore) and objects.prefix else None
        self._is_exclusive = self._directory is not None

    @classmethod
    def open(cls, uri: str, *, create: bool = False) -> Self:
        """Open a store.

        Args:
            uri: A path, ``file:///…``, ``s3://…``, ``gs://…`` or ``az://…``. Credentials, endpoint and region come from
                the usual environment variables of these services, or from the machine.
            create: Create a missing directory.

        Raises:
            StoreError: The location does not exist.
        """
        try:
            if "://" not in uri or uri.startswith("file:"):
                directory = Path(url2pathname(urlsplit(uri).path) if uri.startswith("file:") else uri).absolute()
                if not create and not directory.is_dir():
                    raise StoreError(f"{uri}: the directory does not exist")
                return cls(uri, LocalStore(directory, mkdir=create))
            if urlsplit(uri).scheme not in SCHEMES:
                raise StoreError(f"{uri}: this is not {PLACES}")
            return cls(uri, from_url(uri, retry_config=_retries()))
        except FAILURES as error:
            raise StoreError(f"{uri}: {said(error)}") from None

    def read(self, path: str) -> bytes | None:
        """Return the contents of an object; None if it does not exist.

        Raises:
            StoreError: The object cannot be read.
        """
        try:
            return bytes(obstore.get(self._objects, path).bytes())
        except FileNotFoundError as error:
            if lacks_place(error):
                raise self._failed(path, error) from None
            return None
        except FAILURES as error:
            raise self._failed(path, error) from None

    def create(self, path: str, content: bytes) -> bool:
        """Create an object exclusively.

        Returns:
            True if this call has created the object; False if it existed.

        Raises:
            StoreError: The object cannot be written.
        """
        try:
            if self._directory is not None:
                return _create(self._directory, path, content)
            obstore.put(self._objects, path, content, mode="create")
        except AlreadyExistsError:
            return False
        except FAILURES as error:
            raise self._failed(path, error) from None
        return True

    def check_exclusive(self) -> None:
        """Check that `create` fails for an existing object. Some stores do not support conditional writes.

        Raises:
            StoreError: The store overwrites, so two writers could both succeed; or the check has failed.
        """
        if self._is_exclusive:
            return
        if self.create(_EXCLUSIVE, b"") and self.create(_EXCLUSIVE, b""):
            raise StoreError(
                f"{self.uri}: this store writes over what is there, though it is asked not to (If-None-Match: *): of "
                "two writers each would take itself for the first. It cannot have what several may write"
            )
        self._is_exclusive = True

    def check_written(self, sizes: Mapping[str, int]) -> None:
        """Check that files reported by tasks exist.

        Args:
            sizes: Sizes in bytes, by path.

        Raises:
            StoreError: A file is missing or has another size, or the check has failed.
        """
        with ThreadPoolExecutor(max_workers=min(max(len(sizes), 1), _ASKED_AT_ONCE)) as pool:
            for (path, size), found in zip(sizes.items(), pool.map(self._size, sizes), strict=True):
                if found != size:
                    has = "does not exist" if found is None else f"has {found} bytes there, and not {size}"
                    raise StoreError(
                        f"{self._named(path)}: {has}, but a task has written it. Do all executors have the same "
                        "directory, or the same variables for their object store, as this driver?"
                    )

    def listing(self, prefix: str | None = None) -> Iterator[Stored]:
        """List all objects below a prefix of whole path segments.

        Raises:
            StoreError: The store cannot be listed.
        """
        try:
            for chunk in obstore.list(self._objects, prefix, chunk_size=1000):
                for found in chunk:
                    yield Stored(found["path"], found["size"], found["last_modified"])
        except FAILURES as error:
            raise self._failed(prefix or "", error) from None

    def output(self, path: str) -> Output:
        """Create a large object for streaming. The object appears when the handle is closed."""
        try:
            written = obstore.open_writer(self._objects, path)
        except FAILURES as error:
            raise self._failed(path, error) from None
        return Output(written, self._named(path), None if self._directory is None else (self._directory, path))

    def input(self, path: str) -> Input:
        """Open an object for random access.

        Raises:
            FileNotFoundError: The object does not exist.
            StoreError: The object cannot be read.
        """
        try:
            return Input(obstore.open_reader(self._objects, path), self._named(path))
        except FileNotFoundError:
            raise
        except FAILURES as error:
            raise self._failed(path, error) from None

    def _failed(self, path: str, error: Exception) -> StoreError:
        return StoreError(f"{self._named(path)}: {said(error)}")

    def _named(self, path: str) -> str:
        return f"{self.uri}: {path}" if path else self.uri

    def _size(self, path: str) -> int | None:
        try:
            return int(obstore.head(self._objects, path)["size"])
        except FileNotFoundError:
            return None
        except FAILURES as error:
            raise self._failed(path, error) from None


def _retries() -> RetryConfig:
    text = os.environ.get(RETRY_TIMEOUT, _TIMEOUT)
    try:
        retry_timeout = datetime.timedelta(milliseconds=milliseconds(0, _RETRY_TIMEOUT_MAX_MS)(text))
    except Unsuitable as error:
        raise StoreError(f"{RETRY_TIMEOUT}: {text!r} is not {error}") from None
    first, longest = _PAUSES
    # The library's default of ten retries may amount to two seconds only.
    return {
        "max_retries": retry_timeout // first,
        "retry_timeout": retry_timeout,
        "backoff": {"init_backoff": first, "max_backoff": longest, "base": 2},
    }


def _create(directory: Path, path: str, content: bytes) -> bool:
    """Create a file atomically: complete and synced to disk before it gets its name."""
    target = directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    # Same form as the names of unfinished files of the store's own writers, which listings hide.
    passing = target.with_name(f"{target.name}#{secrets.randbelow(1 << 62)}")
    try:
        with passing.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(passing, target)
        except FileExistsError:
            return False
    finally:
        passing.unlink(missing_ok=True)
    sync_directories(directory, target.parent)
    return True
