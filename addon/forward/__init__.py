"""The forward proxy of one run, for clients that cannot use a base URL (``HTTPS_PROXY``).

``taximeter run --forward-proxy`` starts a process of it beside the client. It decrypts only
connections to the upstream's host, with a certificate that only this client trusts. The message calls
in them go to the proxy endpoint of the run, as if they had been sent to its base URL; all other
requests pass to the upstream unchanged."""
