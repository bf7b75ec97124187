"""The home page in a browser: by keyboard, by its form, and without JavaScript."""

import re

MAX_HEIGHT = 1_400
SIZES = (1280, 820, 390)


def test_a_column_leads_to_its_calls_by_keyboard(rosa):
    rosa.open("/?period=7d")  # at any time of the day
    columns = rosa.run(
        "return [...document.querySelectorAll('.chart svg a')]"
        ".map((a) => [a.getAttribute('aria-label'), a.getAttribute('href')])"
    )
    name, href = columns[-1]
    rosa.tab_to(name, at_most=120)
    with rosa.page_change():
        rosa.press("\ue007")
    assert rosa.address.endswith(href)
    rosa.see("calls")


def test_a_column_that_has_the_focus_shows_its_values(rosa):
    rosa.open("/?period=7d")
    rosa.run("[...document.querySelectorAll('.chart svg a')].at(-1).focus()")
    rosa.see("expected by midnight")


def test_a_filter_and_days_are_chosen_by_the_form_without_scripts(browser, site, example):
    site.sign_in(browser, example.email)
    browser.do_without_scripts()
    browser.open("/?by=endpoint")
    browser.click("Filter")
    browser.fill("Model", "nothing-of-this-name")
    browser.follow("Show", "button")
    browser.see("There are no calls in this period with these filters.")
    assert re.search(r"from=\d{4}-\d\d-\d\d&to=\d{4}-\d\d-\d\d", browser.address)
    browser.follow("Remove Model nothing-of-this-name", "link")
    browser.see("US dollars per day, UTC.")


def test_the_page_is_short_and_never_wider_than_the_screen(rosa):
    for width in SIZES:
        rosa.resize(width, 900)
        for address in ("/", "/?measure=time&by=endpoint", "/?measure=tokens&by=kind&period=30d"):
            rosa.open(address)
            height, wide = rosa.run(
                "const page = document.documentElement; return [page.scrollHeight, page.scrollWidth]"
            )
            assert wide == width, address
            assert width < SIZES[0] or height <= MAX_HEIGHT, address


def test_the_labels_of_charts_are_whole_and_of_the_size_of_text(rosa):
    for width in SIZES:
        rosa.resize(width, 900)
        rosa.open("/?period=30d")
        labels = rosa.run(
            "return [...document.querySelectorAll('.chart text')]"
            ".filter((text) => getComputedStyle(text).display !== 'none').map((text) =>"
            " [text.textContent, text.getBoundingClientRect().left, text.getBoundingClientRect().right,"
            " text.getBoundingClientRect().height])"
        )
        assert labels
        for text, left, right, height in labels:
            assert left >= 0, (width, text)
            assert right <= width, (width, text)
            assert 8 < height < 26, (width, text)


def test_a_long_title_leaves_room_for_what_is_in_flight(rosa):
    rosa.open("/")
    tag, cell = rosa.run(
        "const place = document.querySelector('.tagged');"
        " place.firstElementChild.textContent = 'A long story that goes on. '.repeat(20);"
        " const tag = Object.assign(document.createElement('span'), {className: 'tag', textContent: 'in flight'});"
        " place.append(tag);"
        " return [tag, tag.closest('td')].map((each) => each.getBoundingClientRect().right)"
    )
    assert tag <= cell
