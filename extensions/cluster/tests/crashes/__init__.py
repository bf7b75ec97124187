"""The crash programme of the cluster: something dies, is cut off, fills up or forgets while clients go on.

Three proxy nodes, two recorder nodes, and Redis with a replica and Sentinel, on loopback. One load runs
against the proxies (``tests.faults.load``), a case breaks something, and after each case the requests that
the upstream saw are compared with the rows of both copies (``tests.faults.oracle``, and ``judging``).
``python -m extensions.cluster.tests.crashes --minutes 30 --json report.json`` runs all cases again and
again; the suite runs a few on the nodes of ``extensions/cluster/tests/live``.
"""
