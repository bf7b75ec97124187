"""Errors of fetching reports. Their messages say what to do and never quote a key.

``ReportError`` is the base. ``AdminKeyError``: there is no usable key, or upstream refuses it.
"""


class ReportError(Exception):
    """Upstream's reports cannot be had. The message is one line, safe to print."""


class AdminKeyError(ReportError):
    """There is no usable key for reports, or upstream refuses it."""
