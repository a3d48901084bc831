// What requests were given, and why; and what a request with a question would be given.

import { api, ApiError, session } from "./api.js";
import { act, day, empty, facts, field, fill, h, heading, link, moment, relevance, said, section } from "./dom.js";
import { many, orderOf, ownerName, reasonOf, term, verdictOf } from "./words.js";

export function recallsView() {
  const place = h("div", { class: "results" });
  fill(place, api("GET", "/memory/receipts").then(({ data }) => receipts(data)));
  return [
    heading("Recalls"),
    h("p", { class: "lead" }, "What the last 50 requests were given, since something was last forgotten. The requests themselves are not kept: to see every step of a recall, ",
      link("question", {}, "explain a question"), "."),
    place,
  ];
}

function receipts(data) {
  if (!data.length) return empty("No request was looked at yet.", "As soon as an assistant asks on your behalf, this page says what it was given.");
  return [
    h("h2", { class: "visually-hidden" }, "The last requests"),
    h("ol", { class: "receipts" }, data.map((receipt) => h("li", { class: "receipt" },
      h("div", { class: "meta" }, moment(receipt.at), receipt.project_id && said("span", receipt.project_id)),
      h("p", { class: "outcome" }, receipt.memories.length ? `${many(receipt.memories.length, "memory was", "memories were")} given` : reasonOf(receipt.reason)),
      receipt.steering && h("p", { class: "outcome" }, orderOf(receipt)),
      why(receipt)))),
  ];
}

function why(receipt) {
  const place = h("div");
  const ask = h("p", { class: "hint" }, "A memory is given when it is relevant enough to the request. ", link("question", {}, "Explain a question"), " to see every step of it.");
  const details = h("details", { class: "why" }, h("summary", {}, "Why this?"), place, ask);
  details.addEventListener("toggle", () => {
    if (details.open && !place.hasChildNodes()) fill(place, given(receipt));
  });
  return details;
}

async function given(receipt) {
  if (!receipt.memories.length) return h("p", {}, `${reasonOf(receipt.reason)}.`);
  const memories = await Promise.all(receipt.memories.map((each) => known(each.id)));
  return h("ul", { class: "given" }, receipt.memories.map((each, index) => h("li", {},
    memories[index]
      ? link(`memory/${encodeURIComponent(each.id)}`, {}, said("span", memories[index].content))
      : h("span", { class: "hint" }, each.owner === session.owner ? "Forgotten since" : ["A memory of ", said("span", ownerName(each.owner))]),
    h("div", { class: "meta" }, memories[index] && day(memories[index].observed_at), relevance(each.relevance)))));
}

async function known(id) {
  try {
    return await api("GET", `/memory/${encodeURIComponent(id)}`);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

// -- a question

export function questionView() {
  const question = h("textarea", { rows: 2, required: true, dir: "auto", placeholder: "What is my budget for the trip?" });
  const place = h("div", { class: "results" });
  const ask = act(() => fill(place, api("POST", "/memory/search", { body: { query: question.value, as: "recall" } }).then(explained)));
  return [
    heading("Explain a question"),
    h("p", { class: "lead" }, "See which memories a request with this question would be given, and why. Nothing is sent to a model, and nothing is stored."),
    h("form", { class: "ask", onsubmit: ask }, field("Question", question), h("button", { class: "primary" }, "Explain")),
    place,
  ];
}

function explained(answer) {
  const chosen = answer.data.filter(isGiven).length;
  return [
    section("Outcome",
      h("p", { class: "outcome" }, chosen ? `${many(chosen, "memory", "memories")} would be given.` : `${reasonOf(answer.reason)}.`),
      reading(answer)),
    answer.data.length > 0 && section("What was considered", h("ol", { class: "candidates" }, answer.data.map(candidate))),
    answer.text && section("What the model is given", said("pre", answer.text, { tabindex: "0" })),
  ].filter(Boolean);
}

function reading({ question, threshold }) {
  if (!question) return null;
  return facts({
    "Searched for": question.searched.filter(Boolean).map((text) => said("p", text)),
    "About the user": question.personal ? "Yes" : "No",
    "Refers to something before": question.vague ? "Yes" : null,
    Needs: question.needs.map(term).join(", "),
    "Least relevance": threshold === null ? null : `${Math.round(threshold * 100)} %`,
  });
}

/** A pinned memory is given whatever the question is. */
function isGiven({ verdict }) {
  return verdict === "chosen" || verdict === "pinned";
}

function candidate(each) {
  const features = Object.entries(each.features);
  return h("li", { class: isGiven(each) ? "candidate chosen" : "candidate" },
    each.memory ? link(`memory/${encodeURIComponent(each.id)}`, { class: "memory-text" }, said("span", each.memory.content)) : said("span", each.id),
    h("div", { class: "meta" },
      h("span", { class: isGiven(each) ? "tag pinned" : "tag" }, verdictOf(each.verdict)), relevance(each.relevance)),
    features.length > 0 && h("details", {}, h("summary", {}, "What its relevance is made of"),
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Feature"), h("th", { scope: "col" }, "Value"))),
        h("tbody", {}, features.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, term(name)), h("td", {}, value.toFixed(3))))))));
}
