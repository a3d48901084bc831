"""The compression evaluation's command: what is played, the tables, and the result as JSON."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from semrouter_memory.config import Config
from semrouter_memory.evaluation.cases import Case, objects_of, parse_cases, text_of, texts_of, write_json
from semrouter_memory.evaluation.compression import CompressionRun, Measured
from semrouter_memory.evaluation.long_talk import PlantedFact, Talk, long_talk
from semrouter_memory.evaluation.playing import played_adapters
from semrouter_memory.evaluation.running import embedder_of, models_of, tracked

LENGTHS = (20, 50, 100, 200, 1000)
"""Of the made conversations that are played by default."""
TARGET_TOKENS = 700
"""What a conversation of 200 turns and 10,000 tokens may have left."""


def talk_of(case: Case) -> Talk:
    """A line of a file of conversations.

    Raises:
        KeyError, TypeError: same as in `cases`.
    """
    turns = tuple((text_of(turn, "user"), text_of(turn, "assistant")) for turn in objects_of(case, "turns"))
    wanted = objects_of(case, "should_remember") if "should_remember" in case else ()
    facts = tuple(PlantedFact(text_of(fact, "about"), texts_of(fact, "any_of")) for fact in wanted)
    return Talk(text_of(case, "id"), turns, facts)


async def evaluate(
    files: Sequence[Path], turns: Sequence[int], *, config: Config, model: Path | None, json_out: Path | None
) -> None:
    """The command: play conversations, print a table, write the result.

    Args:
        files: conversations to play; without any, made ones are played.
        turns: lengths of the made conversations.
        model: the embedding model's directory; None finds it.
        json_out: where the JSON goes; None writes none.

    Raises:
        InputFileError: a file is not one of conversations, or the result cannot be written.
        ConfigurationError: the embedding model or a chat model's key is missing.
    """
    console = Console(highlight=False)
    talks = [talk for file in files for talk in parse_cases(file, talk_of)] or [long_talk(count) for count in turns]
    embedder = embedder_of(config, model, console)
    async with models_of(config) as models:
        with played_adapters(embedder) as adapters:
            run = CompressionRun(adapters, config.memory, models)
            measured = [await run.play(talk) for talk in tracked(talks, "conversations", total=len(talks))]
    console.print(_table(measured))
    _print_missing(console, measured)
    if json_out is not None:
        target = {"target_tokens": TARGET_TOKENS}
        write_json(json_out, target | {"conversations": [one.as_json() for one in measured]})


def _table(measured: Sequence[Measured]) -> Table:
    """`after`: with a question that names nothing; `asked`: the largest with one that asks for a fact."""
    table = Table(title="What the next request goes up with, in tokens")
    for name in ("conversation", "turns", "before", "after", "asked", "state", "facts", "asked for"):
        table.add_column(name, justify="left" if name == "conversation" else "right", no_wrap=True)
    for one in measured:
        asked = [fact.when_asked for fact in one.facts if fact.when_asked is not None]
        table.add_row(
            one.id if one.reason == "compressed" else f"{one.id} ({one.reason})",
            str(one.turns),
            f"{one.tokens_before:,}",
            f"{one.tokens_after:,}",
            f"{one.tokens_asked:,}" if asked else "",
            str(one.state_tokens),
            f"{sum(fact.in_context for fact in one.facts)}/{len(one.facts)}",
            f"{sum(asked)}/{len(asked)}" if asked else "",
        )
    return table


def _print_missing(console: Console, measured: Sequence[Measured]) -> None:
    for one in measured:
        if missing := [fact.about for fact in one.facts if not (fact.in_context or fact.when_asked)]:
            console.print(f"{one.id}: not in the context: {', '.join(missing)}", markup=False)
