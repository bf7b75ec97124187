"""One cluster for all tests here, whose worker gets all of these files (tests/scheduling.py)."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from extensions.cluster.tests.live.nodes import Nodes
from tests.live.service import Service
from tests.redis_server import RedisServer
from tests.upstream import Upstream


@pytest.fixture(scope="package")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path_factory.mktemp("redis")))
        upstream = stack.enter_context(Upstream())

        def start(**settings: str) -> Service:
            folder = tmp_path_factory.mktemp("node")
            return stack.enter_context(Service(folder, upstream.url, CLUSTER=redis.url, **settings))

        yield Nodes(
            redis,
            upstream,
            web=start(ROLE="recorder,web", QUERY_PROCESSES="1"),
            proxy=start(ROLE="proxy"),
            copy=start(ROLE="recorder", GROUP="copy", QUERY_PROCESSES="1"),
        )
