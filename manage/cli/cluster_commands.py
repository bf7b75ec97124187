"""``taximeter cluster nodes|forget``, for the operator, on the node with the pages."""

from dataclasses import asdict
from importlib import import_module
from typing import Any

import click

from manage.cli.console import (
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    read_settings,
)
from manage.cli.terminal import format_text, print_table
from manage.supervision.supervisor import check_cluster
from runtime.errors import ControlError
from runtime.settings import Settings


@click.group()
def cluster() -> None:
    """List the nodes of a cluster, and give one up.

    For the operator, on the node with the pages, with its settings in the environment.

    \b
    Examples:
      taximeter cluster nodes
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
        settings, administration = _open(data_dir)
        found = administration.list_nodes(settings.cluster)
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


@cluster.command("forget")
@click.argument("node")
@data_dir_option
def forget_node(node: str, data_dir: str | None) -> None:
    """Give up a node that is gone for good, with the calls that only it has.

    Other nodes of its copy take its buckets. Erasures no longer wait for it. A node that is to come back
    needs none of this.

    \b
    Examples:
      taximeter cluster forget 0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90
    """
    with explained():
        settings, administration = _open(data_dir)
        with open_control(settings) as control:
            administration.forget(settings.cluster, control, node)
    click.echo(f"Forgot the node {format_text(node)}.")


def _open(data_dir: str | None) -> tuple[Settings, Any]:
    """Return the settings of a node, and what asks its cluster. Raises ControlError, SettingsError."""
    settings = read_settings(data_dir=data_dir)
    if settings.cluster is None:
        raise ControlError(
            "this is no node of a cluster: set TAXIMETER_CLUSTER as the service has it"
        )
    check_cluster(settings.cluster)
    # Only here: the client of the server is an extra.
    return settings, import_module("cluster.administration")
