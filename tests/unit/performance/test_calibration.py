"""A fit finds what made the data, keeps priors where data are silent, and is not led astray by outliers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.errors import DomainError, InputError
from pddplan.performance.calibration import Deviation, Fit, Observations, Parameter, fit
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.measurement import Measurement, parse_row
from pddplan.performance.own_fit import calibrate
from pddplan.performance.predict import run_of, subject_of
from pddplan.performance.serving import run_times, stack_runs
from pddplan.profiles.catalog import ProfileCatalog

CATALOG = ProfileCatalog()
TRUTH = replace(Efficiency(), kv_mbu=0.62, step_overhead_s=2.5e-3, weights_mbu=0.71)


def steps() -> list[Measurement]:
    found = []
    for batch in (1, 4, 16, 64, 128):
        for context in (500, 4000, 16_000):
            text = {
                "source": "t", "kind": "decode_step", "model": "llama-3.1-8b", "weights_dtype": "bf16",
                "kv_dtype": "bf16", "chip": "h100_sxm", "n_chips": "1", "tp": "1", "pp": "1", "dp": "1", "ep": "1",
                "framework": "vllm 0.12", "date": "2025-10", "isl_tokens": str(context), "osl_tokens": "1",
                "batch_or_concurrency": str(batch), "value": "1", "unit": "ms", "note": "mode=static",
            }  # fmt: skip
            m = parse_row(text, where=f"row {len(found)}").measurement
            assert m is not None
            found.append(m)
    return found


def observed(noise: float = 0.0, *, truth: Efficiency = TRUTH) -> Observations:
    runs = [run_of(subject_of(m, CATALOG))[0] for m in steps()]
    stacked = stack_runs(runs)
    values = run_times(stacked, truth)[0] * np.exp(noise * np.random.default_rng(1).normal(size=len(runs)))
    groups = np.array(["a" if i % 2 else "b" for i in range(len(runs))])
    return Observations(runs=stacked, values=values, weights=np.ones(len(runs)), keys={"half": groups})


def found(observations: Observations, *parameters: Parameter) -> Fit:
    return fit(observations, parameters or PARAMETERS, base=Efficiency())


PARAMETERS = (
    Parameter("kv_mbu", 0.85, 0.5),
    Parameter("weights_mbu", 0.80, 0.5),
    Parameter("step_overhead_s", 1e-3, 2.0),
)


def test_a_fit_finds_what_made_the_data() -> None:
    result = found(observed())
    for p in PARAMETERS:
        assert result.value(p.name) == pytest.approx(getattr(TRUTH, p.name), rel=0.06)
    assert result.predict(observed()) == pytest.approx(observed().values, rel=0.01)


def test_a_level_taken_out_leaves_the_others() -> None:
    data = observed()
    keys = {"half": np.where(np.arange(data.count) % 2, "odd", "even")}
    slower = replace(data, keys=keys, values=data.values * np.where(keys["half"] == "odd", 1.3, 1.0))
    result = fit(slower, [replace(p, deviations=(Deviation("half", 0.3),)) for p in PARAMETERS])
    without = result.without("half")
    for p in PARAMETERS:
        assert without.value(p.name) == result.value(p.name)
        assert without.factor(p.name, "half", "odd") == 1.0
    assert any(result.factor(p.name, "half", "odd") != 1.0 for p in PARAMETERS)
    assert not np.allclose(without.predict(slower), result.predict(slower))


def test_intervals_hold_the_truth_and_widen_with_noise() -> None:
    widths = []
    for noise in (0.01, 0.08):
        low, high = found(observed(noise)).interval("kv_mbu")
        assert low * 0.97 <= TRUTH.kv_mbu <= high * 1.03
        widths.append(np.log(high / low))
    assert widths[1] > widths[0]


def test_what_data_do_not_touch_keeps_its_prior() -> None:
    result = found(observed(), *PARAMETERS, Parameter("experts_mbu", 0.65, 0.3))
    assert result.value("experts_mbu") == pytest.approx(0.65)
    assert result.told[result.slots["experts_mbu", "", ""]] == pytest.approx(0.0, abs=1e-6)
    assert result.told[result.slots["kv_mbu", "", ""]] > 0.9


def test_one_absurd_row_moves_little() -> None:
    clean, spoilt = observed(), observed()
    spoilt.values[7] *= 20
    assert found(spoilt).value("kv_mbu") == pytest.approx(found(clean).value("kv_mbu"), rel=0.1)


def test_levels_share_what_they_have_in_common_and_unseen_keys_inherit() -> None:
    data = observed()
    slower = run_times(data.runs, replace(TRUTH, kv_mbu=0.5))[0]
    values = np.where(data.keys["half"] == "a", slower, data.values)
    mixed = Observations(runs=data.runs, values=values, weights=data.weights, keys=data.keys)
    result = found(mixed, Parameter("kv_mbu", 0.8, 0.5, (Deviation("half", 0.3),)), *PARAMETERS[1:])
    both = {key: result.value("kv_mbu") * result.factor("kv_mbu", "half", key) for key in "ab"}
    assert both["a"] == pytest.approx(0.5, rel=0.05)
    assert both["b"] == pytest.approx(0.62, rel=0.05)
    assert result.factor("kv_mbu", "half", "never seen") == 1.0
    elsewhere = replace(mixed, keys={"half": np.full(data.count, "new")})
    assert np.all(np.isfinite(result.predict(elsewhere)))


def test_shares_stay_below_the_datasheet() -> None:
    impossible = observed(truth=replace(TRUTH, weights_mbu=0.98, kv_mbu=0.98, step_overhead_s=0.0))
    faster = replace(impossible, values=impossible.values * 0.5)
    predicted = found(faster).predict(faster)
    assert np.all(predicted > faster.values)


def test_nothing_to_fit_is_said() -> None:
    with pytest.raises(DomainError, match="at least one run"):
        fit(observed(), [])


def test_own_runs_move_what_they_tell_and_nothing_else() -> None:
    runs = steps()
    base = subject_of(runs[0], CATALOG).efficiency
    truth = replace(base, kv_mbu=0.6 * base.kv_mbu)
    values = run_times(stack_runs([run_of(subject_of(m, CATALOG))[0] for m in runs]), truth)[0]
    result = calibrate([replace(m, value=float(v)) for m, v in zip(runs, values, strict=True)], CATALOG)
    numbers = {n.name: n for n in result.numbers}
    assert result.after.mape < 0.02 < result.before.mape
    assert numbers["kv_mbu"].told
    assert numbers["kv_mbu"].after == pytest.approx(truth.kv_mbu, rel=0.05)
    assert not numbers["experts_mbu"].told
    assert not numbers["allreduce_efficiency"].told


def test_own_runs_that_cannot_be_used_say_why() -> None:
    runs = [replace(steps()[0], kind="ttft", mode="closed_loop"), replace(steps()[1], value=None)]
    with pytest.raises(InputError, match="TTFT under load"):
        calibrate(runs, CATALOG)
    with pytest.raises(InputError, match="several systems"):
        calibrate([steps()[0], replace(steps()[1], chip="h200_sxm")], CATALOG)


def test_stronger_priors_hold_numbers_closer_to_where_they_start() -> None:
    noisy = observed(0.05)
    moved = [
        abs(np.log(fit(noisy, PARAMETERS, base=Efficiency(), prior_weight=w).value("kv_mbu") / 0.85))
        for w in (0.1, 3.0, 300.0)
    ]
    assert moved[0] > moved[1] > moved[2]
    assert moved[2] < 0.01
