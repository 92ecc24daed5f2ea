// Answers, and what hands do on the picture.

let lasso = [], held = null, still = 0, looked = 0;
const LOOKS = 150;                 // milliseconds between pictures during a drag: curves come first
const PAUSE = 180;                 // milliseconds without a movement after which a fine answer is due

const heardOf = {
  points(answer) {
    if (answer.view !== state.setting.view) { askPoints(); return; }
    state.ends ??= structuredClone(answer.ends);
    fit();
    showPanel();
    drawStill();
    refresh();
  },
  metric(answer) {
    drawStill();
  },
  geodesic(answer) {
    counted.answers += 1;
    counted.times.push(performance.now());
    $("wait").hidden = true;
    drawLive();
    showNumbers();
    showStrip();
    showRate();
  },
  fan() { drawLive(); },
  look({ picture }) { showPicture(picture, "under the cursor"); },
  learn({ components }, outdated) {
    if (outdated) return;
    state.setting.components = components;
    $("wait").hidden = true;
    showPanel();
    refresh();
  },
  mean() { showMean(); drawLive(); },
  snippet() { showCode(); },
};

function welcome(answer) {
  world = answer;
  $("about").textContent = `${world.title}: ${world.count} points in ${world.dimension} dimensions`;
  document.title = `${world.title} - probgeo explorer`;
  $("colour").replaceChildren(...world.colours.map(name => new Option(name, name)));
  $("view").disabled = world.dimension === 2 && world.view === "principal";
  $("components").max = Math.max(1, world.most_components);
  $("rho").max = Math.max(2, 2 * (world.rho ?? 1));
  state = first();
  askPoints();
}

// Answers in the last second of a drag.
function showRate() {
  const now = performance.now();
  while (counted.times.length && counted.times[0] < now - 1000) counted.times.shift();
  if (held?.kind !== "end" || now - held.since < 1000) return;
  $("rate").hidden = false;
  $("rate").textContent = `${counted.times.length} answers a second`;
}

const pointer = event => {
  const { left, top } = $("plot").getBoundingClientRect();
  return [event.clientX - left, event.clientY - top];
};
const tool = () => document.querySelector("input[name=tool]:checked").value;
const within = ([x, y]) => [
  Math.max(frame.box[0], Math.min(frame.box[1], x)), Math.max(frame.box[2], Math.min(frame.box[3], y)),
];

function grab(event) {
  if (!state?.ends || event.button) return;
  const target = event.target.closest(".end, .knob");
  const [kind, k, axis] = target ? target.id.split("-") : [tool()];
  held = { kind, k: Number(k), axis: Number(axis), since: performance.now(), moved: false, from: pointer(event) };
  if (kind === "lasso") lasso = [toData(pointer(event))];
  if (kind === "end") target.focus({ preventScroll: true, focusVisible: false });
  $("live").setPointerCapture(event.pointerId);
  event.preventDefault();
}

function move(event) {
  const at = pointer(event);
  if (!held) { if (state?.ends) askLook(toData(at)); return; }
  if (!held.moved && Math.hypot(at[0] - held.from[0], at[1] - held.from[1]) < 3) return;
  if (!held.moved && held.kind !== "fan" && held.kind !== "lasso") remember();
  held.moved = true;
  if (held.kind === "end") {
    state.ends[held.k] = within(toData(at));
    const now = performance.now();
    if (now - looked > LOOKS) { looked = now; askLook(state.ends[held.k]); }
  }
  if (held.kind === "knob") pull(at);
  if (held.kind === "lasso") lasso.push(toData(at));
  if (held.kind === "lasso") drawLive();
  else if (held.kind !== "fan") { askGeodesic(false); placeEnd(held.k); }
  clearTimeout(still);
  if (held.kind === "end" || held.kind === "knob") still = setTimeout(() => askGeodesic(true), PAUSE);
}

// A knob stands a little outside of two standard deviations along its axis.
function pull(at) {
  const { k, axis } = held, centre = toScreen(state.ends[k]), spread = state.spreads[k];
  const away = [at[0] - centre[0], centre[1] - at[1]];
  const std = Math.max(0, Math.hypot(...away) - KNOB) / (2 * frame.scale);
  if (axis === 0) {
    const ratio = spread[0] > 0 ? spread[1] / spread[0] : 0.5;
    state.spreads[k] = [std, std * ratio, Math.atan2(away[1], away[0])];
  } else spread[1] = std;
  showPanel();
}

function drop() {
  if (!held) return;
  const { kind, k, moved, from } = held;
  held = null;
  clearTimeout(still);
  if (kind === "lasso") choose();
  else if (kind === "fan" && !moved) shoot(toData(from));
  else if (moved) {
    askGeodesic(true);
    if (kind === "end") askLook(state.ends[k]);
  }
  drawLive();
}

function choose() {
  const rows = [];
  found.points.points.forEach((point, k) => { if (inside(point, lasso)) rows.push(k); });
  lasso = [];
  if (rows.length < 3) { tell("A selection needs at least three points.", true); return; }
  remember();
  state.rows = rows;
  tell(`${rows.length} points selected`);
  showPanel();
}

function inside([x, y], loop) {
  let odd = false;
  loop.forEach(([u, v], k) => {
    const [p, q] = loop[(k + loop.length - 1) % loop.length];
    if ((v > y) !== (q > y) && x < (p - u) * (y - v) / (q - v) + u) odd = !odd;
  });
  return odd;
}

// As far as half the way from A to B.
function shoot(at) {
  remember();
  state.fan = { at, reach: Math.max(1e-6, 0.5 * (found.geodesic?.length ?? 1)) };
  askFan();
}

function press(event) {
  if ((event.ctrlKey || event.metaKey) && event.key === "z") { undo(); event.preventDefault(); return; }
  const end = event.target.closest?.(".end");
  if (!end || !state?.ends) return;
  const k = Number(end.id.split("-")[1]), step = frame.size * (event.shiftKey ? 0.05 : 0.01);
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const [along, across, angle] = state.spreads[k];
  const spreads = {
    "+": [along + step / 2, (across || along) + step / 2, angle],
    "-": [Math.max(0, along - step / 2), Math.max(0, across - step / 2), angle],
    "[": [along, across, angle - 0.2], "]": [along, across, angle + 0.2],
  };
  if (event.key === "Enter") shoot(state.ends[k]);
  else if (moves[event.key] || spreads[event.key]) {
    if (!event.repeat) remember();
    if (spreads[event.key]) state.spreads[k] = spreads[event.key];
    else state.ends[k] = within(state.ends[k].map((x, i) => x + step * moves[event.key][i]));
    askLook(state.ends[k]);
    askGeodesic(!event.repeat);
    showPanel();
    drawLive();
  } else return;
  event.preventDefault();
}

function setUp() {
  setUpPanel();
  setUpExport();
  $("live").addEventListener("pointerdown", grab);
  $("live").addEventListener("pointermove", move);
  $("live").addEventListener("pointerup", drop);
  $("live").addEventListener("pointercancel", drop);
  document.addEventListener("keydown", press);
  document.addEventListener("keyup", event => { if (event.target.closest?.(".end")) askGeodesic(true); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawStill());
  let later = 0;
  new ResizeObserver(() => {
    clearTimeout(later);
    later = setTimeout(() => { if (found.points && state?.ends) { fit(); drawStill(); drawLive(); askMetric(); } }, 60);
  }).observe($("plot"));
  connect();
}

setUp();
