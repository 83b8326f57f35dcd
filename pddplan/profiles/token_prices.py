"""Reading the table of token prices, and choosing the row that belongs to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from pddplan.domain.token_price import TokenPrice
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.profiles.lookup import Kind, canonical, load
from pddplan.profiles.schema import Check, NonNegative, Profile, SourcedText, Strict, Text, read

TOKEN_PRICES = "token-prices"


class PriceRow(Strict):
    """List price of one model at one provider; the source of the name covers the prices beside it."""

    model: SourcedText
    """Name of the price, unique in the file."""
    provider: Text
    """Who charges it."""
    miss_per_mtok: NonNegative
    """Price of a million input tokens that are not cached."""
    cached_per_mtok: NonNegative | None = None
    """Price of a million cached input tokens; left out where the list shows none."""
    output_per_mtok: NonNegative
    """Price of a million output tokens."""
    date: Text
    """When the price applied or was listed."""
    note: str | None = None
    """Anything a reader should know."""


class TokenPriceFile(Profile):
    """A table of token prices."""

    schema_name: ClassVar[str] = "token-prices/1"

    currency: Text
    """Currency of all prices of the file."""
    default: Text
    """Row taken, as an assumption, for a model that has none of its own."""
    for_models: dict[str, str] = Field(default_factory=dict)
    """Row that belongs to a model profile, by id of the profile."""
    prices: Annotated[list[PriceRow], Field(min_length=1)]
    """The table."""

    def row(self, name: str) -> PriceRow | None:
        wanted = canonical(name)
        return next((row for row in self.prices if canonical(row.model.value) == wanted), None)


_CHECKS: tuple[Check[TokenPriceFile], ...] = (
    Check(
        name="default row exists",
        holds=lambda file: file.row(file.default) is not None,
        message=lambda file: f"no price row is called {file.default!r}",
        fix="name one of the rows of 'prices'",
        key=("default",),
    ),
    Check(
        name="rows of models exist",
        holds=lambda file: all(file.row(name) for name in file.for_models.values()),
        message=lambda file: (
            "no price row is called " + ", ".join(repr(name) for name in file.for_models.values() if not file.row(name))
        ),
        fix="name rows of 'prices'",
        key=("for_models",),
    ),
    Check(
        name="rows are named once",
        holds=lambda file: len({canonical(row.model.value) for row in file.prices}) == len(file.prices),
        message=lambda file: "two rows have the same model name",
        fix="give each row a name of its own, e.g. with a date",
        key=("prices",),
    ),
)
TokenPriceFile.checks = _CHECKS


def load_token_prices(name: str | Path = TOKEN_PRICES) -> tuple[TokenPrice, ...]:
    """All rows of a table of token prices.

    Raises:  InputError with every fault of the file.
    """
    return tuple(_record(file, row) for file in [_file(name)] for row in file.prices)


def token_price_for(llm_id: str, *, name: str | Path = TOKEN_PRICES) -> tuple[TokenPrice, bool]:
    """Price row of a model, and whether it is an assumption (the default row, because the model has none).

    Raises:  InputError with every fault of the file.
    """
    file = _file(name)
    wanted = {canonical(llm): row for llm, row in file.for_models.items()}.get(canonical(llm_id))
    row = file.row(wanted or file.default)
    assert row is not None  # a check of the file
    return _record(file, row), wanted is None


def token_price_named(row_name: str, *, name: str | Path = TOKEN_PRICES) -> TokenPrice:
    """Price row by its name.

    Raises:  InputError naming the nearest row.
    """
    file = _file(name)
    row = file.row(row_name)
    if row is None:
        known = [row.model.value for row in file.prices]
        raise InputError(
            Problem(
                what=f"no token price is called {row_name!r}{did_you_mean(row_name, known)}",
                fix=f"use one of: {'; '.join(known)}",
                where=str(name),
            )
        )
    return _record(file, row)


def _file(name: str | Path) -> TokenPriceFile:
    return read(load(Kind.FINANCE, name), TokenPriceFile)


def _record(file: TokenPriceFile, row: PriceRow) -> TokenPrice:
    source = file.sources[row.model.source]
    return TokenPrice(
        model=row.model.value,
        miss_per_mtok=row.miss_per_mtok,
        cached_per_mtok=row.cached_per_mtok,
        output_per_mtok=row.output_per_mtok,
        provider=row.provider,
        currency=file.currency,
        date=row.date,
        source=source.title,
        note=row.note,
    )
