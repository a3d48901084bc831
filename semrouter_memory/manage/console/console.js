// The page: who looks at it, which views there are, and which one is shown.

import { api, ApiError, keep, session } from "./api.js";
import { dataView, showState } from "./data.js";
import { button, complain, empty, h, heading, link, quiet, said } from "./dom.js";
import { memoriesView } from "./memories.js";
import { memoryView } from "./memory.js";
import { deadView, overviewView, queueView, signInView, signOut } from "./operator.js";
import { questionView, recallsView } from "./recalls.js";
import { ownerName } from "./words.js";

const OF_OWNER = { memories: "Memories", recalls: "Recalls", question: "Explain", data: "Data" };
const OF_OPERATOR = { overview: "Overview", queue: "Queue", dead: "Dead letters" };

const main = document.getElementById("main");
const views = document.getElementById("views");

function view(name, rest, params) {
  if (session.operator) {
    if (name === "overview") return overviewView(open);
    if (name === "queue") return queueView();
    if (name === "dead") return deadView();
  }
  if (!session.owner) return overviewView(open);
  if (name === "memory") return memoryView(rest);
  if (name === "recalls") return recallsView();
  if (name === "question") return questionView();
  if (name === "data") return dataView();
  if (name === "memories") return memoriesView(params);
  return [heading("Not here"), empty("There is no such view.")];
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/");
  return { name: name || (session.operator && !session.owner ? "overview" : "memories"), rest: decoded(rest.join("/")), params: new URLSearchParams(query) };
}

/** What an address holds that nobody could have encoded is taken as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

let first = true;

function show() {
  const { name, rest, params } = route();
  if (session.operator && name === "open") return open(rest);
  for (const each of document.querySelectorAll("dialog")) each.close();
  main.replaceChildren(...view(name, rest, params));
  const title = main.querySelector("h1");
  document.title = `${title.textContent} · Memory`;
  for (const each of views.querySelectorAll("a")) {
    const current = each.dataset.view === (name === "memory" ? "memories" : name);
    if (current) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  // A screen reader goes on at the new view's heading, as it does with a new page.
  if (!first) {
    window.scrollTo(0, 0);
    title.focus({ preventScroll: true });
  }
  first = false;
  return undefined;
}

/** Show the memories of this owner. */
function open(owner) {
  keep({ owner });
  navigation();
  if (location.hash === "#/memories") show();
  else location.replace("#/memories");
}

function navigation() {
  const list = (names, label) => h("ul", { "aria-label": label }, Object.entries(names).map(([name, title]) =>
    h("li", {}, h("a", { href: `#/${name}`, "data-view": name }, title))));
  views.replaceChildren(...[
    session.operator && list(OF_OPERATOR, "Operation"),
    session.owner && list(OF_OWNER, "Memory"),
  ].filter(Boolean));
  views.hidden = false;
  document.getElementById("viewer").replaceChildren(...[
    link("data", { class: "tag paused", id: "paused", hidden: true }, "Paused"),
    session.owner && h("span", { class: "owner" }, h("span", { class: "visually-hidden" }, "Memories of "), said("span", ownerName(session.owner))),
    session.operator && button("Sign out", signOut, { class: "plain" }),
  ].filter(Boolean));
  showState();
}

async function begin() {
  try {
    if (offered && await asksForToken()) keep(offered);
    offered = null;
    const { owner } = await api("GET", "/memory/console/viewer", { owned: false });
    session.operator = owner === null;
    if (owner !== null) session.owner = owner;
    navigation();
    show();
  } catch (error) {
    if (error instanceof ApiError && error.code === "bad_operator_token") askForToken(error);
    else {
      main.replaceChildren(heading("Memory"), empty("This page cannot be shown.", "Reload it once you are signed in."));
      complain(error);
    }
  }
}

function askForToken(error) {
  main.replaceChildren(...signInView(begin));
  document.title = "Sign in · Memory";
  if (session.token) complain(error);
  keep({ token: null });
  main.querySelector("input").focus();
}

/** Whether the server asks for the operator's token. A user's page does not: whose it is, a filter in front says, and no
 * address that somebody else wrote may put another identity in its place. */
async function asksForToken() {
  keep({ token: null });
  try {
    await api("GET", "/memory/console/viewer", { owned: false });
    return false;
  } catch (error) {
    return error instanceof ApiError && error.code === "bad_operator_token";
  }
}

let offered = null; // the token and the owner that the address brought

/** Whether the address brought the operator's token, and perhaps an owner, behind the #, which no server sees; they are taken off at once. */
function tookCredentials() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    offered = { token: given.get("token"), owner: given.get("owner") };
    history.replaceState(null, "", location.pathname);
    return true;
  }
  return false;
}

document.getElementById("skip").addEventListener("click", () => main.focus());
window.addEventListener("hashchange", () => {
  quiet();
  if (tookCredentials()) begin();
  else show();
});
tookCredentials();
begin();
