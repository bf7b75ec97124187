from dashboard.sessions.agents import make_tree
from store.traces.sessions.session_reader import Agent


def agent(agent_id, parent=None, cents=1.0):
    return Agent(
        agent_id=agent_id,
        parent_agent_id=parent,
        started_at="2026-01-02T03:04:05.000Z",
        calls=1,
        errors=0,
        cost_cents=cents,
    )


def outline(*agents):
    return [(node.agent.agent_id, node.depth) for node in make_tree(agents)]


def test_subagents_follow_the_agent_that_began_them():
    agents = [agent(None), agent("a"), agent("b"), agent("a1", "a"), agent("b1", "b")]
    assert outline(*agents) == [(None, 0), ("a", 1), ("a1", 2), ("b", 1), ("b1", 2)]


def test_an_agent_of_an_unknown_parent_is_one_of_the_main_agents():
    assert outline(agent(None), agent("a", "gone")) == [(None, 0), ("a", 1)]


def test_agents_in_a_circle_are_listed_once():
    assert outline(agent(None), agent("a", "b"), agent("b", "a"), agent("c", "c")) == [
        (None, 0),
        ("c", 1),
        ("a", 1),
        ("b", 2),
    ]


def test_shares_are_of_the_whole_cost():
    nodes = make_tree([agent(None, cents=3.0), agent("a", cents=1.0)])
    assert [node.share for node in nodes] == ["75%", "25%"]
    assert [node.share for node in make_tree([agent(None, cents=0.0)])] == ["—"]
