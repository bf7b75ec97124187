"""The Compose file of a cluster fits its settings, its Caddyfile and the script that starts Valkey."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from extensions.cluster import server
from runtime.settings import Settings
from tests import ROOT
from tests.deploy import DEPLOY, VARIABLES
from tests.deploy.test_caddy import CADDY, adapt
from tests.redis_server import SERVER
from tests.upstream import kept_port, wait_until

COMPOSE = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())
SINGLE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES = {name: each for name, each in SERVICES.items() if each["image"] == "taximeter"}
VALKEYS = {name: each for name, each in SERVICES.items() if each["image"].startswith("valkey/")}
SENTINELS = [each for each in VALKEYS.values() if each["command"] == ["sentinel"]]
SCRIPT = DEPLOY / "valkey.sh"
CLI = shutil.which("redis-cli") or shutil.which("valkey-cli")
PASSWORDS = {
    "VALKEY_PASSWORD": "secret",
    "VALKEY_PROXY_PASSWORD": "third",
    "VALKEY_ADMIN_PASSWORD": "other",
}


def settle(node: dict[str, Any]) -> Settings:
    """Return the settings of a node, with what `.env` has filled in."""
    texts = node["environment"]
    assert texts.keys() <= VARIABLES
    return Settings.from_env(
        {name: re.sub(r"\$\{[^}]*\}", "example.org", text) for name, text in texts.items()}
    )


@pytest.mark.parametrize("compose", [SINGLE, COMPOSE], ids=["one machine", "cluster"])
def test_no_container_is_given_an_address_that_another_one_keeps(compose: dict[str, Any]) -> None:
    """Containers without an address of their own may be started first."""
    for name, network in compose["networks"].items():
        [config] = network["ipam"]["config"]
        given, whole = IPv4Network(config["ip_range"]), IPv4Network(config["subnet"])
        assert given.subnet_of(whole)
        joined = [
            service["networks"][name]
            for service in compose["services"].values()
            if isinstance(service["networks"], dict) and name in service["networks"]
        ]
        kept = [IPv4Address(each["ipv4_address"]) for each in joined if each]
        assert kept
        assert not any(address in given for address in kept)


@pytest.mark.parametrize("name", SERVICES)
def test_containers_are_read_only_without_rights_and_as_on_one_machine(name: str) -> None:
    service, model = SERVICES[name], SINGLE["services"]["taximeter"]
    for key in ("read_only", "cap_drop", "security_opt", "restart", "logging"):
        assert service[key] == model[key]
    if name != "caddy":
        assert not service.keys() & {"cap_add", "ports", "privileged"}
    if name in NODES:
        assert service["stop_grace_period"] == model["stop_grace_period"]
        assert service["build"] == model["build"]
    if name in VALKEYS:
        assert service["user"] == "999:999"  # of the image, whose folder /data is that user's
        assert service["healthcheck"]["test"][-1] == "check"


def test_its_nodes_are_three_proxies_the_pages_and_two_copies():
    found = {name: settle(node) for name, node in NODES.items()}
    roles = [found[f"proxy-{number}"].node.parts for number in (1, 2, 3)]
    assert roles == [frozenset({"proxy"})] * 3
    assert found["main"].node.parts == {"recorder", "web"}
    assert found["copy"].node.parts == {"recorder"}
    assert found["main"].node.copy != found["copy"].node.copy
    data = [volume for node in NODES.values() for volume in node["volumes"] if volume.endswith(":/data")]  # fmt: skip
    assert len(set(data)) == len(NODES)


def test_its_nodes_know_the_sentinels_and_those_the_primary():
    addresses = {each["networks"]["log"]["ipv4_address"] for each in SENTINELS}
    urls = {name: node["environment"]["TAXIMETER_CLUSTER"] for name, node in NODES.items()}
    for name, url in urls.items():
        assert set(url.rpartition("@")[2].removesuffix("/main").split(",")) == addresses
        user = re.findall(r"//([\w-]+):", url)
        assert user == ["taximeter-proxy" if name.startswith("proxy") else "taximeter"]
    primary = VALKEYS["valkey-1"]["networks"]["log"]["ipv4_address"]
    assert "PRIMARY" not in VALKEYS["valkey-1"]["environment"]
    others = [each for name, each in VALKEYS.items() if name != "valkey-1"]
    assert {each["environment"]["PRIMARY"] for each in others} == {f"{primary} 6379"}
    [log] = COMPOSE["networks"]["log"]["ipam"]["config"]
    assert all(ip_address(each) in ip_network(log["subnet"]) for each in (primary, *addresses))


def test_nobody_but_nodes_reaches_the_server():
    assert COMPOSE["networks"]["log"]["internal"] is True
    assert all(list(each["networks"]) == ["log"] for each in VALKEYS.values())
    assert list(SERVICES["caddy"]["networks"]) == ["front"]


def test_caddy_gets_every_variable_of_its_file_and_is_trusted_where_it_is_in_front():
    wanted = set(re.findall(r"\{\$(\w+)", (DEPLOY / "Caddyfile.cluster").read_text()))
    given = SERVICES["caddy"]["environment"]
    assert given.keys() == wanted
    assert given["PROXIES"].split() == [f"proxy-{number}:8080" for number in (1, 2, 3)]
    caddy = SERVICES["caddy"]["networks"]["front"]["ipv4_address"]
    main = SERVICES["main"]["networks"]["log"]["ipv4_address"]
    trusted = {
        name: node["environment"]["TAXIMETER_TRUSTED_PROXIES"] for name, node in NODES.items()
    }
    assert trusted == dict.fromkeys(NODES, caddy) | {"copy": main}  # main forwards pages


@pytest.mark.skipif(CADDY is None, reason="there is no caddy; apt-get install caddy brings it")
def test_its_caddyfile_lets_strangers_no_more_than_the_one_of_one_machine(tmp_path: Path) -> None:
    config = adapt(tmp_path, "Caddyfile.cluster", PROXIES="a:8080 b:8080")
    single = adapt(tmp_path)
    first, *_, pages = find_routes(config)
    assert first == find_routes(single)[0]
    assert pages == find_routes(single)[-1]
    assert config["logging"] == single["logging"]
    upstreams = find_routes(config)[1]["handle"][0]["routes"][0]["handle"][0]["upstreams"]
    assert upstreams == [{"dial": "a:8080"}, {"dial": "b:8080"}]


def find_routes(config: dict[str, Any]) -> list[dict[str, Any]]:
    [server_] = config["apps"]["http"]["servers"].values()
    [route] = server_["routes"]
    routes: list[dict[str, Any]] = route["handle"][0]["routes"]
    for each in routes:
        each.pop("group", None)
    return routes


def test_the_users_of_the_nodes_may_do_what_the_documentation_says():
    """One of proxy nodes, and one of the others, which has the rules of both roles."""
    text = (ROOT / "extensions" / "cluster" / "README.md").read_text()
    found = re.findall(r"^ACL SETUSER (\S+) on >PASSWORD resetchannels (.*)$", text, re.M)
    rules = {name.removeprefix("taximeter-"): each for name, each in found}
    users = re.findall(r"^user (.*)$", SCRIPT.read_text(), re.M)
    assert users == [
        f"taximeter-proxy on >$proxy_password resetchannels {rules['proxy']}",
        f"taximeter on >$password resetchannels {rules['recorder']} {rules['web']}",
    ]


@contextmanager
def run_script(folder: Path, what: str, port: int, primary: int | None = None) -> Iterator[None]:
    """Run a server or a Sentinel as the container does, with what is installed here."""
    data = folder / f"{what}-{port}"
    data.mkdir(exist_ok=True)
    environment = make_environment(folder, data, port)
    if primary is not None:
        environment["PRIMARY"] = f"127.0.0.1 {primary}"
    with (folder / "log").open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - the script that is tested
            ["/bin/sh", SCRIPT, what], env=environment, stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def make_environment(folder: Path, data: Path, port: int) -> dict[str, str]:
    path = f"{folder}:{os.environ.get('PATH', os.defpath)}"
    return {"PATH": path, "DATA": str(data), "PORT": str(port), **PASSWORDS}


@pytest.mark.live
@pytest.mark.skipif(
    not SERVER or not CLI,
    reason="there is no redis-server with its redis-cli; apt-get install redis-server redis-tools brings them",
)
def test_the_script_starts_servers_and_a_sentinel_that_a_node_can_use(tmp_path: Path) -> None:
    (tmp_path / "valkey-server").symlink_to(str(SERVER))
    (tmp_path / "valkey-cli").symlink_to(str(CLI))
    with ExitStack() as stack:
        primary, replica, sentinel = (stack.enter_context(kept_port()) for _ in range(3))
        for what, port, first in (
            ("server", primary, None),
            ("server", replica, primary),
            ("sentinel", sentinel, primary),
        ):
            stack.enter_context(run_script(tmp_path, what, port, first))
        url = f"redis+sentinel://taximeter-proxy:third@127.0.0.1:{sentinel}/main"
        node = server.connect(url)
        stack.callback(server.close, node)
        admin = stack.enter_context(closing(redis.Redis("127.0.0.1", replica, password="other")))

        def arrives() -> bool:
            with suppress(redis.RedisError):
                node.xadd("taximeter:log:0", {"v": "1"})
                return admin.xlen("taximeter:log:0") > 0
            return False

        wait_until(arrives, "an entry at the replica, written through the Sentinel")
        with pytest.raises(redis.exceptions.NoPermissionError):
            node.execute_command("FLUSHALL")
        for what, port in (("server", primary), ("sentinel", sentinel)):
            checked = subprocess.run(  # noqa: S603 - the script that is tested
                ["/bin/sh", SCRIPT, "check"],
                env=make_environment(tmp_path, tmp_path / f"{what}-{port}", port),
                check=False,
            )
            assert checked.returncode == 0
