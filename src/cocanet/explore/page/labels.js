// Labels: select segments, merge, delete, split and name them; every change is saved before the next.

import { json, message, query } from "./api.js";
import { fetchLabels, place, take } from "./explanation.js";
import { step } from "./gallery.js";
import { draftThings } from "./picture.js";
import { byId, changed, element, levels, plural, problem, state, working_on } from "./store.js";

const panel = byId("labels");
let built = false, cursor = null, queue = Promise.resolve();

export function things() {
  if (!state.found || !state.labels || state.labels.refused) return [];
  return state.labels.revision ? state.labels.things : draftThings();
}

export function act(action, given = {}) {
  // Changes go one after the other, each on top of what the one before left.
  queue = queue.then(() => send(action, given)).catch(() => {});
  return queue;
}

async function send(action, given) {
  if (!state.found || !state.labels || state.labels.refused) return;
  const key = state.key, level = Math.max(1, state.level ?? levels());
  const body = { action, level, seen: state.labels.revision, things: [...state.picked], ...given };
  try {
    const labels = await working_on("labels", () => message(`${place()}/labels${query(state.settings)}`, {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
    }));
    if (state.key !== key) return;
    const before = new Set(things().map((thing) => thing.id));
    take(labels);
    if (["split", "apart"].includes(action)) state.picked = new Set(labels.things.map((x) => x.id).filter((id) => !before.has(id)));
    if (["undo", "redo", "restart", "delete"].includes(action)) state.picked = new Set();
    if (action === "name" && given.category && !state.categories.includes(given.category)) state.categories = [...state.categories, given.category].sort();
  } catch (error) {
    if (error.status === 409) { const words = state.problems.labels; await fetchLabels(); state.problems.labels = words; }
  }
  changed();
}

// A finger has no Shift: every tap adds, or takes away.
export const adds = (event) => event.shiftKey || event.ctrlKey || event.metaKey || event.pointerType === "touch";

export function pick(id, add) {
  if (!add) state.picked = new Set(state.picked.has(id) && state.picked.size === 1 ? [] : [id]);
  else if (state.picked.has(id)) state.picked.delete(id);
  else state.picked.add(id);
  cursor = id;
  problem("labels", null);
}

export function pickNext(by, add) {
  const ids = things().map((thing) => thing.id);
  if (!ids.length) return;
  const at = ids.indexOf(cursor), to = ids[(at + by + ids.length) % ids.length];
  if (add) state.picked.add(to); else state.picked = new Set([to]);
  cursor = to;
  changed();
}

export async function naming() {
  const input = byId("category");
  input?.focus();
  input?.select();
}

export async function exportAs(kind) {
  const said = byId("exported");
  said.textContent = "";
  try {
    const answer = await working_on("labels", () => json(`/api/models/${encodeURIComponent(state.model)}/export/${kind}`, { method: "POST" }));
    said.textContent = `${answer.path}: ${answer.said}${answer.refused.length ? `. Left out: ${answer.refused.join("; ")}` : ""}`;
  } catch { /* said where it happened */ }
}

const ACTS = [
  ["merge", "Merge", "m", 2], ["delete", "Delete", "x", 1], ["background", "Is background", "b", 1],
  ["split", "Split to parts", "s", 1], ["apart", "Take apart", "a", 1], ["keep", "Keep as found", "k", 0],
  ["undo", "Undo", "z", 0], ["redo", "Redo", "y", 0],
];

function build() {
  built = true;
  const acts = element("div", { class: "acts" }, ...ACTS.map(([action, words, key]) =>
    element("button", { type: "button", id: `act-${action}`, onclick: () => act(action), "aria-keyshortcuts": key }, words, element("kbd", {}, key))));
  const input = element("input", { type: "text", id: "category", maxlength: "60", placeholder: "category", list: "categories", autocomplete: "off", "aria-label": "Category of the selected segments" });
  const form = element("form", { class: "name" }, input, element("button", { type: "submit", id: "act-name" }, "Name", element("kbd", {}, "c")), element("datalist", { id: "categories" }));
  form.addEventListener("submit", (event) => { event.preventDefault(); act("name", { category: input.value }); input.blur(); byId("picture").focus({ preventScroll: true }); });
  const list = element("ul", { class: "things", id: "things", role: "listbox", "aria-multiselectable": "true", "aria-label": "Segments", tabindex: "0" });
  list.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) { event.preventDefault(); event.stopPropagation(); pickNext(by, event.shiftKey); }
  });
  const exports = element("fieldset", {}, element("legend", {}, "Export all labels"), element("div", { class: "row" },
    ...[["coco", "COCO"], ["png", "Label PNGs"], ["store", "Store"]].map(([kind, words]) => element("button", { type: "button", id: `export-${kind}`, onclick: () => exportAs(kind) }, words))),
  element("p", { class: "saved", id: "exported", role: "status" }));
  panel.replaceChildren(
    element("p", { class: "problem", role: "alert", id: "labels-problem", hidden: true }),
    element("p", { class: "hint" }, "Click segments to select them, with Shift or by tapping several."),
    list, form, acts, element("p", { class: "saved", id: "saved", role: "status" }),
    element("div", { class: "row" },
      element("button", { type: "button", id: "restart", onclick: () => act("restart") }, "Begin again from what is found now"),
      element("button", { type: "button", class: "first", id: "next", onclick: () => step(1) }, "Next image", element("kbd", {}, "n"))),
    exports);
}

export function draw() {
  if (!built) build();
  if (state.tab !== "labels") return;
  const refused = state.labels?.refused, there = state.labels?.revision, all = things();
  const words = byId("labels-problem");
  words.hidden = !state.problems.labels;
  words.textContent = state.problems.labels ?? "";
  byId("things").replaceChildren(...all.map(row));
  for (const [action, , , least] of ACTS) byId(`act-${action}`).disabled = refused || !state.found || state.picked.size < least;
  byId("act-undo").disabled = !state.labels?.undo;
  byId("act-redo").disabled = !state.labels?.redo;
  byId("act-keep").disabled = refused || !state.found || Boolean(there);
  byId("act-name").disabled = byId("category").disabled = refused || !state.picked.size;
  byId("restart").disabled = refused || !there;
  byId("categories").replaceChildren(...state.categories.map((name) => element("option", { value: name })));
  byId("saved").textContent = refused ? "" : there ? `Saved: ${state.labels.done}, ${plural(all.length - 1, "object")}.`
    : state.found ? "Not labelled yet: the first change saves, or keep what was found." : "";
}

function row(thing) {
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.background = thing.colour ? `rgb(${thing.colour})` : state.colours.background;
  const item = element("li", { role: "option", "aria-selected": String(state.picked.has(thing.id)), id: `thing-${thing.id}` }, swatch,
    element("span", {}, thing.background ? "–" : String(thing.label)),
    element("span", { class: "grow" }, thing.background ? "background" : thing.category || "no name yet"),
    element("small", {}, `${thing.area.toLocaleString("en")} px`));
  if (thing.id === cursor) item.classList.add("at");
  item.addEventListener("click", (event) => pick(thing.id, adds(event)));
  return item;
}
