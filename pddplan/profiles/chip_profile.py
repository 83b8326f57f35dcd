"""Chip profiles: what a chip can do, each number with its source.

    schema: chip/1
    name: H200 SXM
    aliases: [h200_sxm]
    sources:
      sheet: {kind: published, title: ..., read_on: ...}
    chip:
      vendor: NVIDIA
      peak_bf16_dense_tflop_per_s: {value: 989, source: sheet}
      memory_gb: {value: 141, source: sheet}
      ...

In a user's own file a number may also stand without a source; it then counts as given by the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pddplan.domain.chip import Chip, Fabric, Price
from pddplan.domain.provenance import Provenance
from pddplan.errors import InputError, Problem, ProblemList
from pddplan.profiles import lookup
from pddplan.profiles.schema import (
    Check,
    OrPlain,
    Positive,
    Profile,
    Sourced,
    SourcedCount,
    SourcedNonNegative,
    SourcedPositive,
    Strict,
    Text,
    provenance,
    read,
)
from pddplan.profiles.yaml_source import SourceDocument
from pddplan.units import GIGA, TERA, gbps_to_bytes_per_s

PositiveNumber = Annotated[SourcedPositive, OrPlain]
NonNegativeNumber = Annotated[SourcedNonNegative, OrPlain]
CountNumber = Annotated[SourcedCount, OrPlain]


class PriceBody(Sourced):
    """Rent of one chip for an hour; the low end is a long contract, the high end on demand."""

    value: Positive
    """Rent under a long contract; what plans use unless a sites file says otherwise."""
    low: Positive
    """Lowest price found."""
    high: Positive
    """Highest price found."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    """Three-letter code."""
    date: Text
    """When these prices were seen, e.g. 2026-04."""


class ChipBody(Strict):
    """One accelerator; rates are dense, per chip and per direction."""

    vendor: Text
    """Maker."""
    year: Annotated[int, Field(ge=2000, le=2100)] | None = None
    """Year of introduction."""
    peak_bf16_dense_tflop_per_s: PositiveNumber | None = None
    """Dense bf16 (or fp16) matrix peak [TFLOP/s]."""
    peak_fp8_dense_tflop_per_s: PositiveNumber | None = None
    """Dense fp8 matrix peak [TFLOP/s]; left out where the chip has none."""
    peak_fp4_dense_tflop_per_s: PositiveNumber | None = None
    """Dense fp4 matrix peak [TFLOP/s]; left out where the chip has none."""
    peak_int8_dense_top_per_s: PositiveNumber | None = None
    """Dense int8 matrix peak [TOP/s]; left out where the chip has none."""
    memory_gb: PositiveNumber
    """Memory as the maker prints it [GB]; what of it is usable is a matter of the serving stack."""
    memory_bandwidth_gb_per_s: PositiveNumber
    """Peak memory bandwidth [GB/s]."""
    scaleup_gb_per_s_per_direction: NonNegativeNumber
    """Bandwidth of one chip into the scale-up fabric, one direction [GB/s]."""
    scaleup_domain_chips: CountNumber
    """Chips that the scale-up fabric joins."""
    fabric: Literal["switch", "mesh", "torus", "pcie"]
    """Wiring of the scale-up domain: switch (any pair at full rate), mesh (a pair has 1/(n-1)), torus, or pcie."""
    nic_gbps: PositiveNumber | None = None
    """Network bandwidth of one chip out of its server [Gbit/s]."""
    tdp_w: PositiveNumber | None = None
    """Thermal design power [W]."""
    price_per_chip_hour: PriceBody | None = None
    """Rent of one chip per hour; without it the chip can only be planned where the sites file gives a price."""


MOST_PEAK_RATIO = 10
"""No chip computes in four bits more than so many times as fast as in sixteen; beyond, units were mixed up."""

_PEAKS = {
    "bf16": "peak_bf16_dense_tflop_per_s",
    "fp8": "peak_fp8_dense_tflop_per_s",
    "fp4": "peak_fp4_dense_tflop_per_s",
    "int8": "peak_int8_dense_top_per_s",
}

_DOMAIN_NAMES = {
    **{f"chip.{key}": f"peak_flop_per_s.{dtype}" for dtype, key in _PEAKS.items()},
    "chip.memory_gb": "memory_bytes",
    "chip.memory_bandwidth_gb_per_s": "memory_bandwidth_bytes_per_s",
    "chip.scaleup_gb_per_s_per_direction": "scaleup_bytes_per_s",
    "chip.scaleup_domain_chips": "scaleup_domain_chips",
    "chip.nic_gbps": "nic_bytes_per_s",
    "chip.tdp_w": "tdp_w",
    "chip.price_per_chip_hour": "price",
}


def _peak_values(file: ChipFile) -> list[float]:
    found = [getattr(file.chip, key) for key in _PEAKS.values()]
    return [number.value for number in found if number is not None]


class ChipFile(Profile):
    """A chip profile file."""

    schema_name: ClassVar[str] = "chip/1"
    aliases: list[Text] = Field(default_factory=list)
    """Other ids by which the chip may be asked for."""
    chip: ChipBody
    """What the chip can do."""

    checks: ClassVar[tuple[Check[ChipFile], ...]] = (
        Check(
            name="some-peak",
            holds=lambda f: bool(_peak_values(f)),
            message=lambda f: "no peak is given, so nothing can be computed on this chip",
            fix="give at least peak_bf16_dense_tflop_per_s",
            key=("chip",),
        ),
        Check(
            name="dense-peaks",
            holds=lambda f: (
                f.chip.peak_bf16_dense_tflop_per_s is None
                or all(
                    number is None or number.value <= MOST_PEAK_RATIO * f.chip.peak_bf16_dense_tflop_per_s.value
                    for number in (f.chip.peak_fp8_dense_tflop_per_s, f.chip.peak_fp4_dense_tflop_per_s)
                )
            ),
            message=lambda f: "a low-precision peak is far above the bf16 peak; is one of them in other units?",
            fix="write dense TFLOP/s for each",
            key=("chip",),
        ),
    )


def chip_of(document: SourceDocument, *, chip_id: str) -> Chip:
    """A chip from a document already read.

    Raises:  InputError with every fault of the file.
    """
    file = read(document, ChipFile)
    body = file.chip
    origins = {_DOMAIN_NAMES.get(key.removesuffix(".value"), key): p for key, p in provenance(file).items()}
    price = body.price_per_chip_hour
    return Chip(
        id=chip_id,
        name=file.name,
        vendor=body.vendor,
        year=body.year,
        peak_flop_per_s={
            dtype: number.value * TERA for dtype, key in _PEAKS.items() if (number := getattr(body, key)) is not None
        },
        memory_bytes=body.memory_gb.value * GIGA,
        memory_bandwidth_bytes_per_s=body.memory_bandwidth_gb_per_s.value * GIGA,
        scaleup_bytes_per_s=body.scaleup_gb_per_s_per_direction.value * GIGA,
        scaleup_domain_chips=body.scaleup_domain_chips.value,
        fabric=Fabric(body.fabric),
        nic_bytes_per_s=None if body.nic_gbps is None else gbps_to_bytes_per_s(body.nic_gbps.value),
        tdp_w=None if body.tdp_w is None else body.tdp_w.value,
        price=None
        if price is None
        else Price(
            low_per_chip_hour=price.low,
            high_per_chip_hour=price.high,
            currency=price.currency,
            date=price.date,
            source=origins["price"].source,
        ),
        aliases=tuple(file.aliases),
        provenance=origins,
    )


def load_chip(name: str | Path) -> Chip:
    """A chip by bundled or user id, alias, or path of a YAML file.

    Raises:  InputError naming the nearest known id, or every fault of the file.
    """
    path = lookup.find(lookup.Kind.CHIP, name)
    return chip_of(lookup.load(lookup.Kind.CHIP, path), chip_id=lookup.canonical(path.stem))


def load_chips(names: Iterable[str | Path]) -> Mapping[str, Chip]:
    """Chips under the names by which they were asked for; faults of all files at once.

    Raises:  InputError
    """
    found, problems = {}, ProblemList()
    for name in names:
        try:
            found[str(name)] = load_chip(name)
        except InputError as error:
            problems.problems.extend(error.problems)
    problems.raise_if_any()
    return found


def chip_ids() -> tuple[str, ...]:
    """Ids of all chips that can be found."""
    return lookup.names(lookup.Kind.CHIP)


def price_of(chip: Chip) -> Price:
    """Rent of a chip.

    Raises:  InputError if the profile has none.
    """
    if chip.price is None:
        raise InputError(
            Problem(
                what=f"no price is known for {chip.id}",
                fix="give price_per_chip_hour in the sites file, or in a profile of your own",
            )
        )
    return chip.price


def origin(chip: Chip, number: str) -> Provenance | None:
    """Where one number of a chip comes from."""
    return chip.provenance.get(number)
