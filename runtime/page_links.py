"""Links that an extension adds to pages."""

from dataclasses import dataclass
from typing import Literal

type Place = Literal["home", "settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A link to a page, at its place among those of another page. Members see none that ``is_for_owners``."""

    place: Place
    address: str
    words: str
    is_for_owners: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNotice:
    """A warning on the page of a call, with a link to the page that says more."""

    text: str
    address: str
    words: str
