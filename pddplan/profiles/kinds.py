"""All kinds of YAML files by the word in their ``schema`` line, for checking and for printing their schemas."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pddplan.errors import InputError, did_you_mean
from pddplan.profiles.schema import Profile, read
from pddplan.profiles.yaml_source import SourceDocument, kind_of


@dataclass(frozen=True, slots=True)
class FileKind:
    """Where the schema class and the reader of one kind of file are."""

    module: str
    schema: str
    check: Callable[[Any, SourceDocument], object]
    """Module and document in; raises InputError for every fault."""

    def schema_class(self) -> type[Profile]:
        found: type[Profile] = getattr(importlib.import_module(self.module), self.schema)
        return found


def _id(document: SourceDocument) -> str:
    return Path(document.name).stem


KINDS: dict[str, FileKind] = {
    "chip": FileKind(
        "pddplan.profiles.chip_profile", "ChipFile", lambda m, document: m.chip_of(document, chip_id=_id(document))
    ),
    "model": FileKind(
        "pddplan.profiles.llm_profile", "LlmFile", lambda m, document: m.llm_of(document, llm_id=_id(document))
    ),
    "workload": FileKind(
        "pddplan.profiles.workload_profile", "WorkloadFile", lambda m, document: m.parse_workload(document)
    ),
    "sites": FileKind("pddplan.profiles.sites_profile", "SitesFile", lambda m, document: m.sites_of(document)),
    "efficiency": FileKind(
        "pddplan.profiles.efficiency_profile",
        "EfficiencyFile",
        lambda m, document: m.efficiency_of(document, layer_id=_id(document)),
    ),
    "latency-table": FileKind(
        "pddplan.profiles.latency_table",
        "LatencyTableFile",
        lambda m, document: m.table_of(document, table_id=_id(document)),
    ),
    "token-prices": FileKind(
        "pddplan.profiles.token_prices", "TokenPriceFile", lambda m, document: read(document, m.TokenPriceFile)
    ),
    "finance": FileKind("pddplan.profiles.sites_profile", "FinanceFile", lambda m, document: m.finance_of(document)),
}


def check_document(document: SourceDocument) -> str:
    """Check a document by what its ``schema`` line says it is; returns that line.

    Raises:  InputError with every fault of the file.
    """
    line = document.data.get("schema")
    word = line.split("/")[0] if isinstance(line, str) else ""
    if word not in KINDS:
        known = ", ".join(f"{name}/1" for name in KINDS)
        what = "the 'schema' line is missing" if line is None else f"unknown schema {kind_of(line)}"
        raise InputError(
            document.problem(
                ("schema",) if line is not None else (),
                what + did_you_mean(word, KINDS),
                fix=f"start the file with one of: {known}",
            )
        )
    kind = KINDS[word]
    kind.check(importlib.import_module(kind.module), document)
    return str(line)
