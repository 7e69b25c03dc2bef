"""The error tree: one sentence, the service's code, the next thing to do, an exit code."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_NO = 4
EXIT_INCOMPLETE = 5
EXIT_INTERRUPTED = 130


class Ai4infraError(Exception):
    """Base of every error that this library raises on purpose.

    ``message`` is one sentence without a line break, ``code`` is the service's own code (such as
    ``AuthorizationFailed``) or None, ``hint`` is the next thing to do, ``status`` is the HTTP
    status or None, ``detail`` is everything else that ``--debug`` shows, already masked.
    """

    exit_code = EXIT_FAILED

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        status: int | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.status = status
        self.detail = detail

    def __str__(self) -> str:
        return f"({self.code}) {self.message}" if self.code else self.message


class UsageError(Ai4infraError):
    """The question itself is wrong (unknown region, bad option value); nothing was sent."""

    exit_code = EXIT_USAGE


class NotFoundError(Ai4infraError):
    """The service says that the named thing does not exist."""

    exit_code = EXIT_NOT_FOUND


class SignInError(Ai4infraError):
    """No usable identity: not signed in, an expired sign-in, or a wrong tenant."""


class ForbiddenError(Ai4infraError):
    """Signed in, but not allowed to do this (never reported as missing)."""


class PolicyDeniedError(ForbiddenError):
    """An Azure Policy assignment refuses the request."""


class NotRegisteredError(Ai4infraError):
    """The subscription is not registered for a resource provider."""


class ConflictError(Ai4infraError):
    """The state of the resource does not allow the request."""


class ThrottledError(Ai4infraError):
    """The service asks for a longer wait than we are willing to make.

    ``retry_after_seconds`` is the wait that the service named, None when it named none.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        code: str | None = None,
        hint: str | None = None,
        status: int | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, status=status, detail=detail)
        self.retry_after_seconds = retry_after_seconds


class ServiceError(Ai4infraError):
    """The service failed or answered something that cannot be understood."""


class NetworkError(Ai4infraError):
    """The service was not reached: name resolution, connection, certificate or time-out."""
