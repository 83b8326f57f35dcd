"""What a workload file may say (``schema: workload/1``). The sentence under a field documents it."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pddplan.errors import did_you_mean
from pddplan.profiles.schema import (
    GIVEN,
    Check,
    Count,
    Fraction,
    Identifier,
    NonNegative,
    NumberKey,
    OrPlain,
    Profile,
    Sourced,
    SourcedFraction,
    SourcedNonNegative,
    SourcedNumber,
    SourcedPositive,
    Strict,
    Text,
)

LARGEST_TOKENS = 1e9
TABLE_COLUMNS = ("weight", "input_tokens", "miss_prefill_tokens", "miss_decode_tokens", "output_tokens")
CURVE_COLUMNS = ("capacity_tokens", "token_hit_fraction")

Tokens = Annotated[float, Field(gt=0, le=LARGEST_TOKENS)]


class SourcedTokens(Sourced):
    """A positive number of tokens."""

    value: Tokens


PlainTokens = Annotated[SourcedTokens, OrPlain]
PlainNonNegative = Annotated[SourcedNonNegative, OrPlain]
PlainNumber = Annotated[SourcedNumber, OrPlain]
PlainPositive = Annotated[SourcedPositive, OrPlain]
PlainFraction = Annotated[SourcedFraction, OrPlain]


def _wrap_range(value: Any) -> Any:
    """``[low, high]`` or one fixed length without a source."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = [value, value]
    return {"value": value, "source": GIVEN} if isinstance(value, list) else value


class TokenRange(Sourced):
    """Limits of an evenly spread length: [low, high] tokens."""

    value: Annotated[list[Tokens], Field(min_length=2, max_length=2)]


PlainRange = Annotated[TokenRange, BeforeValidator(_wrap_range)]


class HitBin(Strict):
    """One bin of hit rates and the share of requests in it."""

    hit_from: Fraction
    """Lower edge, as a fraction of the input tokens."""
    hit_to: Fraction
    """Upper edge; the next bin starts here."""
    share: PlainFraction
    """Share of all requests; shares are scaled to sum to one."""


class HitBins(Strict):
    """Requests of one length, with hit rates in bins."""

    kind: Literal["hit-rate-bins"]
    """Which form the request classes are given in."""
    input_tokens: PlainTokens
    """Input length L of every request [tokens]."""
    output_tokens: PlainTokens
    """Output length O of every request [tokens]."""
    bins: Annotated[list[HitBin], Field(min_length=1, max_length=64)]
    """Bins from low to high hit rate, without gaps."""
    decode_extra_tokens: PlainNonNegative | None = None
    """Tokens that only the decode side holds (answers of earlier turns); 0 when not given [tokens]."""


class Lognormal(Strict):
    """Input lengths from a lognormal distribution cut off at both ends."""

    kind: Literal["lognormal"]
    """Which form the request classes are given in."""
    mu: PlainNumber
    """Mean of ln(input tokens)."""
    sigma: PlainPositive
    """Standard deviation of ln(input tokens)."""
    low_tokens: PlainTokens
    """Shortest input [tokens]."""
    high_tokens: PlainTokens
    """Longest input [tokens]."""
    output_tokens: PlainTokens
    """Output length of every request [tokens]."""
    hit_rate: PlainFraction
    """Fraction of the input found in the prefill-side cache."""
    decode_hit_rate: PlainFraction | None = None
    """Fraction found in the decode-side cache; as hit_rate when not given."""
    classes: Annotated[int, Field(ge=1, le=1024)] = 64
    """Number of request classes that stand for the distribution."""


class Uniform(Strict):
    """Input and output lengths evenly spread between limits, independent of each other."""

    kind: Literal["uniform"]
    """Which form the request classes are given in."""
    input_tokens: PlainRange
    """[low, high] of the input length [tokens]."""
    output_tokens: PlainRange
    """[low, high] of the output length [tokens]."""
    hit_rate: PlainFraction
    """Fraction of the input found in the prefill-side cache."""
    decode_hit_rate: PlainFraction | None = None
    """Fraction found in the decode-side cache; as hit_rate when not given."""


class Table(Sourced):
    """Request classes written out, one row each."""

    kind: Literal["table"]
    """Which form the request classes are given in."""
    source: Text = GIVEN
    """Key of the ``sources`` section."""
    columns: list[Text] = Field(default_factory=lambda: list(TABLE_COLUMNS))
    """weight, input_tokens, miss_prefill_tokens, miss_decode_tokens, output_tokens in any order."""
    value: Annotated[list[list[NonNegative]], Field(alias="rows", min_length=1, max_length=4096)]
    """One list per class, in the order of the columns."""
    groups: Annotated[list[Identifier], Field(min_length=1, max_length=4096)] | None = None
    """Traffic class of each row (chat, agents), where promises are made to some of them."""


class MixPart(Strict):
    """One traffic class of a mix."""

    share: PlainPositive
    """Share of all requests; shares are scaled to sum to one."""
    requests: Annotated[HitBins | Lognormal | Uniform | Table, Field(discriminator="kind")]
    """What its requests look like: hit-rate-bins, lognormal, uniform or table."""


class Mix(Strict):
    """Several traffic classes, each with a form and a name of its own."""

    kind: Literal["mix"]
    """Which form the request classes are given in."""
    parts: Annotated[dict[Identifier, MixPart], Field(min_length=1, max_length=64)]
    """By the name of the traffic class; promises.by_class refers to it."""


class Curve(Sourced):
    """Token-weighted hit rate against cache capacity, from one replay of a trace."""

    columns: list[Text]
    """capacity_tokens and token_hit_fraction."""
    value: Annotated[list[list[NonNegative]], Field(alias="rows", min_length=1, max_length=1024)]
    """Points of increasing capacity."""


class Dispersion(Sourced):
    """Variance over mean of the number of arrivals in windows of several lengths."""

    value: Annotated[dict[NumberKey, NonNegative], Field(min_length=1, max_length=16)]
    """Window length [s]: index of dispersion (1 = Poisson)."""


class HourlyProfile(Sourced):
    """24 factors with mean one."""

    value: Annotated[list[NonNegative], Field(min_length=24, max_length=24)]
    """Rate in each hour of the day over the mean rate."""


class ArrivalPart(Strict):
    """How requests arrive at the whole system."""

    rate_rps: PlainPositive
    """Mean arrival rate [requests/s]."""
    scv: PlainNonNegative
    """Squared coefficient of variation of inter-arrival times (1 = Poisson)."""
    peak_to_mean: PlainPositive | None = None
    """Rate of the busiest minute over the mean rate; 1 when not given."""
    dispersion: Dispersion | None = None
    """Index of dispersion of counts."""
    hourly_profile: HourlyProfile | None = None
    """Daily profile, when known."""


class ClassPromises(Strict):
    """Promises to users. TTFT runs from arrival to the first output token leaving the system."""

    ttft_p50_s: PlainPositive | None = None
    """Median time to first token [s]."""
    ttft_p90_s: PlainPositive | None = None
    """Time to first token kept by 90 % of requests [s]."""
    ttft_p99_s: PlainPositive | None = None
    """Time to first token kept by 99 % of requests [s]."""
    tpot_s: PlainPositive | None = None
    """Time per output token after the first [s]."""
    e2e_p50_s: PlainPositive | None = None
    """Median time to the last token [s]."""
    e2e_p90_s: PlainPositive | None = None
    """Time to the last token kept by 90 % of requests [s]."""
    e2e_p99_s: PlainPositive | None = None
    """Time to the last token kept by 99 % of requests [s]."""


class PromisePart(ClassPromises):
    """Promises to all requests, and to those of single traffic classes."""

    by_class: dict[Identifier, ClassPromises] = Field(default_factory=dict)
    """By the name of a traffic class (a part of a mix, or a group of a table)."""


class OddPart(Strict):
    """Requests with a long transfer and a short answer, which the relay pool may finish alone."""

    min_transfer_tokens: PlainPositive
    """At least this many tokens missing at the decode side [tokens]."""
    max_output_tokens: PlainPositive
    """Fewer output tokens than this [tokens]."""


class TraceRecord(Strict):
    """What the classes were built from."""

    file: Text
    """Name of the trace file."""
    sha256: Text | None = None
    """Checksum of the file as read (of the packed bytes, where it is packed)."""
    format: Text
    """Format it was read as."""
    rows: Count
    """Requests used."""
    skipped_rows: Annotated[int, Field(ge=0)] = 0
    """Rows left out."""
    span_s: NonNegative | None = None
    """Time between first and last arrival [s]."""
    oddities: dict[str, int] = Field(default_factory=dict)
    """What was found and handled, with counts."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Settings of the importer."""
    results: dict[str, Any] = Field(default_factory=dict)
    """Aggregates of the replay, for reading."""


Form = HitBins | Lognormal | Uniform | Table


def forms(file: WorkloadFile) -> dict[tuple[str, ...], Form]:
    """The forms that the request classes come from, by the key path below ``requests``: several in a mix."""
    if isinstance(file.requests, Mix):
        return {("parts", name, "requests"): part.requests for name, part in file.requests.parts.items()}
    return {(): file.requests}


def traffic_classes(file: WorkloadFile) -> tuple[str, ...]:
    """Names that promises may be made to."""
    if isinstance(file.requests, Mix):
        return tuple(file.requests.parts)
    return tuple(dict.fromkeys(file.requests.groups or ())) if isinstance(file.requests, Table) else ()


def _bins_without_gaps(file: WorkloadFile) -> bool:
    found = [form.bins for form in forms(file).values() if isinstance(form, HitBins)]
    return all(b.hit_to > b.hit_from for bins in found for b in bins) and all(
        a.hit_to == b.hit_from for bins in found for a, b in itertools.pairwise(bins)
    )


def _shares_positive(file: WorkloadFile) -> bool:
    found = [form.bins for form in forms(file).values() if isinstance(form, HitBins)]
    return all(sum(b.share.value for b in bins) > 0 for bins in found)


def _limits_increase(file: WorkloadFile) -> bool:
    return all(_increases(form) for form in forms(file).values())


def _increases(form: Form) -> bool:
    match form:
        case Lognormal(low_tokens=low, high_tokens=high):
            return bool(low.value < high.value)
        case Uniform(input_tokens=inputs, output_tokens=outputs):
            return bool(inputs.value[0] <= inputs.value[1] and outputs.value[0] <= outputs.value[1])
    return True


def _tables(file: WorkloadFile) -> list[Table]:
    return [form for form in forms(file).values() if isinstance(form, Table)]


def _columns_known(file: WorkloadFile) -> bool:
    return all(sorted(table.columns) == sorted(TABLE_COLUMNS) for table in _tables(file))


def _one_group_per_row(file: WorkloadFile) -> bool:
    return all(
        table.groups is None or (len(table.groups) == len(table.value) and not isinstance(file.requests, Mix))
        for table in _tables(file)
    )


def _classes_known(file: WorkloadFile) -> bool:
    return set(file.promises.by_class) <= set(traffic_classes(file))


def _unknown_classes(file: WorkloadFile) -> str:
    known = traffic_classes(file)
    unknown = [name for name in file.promises.by_class if name not in known]
    listed = ", ".join(known) or "none: give requests as a mix, or a table with groups"
    return f"no traffic class {unknown[0]!r}{did_you_mean(unknown[0], known)}; there are: {listed}"


def _curve_columns_known(file: WorkloadFile) -> bool:
    curve = file.cache_curve
    return curve is None or (tuple(curve.columns) == CURVE_COLUMNS and all(len(row) == 2 for row in curve.value))


def _percentiles_increase(file: WorkloadFile) -> bool:
    for promises in (file.promises, *file.promises.by_class.values()):
        for names in (("ttft_p50_s", "ttft_p90_s", "ttft_p99_s"), ("e2e_p50_s", "e2e_p90_s", "e2e_p99_s")):
            values = [getattr(promises, name).value for name in names if getattr(promises, name) is not None]
            if values != sorted(values):
                return False
    return True


class WorkloadFile(Profile):
    """A workload: model, traffic and promises."""

    schema_name: ClassVar[str] = "workload/1"
    checks: ClassVar[tuple[Check[Any], ...]] = (
        Check(
            name="bins-without-gaps",
            holds=_bins_without_gaps,
            message=lambda _: "bins must follow each other from low to high without gaps",
            fix="make hit_from of each bin equal to hit_to of the one before",
            key=("requests", "bins"),
        ),
        Check(
            name="shares-positive",
            holds=_shares_positive,
            message=lambda _: "the shares of the bins sum to 0",
            fix="give at least one bin a share above 0",
            key=("requests", "bins"),
        ),
        Check(
            name="limits-increase",
            holds=_limits_increase,
            message=lambda _: "the lower limit of a length lies above the upper one",
            fix="write the smaller number first",
            key=("requests",),
        ),
        Check(
            name="columns-known",
            holds=_columns_known,
            message=lambda file: "the columns are " + "; ".join(", ".join(t.columns) for t in _tables(file)),
            fix=f"use exactly: {', '.join(TABLE_COLUMNS)}",
            key=("requests", "columns"),
        ),
        Check(
            name="one-group-per-row",
            holds=_one_group_per_row,
            message=lambda _: "groups must name one traffic class per row, and a part of a mix is one class already",
            fix="give as many groups as there are rows; leave groups away inside a mix",
            key=("requests", "groups"),
        ),
        Check(
            name="classes-known",
            holds=_classes_known,
            message=_unknown_classes,
            fix="name a part of the mix, or a group of the table",
            key=("promises", "by_class"),
        ),
        Check(
            name="curve-columns-known",
            holds=_curve_columns_known,
            message=lambda _: "the cache curve needs two columns",
            fix=f"use columns {', '.join(CURVE_COLUMNS)} and two numbers in each row",
            key=("cache_curve",),
        ),
        Check(
            name="percentiles-increase",
            holds=_percentiles_increase,
            message=lambda _: "a higher percentile is promised faster than a lower one",
            fix="let P50 <= P90 <= P99",
            key=("promises",),
        ),
    )

    description: Text | None = None
    """What this traffic is, in a sentence or two."""
    aliases: list[Identifier] = Field(default_factory=list)
    """Other ids of this workload."""
    llm: Identifier
    """Id of the model that is served (see: pddplan model list)."""
    arrival: ArrivalPart
    """How requests arrive."""
    requests: Annotated[HitBins | Lognormal | Uniform | Table | Mix, Field(discriminator="kind")]
    """What requests look like: hit-rate-bins, lognormal, uniform, table, or a mix of several named classes."""
    promises: PromisePart = Field(default_factory=PromisePart)
    """What users were promised; anything left out is not promised."""
    odd_traffic: OddPart | None = None
    """When a request is odd traffic."""
    trace: TraceRecord | None = None
    """The trace behind the classes, if there is one."""
    cache_curve: Curve | None = None
    """Hit rate against cache capacity, if a trace gave it."""
    notes: list[Text] = Field(default_factory=list)
    """Remarks that belong in every report on this workload."""
