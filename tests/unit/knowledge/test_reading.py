"""How documents of every kind are read, and what is said of those that cannot be."""

import zipfile
from io import BytesIO
from itertools import count

import pytest
from docx import Document
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.knowledge import reading
from semrouter_memory.knowledge.reading import kind_of, read
from semrouter_memory.language.splitting import Block


def _blocks(data: bytes, kind: str) -> list[Block]:
    return list(read("file", data, kind).blocks)


@pytest.mark.parametrize(
    ("source", "media_type", "kind"),
    [
        ("a/b.TXT", "", "text"),
        ("notes.md", "application/octet-stream", "Markdown"),
        ("https://example.org/page.html?x=1.pdf", "", "HTML"),
        ("https://example.org/page", "text/html; charset=utf-8", "HTML"),
        ("report.pdf", "", "PDF"),
        ("letter.docx", "", "DOCX"),
    ],
)
def test_the_kind_is_the_media_types_else_the_names(source: str, media_type: str, kind: str) -> None:
    assert kind_of(source, media_type) == kind


@pytest.mark.parametrize("source", ["slides.pptx", "Makefile", "https://example.org/"])
def test_another_kind_is_refused_with_those_that_are_read(source: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"none of the kinds that are read.*\.docx.*convert") as refused:
        kind_of(source)
    assert str(refused.value).startswith(source)


def test_text_is_read_by_paragraphs() -> None:
    assert _blocks("One\r\nline.\r\n \r\nTwo äöü.\n".encode("utf-8-sig"), "text") == [
        Block("One\nline."),
        Block("Two äöü."),
    ]
    assert _blocks("Wide.".encode("utf-16"), "text") == [Block("Wide.")]


def test_markdown_keeps_headings_lists_code_and_tables() -> None:
    text = b"""---
layout: post
---
# The *handbook* of `ours`

First paragraph.

## Tools

- one
- two

```sh
# no heading
make all
```

| a | b |
|---|---|
| 1 | 2 |

<!-- a comment -->

<p>Raw <b>HTML</b></p>
"""
    document = read("file", text, "Markdown")
    assert document.title == "The handbook of ours"
    assert list(document.blocks) == [
        Block("The handbook of ours", 1),
        Block("First paragraph."),
        Block("Tools", 2),
        Block("- one\n- two"),
        Block("```sh\n# no heading\nmake all\n```"),
        Block("| a | b |\n|---|---|\n| 1 | 2 |"),
        Block("Raw HTML"),
    ]


def test_html_is_read_without_what_nobody_reads() -> None:
    page = b"""<!doctype html><html><head><title> The  page </title><style>p {}</style></head><body>
<nav>Home</nav><h1>Leave</h1><p>Thirty <b>days</b><br>a year.</p><!-- no --><script>alert(1)</script>tail
<ul><li>one</li><li>two</li></ul><pre>a
  b</pre><table><tr><th>Day</th><td>Monday</td></tr></table><footer>(c)</footer></body></html>"""
    document = read("file", page, "HTML")
    assert document.title == "The page"
    assert list(document.blocks) == [
        Block("Leave", 1),
        Block("Thirty days a year."),
        Block("tail"),
        Block("one"),
        Block("two"),
        Block("a\n  b"),
        Block("Day | Monday"),
    ]


def test_html_in_a_declared_encoding_is_read_in_it() -> None:
    page = '<html><head><meta charset="windows-1252"></head><body><p>Käse</p></body></html>'
    assert _blocks(page.encode("windows-1252"), "HTML") == [Block("Käse")]
    assert _blocks("<p>Käse</p>".encode(), "HTML") == [Block("Käse")]


def _pdf(*pages: list[str], outline: tuple[tuple[str, int], ...] = (), password: str = "") -> bytes:
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
        stream.set_data(f"BT /F1 12 Tf 50 700 Td {shown} ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    for title, number in outline:
        writer.add_outline_item(title=title, page_number=number)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    data = BytesIO()
    writer.write(data)
    return data.getvalue()


def test_a_pdf_has_pages_and_the_headings_of_its_outline() -> None:
    data = _pdf(
        [
            "Leave",
            "Employees have thirty days of vaca-",
            "tion in every year.",
            "Ask your manager first of all things.",
        ],
        ["The canteen opens at noon."],
        outline=(("Leave", 0), ("Food", 1)),
    )
    assert _blocks(data, "PDF") == [
        Block("Leave", 1, 1),
        Block("Employees have thirty days of vacation in every year.", 0, 1),
        Block("Ask your manager first of all things.", 0, 1),
        Block("Food", 1, 2),
        Block("The canteen opens at noon.", 0, 2),
    ]


def test_a_docx_has_headings_and_tables() -> None:
    document = Document()
    document.core_properties.title = "Handbook"
    document.add_heading("Leave", 1)
    document.add_paragraph("Thirty days.")
    table = document.add_table(1, 2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "Monday", "soup"
    data = BytesIO()
    document.save(data)
    read_document = read("file", data.getvalue(), "DOCX")
    assert read_document.title == "Handbook"
    assert list(read_document.blocks) == [Block("Leave", 1), Block("Thirty days."), Block("Monday | soup")]


def test_a_merged_cell_of_a_docx_stands_once_in_each_row() -> None:
    document = Document()
    table = document.add_table(4, 3)
    for row, texts in enumerate((("Place", "City", "People"), ("Europe", "Porto", "1"), ("", "Bonn", "2"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    table.cell(3, 0).merge(table.cell(3, 1))
    table.cell(3, 0).text, table.cell(3, 2).text = "All", "3"
    data = BytesIO()
    document.save(data)
    (block,) = _blocks(data.getvalue(), "DOCX")
    assert block.text.split("\n") == ["Place | City | People", "Europe | Porto | 1", "Europe | Bonn | 2", "All | 3"]


def test_a_cell_of_a_docx_that_claims_millions_of_columns_costs_nothing() -> None:
    document = Document()
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Monday", "soup"
    table.cell(0, 0)._tc.grid_span = 1_000_000_000
    data = BytesIO()
    document.save(data)
    assert _blocks(data.getvalue(), "DOCX") == [Block("Monday | soup")]


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (b"\xff\x00\xfa", "text", "is no UTF-8 text; save it in that encoding"),
        (b"a\x00b", "Markdown", "holds NUL bytes"),
        (b" \n\n", "text", "holds no text"),
        (b"# Only a heading", "Markdown", "holds no text"),
        (b"", "Markdown", "holds no text"),
        (b"---\ntitle: Only a front matter\n---\n", "Markdown", "holds no text"),
        (b"<html></html>", "HTML", "holds no text"),
        (b"", "HTML", "open it and save it again"),
        (b"%PDF-1.7 broken", "PDF", "open it and save it again"),
        (_pdf([]), "PDF", "needs text recognition"),
        (_pdf(["Secret."], password="pw"), "PDF", "is encrypted; save it without a password"),
        (b"PK no archive", "DOCX", "open it and save it again"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_remedy(data: bytes, kind: str, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read("docs/bad", data, kind)
    assert str(refused.value).startswith("docs/bad: ")
    assert message in str(refused.value)


@pytest.mark.parametrize("pages", [[["Hello there."]] * 3, [["Hello there."] * 3]], ids=["pages", "a page"])
def test_a_pdf_that_takes_too_long_is_refused(pages: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time, so that other threads do not count."""
    data, clock = _pdf(*pages), count()
    monkeypatch.setattr(reading, "MAX_PDF_SECONDS", 2)
    monkeypatch.setattr("time.thread_time", lambda: next(clock))
    with pytest.raises(InvalidRequestError, match="takes more than 2 s to read; split it"):
        read("long.pdf", data, "PDF")


def test_a_docx_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_UNPACKED_BYTES", 1000)
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 1001)
    with pytest.raises(InvalidRequestError, match="unpacks to more than 1000 bytes"):
        read("bomb.docx", data.getvalue(), "DOCX")
