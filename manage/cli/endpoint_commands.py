"""``taximeter endpoints list|create|update|delete``, here or on a remote service."""

from collections.abc import Mapping

import click

from manage.api import endpoint_operations as operations
from manage.cli.backend import call_for_all, given
from manage.cli.endpoint_slugs import suggesting_endpoints
from manage.cli.parameters import Choice
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_table, format_time
from runtime.safe_text import terminal_line
from runtime.setting_values import SERVICE_UPSTREAM
from runtime.settings import Streaming
from store.control.endpoints import StreamingChange, UpstreamChange


@click.group()
def endpoints() -> None:
    """Manage proxy endpoints, the addresses that clients use.

    Each has a slug and a URL, which a client uses as its base URL.

    \b
    Examples:
      taximeter endpoints create "Team Blue"   prints what connects a client
      taximeter endpoints list
    """


@endpoints.command("list")
@service_command
def list_endpoints(service: Service) -> None:
    """List the proxy endpoints, newest first. Times are UTC.

    \b
    Examples:
      taximeter endpoints list
      taximeter endpoints list --json | jq -r '.items[].url'
      taximeter endpoints list --base-url https://meter.example.org
    """
    page = call_for_all(service, operations.list_endpoints)
    service.print(
        page,
        format_table(
            ("SLUG", "NAME", "STREAMING", "BODIES", "UPSTREAM", "CREATED (UTC)", "URL"),
            [
                (
                    item.slug,
                    item.name,
                    item.streaming or "as the service",
                    "not kept" if item.metadata_only else "kept",
                    item.upstream or "the service's",
                    format_time(item.created_at),
                    item.url,
                )
                for item in page.items
            ],
            empty="There are no endpoints. `taximeter endpoints create` adds one.",
        ),
    )


@endpoints.command("create")
@click.argument("name")
@click.option("--slug", help="The slug.  [default: made from the name]")
@click.option(
    "--streaming",
    type=Choice(["live", "buffered"]),
    help="How responses are forwarded, instead of the service's setting.",
)
@click.option(
    "--metadata-only", is_flag=True, help="Store no bodies, only names, numbers, cost and times."
)
@click.option(
    "--upstream", metavar="NAME",
    help="An upstream of TAXIMETER_UPSTREAMS; service: the service's own.",
)  # fmt: skip
@service_command
def create_endpoint(
    service: Service,
    name: str,
    slug: str | None,
    streaming: Streaming | None,
    metadata_only: bool,
    upstream: UpstreamChange | None,
) -> None:
    """Create a proxy endpoint. It works immediately, also while the service runs.

    With the slug of a deleted endpoint that endpoint is restored, with its budget, its retention rule, its
    upstream and whether bodies are stored.

    \b
    Examples:
      taximeter endpoints create "Café #1"              gets the slug cafe-1
      taximeter endpoints create CI --slug ci-nightly
      taximeter endpoints create Clinic --metadata-only
      taximeter endpoints create Europe --upstream eu   one of TAXIMETER_UPSTREAMS
    """
    item = service.call(
        operations.create_endpoint,
        **given(name=name, slug=slug, streaming=streaming, metadata_only=metadata_only or None),
        **_name_upstream(upstream),
    )
    service.print(
        item,
        f"Created {terminal_line(item.slug)}. Connect a client:\n\n"
        f"export ANTHROPIC_BASE_URL={terminal_line(item.url)}",
    )


@endpoints.command("update")
@click.argument("endpoint")
@click.option("--name", help="A new name. The slug does not change.")
@click.option(
    "--streaming",
    type=Choice(["live", "buffered", "service"]),
    help="How responses are forwarded; service: the service's setting.",
)
@click.option(
    "--metadata-only/--keep-bodies", default=None, help="Whether bodies are stored; for owners."
)
@click.option(
    "--upstream", metavar="NAME",
    help="An upstream of TAXIMETER_UPSTREAMS; service: the service's own. For owners.",
)  # fmt: skip
@service_command
def update_endpoint(
    service: Service,
    endpoint: str,
    name: str | None,
    streaming: StreamingChange | None,
    metadata_only: bool | None,
    upstream: UpstreamChange | None,
) -> None:
    """Change a proxy endpoint, by its slug or id. The change applies from the next call on.

    \b
    Examples:
      taximeter endpoints update ci-nightly --name "CI, nightly"
      taximeter endpoints update default --streaming buffered
      taximeter endpoints update clinic --metadata-only
    """
    changes = dict(given(name=name, streaming=streaming, metadata_only=metadata_only))
    changes |= _name_upstream(upstream)
    if not changes:
        raise click.UsageError(
            "choose what to change: --name, --streaming, --metadata-only, --upstream"
        )
    if streaming == "service":
        changes["streaming"] = None
    with suggesting_endpoints(service, endpoint):
        item = service.call(operations.update_endpoint, endpoint, **changes)
    service.print(item, f"Changed {terminal_line(item.slug)}.")


def _name_upstream(chosen: UpstreamChange | None) -> Mapping[str, str | None]:
    """Return the field of an operation for what the option says."""
    if chosen is None:
        return {}
    return {"upstream": None if chosen == SERVICE_UPSTREAM else chosen}


@endpoints.command("delete")
@click.argument("endpoint")
@service_command
def delete_endpoint(service: Service, endpoint: str) -> None:
    """Delete a proxy endpoint by its slug or id. Its recorded calls are kept; its slug stays reserved.

    Only owners may delete an endpoint that has a budget or a retention rule. Both are kept, and apply
    again if an endpoint with this slug is created later.

    \b
    Examples:
      taximeter endpoints delete ci-nightly
      taximeter endpoints delete ci-nightly --base-url https://meter.example.org
    """
    with suggesting_endpoints(service, endpoint):
        done = service.call(operations.delete_endpoint, endpoint)
    service.print(done, f"Deleted {terminal_line(endpoint)}.")
