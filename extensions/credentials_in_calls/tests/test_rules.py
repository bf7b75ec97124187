"""The formats of credentials. None of these was ever one."""

import base64
import json
import random
import re
import string
import sys

import pytest

from extensions.credentials_in_calls import rules as secret_rules
from extensions.credentials_in_calls.rules import (
    MAX_FOUND,
    RulesMissingError,
    find_secrets,
    load_rules,
)

DICE = random.Random(1)  # noqa: S311 - made up, and the same on every run


def word(length, characters=string.ascii_letters + string.digits):
    return "".join(DICE.choice(characters) for _ in range(length))


def jwt(header):
    parts = (header, {"sub": "somebody", "iat": 1})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
    return ".".join(each.rstrip("=") for each in encoded) + "." + word(43)


def pem(kind):
    lines = "\n".join(word(64) for _ in range(4))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


UPPER = string.ascii_uppercase + string.digits
SAMPLES = {
    "AWS access key": ["AKIA" + word(16, UPPER), "ASIA" + word(16, UPPER)],
    "Azure storage key": ["AccountKey=" + word(86) + "=="],
    "GitHub token": ["ghp_" + word(36), "gho_" + word(36), "github_pat_" + word(82)],
    "GitLab token": ["glpat-" + word(20)],
    "OpenAI key": ["sk-" + word(20) + "T3BlbkFJ" + word(20), "sk-proj-" + word(120)],
    "Anthropic key": ["sk-ant-api03-" + word(95), "sk-ant-oat01-" + word(95)],
    "Google API key": ["AIza" + word(35)],
    "npm token": ["npm_" + word(36)],
    "PyPI token": ["pypi-AgEIcHlwaS5vcmc" + word(100)],
    "SendGrid key": ["SG." + word(22) + "." + word(43)],
    "Slack token": ["xoxb-123456789012-123456789012-" + word(24, string.ascii_lowercase)],
    "Square secret": ["sq0csp-" + word(43)],
    "Stripe key": ["sk_live_" + word(24), "rk_live_" + word(24)],
    "Taximeter service API key": ["sk_" + word(43)],
    "JSON Web Token": [jwt({"alg": "HS256", "typ": "JWT"})],
    "Private key": [pem("RSA PRIVATE KEY"), pem("OPENSSH PRIVATE KEY"), pem("PRIVATE KEY")],
}
CASES = [(kind, sample) for kind, samples in SAMPLES.items() for sample in samples]


AROUND = ["{}", "export KEY='{}'\n", "x={} y", "https://a:{}@b", "\n{}."]


@pytest.mark.parametrize(("kind", "sample"), CASES)
def test_each_kind_is_found_and_shown_by_its_beginning(kind, sample):
    for around in AROUND:
        (found,) = find_secrets(around.format(sample))
        assert found.kind == kind, around
        assert found.value.replace("\n", "") in sample.replace("\n", "") + ".", around
        assert len(found.shown) <= 40, around
        assert found.shown.rstrip("…") in sample, around
        assert len(set(sample) & set(found.shown)) < len(set(sample)) or kind == "Private key"


def test_every_rule_has_a_sample():
    assert {rule.kind for rule in load_rules()} == SAMPLES.keys()


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN PRIVATE KEY-----",
        'if "BEGIN RSA PRIVATE KEY" in text:\n    return True',
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "eyJub3QiOiJhIGhlYWRlciJ9." + "eyJub3QiOiJhIGhlYWRlciJ9.x",
        "eyJhbGciOiJIUzI1NiJ9",
        "sha256:" + word(64, "0123456789abcdef"),
        "toolu_01" + word(22) + " msg_01" + word(22) + " req_011" + word(20),
        "sk-ant-… and sk-ant-api03-xxx and sk_live_…",
        "ghp_short npm_install sk_id",
        word(500) + "AKIA" + word(16, UPPER),
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301 " * 20,
    ],
)
def test_what_only_looks_like_one_is_left_alone(text):
    assert list(find_secrets(text)) == []


def test_each_credential_is_named_once_and_not_without_end():
    many = [f"ghp_{word(36)}" for _ in range(MAX_FOUND + 10)]
    assert len(list(find_secrets(" ".join([many[0]] * 20)))) == 1
    assert len(list(find_secrets(" ".join(many)))) == MAX_FOUND


def test_the_package_is_read_and_not_imported():
    assert load_rules()
    assert "detect_secrets" not in sys.modules


def test_a_package_without_the_rules_is_named(monkeypatch):
    monkeypatch.setattr(secret_rules, "find_spec", lambda _name: None)
    with pytest.raises(RulesMissingError, match="not installed"):
        secret_rules._read_patterns("aws")


def test_texts_without_the_beginning_of_any_credential_are_not_searched():
    assert not secret_rules.may_have_secrets("tax_id = globals()['x'].BEGIN; task_of_this; sk_id")
    for sample in (each for samples in SAMPLES.values() for each in samples):
        for text in (f"a {sample} b", f"a\n{sample}\n", f'"{sample}"'):
            assert secret_rules.may_have_secrets(text)
            assert secret_rules.may_have_secrets(json.dumps(text))
            assert secret_rules.may_have_secrets(json.dumps(json.dumps(text)))


def test_each_literal_of_the_rules_is_found_at_any_place():
    ours = {begin for _, begin, _ in secret_rules._OURS}
    for need in {need for rule in load_rules() for need in rule.needs} - ours:
        for around in ("{}", "x_{}", "-{}-", "a{}a", "JKB.{}"):
            assert secret_rules.may_have_secrets(around.format(need)), need
            assert not secret_rules.may_have_secrets(around.format(need[:1])), need


def test_what_a_text_must_have_has_all_prefixes_of_the_package():
    """A new kind of token of GitLab in a newer package would not be found otherwise."""
    for rule in load_rules():
        if rule.kind == "GitLab token":
            prefixes = re.findall(r"\bgl[a-z]+|GR\d+", rule.pattern.pattern)
            assert prefixes
            for prefix in prefixes:
                assert any(need.startswith(prefix) for need in rule.needs), prefix
