"""Options of mitmproxy that are read with less work.

For ``python -m addon`` alone, and without any change of what is sent, refused or given to a hook.
"""

from mitmproxy import options


def fix_options(opts: options.Options) -> None:
    """Let each option be read as it is now from now on. mitmproxy makes a deep copy for each reader, of
    which there are ten for a small call. Lists go on to be copied."""
    for name in opts.keys():  # noqa: SIM118 - not a mapping
        value = getattr(opts, name)
        if value is None or isinstance(value, str | int | float):
            opts.__dict__[name] = value
