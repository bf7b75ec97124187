"""The example organisation: a neighbourhood library, its endpoints and its people."""

from extensions.demo.script import read_table
from store.control.management import Management
from store.control.users import Users

COLLEAGUE, INVITED = "tomas@library.example", "aline@library.example"
KEY_NAME = "monthly bill"


def set_up(management: Management, users: Users) -> None:
    """Create endpoints, budgets, people and a key beside what a first start has made. Raises ControlError."""
    caller = management.local_caller()
    table = read_table("organization")
    for each in table["endpoints"]:
        metadata_only = each.get("metadata_only", False)
        management.create_endpoint(
            caller, each["name"], each["slug"], None, metadata_only=metadata_only
        )
    for budget in table["budgets"]:
        management.budgets.put(caller, budget.get("endpoint"), **budget["limit"])
    users.create(COLLEAGUE, join=caller.organization_id)
    management.invite(caller, INVITED)
    management.create_key(caller, KEY_NAME)
