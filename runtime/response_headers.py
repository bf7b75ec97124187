"""The names of the response headers that the service itself defines."""

ERROR = "x-taximeter-error"  # its code: the response is of the service, not of what it forwards to
COPY = "x-taximeter-copy"  # it was read from another copy of the calls than usual
