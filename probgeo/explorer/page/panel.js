// Numbers and controls beside the picture.

const percent = part => `${(100 * part).toPrecision(part < 0.0995 ? 2 : 3)} %`;
const short = x => x === null ? "?" : x === 0 ? "0" : Math.abs(x) < 1e-3 ? x.toExponential(1) : `${+x.toPrecision(2)}`;

function tell(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

// As many digits as the error allows, at most seven decimals.
function withError(mean, std) {
  if (mean === null) return "?";
  const places = std > 0 ? Math.max(0, Math.min(7, 1 - Math.floor(Math.log10(std)))) : 4;
  return `${mean.toFixed(places)} <small>&plusmn; ${std ? short(+std.toPrecision(2)) : 0}</small>`;
}

function showNumbers() {
  const { length, total, numerical, boundary, line, others, converged, message, fine } = found.geodesic;
  $("length").innerHTML = withError(length, total);
  $("numerical").textContent = `± ${short(numerical)}`;
  $("boundary").textContent = `± ${short(boundary)}`;
  const more = line / length - 1;
  $("straight").textContent = line === null ? "?" : `${+line.toPrecision(4)} (${more < 5e-4 ? "the same" : "+" + percent(more)})`;
  $("minima").textContent = others.length ? `${others.length}, next +${percent(others[0].gap)}` : fine ? "none met" : "...";
  const relative = Math.max(1e-9, numerical / length || 1e-9);
  $("error").firstElementChild.style.width = `${100 * (Math.log10(relative) + 9) / 9}%`;
  $("error").classList.toggle("large", relative > 1e-2);
  if (!converged) tell(`Not to be trusted: ${message}`, true);
  else if (fine) tell(`Length ${length.toPrecision(4)}, converged`);
}

function showPanel() {
  const { setting, spreads, rows, colour } = state;
  const numbers = { tolerance: Math.log10(setting.tolerance), rho: setting.rho, components: setting.components };
  for (const [name, value] of Object.entries(numbers)) {
    $(name).value = value;
    $(`${name}-value`).textContent = name === "tolerance" ? short(setting.tolerance) : short(value);
  }
  $("rho").disabled = world.rho === null;
  $("components").disabled = world.most_components < 2;
  spreads.forEach(([along], k) => {
    $(`spread-${k}`).value = 100 * along / (0.15 * frame.size || 1);
    $(`spread-${k}-value`).textContent = short(along);
  });
  $("selected").textContent = rows ? `of ${rows.length} selected points` : `of all ${world.count} points`;
  $("deselect").hidden = !rows;
  $("colour").value = colour;
  $("view").value = setting.view;
}

function showProgress({ done, of }) {
  $("progress").hidden = $("stop").hidden = false;
  $("progress").value = of ? Math.min(1, done / of) : 0;
  $("mean-found").textContent = `iteration ${done}${of ? ` of about ${Math.max(of, done)}` : ""}`;
}

function endProgress(text) {
  $("progress").hidden = $("stop").hidden = true;
  $("mean").disabled = false;
  $("mean-found").textContent = text;
}

function showMean() {
  const { mean, std, ways, count, converged, message, pictures } = found.mean;
  if (pictures.length) showPicture(pictures[0], "the mean");
  const shares = ways.map(way => percent(way.share)).join(" and ");
  const place = mean.map(x => x.toPrecision(3)).join(", ");
  const doubt = converged ? "" : ` Not to be trusted: ${message}.`;
  endProgress(`Mean of ${count} points at (${place}), numerical error ${short(Math.max(...std))}. Principal geodesics: ${shares} of the variance.${doubt}`);
}

function showPicture(picture, caption) {
  $("look").hidden = false;
  $("look").querySelector("figcaption").textContent = caption;
  drawDecoded($("look").querySelector("canvas"), picture);
}

function showStrip() {
  const strip = $("strip"), pictures = found.geodesic.strip;
  if (!pictures) return;
  strip.hidden = false;
  pictures.forEach((picture, k) => {
    const canvas = strip.children[k] ?? strip.appendChild(document.createElement("canvas"));
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `decoded, part ${k + 1} of ${pictures.length} of the geodesic`);
    drawDecoded(canvas, picture);
  });
}

// A slider changes one thing; the state before its first movement can be gone back to.
function slide(id, change, released) {
  let moving = false;
  $(id).addEventListener("input", () => {
    if (!moving) remember();
    moving = true;
    change(Number($(id).value));
    showPanel();
  });
  $(id).addEventListener("change", () => { moving = false; released(); });
}

function setUpPanel() {
  slide("tolerance", value => { state.setting.tolerance = +(10 ** value).toPrecision(3); askGeodesic(false); }, () => refresh());
  slide("rho", value => { state.setting.rho = value; refresh(false); }, () => refresh());
  slide("components", value => {
    state.wanted = value;
    $("components-value").textContent = value;
    $("wait").textContent = `learning ${value} components`;
    $("wait").hidden = false;
    ask("learn", () => ({ components: state.wanted }));
  }, () => {});
  for (const k of [0, 1]) {
    slide(`spread-${k}`, value => {
      const std = value / 100 * 0.15 * frame.size, [along, across, angle] = state.spreads[k];
      state.spreads[k] = [std, along > 0 ? std * across / along : std, angle];
      askGeodesic(false);
      drawLive();
    }, () => askGeodesic(true));
  }
  $("colour").onchange = () => { remember(); state.colour = $("colour").value; askPoints(); };
  $("view").onchange = () => {
    const other = structuredClone(state);
    other.setting.view = $("view").value;
    Object.assign(other, { ends: null, fan: null });
    remember();
    goTo(other);
  };
  $("mean").onclick = () => {
    $("mean").disabled = true;
    showProgress({ done: 0, of: null });
    ask("mean", () => ({ setting: state.setting, rows: state.rows }));
  };
  $("stop").onclick = () => socket.send(JSON.stringify({ kind: "stop", serial: ++serial }));
  $("deselect").onclick = () => { remember(); state.rows = null; showPanel(); drawLive(); };
  $("undo").onclick = undo;
  $("reset").onclick = () => {
    remember();
    const begin = first();
    if (state.setting.view === begin.setting.view) begin.ends = structuredClone(found.points.ends);
    found.mean = null;
    endProgress("");
    goTo(begin);
  };
  $("theme").onclick = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    drawStill();
  };
  for (const [name, text] of Object.entries(layers)) {
    const label = $("layers").appendChild(document.createElement("label"));
    const box = label.appendChild(document.createElement("input"));
    Object.assign(box, { type: "checkbox", checked: !hidden.has(name), id: `layer-${name}` });
    label.append(text);
    box.onchange = () => { box.checked ? hidden.delete(name) : hidden.add(name); drawStill(); drawLive(); };
  }
}
