"""The overview in a browser: by keyboard, by its form, and without JavaScript."""

import re


def test_a_bar_leads_to_its_calls_by_keyboard(rosa):
    rosa.open("/overview?span=7d")  # at any time of the day
    bars = rosa.run(
        "return [...document.querySelectorAll('svg a')].filter((a) => a.tabIndex === 0)"
        ".map((a) => [a.getAttribute('aria-label'), a.getAttribute('href')])"
    )
    name, href = bars[-1]
    rosa.tab_to(name, at_most=120)
    with rosa.page_change():
        rosa.press("\ue007")
    assert rosa.address.endswith(href)
    assert rosa.text.count("Sum by") == 1
    rosa.see("calls")


def test_a_filter_and_days_are_chosen_by_the_form_without_scripts(browser, site, example):
    site.sign_in(browser, example.email)
    browser.do_without_scripts()
    browser.open("/overview?by=endpoint")
    browser.click("Filter and period")
    browser.fill("Model", "nothing-of-this-name")
    browser.follow("Apply", "button")
    browser.see("There are no calls in this period with these filters.")
    assert re.search(r"from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d", browser.address)
    browser.follow("Remove the filter model", "link")
    browser.see("Cost by endpoint")


def test_the_labels_of_charts_are_whole_and_of_the_size_of_text(rosa):
    for width in (360, 820, 1280):
        rosa.resize(width, 900)
        rosa.open("/overview?span=7d")
        labels = rosa.run(
            "return [...document.querySelectorAll('.chart text')].map((text) => [text.textContent,"
            " text.getBoundingClientRect().left - text.ownerSVGElement.getBoundingClientRect().left,"
            " text.getBoundingClientRect().height])"
        )
        assert labels
        assert [each for each in labels if each[1] < 0 or not 8 < each[2] < 26] == [], width
