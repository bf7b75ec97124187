"""An OpenID provider on loopback in Google's place: real tokens, signed with a key of its own.

Its page has a button for each of the people, and one that denies. Who is on it, and whether the
provider has verified their address, is for the test to say.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from tests.lazily import import_lazily
from tests.upstream import PATIENCE_S

if TYPE_CHECKING:
    import oidc_provider_mock
else:
    oidc_provider_mock = import_lazily("oidc_provider_mock")  # which brings a whole web framework


@dataclass(frozen=True, slots=True)
class Account:
    """A person at the provider. `verified` None: the provider says nothing about it."""

    subject: str
    email: str | None
    verified: bool | None = True
    name: str | None = None

    @property
    def claims(self) -> dict[str, object]:
        found = {"email": self.email, "email_verified": self.verified, "name": self.name}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def button(self) -> str:
        return f"Authorize as {self.subject}"


DENY = "Deny access"


@dataclass(frozen=True, slots=True)
class OpenIdProvider:
    url: str
    """The issuer; its document is at `/.well-known/openid-configuration`."""

    def change(self, account: Account) -> None:
        """Change what the provider says of this person from now on."""
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
            client.put(
                f"{self.url}/users/{account.subject}", json=account.claims
            ).raise_for_status()


@contextmanager
def run_openid_provider(*accounts: Account) -> Iterator[OpenIdProvider]:
    users = [
        oidc_provider_mock.User(sub=account.subject, claims=account.claims) for account in accounts
    ]
    with oidc_provider_mock.run_server_in_thread(user_claims=users, require_nonce=True) as server:
        yield OpenIdProvider(f"http://localhost:{server.server_port}")
