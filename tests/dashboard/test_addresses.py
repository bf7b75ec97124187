import pytest

from dashboard.addresses import local_path, sign_in_address


@pytest.mark.parametrize(
    "path", ["/", "/settings", "/traces/usage?_sort=id&x=%2F%2Fevil.example", "/traces/usage/7"]
)
def test_a_page_of_ours_is_where_to_go(path):
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "settings",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "/x\\..\\evil",
        "https://evil.example/",
        "javascript:alert(1)",
        "http:evil",
        "/x\r\nset-cookie: a=b",
        "/\x00",
        "/sign-out",
        "/sign-in/link?token=x",
        "/" + "x" * 8000,
    ],
)
def test_anything_else_is_home(path):
    assert local_path(path) == "/"


def test_the_way_back_is_an_address_within_an_address():
    assert sign_in_address("/") == "/sign-in"
    assert (
        sign_in_address("/traces?sql=select+1&x=#")
        == "/sign-in?next=/traces%3Fsql%3Dselect%2B1%26x%3D%23"
    )
