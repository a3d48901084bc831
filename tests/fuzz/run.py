"""Coverage-guided fuzzing: `python -m tests.fuzz.run [--seconds N] [--corpus DIRECTORY] [TARGET ...]`.

Each target runs in a process of its own, for its share of the time. The corpus is made of the seeds and grows from run to
run; an input that breaks a promise is kept beside it, printed, and ends the run with status 1. To look at one again:
`python -m tests.fuzz.run --again FILE TARGET`.
"""

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_MAX_BYTES = 4096
_TIMEOUT_SECONDS = 10
_MEMORY_MIB = 1024


def main() -> int:
    """Fuzz each target in turn, in a process of its own."""
    options = _options().parse_args()
    if options.again is not None:
        _target(options.targets[0])(options.again.read_bytes())
        return 0
    names = options.targets or _names()
    seconds = max(1, options.seconds // len(names))
    failed = [name for name in names if not _run(name, options.corpus / name, seconds)]
    _say(f"{len(names)} targets, {seconds} s each: {'broken: ' + ', '.join(failed) if failed else 'no promise broken'}")
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stdout.write(f"==> {text}\n")
    sys.stdout.flush()


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--corpus", type=Path, default=Path(".cache/fuzz"))
    parser.add_argument("--again", type=Path, help="run one input only")
    parser.add_argument("targets", nargs="*")
    return parser


def _names() -> list[str]:
    from tests.fuzz.targets import TARGETS

    return list(TARGETS)


def _run(name: str, directory: Path, seconds: int) -> bool:
    """Whether the target held."""
    _say(f"{name}: {seconds} s")
    _sow(name, directory / "corpus")
    limits = [f"-max_total_time={seconds}", f"-max_len={_MAX_BYTES}", f"-timeout={_TIMEOUT_SECONDS}"]
    command = [
        *(sys.executable, "-c", "from tests.fuzz.run import fuzz; fuzz()"),
        *(str(directory / "corpus"), *limits, f"-rss_limit_mb={_MEMORY_MIB}"),
        *(f"-artifact_prefix={directory}/broken-", "-print_final_stats=1", "-verbosity=0"),
        f"--target={name}",
    ]
    return subprocess.run(command, check=False).returncode == 0


def _sow(name: str, corpus: Path) -> None:
    from tests.fuzz.seeds import SEEDS

    corpus.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS[name]:
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


def fuzz() -> None:
    """One target, in this process; it ends with the process."""
    import atheris  # type: ignore[import-untyped]

    (name,) = (option.removeprefix("--target=") for option in sys.argv if option.startswith("--target="))
    with atheris.instrument_imports(include=["semrouter_memory"]):
        from tests.fuzz.targets import TARGETS
    atheris.Setup([option for option in sys.argv if not option.startswith("--target=")], TARGETS[name])
    atheris.Fuzz()


def _target(name: str) -> Callable[[bytes], None]:
    from tests.fuzz.targets import TARGETS

    return TARGETS[name]


if __name__ == "__main__":
    sys.exit(main())
