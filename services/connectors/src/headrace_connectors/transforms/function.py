"""The transform `python`: a function of the user."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from headrace_connectors.contract import InvalidRecord, Record, Settings, Transform


class FunctionSettings(Settings):
    """`transforms.python`: a function that gets each record."""

    function: str
    """Name as `module:name`. It gets a `headrace_connectors.contract.Record`, and returns what goes on: a record,
    several, or None for nothing. With `InvalidRecord`, or any other exception, it refuses the record.
    """
    arguments: Mapping[str, Any] = Field(default_factory=dict)
    """Keyword arguments of each call."""
    directory: Path | None = None
    """Directory of the module, if it is not installed; a relative one is below the working directory of the process."""

    @model_validator(mode="after")
    def _can_be_called(self) -> Self:
        try:
            inspect.signature(self.load()).bind(Record(None), **self.arguments)
        except TypeError as error:
            raise ValueError(
                f"{self.function} cannot be called with a record and these arguments: {error}; correct arguments"
            ) from None
        return self

    def load(self) -> Callable[..., Any]:
        """Import the function.

        Raises:
            ValueError: There is no such function.
        """
        module_name, colon, name = self.function.partition(":")
        if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
            raise ValueError(f'function = {self.function!r} is not the name of a function: write "module:name"')
        if self.directory is not None:
            directory = str(self.directory.expanduser().absolute())
            if not Path(directory).is_dir():
                raise ValueError(f"directory = {str(self.directory)!r} does not exist")
            if directory not in sys.path:
                sys.path.append(directory)
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
                raise ValueError(
                    f"function: there is no module {error.name}: install it, or set directory to its place"
                ) from None
            raise ValueError(f"{module_name} cannot be imported: {error}") from error
        except Exception as error:
            raise ValueError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
        function = getattr(module, name, None)
        if function is None:
            raise ValueError(f"{module_name} has no {name}: correct the name after the colon")
        if not callable(function):
            raise ValueError(f"{self.function} is a {type(function).__name__}, not a function")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise ValueError(
                f"{self.function} is asynchronous or a generator: return the records from a plain function"
            )
        loaded: Callable[..., Any] = function
        return loaded


class Function(Transform):
    """Calls a Python function with each record."""

    settings_type: ClassVar[type[Settings]] = FunctionSettings
    uses_host: ClassVar[bool] = True

    def __init__(self, settings: FunctionSettings) -> None:
        """Import the function."""
        self._name = settings.function
        self._function = settings.load()
        self._arguments = dict(settings.arguments)

    def apply(self, record: Record) -> Record | Sequence[Record] | None:
        """Return what the function returns.

        Raises:
            InvalidRecord: The function has raised an exception, or returned something else.
        """
        try:
            made = self._function(record, **self._arguments)
        except InvalidRecord:
            raise
        except Exception as error:
            raise InvalidRecord(f"{self._name} failed: {type(error).__name__}: {error}") from error
        if made is None or isinstance(made, Record):
            return made
        if isinstance(made, Sequence) and all(isinstance(one, Record) for one in made):
            return made
        raise InvalidRecord(f"{self._name} returned a {type(made).__name__}, not a record, a list of records or None")
