"""`semrouter-memory eval`: measures the product on files of cases."""

import typer

eval_app = typer.Typer(
    help="Measure the product on your own files of cases (JSON lines); each command's help says what a line holds.",
    no_args_is_help=True,
)
