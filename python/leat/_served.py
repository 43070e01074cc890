"""Serves the blocks of a run of leat.apply in its own process."""

from __future__ import annotations

import socket
from typing import Any, Callable, Optional

from ._function import Failure, Server


class Served(Server):
    """Served is a Server of a function that is in this process already."""

    def __init__(self, connection: socket.socket, function: Callable[[Any], Any], params: Any,
                 state: Any, failures: dict[Optional[int], BaseException]) -> None:
        super().__init__(connection, function)
        self.given, self.state, self.failures = params, state, failures

    def setup(self, message: dict[str, Any]) -> dict[str, Any]:
        """Set up with the caller's own parameters, and state if it has one for all."""
        answer = super().setup(message)
        assert self.run is not None
        self.run.params = self.given
        if self.state is not None:
            self.run.state = self.state
        return answer

    def block(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compute a block, and keep the exception of a function that fails."""
        try:
            return super().block(message)
        except Failure:
            raise
        except BaseException as e:
            self.failures[message["number"]] = e
            raise
