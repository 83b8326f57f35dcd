"""A plan that was found stays an answer, whatever becomes of what it is compared with."""

from __future__ import annotations

from typing import NoReturn

import pytest

from pddplan import api, optimize
from pddplan.errors import InputError, Problem, SolverError
from tests import samples


def test_a_rival_that_lacks_an_input_is_missed_and_the_plan_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object, **__: object) -> NoReturn:
        raise InputError(Problem("chip 'h20' has no NIC rate", fix="add nic_gbps"))

    def out_of_time(*_: object, **__: object) -> NoReturn:
        raise SolverError("no plan found in time", fix="raise --time-limit")

    monkeypatch.setattr(optimize, "baseline", lambda *_, **__: None)
    monkeypatch.setattr(optimize, "one_site", lacking)
    monkeypatch.setattr(optimize, "size", out_of_time)
    sizing = samples.sizing()
    compared = api.compared(sizing.inputs, sizing.outcome)
    assert compared.outcome is sizing.outcome
    assert compared.one_site is None
    assert "a comparison is missing: chip 'h20' has no NIC rate; add nic_gbps" in compared.remarks
    assert "at 0 % hit rate no plan was found in time" in compared.remarks
