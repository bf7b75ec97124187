"""``taximeter cluster nodes|move|forget|key|trust``, for the operator."""

import time
from dataclasses import asdict
from importlib import import_module
from typing import Any

import click

from extensions.cluster.plugin import check_installed
from extensions.cluster.settings import CLUSTER
from extensions.cluster.statements import PAGE_CHECKING_KEY, trust
from manage.cli.operator_command import DataDirectory, operator_command
from manage.cli.terminal import format_table, format_text
from metering.formats import format_bytes
from runtime.errors import ControlError
from store.control.database import ControlDatabase

POLL_S = 0.2


@click.group()
def cluster() -> None:
    """List nodes of a cluster, move calls, and give up a node.

    For the operator, on the node with the pages, with its settings in the environment. Only trust is for
    the other nodes.

    \b
    Examples:
      taximeter cluster nodes
      taximeter cluster move 17 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90
      taximeter cluster forget 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90
    """


@cluster.command("nodes")
@operator_command
def list_nodes(place: DataDirectory) -> None:
    """List the nodes that keep calls, and the proxy nodes.

    \b
    Examples:
      taximeter cluster nodes
      taximeter cluster nodes --json | jq -r '.items[] | select(.is_alive == false) | .id'
    """
    url, administration = _open(place)
    found = administration.list_nodes(url)
    table = format_table(
        ("NODE", "COPY", "BUCKETS", "ADDRESS", "STATE"),
        [
            (
                each.id,
                format_text(each.copy or "(proxy)"),
                str(each.buckets or ""),
                format_text(each.address or ""),
                {True: "lives", False: "away", None: ""}[each.is_alive],
            )
            for each in found
        ],
    )
    place.print({"items": [asdict(each) for each in found]}, table)


@cluster.command("move")
@click.argument("bucket")
@click.argument("node")
@click.option("--cancel", is_flag=True, help="Leave the bucket where it is.")
@operator_command
def move_bucket(place: DataDirectory, bucket: str, node: str, cancel: bool) -> None:
    """Move a bucket to another node of the same copy.

    The calls of its organisations move with it. BUCKET is its number, or the id of an organisation in
    it. Both nodes carry it out, also when this command is interrupted; called again, it goes on to
    wait. Meanwhile calls of the bucket wait on the server, and pages show those that are recorded.

    \b
    Examples:
      taximeter cluster move 17 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90
      taximeter cluster move 17 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90 --cancel
    """
    url, administration = _open(place)
    with place.open_control() as control:
        number = administration.parse_bucket(control, bucket)
    if cancel:
        if not administration.cancel_move(url, number, node):
            raise ControlError("the bucket was handed over already: move it back")
        said = f"Bucket {number} stays where it is."
        place.print({"bucket": number, "moved": False}, said)
        return
    move = administration.order_move(url, number, node)
    if move is not None:
        _wait(administration, url, move)
    said = f"The node {format_text(node)} keeps bucket {number}."
    place.print({"bucket": number, "moved": move is not None}, said)


def _wait(administration: Any, url: str | None, move: Any) -> None:
    """Wait for the end of a move; print each change on standard error. Raises ControlError."""
    said = ""
    while True:
        state = administration.read_move(url, move)
        if state.has_ended:
            break
        line = _describe(state)
        if line != said:
            click.echo(line, err=True)
            said = line
        time.sleep(POLL_S)
    if not state.is_handed_over:
        raise ControlError("the move was cancelled, or the server has lost it: order it again")


def _describe(state: Any) -> str:
    if state.is_handed_over:
        return "It is handed over; the other node removes its files."
    if state.problem is not None:
        return format_text(f"It waits: {state.problem}. Add --cancel to give it up.")
    if state.bytes is None:
        return "It waits until the calls that were received are recorded."
    percent = 100 if not state.bytes else 100 * state.done_bytes // state.bytes
    return f"{percent // 10 * 10}% of {format_bytes(state.bytes)} are copied."


@cluster.command("forget")
@click.argument("node")
@operator_command
def forget_node(place: DataDirectory, node: str) -> None:
    """Give up a node that is gone for good.

    Calls that only this node has are gone too. Other nodes of its copy take its buckets. Erasures no
    longer wait for it. Do not give up a node that will come back.

    \b
    Examples:
      taximeter cluster forget 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90
    """
    url, administration = _open(place)
    with place.open_control() as control:
        administration.forget(url, control, node)
    place.print({"ok": True}, f"Forgot the node {format_text(node)}.")


@cluster.command("key")
@operator_command
def print_key(place: DataDirectory) -> None:
    """Print the public key of the node with the pages.

    With this key, nodes that keep calls check that a request comes from the node with the pages. On the
    node with the pages the command prints that node's own key, elsewhere the key that is kept there.

    \b
    Examples:
      taximeter cluster key
    """
    with place.open_control() as control:
        key = control.find_secret(PAGE_CHECKING_KEY)
    if key is None:
        raise ControlError("this node has no such key yet: start it first")
    place.print({"key": key.hex()}, key.hex())


@cluster.command("trust")
@click.argument("key")
@operator_command
def trust_key(place: DataDirectory, key: str) -> None:
    """Confirm the key of the node with the pages.

    A node with the role recorder keeps the first key that it sees on the Redis server. Give it the key before
    its first start if others may write there, and when the node with the pages was made anew. KEY is what
    `taximeter cluster key` prints on that node.

    \b
    Examples:
      taximeter cluster trust 8f1c5d0e9a7b3c2d4e6f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5
    """
    place.settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ControlDatabase(place.settings.control_path) as control:
        trust(control, key)
    said = "This node shows its calls to the node with the pages that has this key."
    place.print({"ok": True}, said)


def _open(place: DataDirectory) -> tuple[str, Any]:
    """Return the URL of the server, and the module that queries it. Raises ControlError."""
    url = place.settings.of(CLUSTER)
    if url is None:
        raise ControlError(
            "this is no node of a cluster: set TAXIMETER_CLUSTER as the service has it"
        )
    check_installed()
    # Only here: the client of the server is an extra.
    return url, import_module("extensions.cluster.administration")
