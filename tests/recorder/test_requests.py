from conversations import prompt_analysis
from recorder.requests import FieldReader, RequestReader

BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}'


def test_fields_and_prompt_are_read_in_one_go():
    fields, prompt = RequestReader().read(BODY)
    assert (fields["model"], fields["title_text"]) == ("m", "Hello")
    assert prompt is not None
    assert [unit.kind for unit in prompt.units] == ["text"]
    assert FieldReader().read(BODY) == (fields, None)


def test_a_prompt_that_cannot_be_read_costs_no_fields_and_the_log_says_so_once(monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(prompt_analysis, "list_message_units", fail)
    monkeypatch.setattr(prompt_analysis, "read_prompt", fail)
    reader = RequestReader()
    for body in (BODY, BODY, BODY.ljust(20_000)):
        assert reader.read(body) == FieldReader().read(body)
    assert caplog.text.count("a mistake of ours") == 1
