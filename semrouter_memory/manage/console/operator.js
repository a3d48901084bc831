// What an operator does: sign in, choose whose memories are shown, look after the queue.

import { api, keep } from "./api.js";
import { confirmed } from "./dialogs.js";
import { act, button, empty, facts, field, fill, h, heading, link, moment, said, section, select, tell, tellAt } from "./dom.js";
import { many, stateOf, term } from "./words.js";

const PAGE = 50;

export function signInView(onToken) {
  const token = h("input", { type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  return [h("div", { class: "sign-in" },
    heading("Sign in as operator"),
    h("p", { class: "lead" }, "The token is the one of management.operator_token. It is kept in this tab only, and is gone when the tab is closed."),
    h("form", { onsubmit: act(async () => { keep({ token: token.value }); await onToken(); }) },
      field("Operator's token", token), h("div", { class: "actions" }, h("button", { class: "primary" }, "Sign in"))))];
}

/** Choose an owner by id. */
export function ownerForm(onOwner) {
  const kind = select("kind", { user: "User", org: "Organisation", agent: "Agent" });
  const id = h("input", { type: "text", name: "id", required: true, autocomplete: "off", spellcheck: "false" });
  return h("form", { class: "choose", onsubmit: (event) => { event.preventDefault(); onOwner(`${kind.value}:${id.value.trim()}`); } },
    field("Whose", kind), field("Id", id), h("button", { class: "primary" }, "Open"));
}

export function overviewView(onOwner) {
  const health = h("div");
  const totals = h("div");
  const collections = h("div");
  const load = () => Promise.all([
    fill(health, ready()),
    fill(totals, api("GET", "/turns/totals", { owned: false }).then(counted)),
    fill(collections, api("GET", "/collections", { owned: false }).then(listed)),
  ]);
  load();
  return [
    heading("Overview", button("Refresh", act(async () => { await load(); tell("Refreshed."); }))),
    section("Open someone's memories", h("p", {}, "Everything on those pages is done in that owner's name."), ownerForm(onOwner)),
    section("Health", health),
    section("Turns", h("p", {}, "What became of all turns ever accepted."), totals),
    section("Collections", collections),
  ];
}

/** /readyz answers 503 with the same body when it is not ready. */
async function ready() {
  const answer = await fetch(new URL("../../readyz", location.href));
  const state = await answer.json();
  const good = { status: "ready", model: "loaded", store: "available", turn_log: "available" };
  return h("dl", { class: "health" }, Object.entries(state).map(([name, value]) => h("div", {},
    h("dt", {}, term(name)), h("dd", { class: good[name] === value ? "good" : "bad" }, term(value)))));
}

function counted(totals) {
  const names = { accepted: "Accepted", waiting: "Waiting", extracted: "Learned from", empty: "Nothing to learn", dead_lettered: "Dead letters", deleted: "Deleted" };
  return h("dl", { class: "totals" }, Object.entries(names).map(([name, label]) => h("div", {}, h("dt", {}, label), h("dd", {}, totals[name].toLocaleString()))));
}

function listed({ data }) {
  return h("ul", { class: "plain-list" }, data.map((each) => h("li", {}, said("code", each.name), each.current && h("span", { class: "tag pinned" }, "In use"))));
}

// -- turns

export function queueView() {
  const states = { waiting: "Waiting", "": "All", extracted: "Learned from", empty: "Nothing to learn", dead: "Dead letters" };
  const state = select("state", states, "waiting");
  return turnsView("Queue", state, { controls: [h("form", { class: "filters" }, field("State", state))] },
    "Turns that wait are read within seconds of an idle moment. What was said is shown only when you ask for it.",
    empty("Nothing waits.", "Every turn has been read."));
}

export function deadView() {
  const all = button("Retry all", act(async () => {
    const { retried } = await api("POST", "/turns/retry", { owned: false });
    tellAt("#/dead", `${many(retried, "turn waits", "turns wait")} again.`);
  }));
  return turnsView("Dead letters", { value: "dead", addEventListener() {} }, { actions: [h("div", { class: "actions" }, all)] },
    "Turns that failed too often to be tried again. Retry them once the cause is mended, or drop them.",
    empty("No dead letters.", "A turn comes here when it failed as often as memory.retain allows."));
}

/** `actions`: on all that are listed, shown where there are any. */
function turnsView(title, state, { controls = [], actions = [] }, lead, nothing) {
  const place = h("div", { class: "results" });
  const load = () => fill(place, turns(state.value, () => load()).then((list) => (list ? [...actions, ...list] : nothing)));
  state.addEventListener("change", load);
  load();
  return [heading(title), h("p", { class: "lead" }, lead), ...controls, place];
}

/** Null where there are none. */
async function turns(state, again) {
  const items = h("ul", { class: "turns" });
  let before = null;
  const next = async () => {
    const page = await api("GET", "/turns", { query: { state, limit: PAGE, before }, owned: false });
    items.append(...page.data.map((each) => turn(each, again)));
    before = page.next_before;
    more.hidden = before === null;
  };
  const more = button("Show more", act(next));
  await next();
  return items.childElementCount ? [h("h2", { class: "visually-hidden" }, "Turns"), items, h("div", { class: "more" }, more)] : null;
}

function turn(each, again) {
  const texts = h("div");
  const show = h("details", {}, h("summary", {}, "Show what was said"), texts);
  show.addEventListener("toggle", () => { if (show.open && !texts.hasChildNodes()) fill(texts, spoken(each.id)); });
  const path = `/turns/${encodeURIComponent(each.id)}`;
  const canRetry = each.state === "dead";
  const canDrop = canRetry || each.state === "waiting";
  return h("li", { class: "turn" },
    h("div", { class: "meta" },
      h("span", { class: `tag state-${each.state}` }, stateOf(each.state)), moment(each.observed_at),
      link(`open/${encodeURIComponent(`user:${each.user_id}`)}`, {}, said("span", each.user_id)),
      h("span", {}, many(each.chars, "character")),
      each.attempts > 0 && h("span", {}, `${many(each.attempts, "failure")}${each.error ? `: ${each.error}` : ""}`)),
    show,
    canDrop && h("div", { class: "actions" },
      canRetry && button("Retry", act(async () => { await api("POST", `${path}/retry`, { owned: false }); tell("It waits again."); await again(); })),
      button("Drop…", () => confirmed({
        title: "Drop this turn?",
        text: "Nothing will be learned from it. This cannot be undone.",
        label: "Drop",
        work: async () => { await api("DELETE", path, { owned: false }); tell("Dropped."); await again(); },
      }), { class: "danger-plain" })));
}

async function spoken(id) {
  const whole = await api("GET", `/turns/${encodeURIComponent(id)}`, { owned: false });
  return facts({ "The user said": said("p", whole.user_text), "The answer was": said("p", whole.assistant_text) });
}

export function signOut() {
  keep({ token: null, owner: null });
  location.replace(location.pathname);
}

