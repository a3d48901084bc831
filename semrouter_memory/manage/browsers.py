"""What browsers are told, and refused: no other site may change anything here, frame a page, or read an answer.

Strategy: the identity may be a cookie of the filter that authenticates, which a browser also sends with a request that
another site's page started. A browser says where a request comes from: `Sec-Fetch-Site`, and, where it leaves that out
(plain HTTP), `Origin`. Clients that are no browsers send neither and are unaffected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semrouter_memory.manage.exception_handlers import error_response

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none';"
    " frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
)
_HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # What answers hold is one user's own.
    "cache-control": "no-store",
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})
"""`none`: the user's own doing, as an address that was typed."""


@dataclass(frozen=True, slots=True)
class BrowserRules:
    """Refuses changes that another site's page asks for, and gives every answer the headers that browsers obey."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["method"] not in _SAFE_METHODS and is_of_another_site(Headers(scope=scope)):
            message = "a page of another site may not change anything here"
            refused = error_response(HTTPStatus.FORBIDDEN, message, code="cross_site_request")
            await refused(scope, receive, sending)
            return
        await self.app(scope, receive, sending)


def is_of_another_site(headers: Headers) -> bool:
    """Whether a browser says that a page of another origin started the request. A subdomain is another origin, too."""
    sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    if sites:
        return not _OWN_SITES.issuperset(sites)
    return any(not _is_own(origin, headers.get("host", "")) for origin in origins)


def _is_own(origin: str, host: str) -> bool:
    """The scheme is left out: behind a proxy that ends TLS, this server does not know its own."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
