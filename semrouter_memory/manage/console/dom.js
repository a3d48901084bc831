// Elements. Whatever comes from the API becomes text nodes and nothing else; links lead within this page only.

/** An element; names that begin with "on" are listeners, false and null attributes and children are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return element;
}

/** Text of a user, in its own direction, which ends with it. */
export function said(tag, text, attributes = {}) {
  return h(tag, { dir: "auto", ...attributes, class: `said ${attributes.class ?? ""}`.trim() }, text);
}

export function link(path, attributes, ...children) {
  return h("a", { ...attributes, href: `#/${path}` }, ...children);
}

export function button(label, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, label);
}

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function day(iso) {
  return h("time", { datetime: iso, title: MOMENT.format(new Date(iso)) }, DAY.format(new Date(iso)));
}

export function moment(iso) {
  return h("time", { datetime: iso }, MOMENT.format(new Date(iso)));
}

export function heading(text, ...beside) {
  return h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, text), ...beside);
}

export function section(title, ...children) {
  const id = `section-${counter()}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

let count = 0;
export function counter() {
  count += 1;
  return count;
}

/** A labelled control. */
export function field(label, control, hint) {
  const id = `field-${counter()}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, label), control, hint && h("p", { class: "hint", id: `${id}-hint` }, hint));
}

export function select(name, options, chosen = "") {
  return h("select", { name }, Object.entries(options).map(([value, label]) => h("option", { value, selected: value === chosen }, label)));
}

/** Facts with names, or pairs of both, where a name may come twice; those without a value are left out. */
export function facts(named) {
  return h("dl", { class: "facts" }, (Array.isArray(named) ? named : Object.entries(named))
    .filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false && value.length !== 0)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), ...text.map((each) => h("p", {}, each)));
}

export function relevance(value) {
  const percent = Math.round(100 * Math.max(0, Math.min(1, value)));
  const part = h("div");
  part.style.width = `${percent}%`;
  const meter = h("div", { class: "meter", role: "meter", "aria-label": "Relevance", "aria-valuenow": percent, "aria-valuemin": 0, "aria-valuemax": 100 }, part);
  return h("div", { class: "relevance" }, meter, h("span", {}, `${percent} %`));
}

// -- what is going on

const WORTH_SAYING_MS = 300;

/** Says in the region what has succeeded. */
export function tell(text) {
  message("status", text);
  message("alert", "");
}

/** Says what failed, in the API's words. */
export function complain(error) {
  message("status", "");
  message("alert", error instanceof Error ? sentence(error.message) : String(error));
  if (!("status" in Object(error))) throw error;
}

let next = "";

/** Goes to another view, and says there what has succeeded. */
export function tellAt(path, text) {
  next = text;
  if (location.hash === path) window.dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = path;
}

/** A new view begins: what was said before is over. */
export function quiet() {
  tell(next);
  next = "";
}

function message(id, text) {
  const regions = [...document.querySelectorAll(`#${id}, dialog [role=${id}]`)];
  for (const each of regions) each.replaceChildren();
  // Behind an open dialog, the page is inert: what stands there is not read out, and cannot be dismissed.
  const region = regions.at(-1);
  if (text) region.append(said("p", text), button("Dismiss", () => region.replaceChildren(), { class: "plain" }));
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

const newest = new WeakMap();

/** Fills a place with what a promise gives, unless it is asked for something newer meanwhile; says so when that takes more
 * than a moment, and what failed. */
export async function fill(place, promise) {
  newest.set(place, promise);
  place.setAttribute("aria-busy", "true");
  const waiting = setTimeout(() => place.append(h("p", { class: "loading", role: "status" }, "Loading…")), WORTH_SAYING_MS);
  try {
    const content = [await promise].flat();
    if (newest.get(place) === promise) place.replaceChildren(...content);
  } catch (error) {
    if (newest.get(place) !== promise || !place.isConnected) return;
    place.replaceChildren(empty("This cannot be shown now.", "Reload the page to try again."));
    complain(error);
  } finally {
    clearTimeout(waiting);
    if (newest.get(place) === promise) place.removeAttribute("aria-busy");
  }
}

/** A button's action: the button waits for it, and what fails is said. */
export function act(work) {
  return async (event) => {
    const control = event.currentTarget;
    event.preventDefault();
    if ("busy" in control.dataset) return;
    control.dataset.busy = "";
    try {
      await work(event);
    } catch (error) {
      complain(error);
    } finally {
      delete control.dataset.busy;
    }
  };
}
