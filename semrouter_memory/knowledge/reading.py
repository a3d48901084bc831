"""Reads text, Markdown, HTML, PDF and DOCX into blocks. Needs the `knowledge` extra.

Strategy: headings decide how a document is split, so each reader keeps them: HTML and DOCX name them, Markdown marks them, a PDF
has them in its outline. A document that cannot be read is refused as a whole; the message names the file and what to do.
"""

import logging
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from semrouter_memory.errors import ConfigurationError, InvalidRequestError
from semrouter_memory.language.splitting import Block

if TYPE_CHECKING:
    from docx.table import Table
    from pypdf import PdfReader

NOT_INSTALLED = "the packages that read documents are not installed: pip install 'semrouter-memory[knowledge]'"
MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Bound on what a DOCX file, which is a ZIP archive, unpacks to."""
MAX_PDF_SECONDS = 60.0
"""Bound on the processor time for a PDF: a file of some kilobytes may show one page, or one compressed text, without end."""

_PARAGRAPHS = re.compile(r"\n[^\S\n]*\n")
_FRONT_MATTER = re.compile(r"\A---[^\S\n]*\n.*?\n(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_HEADING_STYLE = "heading "
_DROPPED = ("script", "style", "noscript", "template", "svg", "nav", "footer", "head")
_CELLS = frozenset({"td", "th"})
_CELL_SEPARATOR = " | "
_MAX_REPEATED_CHARS = 200
_SHORT_LINE = 0.8
"""A line that ends a sentence and is shorter than this part of the longest one ends a paragraph."""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What a document says.

    Attributes:
        title: as the document names itself; "" where it does not.
    """

    blocks: tuple[Block, ...]
    title: str = ""


def kind_of(source: str, media_type: str = "") -> str:
    """The kind of a document by its media type, else by the ending of its name.

    Raises:
        InvalidRequestError: it is none that can be read.
    """
    named = media_type.partition(";")[0].strip().lower()
    if named in _MEDIA_TYPES:
        return _MEDIA_TYPES[named]
    suffix = PurePosixPath(urlsplit(source).path if "://" in source else source).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    raise InvalidRequestError(
        f"{source}: {named or suffix or 'a name without an ending'} is none of the kinds that are read"
        f" ({', '.join(sorted(_SUFFIXES))}); convert it to one of them, or name its media type"
    )


def read(source: str, data: bytes, kind: str) -> ReadDocument:
    """The blocks of a document.

    Args:
        source: names the document in messages.
        kind: as `kind_of` gives it.

    Raises:
        InvalidRequestError: it is damaged, encrypted, or holds no text.
        ConfigurationError: the extra is not installed.
    """
    try:
        document = _KINDS[kind].read(data)
    except ImportError:
        raise ConfigurationError(NOT_INSTALLED) from None
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{source}: {error}") from None
    except Exception as error:  # noqa: BLE001 - the libraries raise all kinds of errors for damaged files
        raise InvalidRequestError(
            f"{source}: is damaged or no {kind} document ({type(error).__name__}); open it and save it again"
        ) from None
    if not any(block.text.strip() for block in document.blocks if not block.level):
        scanned = "; a scanned document needs text recognition (OCR) first" if kind == "PDF" else ""
        raise InvalidRequestError(f"{source}: holds no text{scanned}")
    return document


# -- text and Markdown -------------------------------------------------------------------------------------------------


def _decoded(data: bytes) -> str:
    encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise InvalidRequestError("is no UTF-8 text; save it in that encoding") from None
    if "\x00" in text:
        raise InvalidRequestError(
            "is no text, it holds NUL bytes; name its media type if it is another kind of document"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _text(data: bytes) -> ReadDocument:
    return ReadDocument(tuple(_blocks(_PARAGRAPHS.split(_decoded(data)))))


def _blocks(texts: Iterable[str], page: int = 0) -> Iterator[Block]:
    return (Block(text.strip(), page=page) for text in texts if text.strip())


def _markdown(data: bytes) -> ReadDocument:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - an optional dependency

    text = _FRONT_MATTER.sub("", _decoded(data))
    lines = text.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    blocks: list[Block] = []
    for token, after in zip(tokens, [*tokens, None][1:], strict=True):
        if token.level or token.map is None or token.type == "hr":
            continue
        if token.type == "heading_open" and after is not None:
            blocks.append(Block(_plain(after), int(token.tag[1])))
        elif token.type == "html_block":
            blocks += _html_blocks(_html_tree(f"<div>{token.content}</div>".encode()))
        else:
            blocks += _blocks(["\n".join(lines[slice(*token.map)])])
    return ReadDocument(tuple(blocks), _first_heading(blocks))


def _plain(inline: Any) -> str:
    return _line("".join(each.content or " " for each in inline.children))


def _first_heading(blocks: Iterable[Block]) -> str:
    return next((block.text for block in blocks if block.level == 1), "")


# -- HTML --------------------------------------------------------------------------------------------------------------


def _html(data: bytes) -> ReadDocument:
    tree = _html_tree(data)
    title = tree.findtext(".//title") or ""
    blocks = tuple(_html_blocks(tree))
    return ReadDocument(blocks, _line(title) or _first_heading(blocks))


def _html_tree(data: bytes) -> Any:
    from lxml import html  # noqa: PLC0415 - an optional dependency

    try:
        data.decode("utf-8-sig")
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = None  # what the document declares
    # No network, and the parser's own bounds on depth and size.
    return html.document_fromstring(
        data, parser=html.HTMLParser(encoding=encoding, remove_comments=True, remove_pis=True)
    )


def _html_blocks(tree: Any) -> Iterator[Block]:
    from lxml import etree  # noqa: PLC0415 - an optional dependency
    from lxml.html import defs  # noqa: PLC0415 - same

    inline = defs.phrase_tags | defs.font_style_tags | defs.special_inline_tags | _CELLS
    etree.strip_elements(tree, *_DROPPED, with_tail=False)
    parts: list[str] = []
    preformatted = 0

    def flush(level: int = 0) -> Iterator[Block]:
        text = "".join(parts)
        parts.clear()
        text = text.strip("\n") if preformatted and not level else _line(text).strip(_CELL_SEPARATOR)
        if text.strip():
            yield Block(text, level)

    for event, node in etree.iterwalk(tree, events=("start", "end")):
        is_block = node.tag not in inline
        if event == "start":
            if is_block:
                yield from flush()
            preformatted += node.tag == "pre"
            parts.append(node.text or "")
            continue
        if is_block:
            yield from flush(_html_level(node.tag))
        elif node.tag in _CELLS:
            parts.append(_CELL_SEPARATOR)
        elif node.tag == "br":
            parts.append("\n")
        preformatted -= node.tag == "pre"
        parts.append(node.tail or "")
    yield from flush()


def _html_level(tag: str) -> int:
    return int(tag[1]) if len(tag) == len("h1") and tag[0] == "h" and tag[1].isdigit() else 0


# -- PDF ---------------------------------------------------------------------------------------------------------------


def _pdf(data: bytes) -> ReadDocument:
    from pypdf import PdfReader  # noqa: PLC0415 - an optional dependency

    # It quotes damaged parts of the file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL + 1)
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise InvalidRequestError("is encrypted; save it without a password")
    until = time.thread_time() + MAX_PDF_SECONDS

    def in_time(*_: object) -> None:
        if time.thread_time() > until:
            raise InvalidRequestError(f"takes more than {MAX_PDF_SECONDS:.0f} s to read; split it")

    headings = _outline(reader)
    blocks: list[Block] = []
    for number, page in enumerate(reader.pages, start=1):
        in_time()
        blocks += _page_blocks(page.extract_text(visitor_operand_before=in_time), number, headings.get(number, {}))
    title = (reader.metadata.title if reader.metadata else None) or ""
    return ReadDocument(tuple(blocks), title.strip() or _first_heading(blocks))


def _outline(reader: "PdfReader") -> dict[int, dict[str, int]]:
    """The headings of each page, with their levels."""
    found: dict[int, dict[str, int]] = {}

    def walk(entries: Iterable[Any], level: int) -> None:
        for entry in entries:
            if isinstance(entry, list):
                walk(entry, level + 1)
            elif (number := reader.get_destination_page_number(entry)) is not None:
                found.setdefault(number + 1, {})[_line(entry.title)] = level

    walk(reader.outline, 1)
    return found


def _page_blocks(text: str, page: int, headings: Mapping[str, int]) -> Iterator[Block]:
    """Paragraphs of a page; a heading stands where its line is, else at the beginning of the page."""
    lines = [_line(line) for line in text.split("\n")]
    yield from (Block(name, level, page) for name, level in headings.items() if name not in lines)
    longest = max(map(len, lines), default=0)
    paragraph = ""
    for line in lines:
        if line in headings:
            yield from _blocks([paragraph], page)
            yield Block(line, headings[line], page)
            paragraph = ""
            continue
        paragraph = _continued(paragraph, line)
        if not line or (line[-1] in ".!?:。！？" and len(line) < _SHORT_LINE * longest):
            yield from _blocks([paragraph], page)
            paragraph = ""
    yield from _blocks([paragraph], page)


def _continued(paragraph: str, line: str) -> str:
    if paragraph.endswith("-") and line[:1].islower():
        return paragraph[:-1] + line
    return f"{paragraph} {line}".strip()


def _line(text: str) -> str:
    return " ".join(text.split())


# -- DOCX --------------------------------------------------------------------------------------------------------------


def _docx(data: bytes) -> ReadDocument:
    from docx import Document  # noqa: PLC0415 - an optional dependency
    from docx.table import Table  # noqa: PLC0415 - same

    with zipfile.ZipFile(BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > MAX_UNPACKED_BYTES:
            raise InvalidRequestError(f"unpacks to more than {MAX_UNPACKED_BYTES} bytes; split it")
    document = Document(BytesIO(data))
    blocks: list[Block] = []
    for part in document.iter_inner_content():
        if isinstance(part, Table):
            blocks += _blocks(["\n".join(_rows(part))])
        elif part.text.strip():
            blocks.append(Block(part.text.strip(), _style_level(part.style.name if part.style else None)))
    return ReadDocument(tuple(blocks), (document.core_properties.title or "").strip() or _first_heading(blocks))


def _rows(table: "Table") -> Iterator[str]:
    """The rows of a table; a short text of a cell that spans several of them stands in each.

    The library's own cells repeat a merged one for each of the columns that it claims to span: a small file names millions.
    """
    above: dict[int, str] = {}
    for row in table._tbl.tr_lst:  # noqa: SLF001 - see above
        cells: dict[int, str] = {}
        column = row.grid_before
        for cell in row.tc_lst:
            text = "\n".join(paragraph.text for paragraph in cell.p_lst).strip()
            repeated = above.get(column, "") if cell.vMerge == "continue" else ""
            cells[column] = text or (repeated if len(repeated) <= _MAX_REPEATED_CHARS else "")
            column += max(cell.grid_span, 1)
        above = cells
        yield _CELL_SEPARATOR.join(cells.values())


def _style_level(name: str | None) -> int:
    if name == "Title":
        return 1
    before, style, level = (name or "").lower().partition(_HEADING_STYLE)
    return int(level) if style and not before and level in set("123456789") else 0


class _Kind(NamedTuple):
    """A kind of document: what reads it, and what names it."""

    read: Callable[[bytes], ReadDocument]
    suffixes: str
    media_types: str


_KINDS = {
    "text": _Kind(_text, ".txt .text", "text/plain"),
    "Markdown": _Kind(_markdown, ".md .markdown", "text/markdown"),
    "HTML": _Kind(_html, ".html .htm .xhtml", "text/html application/xhtml+xml"),
    "PDF": _Kind(_pdf, ".pdf", "application/pdf"),
    "DOCX": _Kind(_docx, ".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
}
_SUFFIXES = {suffix: name for name, kind in _KINDS.items() for suffix in kind.suffixes.split()}
_MEDIA_TYPES = {media_type: name for name, kind in _KINDS.items() for media_type in kind.media_types.split()}
READABLE = frozenset(_SUFFIXES)
"""Endings of the names of documents that can be read."""
