"""The page about costs: the text of ``docs/costs.md``, for whoever is signed in."""

from tests import ROOT
from tests.docs import render_page


async def test_the_page_about_costs_has_the_text_of_the_documentation(client, ann):
    page = await client.get("/help/costs", headers=ann.cookie)
    assert page.status_code == 200
    for line in (ROOT / "docs" / "costs.md").read_text().splitlines():
        if line.startswith("#"):
            assert f">{line.lstrip('# ')}</h" in page.text
    assert 'role="region" aria-label="What is not in it"' in page.text
    assert 'role="region" aria-label="The words beside a figure"' in page.text
    assert '<th scope="col">Why</th>' in page.text
    for words in (
        "Spend",
        "Value, covered by a subscription",
        "Of which estimated",
        "Message batches",
        "Hours of containers",
        "Files",
        "Contract prices",
        "Commitments",
        "Subscriptions",
    ):
        assert f'<th scope="row">{words}' in page.text
    assert page.text.count('<table class="prose-table"') == 2
    assert "prices.md" not in page.text
    assert "[[[" not in page.text


def test_the_page_about_costs_is_generated_anew_after_each_change_of_the_documentation():
    template = ROOT / "dashboard" / "templates" / "help_costs.html"
    assert render_page("costs") in template.read_text()
