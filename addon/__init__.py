"""The wire: a mitmproxy addon that forwards, limits and spools. It parses and prices nothing.

Bounds, and where they are. Those that are not of one connection hold over all workers. A capital name is
a constant of that module, TAXIMETER_… a setting.

| what is bounded | by | where |
| --- | --- | --- |
| requests for a slug in any minute | ``MESSAGES_PER_MINUTE``, ``OTHER_PER_MINUTE`` | ``rate_limits`` |
| requests at the web process at a time | ``MAX_OF_ALL``, ``MAX_OF_ADDRESS`` | ``web_slots`` |
| connections of one client | TAXIMETER_CLIENT_CONNECTIONS | ``connection_limit`` |
| head of a request | TAXIMETER_REQUEST_HEAD | ``request_heads`` |
| head of a message | ``MAX_HEAD_BYTES``, ``MAX_HEADER_LINES``, ``MAX_PATH_BYTES`` | ``core.head_bounds`` |
| interim responses before a response | ``MAX_INTERIM_BYTES`` | ``http1.heads`` |
| requests sent ahead on a connection | ``MAX_EARLY_BYTES`` | ``http1.layer`` |
| reads while a client has to wait | ``READS_WHILE_WAITING`` | ``core.connection_reading`` |
| framing of a chunked body | ``MAX_EXCESS_BYTES``, ``MAX_TRAILER_BYTES`` | ``http1.chunked`` |
| body of a message request | ``LOGGED_REQUEST_LIMIT_BYTES`` | ``upstream_forwarding`` |
| body of a request for the web process | ``MAX_WEB_BODY_BYTES`` | ``web_forwarding`` |
| response that is held in buffered mode | ``MAX_BYTES`` | ``held_response`` |
| all that is held of messages, in total and by client | TAXIMETER_REQUEST_MEMORY | ``body_memory`` |
| time of a request's head and body | TAXIMETER_REQUEST_IDLE_SECONDS | ``timeouts`` |
| time of the upstream | TAXIMETER_UPSTREAM_TIMEOUT | ``timeouts`` |
| time of a connection after a refusal | ``LINGER_S`` | ``responder`` |
| time of exchanges after a stop | TAXIMETER_DRAIN_SECONDS | ``draining`` |
| idle connections, while descriptors are short | ``MOST_AT_ONCE`` | ``idle_connections`` |
| bodies in the spool, while the disk is nearly full | TAXIMETER_DISK_RESERVE | ``spooler`` |

``held_requests`` and ``request_heads`` have no bounds of their own: they ask ``body_memory``, and
``core.read_policy`` is how the layer asks them. ``holdings`` adds up. ``budgets`` has the bounds that owners
set for what calls cost.
"""
