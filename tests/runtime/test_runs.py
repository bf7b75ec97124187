import pytest

from runtime import runs


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("/run/build-42/v1/messages", ("build-42", "/v1/messages")),
        ("/run/build-42", ("build-42", "")),
        ("/run/build-42/", ("build-42", "/")),
        ("/run/A.b_c-1//v1/messages", ("A.b_c-1", "//v1/messages")),
        ("/v1/messages", (None, "/v1/messages")),
        ("/runs/x/v1/messages", (None, "/runs/x/v1/messages")),
        ("/run/", (None, "/run/")),
        ("/run/../v1/messages", (None, "/run/../v1/messages")),
        ("/run/é/v1/messages", (None, "/run/é/v1/messages")),
        ("/run/sk-ant-api03-x/v1/messages", (None, "/run/sk-ant-api03-x/v1/messages")),
        ("/run/skate/v1/messages", ("skate", "/v1/messages")),
    ],
)
def test_a_path_is_split_into_the_run_and_the_rest(path, split):
    assert runs.split_path(path) == split


def test_the_base_url_of_a_new_run_names_it():
    run_id = runs.new_run_id()
    url = runs.append_run("http://127.0.0.1:8080/proxy/default", run_id)
    path = url.partition("/proxy/default")[2]
    assert runs.split_path(f"{path}/v1/messages") == (run_id, "/v1/messages")
    assert runs.new_run_id() != run_id
