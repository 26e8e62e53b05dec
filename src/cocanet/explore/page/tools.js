// Tools that draw on the image in "Labels": by pointer, or by keys, where Enter puts the pen down and lifts it.

import { act } from "./labels.js";
import { byId, changed, state } from "./store.js";

export const TOOLS = [
  { id: "select", name: "Select", key: "1", hint: "Click a segment to select it. Shift-click, or tap on a touch screen, to select several." },
  { id: "brush", name: "Brush", key: "2", hint: "Paint over the selected segment’s missing pixels. With no selection, paint a new object." },
  { id: "eraser", name: "Eraser", key: "3", hint: "Rub out to the background: pixels of the selected segments, or of any." },
  { id: "polygon", name: "Polygon", key: "4", hint: "Click corners and click the last again, or drag around. It joins the selected segment, or is a new object; Alt erases." },
  { id: "box", name: "Box", key: "5", hint: "Drag a box around an object. The object joins the selected segment, or is a new one; Alt erases." },
  { id: "cut", name: "Cut", key: "6", hint: "Draw a line across a segment, or click one point on each part. The border follows the image." },
];
const SMALLEST = 0.002, LARGEST = 0.2, MAX_POINTS = 3900;
const canvas = byId("picture");
let pen = null;              // {id, x, y, moved}: the pointer that draws, or "keys"

export const draws = () => state.tab === "labels" && state.tool !== "select" && Boolean(state.explanation && state.labels && !state.labels.unusable);
export const brushRadius = () => Math.max(0.75, state.brush * Math.max(state.explanation.image.width, state.explanation.image.height));
const onScreen = () => canvas.getBoundingClientRect().width / state.explanation.image.width;

export function choose(tool) {
  if (!TOOLS.some(({ id }) => id === tool)) return;
  cancel();
  state.tool = tool;
  changed();
}

export function resize(by) {
  state.brush = Math.min(LARGEST, Math.max(SMALLEST, state.brush * by));
  changed();
}

export function cancel() {
  // Whether there was a drawing to give up.
  const had = Boolean(state.drawn);
  pen = state.drawn = null;
  changed();
  return had;
}

export function removeLast() {
  if (state.drawn?.tool !== "polygon") return false;
  state.drawn.points.pop();
  if (!state.drawn.points.length) cancel();
  changed();
  return true;
}

function down(id, point, subtract) {
  const { tool } = state, begun = state.drawn;
  pen = { id, start: point, moved: false, before: begun?.points.length ?? 0 };
  if (begun && (tool === "polygon" || tool === "box" || tool === "cut")) begun.points.push(point);
  else state.drawn = { tool, points: [point], subtract, radius: brushRadius() };
  changed();
}

function move(point) {
  const { points, tool } = state.drawn, by = onScreen();
  if (Math.hypot(point[0] - pen.start[0], point[1] - pen.start[1]) * by > 5) pen.moved = true;
  if (tool === "box") {
    if (points.length < 2) points.push(point); else points[points.length - 1] = point;
  } else if (pen.moved || tool === "brush" || tool === "eraser") {
    const [x, y] = points[points.length - 1], apart = Math.max(1.5 / by, tool === "brush" || tool === "eraser" ? state.drawn.radius / 8 : 0);
    if (points.length < MAX_POINTS && Math.hypot(point[0] - x, point[1] - y) >= apart) points.push(point);
  }
  changed();
}

function up() {
  const drawn = state.drawn, { moved, start, before } = pen, { tool, points } = drawn;
  pen = null;
  if (tool === "brush") return send("paint");
  if (tool === "eraser") return send("erase");
  if (tool === "box") return moved || before ? send("box") : keep(points.slice(0, 1));
  if (tool === "cut") {
    if (moved) { drawn.points = points.slice(before); return send("cut"); }
    if (!before) return keep([start]);
    drawn.points = [points[0], start];
    return send("seeds");
  }
  if (moved && !before) return send("polygon");
  const near = ([x, y]) => Math.hypot(x - start[0], y - start[1]) * onScreen() < 9;
  if (before >= 3 && (near(points[0]) || near(points[before - 1]))) { drawn.points = points.slice(0, before); return send("polygon"); }
  if (before && near(points[before - 1])) return keep(points.slice(0, before));
  changed();
}

function keep(points) { state.drawn.points = points; changed(); }

function send(action) {
  const { points, radius, subtract } = state.drawn, drawn = state.drawn;
  state.drawn = null;
  state.pending = [...state.pending, drawn];
  changed();
  const round = points.map(([x, y]) => [Math.round(100 * x) / 100, Math.round(100 * y) / 100]);
  act(action, { points: round, radius, subtract: Boolean(subtract), follow: state.follow }).then(() => {
    state.pending = state.pending.filter((one) => one !== drawn);
    changed();
  });
}

function exact(event) {
  const box = canvas.getBoundingClientRect(), { width, height } = state.explanation.image;
  return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
}

export function wire() {
  canvas.addEventListener("pointerdown", (event) => {
    if (!draws() || event.button !== 0) return;
    if (pen) { cancel(); return; }        // a second finger
    canvas.setPointerCapture(event.pointerId);
    down(event.pointerId, exact(event), event.altKey);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!state.drawn || pen?.id !== event.pointerId) return;
    for (const each of event.getCoalescedEvents?.() ?? []) move(exact(each));
    move(exact(event));
  });
  canvas.addEventListener("pointerup", (event) => { if (state.drawn && pen?.id === event.pointerId) { move(exact(event)); up(); } });
  canvas.addEventListener("pointercancel", (event) => { if (pen?.id === event.pointerId) cancel(); });
}

export function enter({ x, y }, subtract) {
  // Enter at a pixel: a corner of a polygon; otherwise the pen goes down or up.
  const point = [x + 0.5, y + 0.5];
  if (pen?.id === "keys") { move(point); up(); return; }
  down("keys", point, subtract);
  if (state.tool === "polygon") up();
}

export function keysMoved({ x, y }) { if (pen?.id === "keys" && state.drawn) move([x + 0.5, y + 0.5]); }

export function draw(context, scale, ratio) {
  // What is being drawn, and what the server has not answered yet.
  canvas.style.touchAction = draws() ? "none" : "manipulation";
  canvas.style.cursor = draws() && (state.tool === "brush" || state.tool === "eraser") ? "none" : "crosshair";
  if (!draws()) return;
  for (const drawn of state.pending) drawOne(context, scale, ratio, drawn, 0.55);
  if (state.drawn) drawOne(context, scale, ratio, state.drawn, 0.8);
  if ((state.tool === "brush" || state.tool === "eraser") && state.hover) {
    ring(context, ratio, (state.hover.x + 0.5) * scale, (state.hover.y + 0.5) * scale, brushRadius() * scale);
  }
}

function drawOne(context, scale, ratio, { tool, points, radius, subtract }, alpha) {
  const path = new Path2D(), at = points.map(([x, y]) => [x * scale, y * scale]);
  context.save();
  context.lineCap = context.lineJoin = "round";
  if (tool === "box" && at.length > 1) path.rect(at[0][0], at[0][1], at[1][0] - at[0][0], at[1][1] - at[0][1]);
  else at.forEach(([x, y], index) => path[index ? "lineTo" : "moveTo"](x, y));
  if (tool === "brush" || tool === "eraser") {
    if (at.length === 1) path.lineTo(at[0][0] + 0.01, at[0][1]);
    context.globalAlpha = alpha * 0.75;
    context.lineWidth = 2 * radius * scale;
    context.strokeStyle = tool === "eraser" ? "#20242c" : "#ffffff";
    context.stroke(path);
  } else {
    for (const [wide, colour] of [[4, "#000"], [2, subtract ? "#ff8a7a" : "#ffdf3d"]]) {
      context.globalAlpha = alpha;
      context.lineWidth = wide * ratio;
      context.strokeStyle = colour;
      context.stroke(path);
    }
    for (const [x, y] of tool === "polygon" && at.length > 40 ? [] : at) if (tool !== "cut" || at.length < 3) ring(context, ratio, x, y, 4 * ratio);
  }
  context.restore();
}

function ring(context, ratio, x, y, radius) {
  for (const [wide, colour] of [[3, "#000"], [1.4, "#fff"]]) {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.lineWidth = wide * ratio;
    context.strokeStyle = colour;
    context.stroke();
  }
}
