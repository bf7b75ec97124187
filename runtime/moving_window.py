"""A moving window: at most ``limit`` admissions of a key in any ``window_s`` seconds, exactly."""

from collections import defaultdict, deque


class MovingWindow:
    """Admissions in memory, so windows start empty after a restart. Times are passed in, as seconds
    of any monotonic clock."""

    def __init__(self, limit: int, window_s: float = 60.0) -> None:
        self.limit = limit
        self._window_s = window_s
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, key: str, now_s: float) -> float:
        """Count one request. Returns 0 when it may pass, else the seconds until one may."""
        times = self._admitted[key]
        while times and times[0] <= now_s - self._window_s:
            times.popleft()
        if len(times) >= self.limit:
            return times[0] + self._window_s - now_s
        times.append(now_s)
        return 0.0

    def forget_idle(self, now_s: float) -> None:
        """Drop the keys that nothing was admitted for within the window."""
        for key in [
            k for k, t in self._admitted.items() if not t or t[-1] <= now_s - self._window_s
        ]:
            del self._admitted[key]
