from addon.holdings import Holdings


def test_amounts_are_added_up_over_all_and_by_address():
    holdings = Holdings()
    holdings.put("one", 5, "10.0.0.1")
    holdings.put("one", 3, "10.0.0.1")
    holdings.put("two", 4, "10.0.0.1")
    holdings.put("three", 2, "10.0.0.2")
    holdings.put("head", 1, "")
    assert holdings.total == 10
    assert (holdings.of_address("10.0.0.1"), holdings.of_others("10.0.0.1")) == (7, 2)
    assert holdings.of_others("") == 9


def test_what_is_removed_leaves_nothing_behind():
    holdings = Holdings()
    holdings.put("one", 5, "10.0.0.1")
    holdings.remove("one")
    holdings.remove("one")
    assert (holdings.total, holdings.of_address("10.0.0.1")) == (0, 0)
    assert vars(holdings) == vars(Holdings())
