"""Two organisations with two people each: Ann owns ours and Bob is in it, Cid owns theirs with Dee."""

from dataclasses import dataclass

from store.control.management import Management
from store.control.people import Caller
from store.control.users import Users


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    ann: Caller
    bob: Caller
    cid: Caller
    dee: Caller


def make_people(management: Management, users: Users) -> People:
    for owner, member in (("ann", "bob"), ("cid", "dee")):
        created = users.create(f"{owner}@example.org", f"{owner}'s")
        users.create(f"{member}@example.org", join=created.organization_id)
    names = ("ann", "bob", "cid", "dee")
    return People(**{name: management.find_caller(f"{name}@example.org") for name in names})
