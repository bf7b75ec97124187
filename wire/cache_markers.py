"""Insertion of cache markers into a request at known places."""

from collections.abc import Sequence


def put_marker(request: object, path: Sequence[object], value: object) -> None:
    """Put the cache marker ``value`` into the unit at ``path`` of a request, if there is such a unit.

    A path consists of names and indexes, as in ``["system", 0]``."""
    place = request
    for step in path:
        if isinstance(place, dict) and isinstance(step, str):
            place = place.get(step)
        elif isinstance(place, list) and isinstance(step, int) and 0 <= step < len(place):
            place = place[step]
        else:
            return
    if isinstance(place, dict):
        place["cache_control"] = value
