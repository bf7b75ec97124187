"""Each part of a body is parsed once, for as long as it may be asked for again."""

import pytest

from metering import request_parts
from metering.request_parts import PartParser


@pytest.fixture
def parser():
    return PartParser()


def make_body(number):
    return b'{"model":"m","messages":[{"role":"user"}],"number":%d}' % number


def test_the_parts_of_the_last_bodies_are_parsed_once(parser):
    bodies = [make_body(number) for number in range(request_parts.MOST_BODIES)]
    first = [(parser.whole(body), parser.tail(body, 25)) for body in bodies]
    for body, (whole, tail) in zip(bodies, first, strict=True):
        assert parser.whole(body) is whole
        assert parser.tail(body, 25) is tail


def test_the_oldest_body_makes_room_for_another(parser):
    bodies = [make_body(number) for number in range(request_parts.MOST_BODIES + 1)]
    first = [parser.whole(body) for body in bodies]
    assert all(
        parser.whole(body) is found for body, found in zip(bodies[1:], first[1:], strict=True)
    )
    again = parser.whole(bodies[0])
    assert again == first[0]
    assert again is not first[0]


def test_bodies_are_not_held_beyond_their_bound(parser, monkeypatch):
    one, other = make_body(1), make_body(2)
    monkeypatch.setattr(request_parts, "MAX_HELD_BYTES", len(one))
    first = parser.whole(one)
    parser.whole(other)
    assert parser.whole(one) is not first


def test_a_part_for_which_there_is_no_room_is_parsed_again(parser, monkeypatch):
    one, other = make_body(1), make_body(2)
    monkeypatch.setattr(request_parts, "MAX_KEPT_BYTES", len(one))
    kept, parsed = parser.whole(one), parser.whole(other)
    assert parser.whole(one) is kept
    assert parser.whole(other) == parsed
    assert parser.whole(other) is not parsed


def test_equal_bodies_are_told_apart_and_forgotten(parser):
    body = make_body(1)
    found = parser.whole(body)
    assert parser.whole(bytes(bytearray(body))) is not found
    parser.forget()
    assert parser.whole(body) is not found
