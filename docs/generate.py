"""Writes the parts of the documentation that code knows: run ``make docs``; tests say when they have drifted.

- docs/cli.md        help texts of all commands
- docs/profiles.md   every key of every kind of YAML file
- docs/defaults.md   every default
- docs/formulas.md   every formula, from the docstrings
- docs/json.md       keys of plan files (the table)
- docs/index.md      list of decisions
- docs/architecture.md   drawing and table of parts, from the real imports
- docs/questions/    the first lines that the commands shown there print (not checked for drift: tests run them)
- README.md          the real output of ``pddplan size``
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.util
import inspect
import io
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIDTH = "100"
TIMES = re.compile(r"(?<=; )[\d.]+ m?s$", re.MULTILINE)
"""Times of the solver differ from run to run; the documentation shows none."""


@contextlib.contextmanager
def fixed_surroundings() -> Iterator[None]:
    """Width, no colour and no profiles of the person who runs this."""
    wanted = {"COLUMNS": WIDTH, "NO_COLOR": "1", "XDG_CONFIG_HOME": "/nonexistent"}
    before = {name: os.environ.get(name) for name in (*wanted, "PDDPLAN_PROFILES", "FORCE_COLOR")}
    os.environ.update(wanted)
    for name in ("PDDPLAN_PROFILES", "FORCE_COLOR"):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Utf8Text(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]


def output_of(*arguments: str) -> str:
    """What a command prints."""
    from pddplan.cli.main import run

    buffer = _Utf8Text()
    with fixed_surroundings(), contextlib.redirect_stdout(buffer):
        code = run(list(arguments))
    if code:
        raise SystemExit(f"pddplan {' '.join(arguments)} ended with {code}")
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def commands() -> Iterator[tuple[str, ...]]:
    """All commands and subcommands, in the order of the help."""
    from pddplan.cli import app

    for name, entry in app.COMMANDS.items():
        if not entry.exists:
            continue
        yield (name,)
        command: Any = app.load_command(name, entry)
        for inner in getattr(command, "commands", {}):
            yield (name, inner)


def cli_page() -> str:
    parts = [
        "# Command line",
        "",
        "Generated from the help texts (`make docs`). Results go to standard output, remarks and errors to standard",
        "error; `--json` prints JSON and nothing else. Exit codes: 0 done, 2 bad usage or input, 3 no plan keeps the",
        "promises, 4 the solver failed, 130 interrupted.",
        "",
        "Shell completion: `pddplan --install-completion`.",
        "",
        "```text",
        output_of("--help").rstrip(),
        "```",
    ]
    for command in commands():
        title = f"{'#' * (len(command) + 1)} pddplan {' '.join(command)}"
        parts += ["", title, "", "```text", output_of(*command, "--help").rstrip(), "```"]
    return "\n".join(parts) + "\n"


def profiles_page() -> str:
    from pddplan.profiles.kinds import KINDS
    from pddplan.profiles.schema_docs import key_docs

    parts = [
        "# Profiles: every key of every file",
        "",
        "Generated from the schemas (`make docs`). `pddplan validate FILE` checks a file; `pddplan export --schema chip`",
        "prints a JSON schema for your editor. Bundled files are good starting points: see `hardware_profiles/` and",
        "`workloads/`, or `pddplan hardware list` and `pddplan workload list`.",
        "",
        "A number *with source* is written `{value: 3350, source: sheet}`, where `sheet` is a key of `sources`; `note`,",
        "`low`, `high` and `doubtful` may follow, and an assumption must carry `low` and `high`. In files of your own a",
        "plain number is fine too; it then counts as an assumption of yours. Unknown and repeated keys are errors.",
        "",
        "`<id>` stands for a name you choose, `[]` for an element of a list.",
    ]
    for kind, entry in KINDS.items():
        schema = entry.schema_class()
        about = " ".join((schema.__doc__ or "").split())
        parts += ["", f"## {kind}", "", f"`schema: {schema.schema_name}`. {about}", ""]
        parts += ["| key | kind | default | meaning |", "| --- | --- | --- | --- |"]
        parts += [
            f"| `{row.path}` | {row.kind} | {row.default} | {row.about} |".replace("|  |", "| |")
            for row in key_docs(schema)
            if not row.path.startswith("sources.")
        ]
    return "\n".join(parts) + "\n"


PARTS = ("Formula", "Parameters", "Returns", "Raises", "Holds when", "References")
SECTIONS = {
    "performance": "Prefill and decode times, memory, KV bytes",
    "queueing": "Waiting in front of a pool",
    "network": "Lines",
    "paths": "Latency of a path",
    "evaluate": "A plan as a whole",
    "economics": "Money",
    "optimize": "Search",
    "simulate": "Simulation",
    "traces": "Traces",
    "report": "Comparison",
}


def formulas_page() -> str:
    """One entry per function whose docstring names a formula."""
    parts = [
        "# Formulas",
        "",
        "Generated from the code (`make docs`): each formula stands once, in the function named above it. Base units",
        "throughout: seconds, bytes, bytes per second, FLOP, tokens. Keys of *References* are those of",
        "[references.yaml](references.yaml).",
    ]
    for package, title in SECTIONS.items():
        entries = [entry for path in sorted((ROOT / "pddplan" / package).glob("*.py")) for entry in _formulas(path)]
        if entries:
            parts += ["", f"## {title}", *entries]
    return "\n".join(parts) + "\n"


def _formulas(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owners = [("", tree.body)] + [(f"{n.name}.", n.body) for n in tree.body if isinstance(n, ast.ClassDef)]
    for owner, body in owners:
        for node in body:
            if not isinstance(node, ast.FunctionDef):
                continue
            found = _sections(ast.get_docstring(node) or "")
            if "Formula" not in found:
                continue
            name = f"{path.parent.name}.{path.stem}.{owner}{node.name}"
            lines = ["", f"### `{name}`", "", found.pop(""), "", "```text", found.pop("Formula"), "```", ""]
            lines += [f"- *{part}*: {' '.join(text.split())}" for part, text in found.items() if text.strip()]
            yield "\n".join(lines)


def _sections(docstring: str) -> dict[str, str]:
    """Docstring parts by heading; the text before the first one under the empty name."""
    found: dict[str, str] = {"": ""}
    current = ""
    for line in docstring.splitlines():
        heading = next((part for part in PARTS if line.startswith(f"{part}:")), None)
        if heading:
            current, line = heading, line[len(heading) + 1 :].strip()
            found[current] = line
        else:
            found[current] += f"\n{line.strip()}"
    return {name: text.strip() for name, text in found.items()}


def defaults_page() -> str:
    """Every default that no file has to state, with what it does."""
    from pddplan.domain.sites import Finance, Line
    from pddplan.domain.workload import OddTraffic
    from pddplan.evaluate.settings import SETTING_SOURCES, Settings
    from pddplan.optimize.objective import Limits

    parts = [
        "# Defaults and what they do",
        "",
        "Generated from the code (`make docs`). What a file does not say is taken from here; each run lists those it",
        "leaned on under ASSUMPTIONS. Efficiencies have their own files in `hardware_profiles/efficiency/`.",
    ]
    for title, record, how in (
        ("Behaviour of the serving system", Settings, "Python: `Settings(...)`."),
        ("Search", Limits, "Options of `pddplan size`; Python: `Limits(...)`."),
        ("Finance", Finance, "Section `finance` of a sites file, or a finance profile."),
        ("Lines", Line, "Section `lines` of a sites file (there with units in the key: `tcp_window_mib`, `rtt_ms`)."),
        ("Odd traffic", OddTraffic, "Section `odd_traffic` of a workload file."),
    ):
        parts += [
            "",
            f"## {title}",
            "",
            how,
            "",
            "| name | default | what it does | basis and source |",
            "| --- | --- | --- | --- |",
        ]
        sentences = _sentences(record)
        for spec in dataclasses.fields(record):
            if spec.default is dataclasses.MISSING:
                continue
            basis = SETTING_SOURCES.get(spec.name) if record is Settings else None
            source = f"{basis[0].label}: {basis[1]}" + (f" (range {basis[2]})" if basis[2] else "") if basis else ""
            shown = f"{spec.default:g}" if isinstance(spec.default, float) else f"{spec.default}"
            parts.append(f"| `{spec.name}` | {shown} | {sentences.get(spec.name, '')} | {source} |")
    return "\n".join(parts) + "\n"


def _sentences(record: type) -> dict[str, str]:
    """The string below each field of a dataclass."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(record)))
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for field, text in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def json_table() -> str:
    from pddplan.report.json_schema import plan_keys

    rows = [f"| `{name}` | {about or ' '} |" for name, about in plan_keys()]
    return "\n".join(["| key | meaning |", "| --- | --- |", *rows])


def size_block() -> str:
    text = TIMES.sub("...", output_of("size"))
    return "\n".join(["```console", "$ pddplan size", text.rstrip(), "```"])


def with_block(text: str, name: str, block: str) -> str:
    """Replace what stands between ``<!-- name: begin -->`` and ``<!-- name: end -->``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"the marks of {name} are missing")
    return f"{before}{begin}\n{block}\n{end}{after}"


def architecture_page() -> str:
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "architecture.py")
    assert spec
    assert spec.loader
    drawn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawn)
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return with_block(with_block(text, "drawing", drawn.drawing()), "parts", drawn.part_table())


def index_page() -> str:
    entries = []
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        entries.append(f"- [{title}](decisions/{path.name})")
    return with_block((ROOT / "docs" / "index.md").read_text(encoding="utf-8"), "decisions", "\n".join(entries))


SHOWN = re.compile(r"<!-- shown (\d+): pddplan ([^>]*?) -->\n.*?<!-- end -->", re.DOTALL)


def question_pages() -> dict[Path, str]:
    """Pages of questions with the first lines of what their commands print."""

    def shown(match: re.Match[str]) -> str:
        count, command = int(match[1]), match[2]
        lines = TIMES.sub("...", output_of(*shlex.split(command))).splitlines()
        more = ["..."] if len(lines) > count else []
        block = ["```console", f"$ pddplan {command}", *lines[:count], *more, "```"]
        return "\n".join([f"<!-- shown {count}: pddplan {command} -->", *block, "<!-- end -->"])

    found = sorted((ROOT / "docs" / "questions").glob("*.md"))
    return {path: SHOWN.sub(shown, path.read_text(encoding="utf-8")) for path in found}


def pages() -> dict[Path, str]:
    """All generated texts by file."""
    readme, json_page = ROOT / "README.md", ROOT / "docs" / "json.md"
    return {
        ROOT / "docs" / "cli.md": cli_page(),
        ROOT / "docs" / "profiles.md": profiles_page(),
        ROOT / "docs" / "formulas.md": formulas_page(),
        ROOT / "docs" / "defaults.md": defaults_page(),
        ROOT / "docs" / "architecture.md": architecture_page(),
        ROOT / "docs" / "index.md": index_page(),
        json_page: with_block(json_page.read_text(encoding="utf-8"), "keys", json_table()),
        readme: with_block(readme.read_text(encoding="utf-8"), "size", size_block()),
    }


def main() -> int:
    """Write the pages, or with ``--check`` only name those that have drifted."""
    drifted = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for path in drifted:
            print(f"{path.relative_to(ROOT)} has drifted: make docs", file=sys.stderr)
        return 1 if drifted else 0
    for path, text in {**pages(), **question_pages()}.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
