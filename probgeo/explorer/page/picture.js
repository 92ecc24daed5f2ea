// The picture: two layers of SVG. The still one holds the metric and the data, the live one what
// moves; so a drag repaints only the latter.

const SVG = "http://www.w3.org/2000/svg";
const PALETTE = ["#4a8fd9", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#e08214", "#8c6bb1", "#8d6e63", "#7f8a99"];
const RAMP = ["#3b4cc0", "#5d9bd5", "#7fbf9b", "#e5c75a", "#d7532f"];
const ROOM = 0.1, KNOB = 30;       // around the data, relative; between an ellipse and its knob, pixels
const frame = { width: 1, height: 1, scale: 1, box: [0, 1, 0, 1] };
const layers = {
  background: "metric", ellipses: "its ellipses", points: "data", straight: "straight line",
  samples: "draws", others: "other minima", nodes: "nodes",
};
const hidden = new Set(["nodes"]);

function make(parent, name, attributes = {}) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

const toScreen = ([x, y]) => [(x - frame.box[0]) * frame.scale, frame.height - (y - frame.box[2]) * frame.scale];
const toData = ([u, v]) => [frame.box[0] + u / frame.scale, frame.box[2] + (frame.height - v) / frame.scale];
const fixed = x => x.toFixed(1);
const trace = points => points.length ? "M" + points.map(p => toScreen(p).map(fixed).join(",")).join("L") : "";
const dots = points => points.map(p => `M${toScreen(p).map(fixed).join(",")}h0`).join("");

// Everything at one scale, as much room around the data as the window gives.
function fit() {
  const points = found.points.points;
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of points) {
    left = Math.min(left, x); right = Math.max(right, x);
    bottom = Math.min(bottom, y); top = Math.max(top, y);
  }
  const { width, height } = $("plot").getBoundingClientRect();
  const span = [(right - left) * (1 + 2 * ROOM) || 1, (top - bottom) * (1 + 2 * ROOM) || 1];
  const scale = Math.min(width / span[0], height / span[1]);
  const half = [width / scale / 2, height / scale / 2];
  const middle = [(left + right) / 2, (bottom + top) / 2];
  Object.assign(frame, { width, height, scale });
  frame.box = [middle[0] - half[0], middle[0] + half[0], middle[1] - half[1], middle[1] + half[1]];
  frame.size = Math.hypot(right - left, top - bottom);
  for (const id of ["still", "live"]) $(id).setAttribute("viewBox", `0 0 ${width} ${height}`);
}

// ------------------------------------------------------------------ the still layer

function drawStill() {
  const still = $("still");
  still.replaceChildren();
  if (found.metric && !hidden.has("background")) drawBackground(still);
  if (found.metric && !hidden.has("ellipses"))
    for (const ball of found.metric.ellipses) drawEllipse(still, ball, "ball");
  if (found.points && !hidden.has("points")) drawPoints(still);
}

function drawBackground(still) {
  const { box, shape: [rows, columns], shades } = found.metric;
  const canvas = new OffscreenCanvas(columns, rows), bytes = unpacked(shades, Uint8Array);
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  const low = colourOf("--low"), high = colourOf("--high");
  bytes.forEach((shade, k) => {
    const to = 4 * ((rows - 1 - Math.floor(k / columns)) * columns + k % columns), part = shade / 255;
    for (let c = 0; c < 3; c++) image.data[to + c] = low[c] + part * (high[c] - low[c]);
    image.data[to + 3] = 255;
  });
  context.putImageData(image, 0, 0);
  const [x, y] = toScreen([box[0], box[3]]);
  const picture = document.createElement("canvas");
  picture.width = columns; picture.height = rows;
  picture.getContext("2d").drawImage(canvas, 0, 0);
  make(still, "image", {
    href: picture.toDataURL(), x, y, preserveAspectRatio: "none",
    width: (box[1] - box[0]) * frame.scale, height: (box[3] - box[2]) * frame.scale,
  });
}

function drawPoints(still) {
  const { points, values } = found.points, groups = new Map();
  const kinds = [...new Set(values)].sort((a, b) => a - b);
  const few = kinds.length <= PALETTE.length && kinds.every(Number.isInteger);
  const order = few ? null : Float64Array.from(values).sort();
  points.forEach((point, k) => {
    const colour = few ? PALETTE[kinds.indexOf(values[k])] : ramp(rank(order, values[k]));
    if (!groups.has(colour)) groups.set(colour, []);
    groups.get(colour).push(point);
  });
  const size = Math.max(2.5, Math.min(6, 170 / Math.sqrt(points.length)));
  for (const [colour, members] of groups)
    make(still, "path", { class: "points", d: dots(members), stroke: colour, "stroke-width": size });
}

// What share of the sorted values is less: colours are spread evenly, whatever the outliers.
function rank(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) { const k = (low + high) >> 1; sorted[k] < value ? low = k + 1 : high = k; }
  return low / Math.max(1, sorted.length - 1);
}

function ramp(part) {
  const at = Math.round(20 * Math.min(1, part)) / 20 * (RAMP.length - 1), k = Math.min(RAMP.length - 2, Math.floor(at));
  const [a, b] = [RAMP[k], RAMP[k + 1]].map(hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)));
  return `rgb(${a.map((x, c) => Math.round(x + (at - k) * (b[c] - x))).join(",")})`;
}

function colourOf(name) {
  const probe = $("look");
  probe.style.color = `var(${name})`;
  const numbers = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.style.color = "";
  return numbers;
}

function unpacked(text, Kind) {
  return new Kind(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer);
}

function drawEllipse(parent, [x, y, along, across, angle], name) {
  const [u, v] = toScreen([x, y]), least = name === "ball" ? 0 : 0.6;
  return make(parent, "ellipse", {
    class: name, rx: Math.max(least, along * frame.scale), ry: Math.max(least, across * frame.scale),
    transform: `translate(${u} ${v}) rotate(${-angle * 180 / Math.PI})`,
  });
}

// ------------------------------------------------------------------ the live layer

// Ends stay the same elements, as they have the focus; the rest is made anew.
function drawLive() {
  if (!state?.ends || !found.points) return;
  const live = $("live");
  if (!live.querySelector("#curves")) {
    make(live, "g", { id: "curves" });
    for (const k of [0, 1]) makeEnd(live, k);
  }
  const curves = document.createElementNS(SVG, "g");
  curves.id = "curves";
  if (state.rows && !hidden.has("points"))
    make(curves, "path", { class: "chosen", d: dots(state.rows.map(k => found.points.points[k])), "stroke-width": 3 });
  if (found.fan && state.fan) drawFan(curves);
  if (found.geodesic) drawGeodesic(curves);
  if (found.mean) drawMean(curves);
  if (lasso.length > 1) make(curves, "path", { class: "lasso", d: trace(lasso) + "Z" });
  live.querySelector("#curves").replaceWith(curves);
  for (const k of [0, 1]) placeEnd(k);
}

function drawGeodesic(curves) {
  const { samples, mean, others, nodes, converged } = found.geodesic;
  if (!hidden.has("straight")) make(curves, "path", { class: "straight", d: trace(state.ends) });
  if (!hidden.has("samples"))
    for (const path of samples) make(curves, "path", { class: "sample", d: trace(path) });
  if (!hidden.has("others"))
    for (const { path, gap } of others) {
      make(curves, "path", { class: "other", d: trace(path) });
      const [x, y] = toScreen(path[Math.floor(path.length / 2)]);
      make(curves, "text", { class: "gap", x: x + 6, y: y - 6 }).textContent = `+${percent(gap)}`;
    }
  make(curves, "path", { class: converged ? "mean" : "mean flagged", d: trace(mean) });
  if (!hidden.has("nodes"))
    for (const node of nodes) {
      const [cx, cy] = toScreen(node);
      make(curves, "circle", { class: "node", r: 3.2, cx, cy });
    }
}

function drawFan(curves) {
  for (const path of found.fan.paths) make(curves, "path", { class: "ray", d: trace(path) });
  for (const tip of found.fan.tips) {
    const dot = drawEllipse(curves, tip, "tip");
    for (const axis of ["rx", "ry"]) dot.setAttribute(axis, Math.max(2.5, dot.getAttribute(axis)));
  }
}

function drawMean(curves) {
  const { mean, numerical, statistical, ways } = found.mean, [x, y] = toScreen(mean);
  for (const way of ways) {
    for (const path of way.samples) make(curves, "path", { class: "way-sample", d: trace(path) });
    make(curves, "path", { class: "way", d: trace(way.path) });
  }
  drawEllipse(curves, statistical, "statistical");
  drawEllipse(curves, numerical, "numerical");
  make(curves, "path", { class: "centre", d: `M${x - 7},${y}L${x},${y - 7}L${x + 7},${y}L${x},${y + 7}Z` });
}

function makeEnd(live, k) {
  drawEllipse(live, [0, 0, 0, 0, 0], "doubt").id = `doubt-${k}`;
  for (const axis of [1, 0]) {
    make(live, "line", { class: "arm", id: `arm-${k}-${axis}` });
    const knob = make(live, "g", { class: "knob", id: `knob-${k}-${axis}` });
    make(knob, "circle", { class: "hit", r: 18 });
    make(knob, "circle", { class: "disc", r: axis ? 3.5 : 5 });
  }
  const end = make(live, "g", { class: "end", id: `end-${k}`, tabindex: 0, role: "button" });
  make(end, "circle", { class: "hit", r: 22 });
  make(end, "circle", { class: "disc", r: 10 });
  make(end, "text").textContent = "AB"[k];
}

function placeEnd(k) {
  const [u, v] = toScreen(state.ends[k]), [along, across, angle] = state.spreads[k];
  const end = $(`end-${k}`), place = state.ends[k].map(x => x.toPrecision(3)).join(", ");
  end.setAttribute("transform", `translate(${u} ${v})`);
  end.setAttribute("aria-label", `End ${"AB"[k]} at ${place}, standard deviation ${along.toPrecision(2)}. Arrow keys move it.`);
  const doubt = $(`doubt-${k}`);
  doubt.setAttribute("rx", 2 * along * frame.scale);
  doubt.setAttribute("ry", 2 * across * frame.scale);
  doubt.setAttribute("transform", `translate(${u} ${v}) rotate(${-angle * 180 / Math.PI})`);
  for (const axis of [0, 1]) {
    const turn = angle + axis * Math.PI / 2, reach = KNOB + 2 * state.spreads[k][axis] * frame.scale;
    const at = [u + reach * Math.cos(turn), v - reach * Math.sin(turn)];
    const visible = axis === 0 || along > 0;
    $(`knob-${k}-${axis}`).setAttribute("transform", `translate(${at})`);
    $(`knob-${k}-${axis}`).style.display = $(`arm-${k}-${axis}`).style.display = visible ? "" : "none";
    for (const [name, value] of Object.entries({ x1: u, y1: v, x2: at[0], y2: at[1] }))
      $(`arm-${k}-${axis}`).setAttribute(name, value);
  }
}

// ------------------------------------------------------------------ decoded pictures

let faces = null;

function drawDecoded(canvas, text) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (world.decoder.kind === "image") drawImageOf(canvas, context, unpacked(text, Uint8Array));
  else drawMesh(canvas, context, unpacked(text, Int16Array));
}

function drawImageOf(canvas, context, grey) {
  const { width, height } = world.decoder;
  canvas.width = width; canvas.height = height;
  const image = context.createImageData(width, height);
  grey.forEach((value, k) => image.data.set([value, value, value, 255], 4 * k));
  context.putImageData(image, 0, 0);
}

// Seen from the front: x to the right, z up, -y towards the viewer; far faces first.
function drawMesh(canvas, context, vertices) {
  faces ??= unpacked(world.decoder.faces, Uint16Array);
  const size = canvas.width = canvas.height = 220;
  const reach = [Infinity, -Infinity, Infinity, -Infinity];
  for (let k = 0; k < vertices.length; k += 3) {
    reach[0] = Math.min(reach[0], vertices[k]); reach[1] = Math.max(reach[1], vertices[k]);
    reach[2] = Math.min(reach[2], vertices[k + 2]); reach[3] = Math.max(reach[3], vertices[k + 2]);
  }
  const scale = 0.94 * size / Math.max(reach[1] - reach[0], reach[3] - reach[2]);
  const middle = [(reach[0] + reach[1]) / 2, (reach[2] + reach[3]) / 2];
  const at = k => [size / 2 + scale * (vertices[k] - middle[0]), size / 2 - scale * (vertices[k + 2] - middle[1])];
  const seen = [];
  for (let f = 0; f < faces.length; f += 3) {
    const [a, b, c] = [0, 1, 2].map(i => 3 * faces[f + i]);
    const [p, q] = [b, c].map(k => [0, 1, 2].map(i => vertices[k + i] - vertices[a + i]));
    const n = [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]];
    const length = Math.hypot(...n);
    if (n[1] >= 0 || !length) continue;
    const light = 0.3 + 0.7 * Math.max(0, (-0.8 * n[1] + 0.5 * n[2] - 0.3 * n[0]) / length);
    seen.push([vertices[a + 1] + vertices[b + 1] + vertices[c + 1], light, at(a), at(b), at(c)]);
  }
  seen.sort((one, other) => other[0] - one[0]);
  for (const [, light, a, b, c] of seen) {
    context.fillStyle = context.strokeStyle = `rgb(${[200, 168, 140].map(x => Math.min(255, x * light) | 0)})`;
    context.beginPath();
    context.moveTo(...a); context.lineTo(...b); context.lineTo(...c);
    context.fill(); context.stroke();
  }
}
