import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from metering.price_file_error import PriceFileError
from metering.prices import PriceTable
from store.price_file import load_prices


def test_without_a_file_the_prices_are_the_built_in_ones():
    assert isinstance(load_prices(), PriceTable)


def test_a_file_that_cannot_be_read_is_refused_with_its_name(tmp_path):
    path = tmp_path / "prices.toml"
    with pytest.raises(PriceFileError, match=r"^prices\.toml: .*No such file"):
        load_prices(path)
    path.write_bytes(b"\xff")
    with pytest.raises(PriceFileError, match=r"^prices\.toml: .*utf-8"):
        load_prices(path)


@pytest.mark.parametrize(
    "kind", ["a folder", "a pipe", "a device", "a link to a device", "too large"]
)
def test_what_is_no_small_file_is_refused_before_it_is_read(tmp_path, kind):
    path = tmp_path / "prices.toml"
    match kind:
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            path = Path("/dev/zero")
        case "a link to a device":
            path.symlink_to("/dev/zero")
        case "too large":
            with path.open("wb") as file:
                file.truncate(10**12)
    with pytest.raises(PriceFileError, match=rf"^{path.name}: it is (not a file|larger than)"):
        load_prices(path)


@pytest.mark.parametrize("text", ["[[models]]\nmatch = 3", "#" * 1_000_001])
def test_a_command_reads_a_pipe_up_to_the_size_of_a_file(text):
    """A shell makes one for `--prices <(…)`."""
    reading, writing = os.pipe()
    path = Path(f"/dev/fd/{reading}")
    writer = threading.Thread(target=write_all, args=(writing, text.encode()))
    writer.start()
    try:
        with pytest.raises(
            PriceFileError, match=rf"^{path.name}: (models\[1\]: match|it is larger)"
        ):
            load_prices(path, may_be_pipe=True)
    finally:
        os.close(reading)
        writer.join()


def write_all(descriptor, data):
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as file:
        file.write(data)
