"""Numbers for names: the same whatever the pieces, in order of appearance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces import keys
from pddplan.traces.keys import UNKNOWN, KeyTable, Names, joined_prints, prints_of


def numbered(names: list[str | None], piece: int) -> list[int]:
    found = Names()
    parts = [found.many(*prints_of(names[start : start + piece])) for start in range(0, len(names), piece)]
    return [int(number) for part in parts for number in part]


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None, ""]), max_size=40), st.integers(1, 40))
def test_names_are_numbered_as_they_appear(names: list[str | None], piece: int) -> None:
    known: dict[object, int] = {}
    expected = [known.setdefault(name or object(), len(known)) for name in names]
    assert numbered(names, piece) == expected


@given(st.lists(st.lists(st.integers(0, 60), max_size=20), max_size=12))
def test_a_table_knows_what_was_put_in(batches: list[list[int]]) -> None:
    table, known = KeyTable(), dict[int, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "MOST_RECENT", 3)
        for batch in batches:
            new = sorted(set(batch) - set(known))
            assert table.lookup(np.array(batch, dtype=np.int64)).tolist() == [known.get(k, UNKNOWN) for k in batch]
            known.update((key, len(known) + place) for place, key in enumerate(new))
            table.insert(np.array(new, dtype=np.int64), np.array([known[k] for k in new], dtype=np.int32))
    assert table.size == len(known)


def test_a_number_and_its_text_are_the_same_name() -> None:
    import polars as pl

    assert prints_of(pl.Series([7]))[0].tolist() == prints_of(["7"])[0].tolist()


def test_a_lane_tells_speakers_of_a_session_apart() -> None:
    prints, named = joined_prints([prints_of(["a", "a", None]), prints_of(["user", "agent", "agent"])])
    assert prints[0] != prints[1]
    assert named.tolist() == [True, True, False]
