"""A time zone for tests of what belongs to a day."""

from functools import cache

from runtime import clock


@cache
def find_noon_zone() -> str:
    """Return the name of a time zone in which it was about noon at the first call, so that no day ends while
    tests run."""
    return f"Etc/GMT{clock.now().hour - 12:+d}"
