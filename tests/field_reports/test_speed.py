"""Speed of chips and layouts, as users of other planners found it wrong: one test per report."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.domain.plan import Shape
from pddplan.performance.communication import direct_copies, exchange_time_s, group_of
from pddplan.performance.decode import decode_pass
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.instance import FormulaInstance, instance_performance
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.efficiency_profile import load_efficiency, load_layers
from pddplan.profiles.llm_profile import load_llm

CONTEXT = np.array(4_096.0)


def instance(chip_id: str, llm_id: str, shape: Shape, *, drafts: int = 0) -> FormulaInstance:
    chip = load_chip(chip_id)
    return instance_performance(
        chip=chip, llm=load_llm(llm_id), shape=shape, efficiency=load_efficiency(None, chip), speculation_depth=drafts
    )


def test_h800_has_its_own_slower_links() -> None:
    """aiconfigurator PR#968: 400 GB/s NVLink in place of 900, so tensor parallelism costs more than on H100."""
    near, far = load_chip("h100-sxm"), load_chip("h800-sxm")
    assert (near.scaleup_bytes_per_s, far.scaleup_bytes_per_s) == (450e9, 200e9)
    one, other = (instance(c, "llama-3.1-70b", Shape(tp=8)) for c in ("h100-sxm", "h800-sxm"))
    times = [i.prefill_time_s(new_tokens=np.array(8192.0), cached_tokens=np.array(0.0)) for i in (one, other)]
    assert times[1] > 1.1 * times[0]
    alone = [instance(c, "qwen3-8b", Shape()) for c in ("h100-sxm", "h800-sxm")]
    same = [float(i.decode_step_s(batch=np.array(8.0), context_tokens=CONTEXT)) for i in alone]
    assert same[0] == pytest.approx(same[1], rel=0.05)  # nothing to send


def test_experts_over_nodes_pay_for_the_network() -> None:
    """inference-sim#1530: all-to-all between nodes is charged at the rate of the NIC."""
    chip = load_chip("h200-sxm")
    sent = np.array(50e6)

    def seconds(ranks: int) -> float:
        near, far = direct_copies(ranks, 8, top_k=8, decode=True)
        return float(exchange_time_s(sent, group_of(chip, ranks), inside=near, outside=far, efficiency=Efficiency()))

    assert seconds(16) > seconds(8) + 0.5 * float(sent) * 4 / (chip.nic_bytes_per_s or 1.0)
    shares = []
    for ranks in (8, 16):
        got = instance("h200-sxm", "deepseek-v3", Shape(dp=ranks, ep=ranks))
        step = decode_pass(got.model, batch=32.0 * ranks, context_tokens=CONTEXT, efficiency=got.efficiency)
        shares.append(float(step.communication))
    assert shares[1] > 2 * shares[0]


@pytest.mark.parametrize(("llm_id", "shape"), [("deepseek-v3", Shape(tp=8)), ("deepseek-v3", Shape(dp=16, ep=16))])
def test_drafts_gain_less_at_large_batches_and_never_lose(llm_id: str, shape: Shape) -> None:
    """sglang#3956 and vllm PR#12755: 1.6 times at one user, falling with load; an engine that loses stops drafting."""
    got = instance("h200-sxm", llm_id, shape, drafts=1)
    gains = [got.tokens_per_step(batch=float(b)) for b in (1, 256, 1024, 8192)]
    assert 1.2 < gains[0] < 1.0 + 0.98
    assert gains[1] >= gains[2] >= gains[3] >= 1.0
    assert gains[3] < gains[0]


def test_calibrated_numbers_carry_version_and_date() -> None:
    """vidur#60: numbers of one engine version say nothing about the next: each layer names engine, era and date."""
    for layer_id, layer in load_layers().items():
        assert layer.file.sources or not layer.file.efficiency, layer_id
        assert all(source.title and (source.date or source.read_on) for source in layer.file.sources.values()), layer_id
    efficiency = load_efficiency("vllm-2025", load_chip("h100-sxm"))
    assert efficiency.name == "vllm-2025"
    assert efficiency.sources["step_overhead_s"]
