"""A recorder node checks statements by the key that it saw first, whatever the server says later."""

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from extensions.cluster.keys import STATEMENTS_KEY
from extensions.cluster.statement_key import ChangedKeyError, KeyFollower, KeyPublisher
from extensions.cluster.statements import (
    PAGE_CHECKING_KEY,
    Statement,
    StatementError,
    load_checking_key,
    load_signing_key,
)
from manage.cli.main import cli
from store.control.database import ControlDatabase
from store.control.people import Caller

CALLER = Caller(user_id="user", organization_id="org", role="owner")


class Nodes:
    """The node with people, and one with calls."""

    def __init__(self, folder, client) -> None:
        self.folders = {name: folder / name for name in ("web", "recorder")}
        for each in self.folders.values():
            each.mkdir()
        self.web, self.recorder = (
            ControlDatabase(each / "control.db") for each in self.folders.values()
        )
        self.web.set_up()
        self.publisher = KeyPublisher(self.web, client)
        self.follower = KeyFollower(self.recorder, client)

    def call(self, node, *words):
        result = CliRunner().invoke(
            cli, ["cluster", *words, "--data-dir", str(self.folders[node])], catch_exceptions=False
        )
        return result.exit_code, result.output.strip()

    def accepts(self, key):
        """Return whether the node with calls takes a statement that is signed by a key."""
        statement = Statement(
            caller=CALLER, node="n", method="GET", target="/", at_s=1.0, is_copy=False
        ).sign(key)
        try:
            Statement.check(statement, load_checking_key(self.recorder), now_s=1.0)
        except StatementError:
            return False
        return True


@pytest.fixture
def nodes(tmp_path, client):
    found = Nodes(tmp_path, client)
    yield found
    found.web.close()
    found.recorder.close()


def test_a_key_that_somebody_else_writes_signs_nothing(nodes, client):
    own, forged = load_signing_key(nodes.web), Ed25519PrivateKey.generate()
    assert (nodes.publisher.run_round(), nodes.publisher.run_round()) == (True, False)
    assert (nodes.follower.run_round(), nodes.follower.run_round()) == (True, False)
    client.set(STATEMENTS_KEY, forged.public_key().public_bytes_raw())
    for _ in range(2):
        with pytest.raises(ChangedKeyError, match="taximeter cluster trust"):
            nodes.follower.run_round()
    assert (nodes.accepts(own), nodes.accepts(forged)) == (True, False)
    assert nodes.publisher.run_round(), "the node with people writes its own again"
    assert not nodes.follower.run_round()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33, b"x" * 10_000_000])
def test_what_is_no_key_is_not_kept(nodes, client, content):
    client.set(STATEMENTS_KEY, content)
    assert not nodes.follower.run_round()
    assert nodes.recorder.find_secret(PAGE_CHECKING_KEY) is None


def test_the_operator_confirms_another_key(nodes, client):
    load_signing_key(nodes.web)
    nodes.publisher.run_round()
    nodes.follower.run_round()
    new = Ed25519PrivateKey.generate()
    key = new.public_key().public_bytes_raw()
    client.set(STATEMENTS_KEY, key)
    assert nodes.call("recorder", "trust", key.hex())[0] == 0
    assert not nodes.follower.run_round()
    assert nodes.accepts(new)
    assert nodes.call("recorder", "key") == (0, key.hex())
    assert nodes.call("recorder", "key", "--json") == (0, f'{{"key": "{key.hex()}"}}')
    assert nodes.call("recorder", "trust", key.hex(), "--json") == (0, '{"ok": true}')


def test_a_node_that_was_given_a_key_takes_none_from_the_server(nodes, client, tmp_path):
    load_signing_key(nodes.web)
    code, key = nodes.call("web", "key")
    assert code == 0
    nodes.folders["recorder"] = tmp_path / "new"
    assert nodes.call("recorder", "trust", key)[0] == 0
    client.set(STATEMENTS_KEY, b"x" * 32)
    with (
        ControlDatabase(tmp_path / "new" / "control.db") as control,
        pytest.raises(ChangedKeyError),
    ):
        KeyFollower(control, client).run_round()
    assert (tmp_path / "new" / "control.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "00", "zz" * 32, "00" * 33])
def test_what_is_no_key_is_not_trusted(nodes, text):
    code, output = nodes.call("recorder", "trust", text)
    assert code == 1
    assert "64 hexadecimal digits" in output


def test_the_node_that_signs_trusts_nobody(nodes):
    load_signing_key(nodes.web)
    code, output = nodes.call("web", "trust", "00" * 32)
    assert code == 1
    assert "key of its own" in output
