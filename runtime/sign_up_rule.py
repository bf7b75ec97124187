"""The rule for the e-mail addresses that may create an account by signing in."""

from collections.abc import Collection
from dataclasses import dataclass

from runtime.email_addresses import parse_domain


@dataclass(frozen=True, slots=True)
class SignUpRule:
    """The e-mail domains whose addresses may sign up; None allows every address."""

    domains: Collection[str] | None = None

    @property
    def is_open(self) -> bool:
        return self.domains is None

    def allows(self, email: str) -> bool:
        """Return whether this address may sign up without an invitation."""
        return self.domains is None or email.partition("@")[2] in self.domains


OPEN = SignUpRule()
INVITED = SignUpRule(())


def parse_sign_up(text: str) -> SignUpRule:
    """Return the rule in the text of a setting. Raises ValueError."""
    if text in ("open", "invited"):
        return OPEN if text == "open" else INVITED
    parts = [part.strip().lower().removeprefix("@") for part in text.split(",")]
    try:
        domains = [parse_domain(part) for part in parts]
    except UnicodeError:
        domains = []
    if not domains or not all("." in each and not {"@", "/"} & set(each) for each in domains):
        raise ValueError("write open, invited, or e-mail domains such as example.org,example.com")
    return SignUpRule(frozenset(domains))
