"""Commands on the node of a cluster that has people: other nodes keep the calls that they are about."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
import uvicorn
from click.testing import CliRunner

from extensions.cluster import command_backend as cluster_backend
from extensions.cluster.buckets import BUCKETS
from extensions.cluster.page_nodes import PageNode, PageNodes
from extensions.cluster.settings import NODE_FILE
from extensions.cluster.statements import load_signing_key
from extensions.cluster.tests.control import bring_over
from extensions.reconcile.result_file import read_reconciliation
from extensions.reconcile.tests import admin_api
from manage.api.call_operations import MAX_CALLS, list_calls
from manage.cli.backend_choice import open_all
from manage.cli.main import cli
from manage.cli.remote import READ_FROM_COPY
from manage.server import make_app
from runtime.settings import Settings
from store.control import people
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry, make_item
from tests.upstream import PATIENCE_S, kept_port

GROUPS = ("main", "copy")
ARRIVAL = "2026-01-31T12:00:00.000Z"


@contextmanager
def serving(data_dir: Path, port: int) -> Iterator[str]:
    """Serve a node that keeps calls at a port; yield its address."""
    settings = Settings.from_env(
        {
            "TAXIMETER_DATA_DIR": str(data_dir),
            "TAXIMETER_CLUSTER": "redis://none",
            "TAXIMETER_ROLE": "recorder",
        }
    )
    config = uvicorn.Config(make_app(settings), log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


@dataclass
class Nodes:
    """The nodes that keep the calls, one of each group, and how to end each."""

    folders: dict[str, Path] = field(default_factory=dict)
    ends: dict[str, ExitStack] = field(default_factory=dict)

    def record(
        self,
        organization_id: str,
        main: Sequence[str] = (),
        copy: Sequence[str] = (),
        **changes: object,
    ) -> None:
        """Record calls of these models on the node of each group."""
        for group, names in zip(GROUPS, (main, copy), strict=True):
            with TraceDatabase(trace_path(self.folders[group], organization_id)) as traces:
                traces.insert(
                    [
                        make_entry(
                            entry_id=f"{number:04}", created_at=ARRIVAL, model=name, **changes
                        )
                        for number, name in enumerate(names)
                    ]
                )

    def end(self, group: str) -> None:
        self.ends[group].close()


@pytest.fixture
def organization_id(data_dir):
    with ControlDatabase(data_dir / "control.db") as control:
        return control.get_local_organization().id


@pytest.fixture
def nodes(data_dir, tmp_path, monkeypatch):
    for name in ("TIMEOUT", "TIMEOUT_BEFORE_OTHERS"):  # a busy machine may take longer
        monkeypatch.setattr(cluster_backend, name, httpx.Timeout(PATIENCE_S))
    nodes = Nodes()
    addresses = {}
    with ExitStack() as stack, ControlDatabase(data_dir / "control.db") as control:
        load_signing_key(control)
        for group in GROUPS:
            nodes.folders[group] = folder = tmp_path / group
            folder.mkdir()
            (folder / NODE_FILE).write_text(group)
            with ControlDatabase(folder / "control.db", checks_references=False) as other:
                bring_over(control, other)
            nodes.ends[group] = stack.enter_context(ExitStack())
            port = stack.enter_context(
                kept_port()
            )  # which is nobody else's once that node has ended
            addresses[group] = nodes.ends[group].enter_context(serving(folder, port))
        PageNodes(
            here="home",
            group="main",
            nodes=[
                PageNode(id=group, group=group, address=addresses[group], is_alive=True)
                for group in GROUPS
            ],
            holders={group: [group] * BUCKETS for group in GROUPS},
        ).write(data_dir)
        yield nodes


def test_figures_come_from_the_node_that_keeps_the_calls_and_then_from_the_copy(
    run, nodes, organization_id
):
    nodes.record(organization_id, main=["m1", "m2"], copy=["m1"])

    def count():
        result = run("usage", "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)["totals"]["calls"], result.stderr

    assert count() == (2, "")
    nodes.end("main")
    assert count() == (1, f"{READ_FROM_COPY}\n")
    nodes.end("copy")
    result = run("usage", "--json")
    assert result.exit_code == 1
    assert "no node of the cluster that keeps the calls" in result.stderr


def test_a_node_that_accepts_connections_and_stays_silent_is_left_for_the_copy(
    run, nodes, organization_id, data_dir, monkeypatch
):
    monkeypatch.setattr(cluster_backend, "TIMEOUT_BEFORE_OTHERS", 0.2)
    nodes.record(organization_id, main=["m1", "m2"], copy=["m1"])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        found = PageNodes.read(data_dir)
        assert found is not None
        moved = [
            replace(each, address=f"{host}:{port}") if each.group == "main" else each
            for each in found.nodes
        ]
        replace(found, nodes=moved).write(data_dir)
        result = run("usage", "--json")
    assert json.loads(result.stdout)["totals"]["calls"] == 1
    assert result.stderr == f"{READ_FROM_COPY}\n"


def test_every_command_about_calls_asks_that_node_and_no_other_command(
    run, nodes, organization_id, data_dir
):
    nodes.record(organization_id, main=["m1"])
    assert run("endpoints", "list", "--json").exit_code == 0
    budget = run("budgets", "set", "default", "--day", "5", "--json")
    assert budget.exit_code == 0, budget.output
    for command in (("search", "x"), ("budgets", "list"), ("retention", "show")):
        result = run(*command, "--json")
        assert result.exit_code == 0, (command, result.output)
    assert not (data_dir / "traces").exists()


def test_calls_are_counted_where_they_are_and_ordered_to_be_erased_here(
    run, nodes, organization_id, monkeypatch
):
    monkeypatch.setattr("manage.cli.retention_commands.PATIENCE_S", 0.0)
    nodes.record(organization_id, main=["m1", "m2"], copy=["m1"])
    counted = run("erase", "--until", "2999-01-01", "--dry-run")
    assert counted.stdout == "2 calls would be erased.\n"
    nodes.end("main")
    counted = run("erase", "--until", "2999-01-01", "--dry-run")
    assert (counted.stdout, counted.stderr) == (
        "1 call would be erased.\n",
        f"{READ_FROM_COPY}\n",
    )
    nodes.end("copy")
    unanswered = run("erase", "--until", "2999-01-01")
    assert "which cannot be counted now? Add --yes." in unanswered.stderr
    ordered = run("erase", "--until", "2999-01-01", "--yes")
    assert ordered.exit_code == 0, ordered.output
    for group in GROUPS:
        assert f"Still to be erased in the copy {group} (node {group} at" in ordered.stdout
    state = json.loads(run("erase", "--status", "--json").stdout)["items"]
    assert [(each["what"], len(each["copies"])) for each in state] == [("period", 2)]
    assert "Still to be erased" in run("erase", "--status").stdout


@pytest.mark.slow
def test_an_export_has_the_calls_of_all_organisations_wherever_they_are(
    run, nodes, organization_id, data_dir
):
    """Also when the node goes away in the middle."""
    with ControlDatabase(data_dir / "control.db") as control, control.transaction() as db:
        other = people.create_organization(db, "Other").id
    names = [f"m{number}" for number in range(MAX_CALLS + 1)]
    nodes.record(organization_id, main=names, copy=names)
    nodes.record(other, main=["of-other"])
    result = run("export")
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert {each["organization_id"] for each in found} == {organization_id, other}
    assert {each["model"] for each in found} == {*names, "of-other"}
    assert len(found) == len(names) + 1
    csv = run("export", "--format", "csv").stdout
    assert csv.startswith("organization_id,id,entry_id,")
    assert len(csv.splitlines()) == len(found) + 1

    with open_all(None, str(data_dir)) as backends:
        first = next(each for each in backends if each.call(list_calls).has_more)
        page = first.call(list_calls, limit=MAX_CALLS)
        nodes.end("main")
        rest = first.call(list_calls, limit=MAX_CALLS, cursor=page.next_cursor)
    assert [each["model"] for each in rest.items] == names[-1:]


def test_a_reconciliation_is_of_the_node_that_keeps_the_calls_and_is_kept_with_the_people(
    run, nodes, organization_id, data_dir, monkeypatch
):
    item = make_item(model="m1", component="output", quantity=7, cents=Decimal("1.5"))
    nodes.record(organization_id, main=["m1"], cost_items=(item,))
    with admin_api.AdminApi() as upstream:
        monkeypatch.setenv("ANTHROPIC_ADMIN_KEY", admin_api.ADMIN_KEY)
        monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream.url)
        result = run("reconcile", "--from", ARRIVAL[:10], "--to", ARRIVAL[:10], "--json")
    assert result.exit_code == 0, result.output
    recorded = json.loads(result.stdout)["recorded"]
    assert (recorded["tokens"]["output_tokens"], recorded["cost_cents"]) == (7, 1.5)
    assert read_reconciliation(data_dir, organization_id) is not None


@pytest.mark.parametrize(
    ("command", "status"),
    [(("verify",), 1), (("prune", "--older-than", "9d"), 1), (("tail", "--no-follow"), 0)],
)
def test_a_command_for_files_of_this_machine_names_the_other_nodes(run, nodes, command, status):
    result = run(*command)
    assert result.exit_code == status
    assert "Run it too on the other nodes that keep calls: 127.0.0.1:" in result.stderr
    assert result.stderr.index("(main)") < result.stderr.index("(copy)")


def test_a_node_without_people_says_which_one_has_them(nodes):
    result = CliRunner().invoke(cli, ["usage", "--data-dir", str(nodes.folders["main"])])
    assert result.exit_code == 1
    assert "the node with the role web has the people" in result.stderr


def test_nodes_are_listed_in_a_cluster_alone(run):
    for command in (("nodes",), ("move", "1", "node"), ("forget", "node")):
        refused = run("cluster", *command)
        assert refused.exit_code == 1
        assert "set TAXIMETER_CLUSTER" in refused.stderr
