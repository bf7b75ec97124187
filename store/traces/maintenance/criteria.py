"""The criteria of an erasure, as orders, operations and the recorder name them."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """The calls to erase: those that match all criteria that are not None.

    ``credential`` is a fingerprint; ``endpoint`` an id or a slug; ``client`` a product, with or without
    its version. Calls arrived at ``since`` or later and before ``until``."""

    session: str | None = None
    credential: str | None = None
    client: str | None = None
    endpoint: str | None = None
    since: str | None = None
    until: str | None = None

    @property
    def names(self) -> list[str]:
        """Return the names of the criteria that are not None."""
        return [each.name for each in fields(self) if getattr(self, each.name) is not None]

    @property
    def values(self) -> dict[str, object]:
        """Return the criteria that are not None, by name."""
        return {name: getattr(self, name) for name in self.names}
