"""``pddplan hardware``: list, show and compare chips."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs

if TYPE_CHECKING:
    from pddplan.domain.chip import Chip
    from pddplan.domain.llm import Llm
    from pddplan.report.chip_facts import Compared

app = typer.Typer(
    no_args_is_help=True,
    help="""List, show and compare chips.

\b
Examples:
  pddplan hardware list --vendor huawei
  pddplan hardware show h200-sxm
  pddplan hardware compare h100-sxm h200-sxm h20-96g --model deepseek-v3
""",
)


@app.command("list")
def list_chips(
    vendor: Annotated[str | None, typer.Option("--vendor", help="Only this maker, e.g. nvidia.")] = None,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """All chips that can be planned with: four axes, power and rent.

    \b
    Example:
      pddplan hardware list --vendor amd --json
    """
    from pddplan.errors import InputError, Problem, did_you_mean
    from pddplan.profiles.chip_profile import chip_ids, load_chips

    with profile_dirs(profiles):
        chips = list(load_chips(chip_ids()).values())
    if vendor is not None:
        makers = {chip.vendor.casefold(): chip.vendor for chip in chips}
        chosen = [chip for chip in chips if chip.vendor.casefold() == vendor.casefold()]
        if not chosen:
            near = did_you_mean(vendor.casefold(), makers)
            raise InputError(
                Problem(
                    what=f"no chip of vendor {vendor!r}{near}",
                    fix=f"use one of: {', '.join(sorted(makers.values()))}",
                )
            )
        chips = chosen
    chips.sort(key=lambda chip: (chip.vendor, chip.year or 0, chip.id))
    from pddplan.report import chip_facts
    from pddplan.report.text_table import Screen

    if csv is not None:
        from pddplan.files import write_atomically
        from pddplan.report.plain_csv import plain_csv

        write_atomically(csv, plain_csv(chip_facts.CHIP_COLUMNS, chip_facts.list_rows(chips)))
    if as_json:
        _print_json({"chips": [chip_facts.chip_facts(chip) for chip in chips]})
    elif str(csv) != "-":
        sys.stdout.write(chip_facts.list_text(chips, screen=Screen.of(sys.stdout)))


@app.command("show")
def show(
    chip: Annotated[str, typer.Argument(help="Chip id, alias, or YAML file.")],
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """One chip, with the source of each number.

    \b
    Example:
      pddplan hardware show ascend-910c
    """
    from pddplan.profiles.chip_profile import load_chip
    from pddplan.report import chip_facts
    from pddplan.report.text_table import Screen

    with profile_dirs(profiles):
        found = load_chip(chip)
    if as_json:
        _print_json(chip_facts.chip_facts(found))
    else:
        sys.stdout.write(chip_facts.show_text(found, screen=Screen.of(sys.stdout)))


@app.command("compare")
def compare(
    chips: Annotated[list[str], typer.Argument(help="Chips to compare: ids, aliases or YAML files.")],
    reference: Annotated[
        str | None, typer.Option("--reference", "-r", help="What 1.00 means; without it the first chip.")
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="For this model.")] = "deepseek-v3",
    context: Annotated[int, typer.Option("--context", min=1, max=100_000_000, help="Tokens of context.")] = 65_536,
    tpot: Annotated[
        float, typer.Option("--tpot", callback=options.positive, help="Time per output token to keep [ms].")
    ] = 50.0,
    weights: Annotated[str | None, typer.Option("--weights", help="Weights dtype, e.g. bf16, fp8.")] = None,
    kv: Annotated[str | None, typer.Option("--kv", help="KV cache dtype, e.g. bf16, fp8.")] = None,
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Four axes beside a reference chip, and which role each chip suits for a model, and why.

    \b
    Example:
      pddplan hardware compare h100 h200 h20 --model deepseek-v3 --context 65536 --tpot 50
    """
    from pddplan.profiles.chip_profile import load_chip, load_chips
    from pddplan.profiles.llm_profile import load_llm
    from pddplan.report import chip_facts
    from pddplan.report.text_table import Screen

    with profile_dirs(profiles):
        found = list(load_chips(dict.fromkeys(chips)).values())
        base = load_chip(reference) if reference is not None else found[0]
        llm = load_llm(model)
    if base.id not in {chip.id for chip in found}:
        found.insert(0, base)
    tpot_s = options.in_seconds(tpot) or tpot
    rows = _compared(found, base, llm, context=context, tpot_s=tpot_s, weights=weights, kv=kv)
    if as_json:
        _print_json(
            chip_facts.compare_facts(rows, reference=base, llm_id=llm.id, context_tokens=context, tpot_s=tpot_s)
        )
    else:
        text = chip_facts.compare_text(
            rows,
            reference=base,
            llm_name=llm.name,
            context_tokens=context,
            tpot_s=tpot_s,
            screen=Screen.of(sys.stdout),
        )
        sys.stdout.write(text)


def _compared(
    chips: list[Chip], base: Chip, llm: Llm, *, context: int, tpot_s: float, weights: str | None, kv: str | None
) -> list[Compared]:
    from pddplan.errors import InputError
    from pddplan.performance.kv import kv_format
    from pddplan.performance.parameters import weight_formats
    from pddplan.performance.roles import RoleRates, advice, role_rates
    from pddplan.report.chip_facts import Compared, axes_against

    weight_formats(llm, weights)
    kv_format(llm, kv)

    def rates_of(chip: Chip) -> RoleRates | str:
        try:
            return role_rates(
                chip, llm, context_tokens=float(context), tpot_s=tpot_s, weights_dtype=weights, kv_dtype=kv
            )
        except InputError as error:
            return "; ".join(problem.what for problem in error.problems)

    base_rates = rates_of(base)
    rows = []
    for chip in chips:
        rates, axes = rates_of(chip), axes_against(chip, base)
        if isinstance(rates, str) or isinstance(base_rates, str):
            problem = rates if isinstance(rates, str) else f"no role advice: {base_rates}"
            rows.append(Compared(chip, axes, None if isinstance(rates, str) else rates, None, problem=problem))
            continue
        said = advice(chip, rates, reference=base, reference_rates=base_rates)
        rows.append(Compared(chip, axes, rates, said))
    return rows


def _print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
