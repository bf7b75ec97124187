from tests.scheduling import FileScheduling


def test_a_worker_gets_whole_files_and_one_gets_all_tests_of_the_browser():
    scheduling = FileScheduling.__new__(FileScheduling)  # without workers
    scopes = {
        name: scheduling._split_scope(f"tests/{name}.py::test_this[that::one]")
        for name in (
            "browser/test_markup",
            "browser/test_members",
            "live/test_cli",
            "live/test_run",
        )
    }
    assert scopes["browser/test_markup"] == scopes["browser/test_members"]
    assert len(set(scopes.values())) == 3
