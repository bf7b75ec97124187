"""Putting cache markers into a request where they are known to have been."""

from collections.abc import Sequence


def put_marker(request: object, path: Sequence[object], value: object) -> None:
    """Put a marker into the unit of a request that a path leads to, unless there is no such unit.

    A path has the names and places that lead there, as in ``["system", 0]``."""
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
