// The memory of each device over time: an area with axes, the peak, and the value under the pointer.
function formatBytes(count) {
  for (const [least, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (count >= least) return `${+(count / least).toFixed(count / least < 10 ? 2 : 1)} ${unit}`;
  return `${count} B`;
}

// Round steps of a binary axis: 1, 2, 4 ... of a unit.
function byteTicks(most) {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(most / 5)));
  return Array.from({length: Math.floor(most / step) + 1}, (_, number) => number * step);
}

function timeTicks(from, to, count) {
  const rough = (to - from) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step / 1e6; at += step) ticks.push(at);
  return ticks;
}

// Where nearly all of some work begins, if a long time is before it, as imports take; NaN if there is none.
function skipIdle(starts, last) {
  for (let number = 1; number < starts.length / 10; number++)
    if (starts[number] - starts[number - 1] > .4 * (last - starts[0])) return starts[number];
  return NaN;
}

function formatSeconds(seconds, span) {
  if (span >= 5 || seconds >= 1 && span >= .05) return `${+seconds.toFixed(span >= 5 ? 1 : 3)} s`;
  if (span >= 5e-3) return `${+(seconds * 1e3).toFixed(span < .05 ? 2 : 0)} ms`;
  return `${+(seconds * 1e6).toFixed(1)} us`;
}

function showMemory(root) {
  const data = JSON.parse(root.querySelector("script.data").textContent);
  const paints = [...root.querySelectorAll("svg.chart")].map(svg => memoryChart(svg, data.memory[+svg.dataset.chart]));
  const paint = () => paints.forEach(each => each());
  addEventListener("resize", paint);
  paint();
  return paint;
}

function memoryChart(svg, one) {
  const left = 76, right = 16, top = 16, bottom = 40, height = 240;
  const begun = one.curve[0][0], last = Math.max(one.curve.at(-1)[0], one.at, begun + 1e-6);
  const busy = skipIdle(one.curve.map(each => each[0]), last);
  const first = busy > begun && busy <= one.at ? busy - (last - busy) * .02 : begun;
  const most = (one.total && one.total < 2 * one.peak ? one.total : one.peak) * 1.12 || 1;
  const tip = svg.parentElement.querySelector(".tip");
  let width = 0;
  const x = seconds => left + (seconds - first) / (last - first) * (width - left - right);
  const y = bytes => height - bottom - bytes / most * (height - top - bottom);
  const element = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return svg.appendChild(made);
  };
  const pointer = document.createElementNS("http://www.w3.org/2000/svg", "line");

  function paint() {
    width = svg.clientWidth || 900;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    for (const tick of byteTicks(most)) {
      element("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)});
      element("text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, formatBytes(tick));
    }
    for (const tick of timeTicks(first, last, Math.max(2, width / 130))) {
      element("line", {class: "grid", x1: x(tick), x2: x(tick), y1: height - bottom, y2: height - bottom + 5});
      element("text", {x: x(tick), y: height - bottom + 18, "text-anchor": "middle"}, formatSeconds(tick, last - first));
    }
    element("text", {x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle"}, "time since the program started");
    element("text", {x: 12, y: (height - bottom + top) / 2, transform: `rotate(-90 12 ${(height - bottom + top) / 2})`, "text-anchor": "middle"}, "allocated");
    let path = `M${x(first)},${y(0)}`, before = 0;
    for (const [seconds, high, end] of one.curve) {
      path += `H${x(Math.max(first, seconds)).toFixed(1)}V${y(Math.max(high, before)).toFixed(1)}V${y(end).toFixed(1)}`;
      before = end;
    }
    path += `H${x(last)}`;
    element("path", {class: "area", d: `${path}V${y(0)}Z`});
    element("path", {class: "edge", d: path});
    element("line", {class: "peak", x1: x(one.at), x2: x(one.at), y1: top, y2: height - bottom});
    const after = x(one.at) < width / 2;
    element("text", {class: "peak", x: x(one.at) + (after ? 6 : -6), y: top + 2, "text-anchor": after ? "start" : "end"}, `peak: ${formatBytes(one.peak)}`);
    if (one.total && one.total <= most) {
      element("line", {class: "limit", x1: left, x2: width - right, y1: y(one.total), y2: y(one.total)});
      element("text", {x: left + 4, y: y(one.total) - 4}, `the GPU has ${formatBytes(one.total)}`);
    }
    pointer.setAttribute("class", "at");
    pointer.setAttribute("visibility", "hidden");
    svg.appendChild(pointer);
  }

  svg.addEventListener("pointermove", event => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const seconds = first + (at - left) / (width - left - right) * (last - first);
    if (seconds < first || seconds > last) return;
    const step = one.curve.findLast(each => each[0] <= seconds) ?? one.curve[0];
    for (const [key, value] of Object.entries({x1: at, x2: at, y1: top, y2: height - bottom, visibility: "visible"})) pointer.setAttribute(key, value);
    tip.style.display = "block";
    tip.style.left = `${Math.min(at + 12, width - 190)}px`;
    tip.style.top = "30px";
    tip.textContent = `${formatSeconds(seconds, last - first)}: ${formatBytes(step[2])}`;
  });
  svg.addEventListener("pointerleave", () => {
    tip.style.display = "none";
    pointer.setAttribute("visibility", "hidden");
  });
  return paint;
}
