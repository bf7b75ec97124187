"""HTTP/1.1 between a client and its upstreams, as one layer of mitmproxy.

| file | |
| --- | --- |
| ``framing`` | how bodies end, and how they are written: pure, without mitmproxy |
| ``heads`` | heads to messages of mitmproxy and back |
| ``client_input`` | what has come from a client and is not dealt with |
| ``call`` | one request with its response, and how far both are |
| ``upstream`` | a connection to an upstream, by TLS where it speaks that |
| ``layer`` | the states of a client connection, and what each event does |
"""
