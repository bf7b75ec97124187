"""The project that the origin of a repository names."""

import os
import subprocess

import pytest

from manage.cli.checkout import find_branch, find_project, name_project


@pytest.mark.parametrize(
    ("origin", "project"),
    [
        ("https://github.com/acme/shop.git", "acme/shop"),
        ("https://github.com/acme/shop", "acme/shop"),
        ("https://github.com/acme/shop/", "acme/shop"),
        ("https://ann:ghp_secret@github.com/acme/shop.git", "acme/shop"),
        ("https://ghp_secret@github.com/acme/shop.git", "acme/shop"),
        ("git@github.com:acme/shop.git", "acme/shop"),
        ("github.com:acme/shop.git", "acme/shop"),
        ("ssh://git@example.org:2222/acme/shop.git", "acme/shop"),
        ("ssh://ann:secret@example.org/~ann/shop.git", "-ann/shop"),
        ("git://example.org/shop.git", "shop"),
        ("https://gitlab.com/acme/backend/api.git", "backend/api"),
        ("https://dev.azure.com/org/project/_git/repo", "project/repo"),
        ("git@ssh.dev.azure.com:v3/org/project/repo", "project/repo"),
        ("https://example.org/acme/my%20shop%3F.git?token=x#y", "acme/my-shop-"),
        ("https://example.org/acme/.git", "acme/.git"),
        ("/home/ann/clients/shop.git", "shop"),
        ("../shop", "shop"),
        ("file:///home/ann/shop", "shop"),
        ("https://github.com/" + "o" * 60 + "/" + "n" * 60, "ooo/" + "n" * 60),
        ("https://github.com", None),
        ("https://[broken/acme/shop", None),
        ("", None),
    ],
)
def test_a_project_is_owner_and_name_without_user_and_password(origin, project):
    assert name_project(origin) == project


def git(folder, *arguments):
    subprocess.run(("git", "-C", folder, *arguments), check=True, capture_output=True)  # noqa: S603, S607


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    git(tmp_path, "init", "--quiet", "--initial-branch=Feature/One", folder)
    return folder


def test_a_folder_of_a_checkout_has_its_origin_and_branch(checkout):
    assert find_project(checkout) is None
    git(checkout, "remote", "add", "origin", "https://token@github.com/acme/shop.git")
    (checkout / "deep").mkdir()
    assert find_project(checkout / "deep") == "acme/shop"
    assert find_branch(checkout / "deep") == "Feature/One"


def test_no_branch_is_none(checkout):
    git(checkout, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "x", "--allow-empty")
    git(checkout, "checkout", "--quiet", "--detach")
    assert find_branch(checkout) is None


def test_a_folder_without_a_repository_has_neither(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.fspath(tmp_path.parent))
    assert (find_project(tmp_path), find_branch(tmp_path)) == (None, None)


def test_without_git_there_is_no_project(checkout, monkeypatch):
    git(checkout, "remote", "add", "origin", "https://github.com/acme/shop.git")
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_project(checkout) is None
