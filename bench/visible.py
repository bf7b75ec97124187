"""The delay of a call's entry in the usage log after its last byte."""

import time

from bench.client import StreamsJob
from bench.load import BenchError, Client, UsageLog

PATIENCE_S, POLL_S = 10.0, 0.002


def time_entry(client: Client, log: UsageLog, job: StreamsJob) -> float:
    """Make the call of a job, which names its session, and return the milliseconds until it is a row.

    Raises BenchError when it does not become one."""
    (session,) = job.sessions
    (ended_s,) = client.run_streams(job).ended_s
    while not log.has(session):
        if time.monotonic() - ended_s > PATIENCE_S:
            raise BenchError(f"the call of {session} did not become a row")
        time.sleep(POLL_S)
    return (time.monotonic() - ended_s) * 1000
