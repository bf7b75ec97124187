"""``taximeter cluster nodes|move|forget|key|trust``, for the operator."""

import time
from dataclasses import asdict
from importlib import import_module
from typing import Any

import click

from extensions.cluster.plugin import check_installed
from extensions.cluster.settings import CLUSTER
from extensions.cluster.statements import PAGE_CHECKING_KEY, trust
from manage.cli.console import (
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    read_settings,
)
from manage.cli.terminal import format_text, print_table
from metering.formats import format_bytes
from runtime.errors import ControlError
from runtime.settings import Settings
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
@data_dir_option
@json_option
def list_nodes(data_dir: str | None, as_json: bool) -> None:
    """List the nodes that keep calls, and the proxy nodes.

    \b
    Examples:
      taximeter cluster nodes
      taximeter cluster nodes --json | jq -r '.items[] | select(.is_alive == false) | .id'
    """
    with explained():
        _, url, administration = _open(data_dir)
        found = administration.list_nodes(url)
    if as_json:
        print_json({"items": [asdict(each) for each in found]})
        return
    print_table(
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


@cluster.command("move")
@click.argument("bucket")
@click.argument("node")
@click.option("--cancel", is_flag=True, help="Leave the bucket where it is.")
@data_dir_option
@json_option
def move_bucket(bucket: str, node: str, cancel: bool, data_dir: str | None, as_json: bool) -> None:
    """Move a bucket to another node of the same copy.

    The calls of its organisations move with it. BUCKET is its number, or the id of an organisation in
    it. Both nodes carry it out, also when this command is interrupted; called again, it goes on to
    wait. Meanwhile calls of the bucket wait on the server, and pages show those that are recorded.

    \b
    Examples:
      taximeter cluster move 17 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90
      taximeter cluster move 17 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90 --cancel
    """
    with explained():
        settings, url, administration = _open(data_dir)
        with open_control(settings) as control:
            number = administration.parse_bucket(control, bucket)
        if cancel:
            if not administration.cancel_move(url, number, node):
                raise ControlError("the bucket was handed over already: move it back")
            _say(f"Bucket {number} stays where it is.", as_json=as_json, moved=False, bucket=number)
            return
        move = administration.order_move(url, number, node)
        if move is not None:
            _wait(administration, url, move)
    done = f"The node {format_text(node)} keeps bucket {number}."
    _say(done, as_json=as_json, moved=move is not None, bucket=number)


def _say(text: str, *, as_json: bool, moved: bool, bucket: int) -> None:
    if as_json:
        print_json({"bucket": bucket, "moved": moved})
    else:
        click.echo(text)


def _wait(administration: Any, url: str | None, move: Any) -> None:
    """Wait for the end of a move, with a line on standard error for each change. Raises ControlError."""
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
@data_dir_option
def forget_node(node: str, data_dir: str | None) -> None:
    """Give up a node that is gone for good.

    Calls that only it has are gone too. Other nodes of its copy take its buckets. Erasures no longer
    wait for it. A node that is to come back needs none of this.

    \b
    Examples:
      taximeter cluster forget 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90
    """
    with explained():
        settings, url, administration = _open(data_dir)
        with open_control(settings) as control:
            administration.forget(url, control, node)
    click.echo(f"Forgot the node {format_text(node)}.")


@cluster.command("key")
@data_dir_option
def print_key(data_dir: str | None) -> None:
    """Print the public key of the node with the pages.

    Nodes with calls check by it who asks for a page. On the node with the pages it is that node's own,
    elsewhere the one that is kept there.

    \b
    Examples:
      taximeter cluster key
    """
    with explained():
        with open_control(read_settings(data_dir=data_dir)) as control:
            key = control.find_secret(PAGE_CHECKING_KEY)
        if key is None:
            raise ControlError("this node has no such key yet: start it first")
    click.echo(key.hex())


@cluster.command("trust")
@click.argument("key")
@data_dir_option
def trust_key(key: str, data_dir: str | None) -> None:
    """Confirm the key of the node with the pages.

    A node with the role recorder keeps the first key that it sees on the Redis server. Give it the key before
    its first start if others may write there, and when the node with the pages was made anew. KEY is what
    `taximeter cluster key` prints on that node.

    \b
    Examples:
      taximeter cluster trust 8f1c5d0e9a7b3c2d4e6f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5
    """
    with explained():
        settings = read_settings(data_dir=data_dir)
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ControlDatabase(settings.control_path) as control:
            trust(control, key)
    click.echo("This node shows its calls to the node with the pages that has this key.")


def _open(data_dir: str | None) -> tuple[Settings, str, Any]:
    """Return the settings of a node, the address of the server, and what asks it.

    Raises ControlError, SettingsError."""
    settings = read_settings(data_dir=data_dir)
    url = settings.of(CLUSTER)
    if url is None:
        raise ControlError(
            "this is no node of a cluster: set TAXIMETER_CLUSTER as the service has it"
        )
    check_installed()
    # Only here: the client of the server is an extra.
    return settings, url, import_module("extensions.cluster.administration")
