// One memory: what it says, where it comes from, how it changed; corrected, pinned, forgotten.

import { api, ApiError } from "./api.js";
import { confirmed } from "./dialogs.js";
import { act, button, day, empty, facts, field, fill, h, link, moment, said, section, tell, tellAt } from "./dom.js";
import { formOf, many, sourceOf, typeOf } from "./words.js";

export function memoryView(id) {
  const place = h("div", { class: "one" });
  show(place, id);
  return [h("p", { class: "back" }, link("memories", {}, "All memories")), h("h1", { class: "visually-hidden", tabindex: "-1" }, "Memory"), place];
}

const at = (id) => `/memory/${encodeURIComponent(id)}`;

function show(place, id) {
  return fill(place, found(at(id)).then((memory) => (memory ? whole(memory, place) : gone())));
}

/** The answer, or null where there is none. */
async function found(path) {
  try {
    return await api("GET", path);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function gone() {
  return empty("There is no such memory.", "It was forgotten, or it never was.");
}

function whole(memory, place) {
  const text = said("p", memory.content, { class: "content" });
  const body = h("div", { class: "card" }, text);
  body.append(actions(memory, place, body));
  return [body, standing(memory), origin(memory), premises(memory), episode(memory), past(memory), details(memory)].filter(Boolean);
}

function actions(memory, place, body) {
  const again = () => show(place, memory.id);
  const pin = button(memory.pinned ? "Unpin" : "Pin", act(async () => {
    await api("PATCH", at(memory.id), { body: { pinned: !memory.pinned } });
    await again();
    tell(memory.pinned ? "Unpinned: recalled when it is relevant." : "Pinned: every request is given it.");
    focusAction("pin");
  }), { "data-action": "pin" });
  return h("div", { class: "actions" },
    button("Correct", () => correct(memory, body, again), { "data-action": "correct" }),
    pin,
    button("Forget…", () => forget(memory), { class: "danger-plain" }));
}

function focusAction(name) {
  document.querySelector(`[data-action=${name}]`)?.focus();
}

function correct(memory, body, again) {
  const text = h("textarea", { rows: 4, required: true, dir: "auto" });
  text.value = memory.content;
  const save = act(async () => {
    await api("PATCH", at(memory.id), { body: { content: text.value } });
    await again();
    tell("Corrected. It counts as said again now.");
    focusAction("correct");
  });
  const cancel = async () => { await again(); focusAction("correct"); };
  body.replaceChildren(h("form", { onsubmit: save, onkeydown: (event) => { if (event.key === "Escape") cancel(); } },
    field("Corrected text", text),
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Save"), button("Cancel", cancel))));
  text.focus();
}

function forget(memory) {
  confirmed({
    title: "Forget this memory?",
    text: "It is gone at once, with what it had replaced and the turns that it came from. This cannot be undone.",
    label: "Forget",
    work: async () => {
      await api("DELETE", at(memory.id));
      tellAt("#/memories", "Forgotten.");
    },
  });
}

/** What is not as usual about it. */
function standing(memory) {
  const notes = [];
  if (memory.superseded_at) {
    notes.push(h("p", {}, "Replaced on ", day(memory.superseded_at), "; it is not recalled any more. ",
      memory.superseded_by && link(`memory/${encodeURIComponent(memory.superseded_by)}`, {}, "See what replaced it")));
  }
  if (memory.flagged) {
    notes.push(h("p", {}, "It contradicts other memories: ", memory.contradicts.flatMap((id, index) =>
      [index ? ", " : "", link(`memory/${encodeURIComponent(id)}`, {}, `memory ${index + 1}`)]), ". Correct or forget what is wrong."));
  }
  if (memory.within_session) notes.push(h("p", {}, "It holds within one session only: ", said("span", memory.within_session)));
  return notes.length ? h("div", { class: "note" }, notes) : null;
}

/** The user's own words behind a statement, or what a quote says for certain. */
function origin(memory) {
  if (memory.quote) {
    const place = h("div");
    fill(place, found(at(memory.quote)).then((quote) => (quote ? quoted(quote, true) : h("p", { class: "hint" }, "The quote was forgotten."))));
    return section("In the words it came from", place);
  }
  if (memory.form !== "quote" || !(memory.context || memory.statements.length)) return null;
  return section("What it says",
    memory.context && h("p", { class: "hint" }, "Said about: ", said("span", memory.context)),
    memory.statements.length > 0 && facts(memory.statements.map((each) => [each.attribute, said("span", each.value)])));
}

function quoted(quote, linked) {
  return h("figure", { class: "quote" },
    h("blockquote", {}, said("p", quote.content)),
    h("figcaption", {}, "Said on ", moment(quote.observed_at), linked && " · ", linked && link(`memory/${encodeURIComponent(quote.id)}`, {}, "Open the quote")));
}

/** The memories that an insight or a merged memory was made of. */
function premises({ metadata }) {
  const ids = ["derived_from", "consolidated_from"].flatMap((name) => metadata[name] ?? []).slice(0, 20);
  if (!ids.length) return null;
  const place = h("div");
  fill(place, Promise.all(ids.map((id) => found(at(id)))).then((memories) => h("ul", { class: "given" }, memories.map((each) => h("li", {},
    each ? link(`memory/${encodeURIComponent(each.id)}`, {}, said("span", each.content)) : h("span", { class: "hint" }, "Forgotten since"))))));
  return section("What it was made from", place);
}

function episode(memory) {
  const parts = {
    Goal: memory.goal && said("span", memory.goal),
    Steps: memory.steps.length > 0 && h("ol", {}, memory.steps.map((step) => said("li", step))),
    Outcome: memory.outcome && said("span", memory.outcome),
    Lessons: memory.lessons.length > 0 && h("ul", {}, memory.lessons.map((lesson) => said("li", lesson))),
  };
  return Object.values(parts).some(Boolean) ? section("What was done", facts(parts)) : null;
}

function past(memory) {
  const place = h("div");
  fill(place, api("GET", `${at(memory.id)}/history`).then(({ data }) => timeline(data, memory.id)));
  return section("History", place);
}

function timeline(memories, shown) {
  if (memories.length < 2) return h("p", { class: "hint" }, "It replaced no other memory, and none replaced it.");
  const newest = memories.toReversed();
  return [
    h("p", { class: "hint" }, `It has changed ${memories.length === 2 ? "once" : many(memories.length - 1, "time")}. The newest is first.`),
    h("ol", { class: "timeline" }, newest.map((each) => h("li", { class: each.superseded_at ? "past" : "now" },
      h("p", { class: "when" }, day(each.observed_at), each.superseded_at ? [" to ", day(each.superseded_at)] : " · holds now"),
      each.id === shown
        ? said("p", each.content, { class: "event", "aria-current": "true" })
        : h("p", { class: "event" }, link(`memory/${encodeURIComponent(each.id)}`, {}, said("span", each.content)))))),
  ];
}

function details(memory) {
  const used = memory.access_count === null ? "" : memory.access_count === 0 ? "Never yet" : many(memory.access_count, "time");
  return section("Details", facts({
    Type: typeOf(memory.type),
    Form: formOf(memory.form),
    Category: memory.category && said("span", memory.category),
    Source: sourceOf(memory.source),
    Said: moment(memory.observed_at),
    Changed: memory.updated_at !== memory.created_at && moment(memory.updated_at),
    Expires: memory.expires_at && moment(memory.expires_at),
    Recalled: used,
    "Last recalled": memory.last_accessed_at && moment(memory.last_accessed_at),
    Project: memory.project_id && said("span", memory.project_id),
    Session: memory.session_id && said("code", memory.session_id),
    Id: said("code", memory.id),
  }));
}
