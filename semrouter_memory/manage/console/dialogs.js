// Second thoughts before anything is deleted. The dialog element keeps the focus inside and closes on Escape.

import { act, button, counter, field, h } from "./dom.js";

/** Asks, and then does it. Args: word: what must be typed first; null: nothing. */
export function confirmed({ title, text, label, word = null, work }) {
  const id = `dialog-${counter()}`;
  const dialog = h("dialog", { "aria-labelledby": id, "aria-describedby": `${id}-text`, onclose: () => dialog.remove() });
  const typed = word && h("input", { type: "text", autocomplete: "off", spellcheck: "false", autofocus: true });
  const confirm = button(label, act(async () => {
    await work();
    dialog.close();
  }), { class: "danger", disabled: Boolean(word) });
  if (typed) typed.addEventListener("input", () => { confirm.disabled = typed.value.trim().toLowerCase() !== word; });
  const form = h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); if (!confirm.disabled) confirm.click(); } },
    h("h2", { id }, title),
    h("p", { id: `${id}-text` }, text),
    typed && field(`Type “${word}” to confirm`, typed),
    h("div", { role: "alert" }),
    h("div", { class: "actions end" }, button("Cancel", () => dialog.close(), { autofocus: !typed }), confirm));
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
}
