// The user's data as a whole: paused, taken away, brought back, forgotten.

import { api, ApiError, download, session, upload } from "./api.js";
import { confirmed } from "./dialogs.js";
import { act, button, complain, field, h, heading, moment, said, section, tell, tellAt } from "./dom.js";
import { many, ownerName } from "./words.js";

export function dataView() {
  return [
    heading(session.operator ? "Data" : "Your data"),
    h("div", { class: "stack" },
      remembering(),
      card("Export", h("p", {}, "A file with everything that is remembered, with its history: one JSON object a line."), exporting()),
      card("Import", h("p", {}, "Add the memories of such a file. What is there already is skipped, so a file may be imported twice."), importing()),
      h("div", { class: "card danger-zone" }, section("Forget everything",
        h("p", {}, "Every memory, its history, the receipts, and what still waits to be learned from. This cannot be undone: export first what you want to keep."),
        h("div", { class: "actions" }, button("Forget everything…", forgetAll, { class: "danger" }))))),
  ];
}

function card(title, ...children) {
  return h("div", { class: "card" }, section(title, ...children));
}

// -- pause

/** Whether remembering is paused; null where this cannot be said. */
async function settings() {
  try {
    return await api("GET", "/memory/settings");
  } catch (error) {
    if (error instanceof ApiError && [404, 405].includes(error.status)) return null;
    throw error;
  }
}

function remembering() {
  const place = h("div", { hidden: true });
  const show = ({ paused, paused_at: since }) => {
    const control = button(paused ? "Resume remembering" : "Pause remembering", act(async () => {
      const now = await api("PUT", "/memory/settings", { body: { paused: !paused } });
      show(now);
      await showState();
      tell(now.paused ? "Paused. Nothing is remembered or recalled until you resume." : "Remembering again.");
      place.querySelector("button").focus();
    }), { class: paused ? "primary" : null });
    place.replaceChildren(card("Remembering",
      paused
        ? h("p", {}, h("strong", {}, "Paused"), since && " since ", since && moment(since), ". Requests are given nothing, and nothing that is said is kept. What was remembered stays.")
        : h("p", {}, h("strong", {}, "On"), ". What you say is remembered, and requests are given what helps. Pausing stops both, for every client at once."),
      h("div", { class: "actions" }, control)));
    place.hidden = false;
  };
  settings().then((now) => now && show(now)).catch(complain);
  return place;
}

/** Beside whose page it is: whether remembering is paused. */
export async function showState() {
  const place = document.getElementById("paused");
  const now = place && session.owner ? await settings().catch(() => null) : null;
  if (place) place.hidden = !now?.paused;
}

// -- export and import

function exporting() {
  return h("div", { class: "actions" }, button("Export", act(async () => {
    const content = await download("/memory/export");
    const address = URL.createObjectURL(content);
    h("a", { href: address, download: `memories-${ownerName(session.owner).replaceAll(/[^\w.-]+/g, "-")}.ndjson` }).click();
    URL.revokeObjectURL(address);
    tell(`Exported: ${many(Math.ceil(content.size / 1024), "KB", "KB")}.`);
  })));
}

function importing() {
  const file = h("input", { type: "file", accept: ".ndjson,.jsonl,application/x-ndjson", required: true });
  const report = h("div", { class: "report" });
  const run = act(async () => {
    const progress = h("progress", { max: 1, value: 0, "aria-label": "Sent" });
    report.replaceChildren(progress);
    try {
      const done = await upload("/memory/import", file.files[0], (share) => { progress.value = share; });
      report.replaceChildren(...imported(done));
      tell(`${many(done.imported, "memory", "memories")} imported.`);
    } catch (error) {
      report.replaceChildren();
      throw error;
    }
  });
  return h("form", { onsubmit: run }, field("File", file), h("div", { class: "actions" }, h("button", {}, "Import")), report);
}

function imported({ lines, imported: added, skipped, refused, errors }) {
  const summary = h("p", {}, `${many(lines, "line")}: ${added} imported, ${skipped} skipped, ${refused} refused.`);
  if (!errors.length) return [summary];
  return [summary, h("table", {},
    h("caption", {}, "Refused lines"),
    h("thead", {}, h("tr", {}, ["Line", "Field", "Why"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, errors.map((each) => h("tr", {}, h("th", { scope: "row" }, String(each.line)), said("td", each.param ?? ""), said("td", each.message)))))];
}

function forgetAll() {
  confirmed({
    title: "Forget everything?",
    text: `Everything that is remembered of ${ownerName(session.owner)} is gone at once. This cannot be undone.`,
    label: "Forget everything",
    word: "forget",
    work: async () => {
      const { deleted } = await api("DELETE", "/memory");
      tellAt("#/memories", `${many(deleted, "memory was", "memories were")} forgotten.`);
    },
  });
}
