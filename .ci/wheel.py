"""Builds the wheel, installs it by name into an empty environment, runs it from there, and leaves it in dist/: `make wheel`.

The checkout is not on the path of what runs, so a file that the wheel lacks, or a package that is not declared, fails here.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
NAME, PACKAGE = "semrouter-memory", "semrouter_memory"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", PACKAGE, "envoy")
EXTRA = "model"
"""What `model build` needs; the other extras stay out, so that importing what they bring shows."""
OPTIONAL = ("betterproto2", "envoy_data_plane", "matplotlib", "milvus_lite", "opentelemetry")
"""Modules of the extras: they may be missing, and nothing else may."""

_IMPORT_ALL = f"""
import importlib, pkgutil, {PACKAGE}
assert not {PACKAGE}.__file__.startswith({str(ROOT)!r}), {PACKAGE}.__file__
for module in pkgutil.walk_packages({PACKAGE}.__path__, "{PACKAGE}."):
    try:
        module.name.endswith("__main__") or importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if not error.name.startswith({OPTIONAL!r}):
            raise
from {PACKAGE}.stack.envoy import SHIPPED
assert (SHIPPED / "two-filter.yaml").is_file(), SHIPPED
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="wheel-") as temporary:
        directory = Path(temporary)
        environment = directory / "environment"
        venv.create(environment, with_pip=True)
        python, command = environment / "bin" / "python", environment / "bin" / "semrouter-memory"
        wheel = built(python, directory)
        require_every_file(wheel)
        pip(python, "install", "--quiet", "--no-compile", "--find-links", str(wheel.parent), f"{NAME}[{EXTRA}]")
        config = directory / "config.yaml"
        config.write_text(f"memory: {{data_dir: {directory / 'data'}, embedding: {{path: {directory / 'model'}}}}}\n")
        for arguments in (
            [python, "-c", _IMPORT_ALL],
            [command, "--help"],
            [command, "model", "build", "--directory", directory / "model"],
            [command, "config", "check", "--elsewhere", config],
        ):
            run(arguments, directory)
        DIST.mkdir(exist_ok=True)
        kept = shutil.copy(wheel, DIST)
    print(f"{kept} holds every file and runs from an empty environment")  # noqa: T201 - a command's answer


def built(python: Path, directory: Path) -> Path:
    """The wheel, built from a copy: an older build's leftovers must not get into it."""
    source = directory / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    pip(python, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(source))
    (wheel,) = directory.glob("*.whl")
    return wheel


def require_every_file(wheel: Path) -> None:
    """Every file of the package is in the wheel, and nothing else is beside its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (Path(folder, name) for folder, _, names in os.walk(ROOT / PACKAGE, followlinks=True) for name in names)
    expected = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    if inside != expected:
        missing, unexpected = sorted(expected - inside), sorted(inside - expected)
        raise SystemExit(f"the wheel lacks {missing}, and holds {unexpected} that is not in the package")


def pip(python: Path, *arguments: str) -> None:
    run([python, "-m", "pip", "--disable-pip-version-check", *arguments], Path.cwd())


def run(command: list[str | Path], directory: Path) -> None:
    """Run a command that must succeed, away from the checkout; what it prints is shown when it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - our own commands
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stdout.decode(errors="replace"))
        raise SystemExit(f"failed with status {done.returncode}: {' '.join(map(str, command))[:200]}")


if __name__ == "__main__":
    main()
