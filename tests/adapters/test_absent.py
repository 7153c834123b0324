"""The error where a framework is not installed, and the facts that the tests of adapters rest on."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent
EXTRAS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
ADAPTERS = {
    "agent-framework": "agent_framework",
    "anthropic": "anthropic",
    "langchain": "langchain",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
    "strands": "strands",
}

HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
try:
    import siltstone.adapters.{module}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("extra", ADAPTERS)
def test_the_error_of_an_absent_framework_names_its_extra(extra: str) -> None:
    module, missing = extra.replace("-", "_"), ADAPTERS[extra]
    source = HIDING.format(module=module, missing=missing)
    told = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert f"siltstone.adapters.{module} needs {missing}" in told
    assert f"pip install 'siltstone[{extra}]'" in told


@pytest.mark.parametrize("extra", ADAPTERS)
def test_every_adapter_has_an_extra_with_a_lower_bound_and_tests(extra: str) -> None:
    assert all(">=" in requirement and ",<" in requirement for requirement in EXTRAS[extra])
    assert (CHECKOUT / "tests" / "adapters" / f"test_{extra.replace('-', '_')}.py").is_file()


def test_no_adapter_is_imported_by_the_package_itself() -> None:
    source = "import sys, siltstone, siltstone.session; print(*(m for m in sys.modules if 'adapters' in m))"
    told = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert told.strip() == ""
