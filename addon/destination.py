"""The destinations of requests, which decide how these are forwarded, limited and logged."""

from enum import Enum


class Destination(Enum):
    MESSAGES = "messages"  # forwarded, limited, logged
    COUNT_TOKENS = "count_tokens"  # forwarded, limited
    OTHER = "other"  # forwarded, limited
    PROBE = "probe"  # responded to here: does this endpoint exist?
    HEALTH = "health"  # responded to here
    LIVE = "live"  # responded to here
    WEB = "web"  # the web process
