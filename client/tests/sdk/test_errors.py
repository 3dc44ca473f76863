"""Failures of the native module and of servers as exceptions of the tree."""

import copy
import pickle
from typing import Any

import pytest

import headrace
from headrace.sdk.calls import found
from headrace.sdk.errors import translated
from headrace_core import SessionError
from headrace_proto.errors import find

KINDS = {
    "not_sent": (headrace.ConnectionFailed, True),
    "unreachable": (headrace.ConnectionFailed, True),
    "late": (headrace.DeadlineExceeded, True),
    "uncertain": (headrace.OutcomeUnknown, False),
    "malformed": (headrace.OutcomeUnknown, False),
    "login_refused": (headrace.LoginRefused, False),
    "undelivered": (headrace.NotDelivered, True),
    "overtaken": (headrace.NotDelivered, True),
    "buffer_full": (headrace.BufferFull, True),
    "closed": (headrace.ClientClosed, False),
    "invalid": (headrace.InvalidArgument, False),
}
TREE = [getattr(headrace, name) for name in headrace.__all__ if isinstance(getattr(headrace, name), type)]
TREE = [kind for kind in TREE if issubclass(kind, Exception)]


def failure(kind: str, code: int | None = None, name: str | None = None) -> SessionError:
    error = SessionError("what went wrong")
    error.kind, error.code, error.name = kind, code, name  # type: ignore[assignment] # each kind in turn
    return error


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_failure_has_its_exception(kind: str) -> None:
    error = translated(failure(kind))
    expected, is_retryable = KINDS[kind]
    assert type(error) is expected
    assert (str(error), error.code, error.retryable) == ("what went wrong", None, is_retryable)


def test_kinds_are_those_of_the_native_module() -> None:
    import ast
    import importlib.resources

    stub = importlib.resources.files("headrace_core").joinpath("__init__.pyi").read_text()
    (annotation,) = [
        node.annotation
        for definition in ast.parse(stub).body
        if isinstance(definition, ast.ClassDef) and definition.name == "SessionError"
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "kind"
    ]
    named = {node.value for node in ast.walk(annotation) if isinstance(node, ast.Constant)}
    assert named == {*KINDS, "refused"}


@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [
        (41, "Unauthorized", headrace.PermissionDenied),
        (42, "InvalidCredentials", headrace.LoginRefused),
        (40, "Unauthenticated", headrace.LoginRefused),
        (1009, "StreamIdNotFound", headrace.NotFound),
        (1012, "StreamNameAlreadyExists", headrace.AlreadyExists),
        (3, "InvalidCommand", headrace.RequestRefused),
        (999_999, None, headrace.RequestRefused),
    ],
)
def test_a_refusal_has_the_exception_of_its_status(code: int, name: str | None, expected: type[Exception]) -> None:
    error = translated(failure("refused", code, name))
    assert type(error) is expected
    assert error.code == code


def test_every_status_has_an_exception_and_is_retryable_as_registered() -> None:
    known = [(code, status) for code in range(1, 70_000) if (status := find(code)) is not None]
    assert len(known) > 100
    for code, status in known:
        error = translated(failure("refused", code, status.name))
        assert error.retryable is status.retryable, status
        assert isinstance(error, headrace.RequestRefused | headrace.LoginRefused), status
        if "Credentials" in status.name or status.name.endswith("TokenExpired"):
            assert isinstance(error, headrace.LoginRefused), status
        if status.name.endswith("NotFound") and not isinstance(error, headrace.LoginRefused):
            assert isinstance(error, headrace.NotFound), status


@pytest.mark.parametrize("kind", TREE)
def test_exceptions_form_one_tree(kind: type[headrace.HeadraceError]) -> None:
    assert issubclass(kind, headrace.HeadraceError)
    error = kind("text", code=7, retryable=True)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(again), str(again), again.code, again.retryable) == (kind, "text", 7, True)
    assert (kind("text").code, str(kind("text"))) == (None, "text")


def test_exceptions_are_also_those_that_python_has_for_the_case() -> None:
    assert issubclass(headrace.DeadlineExceeded, TimeoutError)
    assert issubclass(headrace.InvalidArgument, ValueError)


def test_an_empty_answer_means_that_there_is_nothing() -> None:
    decode: Any = found(lambda answer: answer.decode() or None, "stream 'shop'")
    assert decode(b"x") == "x"
    with pytest.raises(headrace.NotFound, match="there is no stream 'shop'") as missing:
        decode(b"")
    assert not missing.value.retryable
