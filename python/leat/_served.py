"""Serves the blocks of a run of leat.apply in its own process."""

from __future__ import annotations

import socket
import types
from typing import Any, Callable, Optional

from ._function import Server, close_instance
from ._load import closes


class Shared:
    """Shared holds what the connections that one thread serves have in common."""

    def __init__(self) -> None:
        self.state = types.SimpleNamespace()
        self.instance: Any = None
        """Instance of the function, if that is a class; None before the first setup."""

    def close(self) -> Any:
        """Return the value of the instance's close, None if there is none."""
        if self.instance is None or not closes(type(self.instance)):
            return None
        return close_instance(self.instance)


class Served(Server):
    """Served is a Server of a function that is in this process already."""

    def __init__(self, connection: socket.socket, function: Callable[[Any], Any], params: Any,
                 shared: Optional[Shared], failures: dict[Optional[int], BaseException]) -> None:
        super().__init__(connection, function)
        self.given, self.shared, self.failures = params, shared, failures

    def prepare(self) -> None:
        """Use the caller's own parameters, and the state if there is one for all."""
        assert self.run is not None
        self.run.params = self.given
        if self.shared is not None:
            self.run.state = self.shared.state

    def make_instance(self) -> Any:
        """Return the instance of all connections, or one of this connection."""
        if self.shared is None:
            return super().make_instance()
        if self.shared.instance is None:
            self.shared.instance = super().make_instance()
        return self.shared.instance

    def setup(self, message: dict[str, Any]) -> dict[str, Any]:
        """Set up the run, and keep the exception of a class that fails."""
        try:
            return super().setup(message)
        except BaseException as e:
            self.failed(None, e)
            raise

    def close(self, message: dict[str, Any]) -> dict[str, Any]:
        """End the connection. Shared.close closes an instance that connections share."""
        if self.shared is not None:
            return {"type": "closed"}
        try:
            return super().close(message)
        except BaseException as e:
            self.failed(None, e)
            raise

    def failed(self, number: Optional[int], error: BaseException) -> None:
        """Keep the exception of a function that fails."""
        self.failures[number] = error
