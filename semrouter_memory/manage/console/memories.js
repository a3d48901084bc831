// What is remembered: searched, filtered, page by page.

import { api } from "./api.js";
import { act, button, day, empty, field, fill, h, heading, link, relevance, said, select, tell } from "./dom.js";
import { formOf, many, sourceOf, SOURCES, typeOf, TYPES } from "./words.js";

const PAGE = 25;
const NAMES = ["q", "type", "form", "source", "since", "until", "pinned"];

export function memoriesView(params) {
  const wanted = Object.fromEntries(NAMES.map((name) => [name, params.get(name) ?? ""]));
  const results = h("div", { class: "results" });
  const list = () => {
    const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
    history.replaceState(null, "", query.size ? `#/memories?${query}` : "#/memories");
    return fill(results, wanted.q ? searched(wanted) : listed(wanted));
  };
  list();
  return [heading("Memories"), filters(wanted, list), results];
}

function filters(wanted, list) {
  const search = h("input", { type: "search", name: "q", value: wanted.q, autocomplete: "off", placeholder: "Search in your own words" });
  const controls = {
    type: select("type", { "": "Every type", ...TYPES }, wanted.type),
    form: select("form", { "": "Every form", quote: "Quotes only", statement: "Statements only" }, wanted.form),
    source: select("source", { "": "Every source", ...SOURCES }, wanted.source),
    since: h("input", { type: "date", name: "since", value: wanted.since }),
    until: h("input", { type: "date", name: "until", value: wanted.until }),
  };
  const pinned = h("input", { type: "checkbox", name: "pinned", value: "true", checked: wanted.pinned === "true", id: "pinned-only" });
  const narrows = NAMES.some((name) => name !== "q" && wanted[name]);
  const form = h("form", { role: "search", class: "filters" },
    h("div", { class: "search" }, field("Search", search), h("button", { class: "primary" }, "Search")),
    h("details", { class: "narrowing", open: narrows || matchMedia("(min-width: 40rem)").matches },
      h("summary", {}, "Filters"),
      h("div", { class: "narrow" },
        field("Type", controls.type), field("Form", controls.form), field("Source", controls.source),
        field("Said since", controls.since), field("Said until", controls.until)),
      h("div", { class: "narrow-more" },
        h("label", { class: "check", for: "pinned-only" }, pinned, "Pinned only"),
        button("Clear filters", () => { clear(form); apply(); search.focus(); }, { class: "plain" }))));
  const apply = () => {
    const given = new FormData(form);
    for (const name of NAMES) wanted[name] = String(given.get(name) ?? "").trim();
    return list();
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  form.addEventListener("change", (event) => { if (event.target !== search) apply(); });
  // It was emptied with its own button.
  search.addEventListener("search", () => { if (!search.value) apply(); });
  return form;
}

/** `reset` returns to what the page began with, which may be filters of a link. */
function clear(form) {
  for (const control of form.elements) {
    if (control.type === "checkbox") control.checked = false;
    else if (control.tagName !== "BUTTON") control.value = "";
  }
}

/** The dates as moments: days begin and end where the reader is, as those that the list shows do. */
function inMoments({ since, until, ...rest }) {
  return { ...rest, since: startOf(since, 0), until: startOf(until, 1) };
}

function startOf(date, daysLater) {
  const start = new Date(`${date}T00:00`);
  start.setDate(start.getDate() + daysLater);
  // What is no date, the API refuses in its own words.
  return Number.isNaN(start.getTime()) ? date : start.toISOString();
}

async function listed(wanted) {
  const { q: _, ...query } = inMoments(wanted);
  const list = await paged((cursor) => api("GET", "/memory", { query: { ...query, limit: PAGE, cursor } }));
  if (!list) return none(Object.values(query).some(Boolean));
  return [h("h2", { class: "visually-hidden" }, "What is remembered"), ...list];
}

async function searched(wanted) {
  const { q, type, pinned, ...narrowed } = inMoments(wanted);
  const body = { query: q, limit: PAGE, ...Object.fromEntries(Object.entries(narrowed).filter(([, value]) => value)) };
  if (type) body.types = [type];
  if (pinned) body.pinned = true;
  const list = await paged((cursor) => api("POST", "/memory/search", { body: { ...body, cursor } }));
  if (!list) return none(true);
  return [
    h("h2", {}, "Closest to what you searched for"),
    h("p", { class: "hint" }, "The most relevant first. A request is given only what is relevant enough to it."),
    ...list,
  ];
}

/** The memories of the first page, and a button for more; null where there are none. `page`: the answer for a cursor. */
async function paged(page) {
  const items = h("ul", { class: "memories" });
  const more = button("Show more", act(async () => {
    const before = items.childElementCount;
    await next();
    tell(`${many(items.childElementCount - before, "more memory", "more memories")}.`);
    items.children[before]?.querySelector("a").focus();
  }));
  let cursor = "";
  // A page may be empty and still have a successor.
  const next = async () => {
    const before = items.childElementCount;
    do {
      const { data, next_cursor: further } = await page(cursor);
      items.append(...data.map((memory) => row(memory)));
      cursor = further ?? "";
    } while (cursor && items.childElementCount === before);
    more.hidden = !cursor;
  };
  await next();
  return items.childElementCount ? [items, h("div", { class: "more" }, more)] : null;
}

function none(narrowed) {
  return narrowed
    ? empty("Nothing fits.", "Try fewer words, or clear the filters.")
    : empty("Nothing is remembered yet.",
      "Tell your assistant something about yourself, such as “My budget for the Hawaii trip is $10,000”. It appears here within seconds, in your own words.");
}

/** One memory of a list, or of a search. */
function row(memory) {
  return h("li", { class: "memory" },
    link(`memory/${encodeURIComponent(memory.id)}`, { class: "memory-text" }, said("span", memory.content)),
    h("div", { class: "meta" },
      memory.pinned && h("span", { class: "tag pinned" }, "Pinned"),
      memory.superseded_at && h("span", { class: "tag past" }, "Replaced"),
      h("span", { class: memory.form === "quote" ? "tag own-words" : "tag" }, formOf(memory.form)),
      h("span", {}, typeOf(memory.type)),
      h("span", {}, sourceOf(memory.source)),
      memory.category && said("span", memory.category),
      memory.project_id && said("span", memory.project_id),
      day(memory.observed_at),
      memory.relevance !== undefined && relevance(memory.relevance)));
}

