"""The route that answers a question from memories."""

from fastapi import Request

from semrouter_memory.manage.access import PREFIX, Access, Api, Owner, api_router
from semrouter_memory.manage.reflecting import Reflection, ReflectRequest
from semrouter_memory.model import Scope

router = api_router(PREFIX, "memory")


@router.post("/reflect", summary="Answer a question from memories")
async def reflect_on(request: Request, owner: Owner, api: Api, body: ReflectRequest) -> Reflection:
    """By a model that sees only what is relevant of the owner's memories and documents, with citations; a number or name that stands in none of these refuses its answer. Without a model: how often it was mentioned, since when, and when last."""
    return await reflection(owner, api, api.organisation_of(request, owner), body)


async def reflection(owner: Scope, api: Access, organisation: Scope | None, body: ReflectRequest) -> Reflection:
    """Same, for an owner and the organisation whose documents are searched too."""
    assert api.reflector is not None
    return await api.reflector.reflect(api.scope(owner, body.project_id), organisation, body)
