"""The backend of a command on the node with the pages of a cluster, if other nodes keep the calls.

Operations on calls are sent to the node that keeps them, as the pages send requests there, with a
statement of the caller that is signed by the key of this node. If that node is away, the node with the
other copy responds. All other operations run here."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from extensions.cluster.page_nodes import FIRST_BYTE_S, REFUSED, PageNode, PageNodes
from extensions.cluster.statements import HEADER, Statement, load_signing_key
from manage.api.operation import Operation
from manage.cli.backend import Backend
from manage.cli.console import BackendError
from manage.cli.remote import AwayError, RemoteBackend, RemoteError
from runtime import response_headers
from runtime.errors import ControlError
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.json_models import RequestModel, ResponseModel

TIMEOUT = httpx.Timeout(30.0, connect=1.0)
TIMEOUT_BEFORE_OTHERS = httpx.Timeout(FIRST_BYTE_S, connect=1.0)


class StatementAuth(httpx.Auth):
    """Authenticates requests to another node by signed statements of the caller."""

    def __init__(
        self, key: Ed25519PrivateKey, caller: Caller, node: PageNode, *, is_copy: bool
    ) -> None:
        self._key = key
        self._caller = caller
        self._node = node
        self._is_copy = is_copy

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        """Yield the request with a statement added."""
        statement = Statement(
            caller=self._caller,
            node=self._node.id,
            method=request.method,
            target=request.url.raw_path.decode("ascii"),
            at_s=time.time(),
            is_copy=self._is_copy,
        )
        request.headers[HEADER] = statement.sign(self._key)
        yield request


class _NodeBackend(RemoteBackend):
    """A node as backend. If it refuses a statement, that is an AwayError, so another copy is tried."""

    def explain(self, response: httpx.Response) -> ControlError | RemoteError:
        """Return the error for a response without a success status."""
        error = super().explain(response)
        if response.headers.get(response_headers.ERROR) == REFUSED:
            return AwayError(f"{self.base_url} failed with {response.status_code}: {error}")
        return error


class ClusterBackend:
    """The nodes of a cluster, used for a caller whose calls are on other nodes. See ``backend.Backend``."""

    def __init__(
        self,
        local: Backend,
        nodes: PageNodes,
        control: ControlDatabase,
        caller: Caller,
        tell: Callable[[str], object],
    ) -> None:
        """Use ``local`` for operations that are not about calls.

        ``tell`` is called with a note if a further copy responds. Raises sqlite3.Error."""
        self._local = local
        key = load_signing_key(control)
        found = nodes.find(caller.organization_id)
        self._holders = [
            _NodeBackend(
                f"http://{node.address}",
                StatementAuth(key, caller, node, is_copy=nodes.is_copy(node)),
                tell,
                timeout=TIMEOUT if node == found[-1] else TIMEOUT_BEFORE_OTHERS,
                uses_proxies=False,
            )
            for node in found
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for holder in self._holders:
            holder.close()

    def call[Request: RequestModel, Response: ResponseModel](
        self, operation: Operation[Request, Response], id_: str = "", /, **fields: object
    ) -> Response:
        is_dry_run = operation.has_dry_run and fields.get("dry_run") is True
        if not (operation.reads_calls or is_dry_run):
            return self._local.call(operation, id_, **fields)
        reasons = []
        for holder in self._holders:
            try:
                return holder.call(operation, id_, **fields)
            except AwayError as error:
                reasons.append(str(error))
        raise BackendError(
            "no node of the cluster that keeps the calls of this organisation responds: "
            + "; ".join(reasons)
        )


def open_backend(
    data_dir: Path,
    local: Backend,
    control: ControlDatabase,
    caller: Caller,
    tell: Callable[[str], object],
) -> ClusterBackend | None:
    """Return the backend for a caller whose calls are on other nodes, None if this node has them.

    Raises sqlite3.Error."""
    nodes = PageNodes.read(data_dir)
    if nodes is None or not nodes.is_elsewhere(caller.organization_id):
        return None
    return ClusterBackend(local, nodes, control, caller, tell)
