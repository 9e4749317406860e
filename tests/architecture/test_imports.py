"""No file imports another one that, directly or not, imports it; wherever in a file the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted((ROOT / "duotomo").rglob("*.py"))}


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules of duotomo that a file imports when it runs: not those for type checkers only."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        waiting += ast.iter_child_nodes(node)


def graph() -> dict[str, set[str]]:
    """Return, for each module, those it imports. A package stands for the files that it takes names from."""
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        # `import duotomo` for its version imports nothing else: names are taken from there when asked for.
        found[module] = {name for name in imports_of(path) if name in MODULES and name != "duotomo"} - {
            module
        }
    return found


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """Return the modules of a cycle, in order; none if there is no cycle."""
    state: dict[str, int] = {}
    trail: list[str] = []

    def visit(module: str) -> list[str]:
        state[module] = 1
        trail.append(module)
        for other in sorted(edges[module]):
            if state.get(other) == 1:
                return [*trail[trail.index(other) :], other]
            if other not in state and (found := visit(other)):
                return found
        trail.pop()
        state[module] = 2
        return []

    for module in edges:
        if module not in state and (found := visit(module)):
            return found
    return []


def test_files_import_one_way() -> None:
    assert cycle(graph()) == []


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
