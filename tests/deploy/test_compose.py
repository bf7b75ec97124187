"""The Compose file fits the image, the settings, the Caddyfile and the time that a stop takes."""

import re
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import yaml

from manage.supervision import services, supervisor
from runtime.settings import Settings
from tests.deploy import DEPLOY, PROJECT, VARIABLES, read_environment, read_unit

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICE, CADDY = COMPOSE["services"]["taximeter"], COMPOSE["services"]["caddy"]
EXAMPLE = (DEPLOY / "example.env").read_text()
# The longest stop: each kind of process has its grace period after the drain.
STOP_S = (
    Settings.from_env({}).drain_seconds
    + supervisor.PROXY_GRACE_S
    + 3 * services.GRACE_S
    + 2 * services.RECORDER_GRACE_S
)


@pytest.mark.parametrize("service", [SERVICE, CADDY], ids=["taximeter", "caddy"])
def test_containers_are_read_only_without_capabilities_and_with_bounded_logs(
    service: dict[str, Any],
) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert service["restart"] == "unless-stopped"


def test_taximeter_gets_no_capability_and_publishes_no_port():
    assert not SERVICE.keys() & {"cap_add", "ports", "privileged", "user"}


@pytest.mark.parametrize(
    "given",
    [
        SERVICE["stop_grace_period"],
        CADDY["stop_grace_period"],
        *read_unit("taximeter.service")["TimeoutStopSec"],
    ],
    ids=["taximeter", "caddy", "unit"],
)
def test_nobody_is_killed_before_the_longest_stop_is_over(given: str) -> None:
    assert int(given.removesuffix("s")) >= STOP_S + 5


def test_caddy_lets_calls_end_as_long_as_taximeter_does():
    found = re.search(r"grace_period (\d+)s", (DEPLOY / "Caddyfile").read_text())
    assert found
    assert STOP_S <= int(found[1]) < int(CADDY["stop_grace_period"].removesuffix("s"))


def test_the_only_trusted_proxy_is_caddy():
    trusted = SERVICE["environment"]["TAXIMETER_TRUSTED_PROXIES"]
    address = CADDY["networks"]["front"]["ipv4_address"]
    [front] = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert trusted == address
    assert ip_address(address) in ip_network(front["subnet"])


def test_its_settings_exist_and_are_valid():
    environment = SERVICE["environment"]
    assert environment.keys() <= VARIABLES
    filled = {name: text.partition("${")[0] + "meter.example.org" * ("${" in text) for name, text in environment.items()}  # fmt: skip
    assert Settings.from_env(filled).base_url == "https://meter.example.org"


def test_both_volumes_of_taximeter_are_folders_that_the_image_makes():
    folders = {volume.partition(":")[2] for volume in SERVICE["volumes"]}
    assert folders == {"/data", "/backup"}
    assert "taximeter /data /backup" in (DEPLOY / "Dockerfile").read_text()
    assert {volume.partition(":")[0] for volume in SERVICE["volumes"]} <= COMPOSE["volumes"].keys()


def test_caddy_gets_every_variable_of_its_file_and_reaches_the_port_of_the_image():
    wanted = set(re.findall(r"\{\$(\w+)", (DEPLOY / "Caddyfile").read_text()))
    assert CADDY["environment"].keys() == wanted
    host, _, port = CADDY["environment"]["TAXIMETER"].partition(":")
    assert host in COMPOSE["services"]
    assert f"EXPOSE {port}\n" in (DEPLOY / "Dockerfile").read_text()


def test_the_example_of_settings_is_valid_as_it_is_and_with_every_line_turned_on():
    turned_on = re.sub(r"^#(?=[A-Z_]+=)", "", EXAMPLE, flags=re.MULTILINE)
    turned_on = re.sub(r"^(\w+_(?:ID|SECRET|TOKEN))=$", r"\1=0123456789abcdef", turned_on, flags=re.MULTILINE)  # fmt: skip
    for text in (EXAMPLE, turned_on):
        values = read_environment(text)
        ours = {name: value for name, value in values.items() if name.startswith("TAXIMETER_")}
        assert ours.keys() <= VARIABLES
        settings = Settings.from_env(ours)
        assert settings.log_format == "json"
    assert settings.smtp_url
    assert settings.github_client_id
    assert [str(network) for network in settings.trusted_proxies] == ["127.0.0.1/32", "::1/128"]


def test_a_value_in_the_example_that_a_reader_might_expand_stands_in_single_quotes():
    for line in re.findall(r"^#?[A-Z_]+=(.*[ <#$].*)$", EXAMPLE, flags=re.MULTILINE):
        assert line[0] == line[-1] == "'"


def test_the_image_of_compose_is_built_from_the_checkout():
    build = SERVICE["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert (context / build["dockerfile"]).is_file()
    assert COMPOSE["name"] == PROJECT["project"]["name"]
