"""One cluster for all tests here, whose worker gets all of these files (tests/scheduling.py)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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

        def make(**settings: str) -> Service:
            folder = tmp_path_factory.mktemp("node")
            service = Service(folder, upstream.url, CLUSTER=redis.url, **settings)
            stack.callback(service.close)
            return service

        found = Nodes(
            redis,
            upstream,
            web=make(ROLE="recorder,web", QUERY_PROCESSES="1"),
            proxy=make(ROLE="proxy"),
            copy=make(ROLE="recorder", GROUP="copy", QUERY_PROCESSES="1"),
        )
        with ThreadPoolExecutor() as pool:
            list(pool.map(Service.start, (found.web, found.proxy, found.copy)))
        yield found
