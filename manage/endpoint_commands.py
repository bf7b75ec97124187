"""``taximeter endpoints list|create|delete``"""

from typing import Any

import click

from manage.console import (
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    print_table,
    read_settings,
)
from store import clock
from store.control import ProxyEndpoint
from store.settings import Settings, Streaming


@click.group()
def endpoints() -> None:
    """Proxy endpoints: each has a slug, and a URL that clients use as their base URL."""


@endpoints.command("list")
@data_dir_option
@json_option
def list_endpoints(data_dir: str | None, as_json: bool) -> None:
    """List the proxy endpoints, newest first."""
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            found = control.list_endpoints(control.get_local_organization().id)
    items = [endpoint_json(settings, endpoint) for endpoint in found]
    if as_json:
        print_json({"items": items, "nextCursor": None, "hasMore": False})
        return
    print_table(
        ("SLUG", "NAME", "STREAMING", "CREATED", "URL"),
        [
            (
                endpoint.slug,
                endpoint.name,
                endpoint.streaming or f"{settings.streaming} (service)",
                clock.parse_instant(endpoint.created_at).astimezone().strftime("%Y-%m-%d %H:%M"),
                item["url"],
            )
            for endpoint, item in zip(found, items, strict=True)
        ],
    )


@endpoints.command("create")
@click.argument("name")
@click.option("--slug", help="Choose the slug yourself; else it is made from the name.")
@click.option(
    "--streaming", type=click.Choice(["live", "buffered"]), help="Instead of the service's."
)
@click.option("--metadata-only", is_flag=True, help="Keep no bodies, only counts, cost and times.")
@data_dir_option
@json_option
def create_endpoint(
    name: str,
    slug: str | None,
    streaming: Streaming | None,
    metadata_only: bool,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Create a proxy endpoint. It works at once, also while the service runs.

    \b
    Examples:
      taximeter endpoints create "Café #1"              gets the slug cafe-1
      taximeter endpoints create CI --slug ci-nightly
    """
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            endpoint = control.create_endpoint(
                control.get_local_organization().id,
                name,
                slug,
                streaming,
                metadata_only=metadata_only,
            )
    item = endpoint_json(settings, endpoint)
    if as_json:
        print_json(item)
        return
    click.echo(
        f"Created {endpoint.slug}. Connect a client:\n\nexport ANTHROPIC_BASE_URL={item['url']}"
    )


@endpoints.command("delete")
@click.argument("endpoint")
@data_dir_option
@json_option
def delete_endpoint(endpoint: str, data_dir: str | None, as_json: bool) -> None:
    """Delete a proxy endpoint by its slug or id. Its traces stay; its slug stays reserved."""
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            deleted = control.delete_endpoint(control.get_local_organization().id, endpoint)
    if as_json:
        print_json({"ok": True})
        return
    click.echo(f"Deleted {deleted.slug}.")


def endpoint_json(settings: Settings, endpoint: ProxyEndpoint) -> dict[str, Any]:
    """The API's fields of a proxy endpoint."""
    return {
        "id": endpoint.id,
        "name": endpoint.name,
        "slug": endpoint.slug,
        "url": settings.endpoint_url(endpoint.slug),
        "created_at": clock.format_seconds(clock.parse_instant(endpoint.created_at)),
        "streaming": endpoint.streaming,
        "metadata_only": endpoint.metadata_only,
    }
