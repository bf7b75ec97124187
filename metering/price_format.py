"""The format of price files, which ``docs/prices.md`` describes: a TOML list of dated rates."""

import tomllib
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from metering.components import TOKEN_COMPONENTS, WEB_SEARCH
from metering.price_file_error import PriceFileError
from metering.rates import PriceEntry, Rates, RateTiers

WEB_SEARCH_USD_PER_THOUSAND = Decimal(10)

# Far beyond any price, and within what can be computed exactly: `1e999999` is a number too.
MAX_USD, MAX_DECIMALS = Decimal(1_000_000), 12
# The parser takes a time that grows with the square of a line. A million characters are 10,000 entries.
MAX_CHARACTERS, MAX_LINE, MAX_MATCH = 1_000_000, 4_000, 200
_SHOWN = 100


def parse_price_file(text: str, file_name: str, *, label: str | None = None) -> list[PriceEntry]:
    """Return the entries of a price file, in its order.

    Their ``price_version`` is ``label`` (by default that of an operator's file) and a day: the day on
    which the file was checked, if it names one, or the start of the entry. Raises PriceFileError."""
    check_size(len(text), file_name)
    if any(len(line) > MAX_LINE for line in text.splitlines()):
        raise PriceFileError(f"{file_name}: a line has more than {MAX_LINE} characters")
    try:
        document = tomllib.loads(text, parse_float=_read_number)
    except ValueError as error:
        raise PriceFileError(f"{file_name}: {str(error)[:_SHOWN]}") from error
    except RecursionError as error:
        raise PriceFileError(f"{file_name}: it is nested too deeply") from error
    root = _Fields(document, file_name)
    checked = root.take_day("checked") if "checked" in root else None
    tables = root.take("models")
    root.refuse_rest()
    if not isinstance(tables, list):
        raise PriceFileError(f"{file_name}: models: must be a list of [[models]] tables")
    return [
        _parse_entry(
            _Fields(table, file_name, f"models[{index}]"), label or f"override {file_name}", checked
        )
        for index, table in enumerate(tables, start=1)
    ]


def check_size(size: int, file_name: str) -> None:
    """Check the size of a price file in bytes or characters. Raises PriceFileError."""
    if size > MAX_CHARACTERS:
        raise PriceFileError(f"{file_name}: it is larger than {MAX_CHARACTERS} bytes")


def _read_number(text: str) -> Decimal:
    """Return the exact value of a number; NaN if its exponent is too large for ``Decimal``."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("nan")


def _parse_entry(fields: "_Fields", label: str, checked: date | None) -> PriceEntry:
    match, starts = fields.take_texts("match"), fields.take_day("starts")
    ends = fields.take_day("ends", after=starts) if "ends" in fields else None
    source = fields.take_text("source") if "source" in fields else None
    upstreams = fields.take_texts("upstream") if "upstream" in fields else ()
    if fields.take_flag("as_listed"):
        if not upstreams:
            raise fields.error("as_listed", "is for an entry with an upstream")
        fields.refuse_rest()
        return PriceEntry(
            match=match,
            starts=starts,
            ends=ends,
            source=source,
            upstreams=upstreams,
            is_as_listed=True,
        )
    version = f"{label} {(checked or starts).isoformat()}"
    web_search = fields.take_rate(WEB_SEARCH.name, WEB_SEARCH_USD_PER_THOUSAND)
    fast = fields.take_table("fast")
    fast_tiers = None if fast is None else _parse_tiers(fast, web_search, version)
    # An entry may say nothing but the rates of fast mode. One that is incomplete is an error.
    is_fast_only = fast is not None and fields.is_empty
    standard = None if is_fast_only else _parse_tiers(fields, web_search, version)
    return PriceEntry(
        match=match,
        starts=starts,
        ends=ends,
        standard=standard,
        fast=fast_tiers,
        source=source,
        upstreams=upstreams,
    )


def _parse_tiers(fields: "_Fields", web_search: Decimal, version: str) -> RateTiers:
    base = _parse_rates(fields, web_search, version)
    long_prompt = fields.take_table("long_prompt")
    fields.refuse_rest()
    if long_prompt is None:
        return RateTiers(base=base)
    above = long_prompt.take_size("above")
    tier = _parse_rates(long_prompt, web_search, version)
    long_prompt.refuse_rest()
    return RateTiers(base=base, tiers=((above, tier),))


def _parse_rates(fields: "_Fields", web_search: Decimal, version: str) -> Rates:
    rates: dict[str, Decimal | None] = {
        component.name: fields.take_rate(component.name)
        for component in TOKEN_COMPONENTS
        if component.is_required or component.name in fields
    }
    return Rates(by_component=rates | {WEB_SEARCH.name: web_search}, price_version=version)


class _Fields:
    """A table of the file, from which fields are taken one by one. Errors name their place in the file."""

    def __init__(self, table: object, *place: str) -> None:
        self._place = place
        if not isinstance(table, dict):
            raise PriceFileError(f"{': '.join(place)}: must be a table")
        self._table = dict(table)

    def __contains__(self, name: str) -> bool:
        return name in self._table

    @property
    def is_empty(self) -> bool:
        return not self._table

    def take(self, name: str) -> object:
        return self._table.pop(name, None)

    def take_text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str) or not value:
            raise self.error(name, "must be a text")
        return value

    def take_texts(self, name: str) -> tuple[str, ...]:
        value = self.take(name)
        texts = value if isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise self.error(name, "must be a text or a list of texts")
        if any(len(str(text)) > MAX_MATCH for text in texts):
            raise self.error(name, f"must have up to {MAX_MATCH} characters")
        return tuple(texts)

    def take_flag(self, name: str) -> bool:
        value = self.take(name)
        if not isinstance(value, bool | None):
            raise self.error(name, "must be true or false")
        return bool(value)

    def take_day(self, name: str, *, after: date | None = None) -> date:
        value = self.take(name)
        if not isinstance(value, date) or isinstance(value, datetime):
            raise self.error(name, "must be a day such as 2026-11-01")
        if after is not None and value <= after:
            raise self.error(name, f"must be a day after {after.isoformat()}")
        return value

    def take_size(self, name: str) -> int:
        value = self.take(name)
        if type(value) is not int or value < 0:
            raise self.error(name, "must be a whole number of tokens")
        return value

    def take_rate(self, name: str, default: Decimal | None = None) -> Decimal:
        value = self.take(name)
        if value is None and default is not None:
            return default
        if type(value) is int:
            value = Decimal(value)
        if not isinstance(value, Decimal) or not _is_price(value):
            raise self.error(
                name,
                f"must be a price in US dollars, 0 or more and up to {MAX_USD}, with up to"
                f" {MAX_DECIMALS} decimals",
            )
        return value.copy_abs()  # -0.0 is 0

    def take_table(self, name: str) -> "_Fields | None":
        value = self.take(name)
        return None if value is None else _Fields(value, *self._place, name)

    def refuse_rest(self) -> None:
        for name in self._table:
            raise self.error(name, "is not a field of this table")

    def error(self, name: str, complaint: str) -> PriceFileError:
        return PriceFileError(f"{': '.join((*self._place, _show(name)))}: {complaint}")


def _is_price(value: Decimal) -> bool:
    if not value.is_finite() or not 0 <= value <= MAX_USD:
        return False
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -MAX_DECIMALS


def _show(name: str) -> str:
    """Return the name of a field for an error message, escaped if not printable, and cut if long."""
    return name if name.isprintable() and len(name) <= _SHOWN else ascii(name[:_SHOWN])
