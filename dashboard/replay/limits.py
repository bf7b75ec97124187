"""The limit of what is changed on the page that sends a call again."""

MAX_EDITED_BYTES = 900_000  # the front door lets through 1 MB to the web process
