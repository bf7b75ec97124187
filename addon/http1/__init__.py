"""HTTP/1.1 between a client and its upstreams, as one layer of mitmproxy.

| file | |
| --- | --- |
| ``framing``, ``chunked`` | how bodies end, and how they are written: pure, without mitmproxy |
| ``heads`` | heads to messages of mitmproxy and back |
| ``call`` | one request with its response, and how far both are |
| ``upstream`` | a connection to an upstream, by TLS where it speaks that |
| ``client_side`` | the state of a client connection, and what has come on it |
| ``layer`` | what each event does; requests, from their heads to the upstream |
| ``responses`` | responses, and the ends of calls |
| ``hook_table``, ``chooser`` | how hooks are run, and how mitmproxy comes to use the layer |
"""
