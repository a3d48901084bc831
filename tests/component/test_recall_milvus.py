"""Recall over Milvus Lite: what is at hand in the process is what the store would have said."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.app.adapters import record_format
from semrouter_memory.app.pipelines import knowledge_service
from semrouter_memory.config import KnowledgeConfig, MilvusConfig
from semrouter_memory.knowledge.service import KnowledgeService, Upload
from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.model import (
    Criteria,
    Memory,
    MemoryType,
    Message,
    OtherOwner,
    OwnerKind,
    Reach,
    Reason,
    RecallResult,
    Role,
    Scope,
    Tombstone,
    Vector,
    parse_filter,
)
from semrouter_memory.ports import Embedder
from semrouter_memory.recall.render import DOCUMENTS_NOTICE
from semrouter_memory.store.milvus import MilvusStore
from tests.recalling import ALICE, NOW, Recalling, recalling
from tests.store_observer import StoreObserver

pytest_plugins = ("tests.model_fixture",)

FACTS = (
    "User's budget for the Hawaii trip is $10,000",
    "User is allergic to peanuts",
    "User lives in Berlin",
    "User prefers short answers without bullet points",
    "User's dog is called Rex",
    "User drives an old blue Volvo",
    "To deploy payment-service: run npm build, then docker push",
    "User pays 900 euros a month in rent",
    "On 2026-02-10 the user visited the dentist Dr Nowak",
    "用户住在上海闵行区",
)
QUESTIONS = (
    "What's my budget for the trip?",
    "When was I at the dentist?",
    "What did Dr Nowak say?",
    "Suggest a dinner for tonight",
    "How do I deploy payment-service?",
    "Explain how tides work",
    "What is the boiling point of water?",
    "我住在哪里？",
)


@dataclass
class Pair:
    """One store, asked directly and with its memories at hand."""

    near: Recalling
    far: Recalling

    async def ask(self, query: str, scope: Scope = ALICE) -> tuple[RecallResult, RecallResult]:
        return await self.near.ask(query, scope=scope), await self.far.ask(query, scope=scope)

    async def given(self, query: str, scope: Scope = ALICE, types: frozenset[MemoryType] | None = None) -> list[str]:
        """What both give, in no order."""
        near = await self.near.given(query, scope=scope, types=types)
        assert sorted(near) == sorted(await self.far.given(query, scope=scope, types=types))
        return near


@pytest.fixture
async def store(embedder: Embedder, tmp_path: Path) -> AsyncIterator[MilvusStore]:
    store = MilvusStore(
        MilvusConfig(),
        data_dir=tmp_path,
        fingerprint=embedder.fingerprint,
        observer=StoreObserver(),
        record_format=record_format(),
    )
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def pair(embedder: Embedder, store: MilvusStore) -> AsyncIterator[Pair]:
    async with (
        recalling(embedder, store=store) as near,
        recalling(embedder, store=store, at_hand=False) as far,
    ):
        yield Pair(near, far)


async def test_the_best_hits_are_the_same_at_hand_and_in_milvus(pair: Pair) -> None:
    await pair.near.remember(*FACTS)
    for question in QUESTIONS:
        near, far = await pair.ask(question)
        assert [hit.memory.id for hit in near.hits] == [hit.memory.id for hit in far.hits], question
        assert near.text == far.text
        assert near.ranking[0].memory == far.ranking[0].memory
        relevances = {hit.memory.id: hit.relevance for hit in far.ranking}
        # Vectors at hand are numbers of eight bits.
        assert {hit.memory.id: hit.relevance for hit in near.ranking} == pytest.approx(relevances, abs=0.05)


async def test_projects_expiry_and_types_hold_at_hand_as_in_milvus(pair: Pair) -> None:
    city = "Where do I live?"
    await pair.near.remember("User lives in Berlin", expires_at=NOW + timedelta(days=1))
    await pair.near.remember("User lives in Oslo", scope=Scope("alice", "apollo"))
    await pair.near.remember("User lives in Rome", expires_at=NOW)

    assert await pair.given(city) == ["User lives in Berlin"]
    assert len(await pair.given(city, Scope("alice", "apollo"))) == 2
    assert await pair.given(city, Scope("alice", "other")) == ["User lives in Berlin"]
    assert await pair.given(city, types=frozenset({MemoryType.PROCEDURAL})) == []
    pair.near.clock.time += timedelta(days=1)
    pair.far.clock.time += timedelta(days=1)
    assert await pair.given(city) == []


async def test_a_new_value_replaces_the_old_one_in_the_very_next_answer(pair: Pair) -> None:
    for hour in (9, 11, 6):
        await pair.near.say(f"User's flight to Hawaii leaves at {hour} am")
        given = await pair.near.given("When does my flight to Hawaii leave?")
        assert given == [f"User's flight to Hawaii leaves at {hour} am"]


async def test_what_a_user_deletes_is_gone_at_hand_and_in_milvus(pair: Pair) -> None:
    await pair.near.remember(*FACTS)
    question = "What's my budget for the trip?"
    (hit, *_) = (await pair.near.ask(question)).hits
    await pair.near.service().forget(ALICE, hit.memory.id)

    assert hit.memory.content not in await pair.near.given(question)
    assert hit.memory.id not in {each.memory.id for each in (await pair.near.ask(question)).ranking}
    assert await pair.near.adapters.store.get(ALICE, hit.memory.id) is None


@pytest.mark.parametrize("at_hand", [True, False], ids=["at hand", "in milvus"])
async def test_keywords_give_the_newest_memories_that_have_them_all(
    embedder: Embedder, store: MilvusStore, *, at_hand: bool
) -> None:
    trips = [f"User's hotel number {number} in Hawaii" for number in range(5)]
    async with recalling(
        embedder, store=store, at_hand=at_hand, strategy="keywords", max_keyword_memories=3
    ) as recalled:
        await recalled.remember(*trips, "User has a dog")

        assert await recalled.given("the Hawaii hotel?") == trips[:1:-1]
        assert await recalled.given("hello") == ["User has a dog", *trips[:2:-1]]
        assert await recalled.given("hello", limit=1) == ["User has a dog"]
        assert await recalled.given("Hawaii dog") == []
        result = await recalled.ask("hello")
    assert {"embed", "score"} & result.steps_ms.keys() == {"score"}


# -- documents ---------------------------------------------------------------------------------------------------------

_HANDBOOK = b"""# Handbook

## Leave

Employees have thirty days of vacation a year. They ask their manager four weeks ahead.

## Travel

Hotels above 300 euros a night need the approval of Ms Petrov.
"""
_ACME = Scope("acme", kind=OwnerKind.ORGANISATION)
_OF_ACME = (OtherOwner(_ACME, 3, 0.4),)
_DAYS = "How many days of vacation do we get?"


@pytest.fixture
async def documents(pair: Pair) -> KnowledgeService:
    service = knowledge_service(KnowledgeConfig(), pair.near.adapters)
    day = NOW - timedelta(days=30)
    await service.add(_ACME, Upload(source="/srv/handbook.md", data=_HANDBOOK, published_at=day))
    return service


@pytest.mark.usefixtures("documents")
async def test_a_passage_is_given_with_its_source_to_requests_of_its_organisation(pair: Pair) -> None:
    await pair.near.remember(*FACTS)
    result = await pair.near.ask(_DAYS, others=_OF_ACME)
    day = NOW - timedelta(days=30)
    assert (
        f"## From Documents\n\n{DOCUMENTS_NOTICE}\n\n- Handbook > Leave ({day:%-d %B %Y}, handbook.md): "
        '"Employees have thirty days of vacation a year. They ask their manager four weeks ahead."'
    ) in result.text
    assert "Petrov" not in result.text
    assert result.tokens >= pair.near.adapters.embedder.count_tokens(result.text) - 5
    other = (OtherOwner(Scope("acme2", kind=OwnerKind.ORGANISATION), 3, 0.4),)
    agent = (OtherOwner(Scope("acme", kind=OwnerKind.AGENT), 3, 0.4),)
    for others in ((), other, agent):
        assert "vacation" not in (await pair.near.ask(_DAYS, others=others)).text
    assert "vacation" not in (await pair.near.ask(_DAYS, scope=Scope("acme"))).text


@pytest.mark.usefixtures("documents")
@pytest.mark.parametrize(("history", "texts"), [((), 1), ((Message(Role.USER, "We plan our holidays"),), 2)])
async def test_a_request_of_every_owner_embeds_each_of_its_texts_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, history: tuple[Message, ...], texts: int
) -> None:
    """The memories of user, organisation and agent and the documents: in a conversation, what is said is embedded as well."""
    embedder, asked = pair.near.adapters.embedder, list[str]()
    embed_query = embedder.embed_query

    async def counted(text: str) -> Vector:
        asked.append(text)
        return await embed_query(text)

    question = "How many days?"
    others = (*_OF_ACME, OtherOwner(Scope("bot", kind=OwnerKind.AGENT), 3, 0.4))
    for each in (ALICE, *(other.scope for other in others)):
        await pair.near.remember("Vacation is thirty days a year", scope=each)
    await pair.near.ask(question, history, others=others)
    monkeypatch.setattr(embedder, "embed_query", counted)
    result = await pair.near.ask(question, history, others=others)

    assert len(asked) == len(set(asked)) == texts
    assert {hit.memory.scope.owner for hit in result.ranking} == {ALICE.owner, *(other.scope.owner for other in others)}


@pytest.mark.usefixtures("documents")
async def test_a_request_for_something_else_is_given_no_passage(pair: Pair) -> None:
    await pair.near.remember(*FACTS)
    for question in ("Hi there!", "Thanks, that's all", "Write a haiku about the sea", *QUESTIONS[1:]):
        result = await pair.near.ask(question, others=_OF_ACME)
        assert "From Documents" not in result.text, question


async def test_a_removed_document_is_given_to_no_request_and_no_later_step(
    pair: Pair, documents: KnowledgeService
) -> None:
    first = await pair.near.ask(_DAYS, others=_OF_ACME, loop_key="turn")
    assert "thirty days" in first.text
    (document,) = (await documents.page(_ACME, limit=10)).documents
    assert await documents.remove(_ACME, document.id) == 2
    later = await pair.near.ask(_DAYS, others=_OF_ACME, loop_key="turn", continues_loop=True)
    assert "thirty days" not in later.text
    assert "thirty days" not in (await pair.near.ask(_DAYS, others=_OF_ACME)).text


async def test_passages_are_no_longer_than_the_model_reads(pair: Pair, documents: KnowledgeService) -> None:
    embedder = pair.near.adapters.embedder
    sentences = (f"Sentence number {number} goes on and on, with words like Donaudampfschiff." for number in range(200))
    text = f"# Long\n\n## Part\n\n{' '.join(sentences)}"
    document, outcome = await documents.add(_ACME, Upload(source="long.md", data=text.encode()))
    _, passages = await documents.show(_ACME, document.id)
    sizes = [embedder.passage_tokens(passage.searched) for passage in passages]
    assert outcome == "added"
    assert len(sizes) > 10
    assert 200 < max(sizes) <= embedder.max_passage_tokens


STORY = (
    *("Notes of the family reunion in August.", "We met at the old mill by the river on a hot Saturday."),
    *(
        f"Relative number {number} told a story about a garden, a train journey and a lost umbrella."
        for number in range(70)
    ),
    "In the evening uncle Theodor sold his sailing boat to a dentist from Bergen.",
)
"""Some 6,000 characters; the model reads about 1,300."""
BOAT = "Who bought my uncle's sailing boat?"


async def test_a_long_memory_is_found_by_its_last_sentence_and_shown_whole(pair: Pair) -> None:
    service = pair.near.service()
    long = await service.store(ALICE, StoreRequest(content=" ".join(STORY)))
    await pair.near.remember(*FACTS)

    (given,) = await pair.given(BOAT)
    assert given.endswith(STORY[-1])
    assert len(given) < 500
    block = (await pair.near.ask(BOAT)).text
    assert f"- … {given}" in block
    first, *_ = (hit.memory for hit in (await service.search(Criteria(ALICE), BOAT, limit=5))[0])
    assert {first.content, (await service.get(ALICE, long.id)).content} == {long.content}
    assert [each.id for each in await _all(pair.near)].count(long.id) == 1
    assert [each.content async for page in service.export(ALICE) for each in page].count(long.content) == 1
    assert await pair.near.adapters.store.count(ALICE) == 1 + len(FACTS)
    # Said again it is the same memory; a short statement does not replace it.
    assert (await service.store(ALICE, StoreRequest(content=long.content))).id == long.id
    await pair.near.say("User's uncle Theodor sold his bicycle to a baker")
    assert (await service.get(ALICE, long.id)).superseded_at is None


async def test_a_long_memory_leaves_no_passage_behind(pair: Pair) -> None:
    service, alpacas = pair.near.service(), "Where does my aunt Berta breed alpacas?"

    async def told(question: str) -> str:
        return " ".join(await pair.given(question))

    long = await service.store(ALICE, StoreRequest(content=" ".join(STORY)))
    assert "Bergen" in await told(BOAT)
    edited = " ".join((*STORY[-30:-1], "Aunt Berta breeds alpacas in Graz."))
    await service.update(ALICE, long.id, UpdateRequest(content=edited))
    assert "Bergen" not in await told(BOAT)
    assert "Graz" in await told(alpacas)
    await service.update(ALICE, long.id, UpdateRequest(content="User likes tea"))
    assert "Graz" not in await told(alpacas)
    assert await told("What do I like to drink?") == "User likes tea"

    again = await service.store(ALICE, StoreRequest(content=" ".join(STORY)))
    await service.forget(ALICE, again.id)
    assert "Bergen" not in await told(BOAT)
    another = await service.store(ALICE, StoreRequest(content=" ".join((*STORY, "The mill is for sale."))))
    assert "Bergen" in await told(BOAT)
    assert await pair.near.adapters.store.delete(Scope("mallory"), [another.id]) == 0
    assert await service.forget_all(ALICE, Reach.ALL) == 2
    assert await told(BOAT) == ""
    assert await pair.near.adapters.store.load_records(ALICE, limit=1_000) == []


async def _all(recalled: Recalling) -> list[Memory]:
    return list((await recalled.service().page(Criteria(ALICE), limit=200)).memories)


async def test_a_sweep_completes_a_removal_that_was_interrupted(pair: Pair, documents: KnowledgeService) -> None:
    """Its deletion was committed, so that nothing shows the document, and then the store was away."""
    adapters = pair.near.adapters
    assert adapters.documents is not None
    kept, _ = await documents.add(_ACME, Upload(source="/srv/rules.md", data=b"Hotels need an approval."))
    removed = next(each for each in (await documents.page(_ACME, limit=2)).documents if each.id != kept.id)
    deletion = Tombstone(scope=_ACME.in_project(removed.id), at=adapters.turn_log.now(), reach=Reach.EXACT)
    await adapters.turn_log.tombstone(deletion)
    assert (await pair.near.pipelines.maintenance.sweep()).failures == ()
    rows = (await adapters.documents.page(Criteria(_ACME), limit=100)).memories
    assert {row.scope.project_id for row in rows} == {kept.id}
    assert len(rows) == 2


async def test_a_users_own_documents_are_found_by_their_requests_alone(pair: Pair) -> None:
    config = KnowledgeConfig(user_documents=True)
    switched_on = pair.near.config.model_copy(update={"knowledge": config})
    recalled = Recalling(replace(pair.near.pipelines, memory=switched_on))
    service = knowledge_service(config, recalled.adapters)
    await service.add(ALICE, Upload(source="/home/alice/handbook.md", data=_HANDBOOK))

    assert "thirty days" in (await recalled.ask(_DAYS, scope=Scope("alice", "a project"))).text
    assert (await pair.near.ask(_DAYS)).text == ""
    for scope, others in ((Scope("bob"), ()), (Scope("bob"), _OF_ACME), (Scope("acme"), ())):
        assert (await recalled.ask(_DAYS, scope=scope, others=others)).text == ""
    # Both owners' passages are ranked as one.
    await service.add(_ACME, Upload(source="/srv/rules.md", data=b"Every employee gets thirty-one days of vacation."))
    both = (await recalled.ask(_DAYS, others=_OF_ACME)).text
    assert ("thirty days" in both, "thirty-one days" in both) == (True, True)

    await recalled.pipelines.deletion.tombstone_all(ALICE, Reach.ALL)
    assert (await recalled.ask(_DAYS)).text == ""
    documents = recalled.adapters.documents
    assert documents is not None
    assert (await documents.page(Criteria(ALICE), limit=10)).memories == ()
    assert len((await documents.page(Criteria(_ACME), limit=10)).memories) == 2


async def test_a_filter_holds_at_hand_as_in_milvus_for_everybodys_memories(pair: Pair) -> None:
    city, agent = "Where do I live?", Scope("guide", kind=OwnerKind.AGENT)
    await pair.near.remember("User lives in Berlin", metadata={"category": "home", "team": "core"}, importance=0.9)
    await pair.near.remember("User lives in Oslo", metadata={"category": "work"})
    await pair.near.remember("User lives in Rome")
    await pair.near.remember("All live in Kiel", scope=agent, metadata={"category": "work"})
    await pair.near.remember("All live in Bern", scope=agent)
    others = (OtherOwner(agent, 3, 1.0),)

    async def given(condition: str) -> set[str]:
        wanted = parse_filter(condition)
        near, far = [
            await one.given(city, others=others, memory_filter=wanted, threshold=-1.0) for one in (pair.near, pair.far)
        ]
        assert sorted(near) == sorted(far)
        return {each.rpartition(" ")[2] for each in near}

    assert await given("") == {"Berlin", "Oslo", "Rome", "Kiel", "Bern"}
    assert await given("category=work") == {"Oslo", "Kiel"}
    assert await given("category=home") == {"Berlin"}
    assert await given("min_importance=0.6") == {"Berlin"}
    assert await given("metadata.team=core,category=home,min_importance=0.9") == {"Berlin"}
    assert await given("metadata.team=core,category=work") == set()
    assert (await pair.near.ask(city, memory_filter=parse_filter("category=none"))).reason is Reason.NO_MEMORIES


async def test_a_long_memory_is_found_by_its_category_too(pair: Pair) -> None:
    service = pair.near.service()
    words = " ".join(f"Detail {number} of the plan is {number * 7} metres of rope." for number in range(60))
    body = StoreRequest(content=f"{words} The climb begins at Ardvorlich.", category="sport")
    stored = await service.store(ALICE, body)
    for condition, expected in (("category=sport", [stored.id]), ("category=work", [])):
        wanted = parse_filter(condition)
        for one in (pair.near, pair.far):
            result = await one.ask("Where does the climb begin?", memory_filter=wanted, threshold=-1.0)
            assert [hit.memory.id for hit in result.hits][:1] == expected
