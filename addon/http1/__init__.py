"""HTTP/1.1 between a client and its upstreams, as one layer of mitmproxy.

| file | content |
| --- | --- |
| ``framing``, ``chunked`` | where bodies end, and how they are written: pure, without mitmproxy |
| ``heads`` | conversion between heads and messages of mitmproxy |
| ``call`` | one request with its response, and the progress of both |
| ``upstream`` | a connection to an upstream, with TLS if it uses that |
| ``client_side`` | the state of a client connection, and its received data |
| ``layer`` | the handling of each event; requests, from their heads to the upstream |
| ``responses`` | responses, and the ends of calls |
| ``hook_table``, ``chooser`` | how hooks are run, and how mitmproxy comes to use the layer |"""
