"""The port on which a program listens that was told to take any."""

import psutil


def find_port(pid: int) -> int | None:
    """Return the port of the first socket on which a process listens, or None as long as there is none."""
    listening = (
        each
        for each in psutil.Process(pid).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    )
    return next((each.laddr.port for each in listening), None)
