"""What ``import duotone`` gives: everything, the same at any time, loaded when it is used."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import duotone

HEAVY = ("torch", "sklearn", "scipy", "polars", "numpy", "plotly", "matplotlib")


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


def imported_for_types() -> set[str]:
    """The names that type checkers see."""
    tree = ast.parse(Path(duotone.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name
        for statement in block.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for alias in statement.names
    }


def test_people_type_checkers_and_programs_see_the_same_names():
    assert set(duotone.__all__) == set(duotone._WHERE) == imported_for_types()
    assert set(duotone.__all__) <= set(dir(duotone))


def test_what_a_method_and_the_rounds_need_is_there():
    needed = "Method MethodSettings ClientState ClientUpdate ServerState Latents ClientData "
    needed += (
        "DataInfo RoundInfo Params Population Partition federate build_partition Form Collects "
    )
    needed += "load_dataset METHODS MODELS DATASETS SCHEMES Dataset DuotoneError"
    assert set(needed.split()) <= set(duotone.__all__)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import duotone.methods.baselines.fedavg",
        "import duotone.runs",
        "import duotone.cli.looking",
    ],
)
def test_a_name_is_the_same_object_whatever_was_imported_before(before):
    code = (
        f"import importlib\n{before or 'pass'}\nimport duotone\n"
        "first = {name: getattr(duotone, name) for name in duotone.__all__}\n"
        "import duotone.methods.baselines.fedavg, duotone.report\n"
        "for name, path in duotone._WHERE.items():\n"
        "    module, _, attribute = path.partition(':')\n"
        "    meant = importlib.import_module(module)\n"
        "    meant = getattr(meant, attribute) if attribute else meant\n"
        "    assert first[name] is getattr(duotone, name) is meant, name\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_no_name_hides_a_module_of_the_package():
    modules = {found.name for found in pkgutil.iter_modules(duotone.__path__)}
    for name in modules & set(duotone.__all__):
        assert getattr(duotone, name) is importlib.import_module(f"duotone.{name}")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'fedavg'"):
        _ = duotone.fedavg


@pytest.mark.parametrize("command", [None, "--help", "run --help", "report --help"])
def test_neither_import_nor_help_loads_a_large_library(command):
    code = "import sys, duotone\n"
    if command is not None:
        code += (
            f"sys.argv = ['duotone', *{command.split()!r}]\n"
            "from duotone.cli import main\n"
            "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        )
    code += f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "[]\n")
