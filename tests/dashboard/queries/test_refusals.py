from dashboard.queries.refusals import MAX_KILLS, REFUSED_S, WITHIN_S, Refusals


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_repeated_kills_refuse_an_organisation_for_a_while_and_no_other():
    clock = Clock()
    refusals = Refusals(clock)
    for _ in range(MAX_KILLS):
        assert refusals.find_wait("a") == 0
        refusals.note_kill("a")
    assert refusals.find_wait("a") == REFUSED_S
    assert refusals.find_wait("b") == 0
    clock.now_s += REFUSED_S - 0.5
    assert refusals.find_wait("a") == 1
    clock.now_s += 0.5
    assert refusals.find_wait("a") == 0
    refusals.note_kill("a")
    assert refusals.find_wait("a") == 0, "it begins from nothing"


def test_kills_that_are_far_apart_refuse_nobody():
    clock = Clock()
    refusals = Refusals(clock)
    for _ in range(5 * MAX_KILLS):
        refusals.note_kill("a")
        clock.now_s += WITHIN_S / (MAX_KILLS - 1) + 1
        assert refusals.find_wait("a") == 0


def test_what_is_remembered_is_bounded():
    clock = Clock()
    refusals = Refusals(clock)
    for number in range(5_000):
        refusals.note_kill(f"org_{number}")
        clock.now_s += 1
    assert len(refusals._kills_s) <= 1_000
