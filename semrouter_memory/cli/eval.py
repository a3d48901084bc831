"""`semrouter-memory eval`: measures the product on files of cases."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semrouter_memory.cli.groups import with_groups

if TYPE_CHECKING:
    from semrouter_memory.evaluation.running import EvalOptions

app = typer.Typer()
eval_app = typer.Typer(
    help="Measure the product on your own files of cases (JSON lines); each command's help says what a line holds.",
    no_args_is_help=True,
)
app.add_typer(eval_app, name="eval")


Files = Annotated[list[Path], typer.Argument(help="Files of cases, one JSON object a line.")]
JsonOut = Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What every evaluation of the service takes."""

    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The YAML file of the service; without one, the defaults.")
    ] = None
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", help="The embedding model's directory; default: the configured one, else .cache/model."
        ),
    ] = None
    json_out: JsonOut = None

    def of(self, files: list[Path]) -> "EvalOptions":
        """The options of an evaluation of these files."""
        from semrouter_memory.config import load  # noqa: PLC0415 - same as below
        from semrouter_memory.evaluation.running import EvalOptions  # noqa: PLC0415

        return EvalOptions(files=files, config=load(self.config), model=self.model, json_out=self.json_out)


@eval_app.command()
@with_groups
def retrieval(
    files: Files,
    setup: Setup,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the sweep and the scores to this PNG file; needs matplotlib.")
    ] = None,
    sweep: Annotated[
        bool | None,
        typer.Option("--sweep/--no-sweep", help="Ask again with thresholds from 0 to 1. Default: only for --plot."),
    ] = None,
) -> None:
    """How well what is known is found, and how much of it is injected where it does not belong.

    A line: {"user", "memories": [{"id", "type", "content", "created_at"}, ...], "queries": [{"id", "kind", "text",
    "history": [{"role", "content"}, ...], "gold": ["id", ...], "acceptable": ["id", ...]}, ...]}. "created_at" may be
    null; "history" and "acceptable" may be left out. "gold" names what belongs into the answer; a query without any is
    a negative one, for which nothing should be injected. What is acceptable is neither wanted nor wrong.

    The recaller is the one that serves, with the configured limit, threshold and budget. The memories go into Milvus Lite
    on a file that is thrown away, whatever store is configured. Recall's deadline is put off, so that the figures do not
    depend on how busy the machine is. A model with the role memory_rewrite takes part when one is configured, in the
    sweep with every threshold.

    recall@5 and @10, nDCG@5 and MRR are of the ranking before any cut; recall, precision and false injection are of what
    is injected. A figure with nothing to count, as false injection without negative queries, is null.
    """
    from semrouter_memory.evaluation.retrieval_run import evaluate  # noqa: PLC0415 - its libraries take a second to load

    if plot is not None and sweep is False:
        raise typer.BadParameter("--plot draws the sweep; leave --no-sweep out")
    swept = bool(sweep) or plot is not None
    asyncio.run(evaluate(setup.of(files), plot=plot, sweep=swept))


@eval_app.command()
@with_groups
def knowledge(files: Files, setup: Setup) -> None:
    """How well paragraphs of documents are found, and how fast documents are added.

    A line: {"title", "text", "questions": ["...", ...]}. The text is one paragraph; paragraphs with the same title are one
    document. A line without text has questions that no paragraph answers. The documents go into Milvus Lite on a file that
    is thrown away.

    recall@5 is the share of the questions whose paragraph is among the first five passages; injected of those for which
    it would be put into the request, unwanted of the unanswerable ones for which anything would. speed is the time of
    embedding the passages alone by the time of adding the documents.
    """
    from semrouter_memory.evaluation.knowledge import evaluate  # noqa: PLC0415 - same

    asyncio.run(evaluate(setup.of(files)))


@eval_app.command()
@with_groups
def lifecycle(files: Files, setup: Setup) -> None:
    """How well new statements update, refine, retract or repeat what is known.

    A line: {"id", "kind", "candidates": [{"type", "content", "at"}, ...], "active": [...], "superseded": [...],
    "max_active": N}. The candidates are handed over in this order, for a user of their own; "at" may be null. In the
    end each text of "active" must be in exactly one active memory, each of "superseded" in exactly one that is stored as
    history, and no more than N may be active. A model with the role memory_reconcile takes part when one is configured.
    """
    from semrouter_memory.evaluation.lifecycle import evaluate  # noqa: PLC0415 - same

    asyncio.run(evaluate(setup.of(files)))


@eval_app.command()
@with_groups
def conversations(files: Files, setup: Setup) -> None:
    """What is remembered of whole conversations, and what should not have been.

    A line: {"id", "turns": [{"user", "assistant"}, ...], "should_remember": [{"about", "any_of": [...]}],
    "should_not_remember": [...]}. Each conversation is a session of a user of its own, played turn by turn up to its
    end. Then each "should_remember" needs a memory that contains one of "any_of", and none may contain a text of
    "should_not_remember"; case does not count, and superseded memories do not count either. Quotes are
    stored, and what a model with the role memory_extraction extracts, when one is configured.
    """
    from semrouter_memory.evaluation.conversations import evaluate  # noqa: PLC0415 - same

    asyncio.run(evaluate(setup.of(files)))


@eval_app.command()
@with_groups
def e2e(
    files: Files,
    setup: Setup,
    misses: Annotated[bool, typer.Option("--misses", help="Also print every question that was missed.")] = False,  # noqa: FBT002 - the framework's way
) -> None:
    """The whole way: sessions are played, then questions are asked in new conversations, and what is injected is judged.

    A line: {"id", "sessions": [{"at", "turns": [{"user", "assistant"}, ...]}, ...], "questions": [{"id", "at", "kind",
    "text", "history": [{"role", "content"}, ...], "any_of": [...], "none_of": [...], "answer"}, ...]}. A question with
    "any_of" is answered when the injected text contains one of these texts, and misled when it contains one of "none_of";
    case does not count. A question with "answer" is scored by coverage, the share of the answer's content words that are
    injected. A question with neither wants nothing injected: it is quiet when nothing is.

    The turn log, the retainer, the recaller and the store (Milvus Lite on a file that is thrown away) are those that
    serve, and time follows the file. A miss is attributed: the text was not stored, it was stored but not among the first
    ten of the ranking, or it was ranked but not injected. Models with the roles memory_extraction and memory_rewrite take
    part when they are configured.
    """
    from semrouter_memory.evaluation.e2e import evaluate  # noqa: PLC0415 - same

    asyncio.run(evaluate(setup.of(files), misses=misses))


@eval_app.command()
@with_groups
def compression(
    *,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Conversations; without any, made ones are played.")
    ] = None,
    turns: Annotated[
        list[int] | None, typer.Option(min=1, help="Length of a made conversation; may be given several times.")
    ] = None,
    setup: Setup,
) -> None:
    """How much a long conversation shrinks with context compression on, and whether what was said is still there.

    Plays every turn as if it came through Envoy, then looks at the next request. A line: {"id", "turns": [{"user",
    "assistant"}, ...], "should_remember": [{"about", "any_of": ["lower-case text", ...]}, ...]}; "should_remember" may
    be left out. The made conversations plan a journey and have ten facts planted, which are also asked for. A model with
    the role memory_extraction takes part when one is configured.
    """
    from semrouter_memory.evaluation.compression import LENGTHS, evaluate  # noqa: PLC0415 - same

    asyncio.run(evaluate(setup.of(files or []), turns or LENGTHS))


@eval_app.command()
def redaction(
    files: Files,
    show: Annotated[bool, typer.Option("--show", help="Also print each changed text, its secrets taken out.")] = False,  # noqa: FBT002 - a flag
    json_out: JsonOut = None,
) -> None:
    """How many texts redaction changes, by kind of secret.

    A line: a JSON object; every text in a member "content", "text", "user" or "assistant", at any depth, is read, so that
    the files of the other evaluations can be given.
    """
    from semrouter_memory.evaluation.redaction import evaluate  # noqa: PLC0415 - the rules take a moment to compile

    evaluate(files, show=show, json_out=json_out)
