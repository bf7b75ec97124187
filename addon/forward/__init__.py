"""The forward proxy of one run: clients without a base URL come through it (``HTTPS_PROXY``).

``taximeter run --forward-proxy`` starts a process of it beside the client. Of all that the client connects
to, it opens connections to the upstream's host alone, with a certificate that nobody but this client trusts.
The message calls in them go to the proxy endpoint of the run, as if they had come by a base URL; all the rest
passes to the upstream as it is.
"""
