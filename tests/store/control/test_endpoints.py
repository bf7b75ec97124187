import pytest

from runtime.errors import NotFoundError
from store.control import endpoints
from store.pagination import Position


@pytest.fixture
def organization_id(control):
    return control.get_local_organization().id


def test_an_id_comes_before_a_slug_that_looks_like_it(db, organization_id):
    first = endpoints.create(db, organization_id, "First")
    second = endpoints.create(db, organization_id, "Second", first.id)
    assert endpoints.get(db, organization_id, first.id) == first
    endpoints.delete(db, organization_id, first.id)
    assert endpoints.get(db, organization_id, first.id) == second


def test_what_is_deleted_can_neither_be_changed_nor_deleted_again(db, organization_id):
    endpoints.delete(db, organization_id, "default")
    for call in (endpoints.get, endpoints.update, endpoints.delete):
        with pytest.raises(NotFoundError):
            call(db, organization_id, "default")


def test_those_made_within_a_millisecond_are_in_order_too(db, organization_id):
    made = [endpoints.create(db, organization_id, "x").id for _ in range(200)]
    listed = [each.id for each in endpoints.list_after(db, organization_id)]
    assert listed[:200] == made[::-1]


def test_a_page_is_read_from_an_index_that_holds_no_deleted_endpoints(db, organization_id):
    statements: list[str] = []
    db.set_trace_callback(statements.append)
    endpoints.list_after(db, organization_id, Position("2026", "x"), 20)
    (plan,) = db.execute(f"explain query plan {statements[0]}").fetchall()
    assert "proxy_endpoints_live_newest" in plan[3]
    assert "(created_at,id)<(?,?)" in plan[3]
