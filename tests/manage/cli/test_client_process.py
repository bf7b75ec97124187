import os
import signal

import pytest

from manage.cli.client_process import ClientError, check_client, run_client


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 5", 5), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_the_exit_status_is_what_a_shell_would_give(script, status):
    assert run_client(["sh", "-c", script], os.environ) == status


def test_what_a_shell_handed_down_reaches_the_client():
    """The shell does so for ``taximeter run client <(command)``."""
    read, write = os.pipe()
    os.set_inheritable(read, True)
    os.write(write, b"7\n")
    os.close(write)
    try:
        assert run_client(["sh", "-c", f"exit $(cat /dev/fd/{read})"], os.environ) == 7
    finally:
        os.close(read)


def test_handlers_are_as_before_when_the_client_has_ended():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    run_client(["true"], os.environ)
    assert [signal.getsignal(number) for number in numbers] == before


def test_what_is_ignored_on_purpose_stays_ignored_for_the_client(monkeypatch):
    """That is what nohup does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_client(["sh", "-c", "kill -HUP $$; exit 3"], os.environ) == 3
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_command_that_cannot_be_started_has_the_status_of_a_shell(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter")
    with pytest.raises(ClientError, match="cannot be executed") as refused:
        check_client(str(script))
    assert refused.value.status == 126
    with pytest.raises(ClientError, match="command not found") as missing:
        check_client("no-such-client-at-all")
    assert missing.value.status == 127
    script.chmod(0o755)
    check_client(str(script))
    with pytest.raises(ClientError, match="No such file") as broken:
        run_client([str(script)], os.environ)
    assert broken.value.status == 126
