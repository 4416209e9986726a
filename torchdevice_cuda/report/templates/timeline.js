// The timeline: a lane for each stream, drawn on a canvas, with the memory of the devices below.
const KINDS = ["kernel", "copy", "wait", "event", "graph"], KERNEL = 0, COPY = 1, WAIT = 2, EVENT = 3, GRAPH = 4;
const SAID = ["kernel", "copy", "the host waits", "the stream waits for an event", "replay of a graph"];
const START = 0, TIME = 1, BUSY = 2, KIND = 3, NAME = 4, SITE = 5, CALLS = 6, BYTES = 7, IN_GRAPH = 8;

function formatTime(us) {
  return us >= 1e6 ? `${(us / 1e6).toFixed(2)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(2)} ms` : `${+us.toFixed(1)} us`;
}

function showTimeline(root) {
  const canvas = root.querySelector("canvas.timeline");
  if (!canvas) return () => {};
  const data = JSON.parse(root.querySelector("script.data").textContent);
  const stage = canvas.parentElement, tip = stage.querySelector(".tip"), pin = root.querySelector(".pin");
  const gutter = 150, axis = 26, lane = 24, title = 22, strip = 54;
  let first = Infinity, last = -Infinity;
  const spots = [];  // lanes and memory, with their position
  let height = axis, group = "";
  for (const one of data.lanes) {
    if (one.group !== group) height += title;
    // Spans may overlap if threads share a stream: how far back the search for a visible one goes.
    one.longest = 0;
    for (const span of one.spans) {
      one.longest = Math.max(one.longest, span[TIME]);
      first = Math.min(first, span[START]);
      last = Math.max(last, span[START] + span[TIME]);
    }
    // The arrows of races name lanes by number, as spots do: lanes come first.
    spots.push({top: height, lane: one, group: one.group !== group ? one.group : ""});
    group = one.group;
    height += lane;
  }
  for (const one of data.memory) {
    height += 8;
    spots.push({top: height, memory: one});
    height += strip;
  }
  height += 8;
  const margin = Math.max(1, (last - first) * .01);
  const all = [first - margin, last + margin];
  let [from, to] = busiest(), width = 0, dragged = null, hovered = null, wanted = 0;
  const pen = canvas.getContext("2d");

  // What is shown at first: everything, but for a long time before nearly all of the work.
  function busiest() {
    const busy = skipIdle(data.lanes.flatMap(one => one.spans.map(span => span[START])).sort((a, b) => a - b), last);
    return busy > first ? [busy - (last - busy) * .01, all[1]] : all;
  }

  const colours = {};
  function readColours() {
    const probe = document.createElement("span");
    root.append(probe);
    for (const name of [...KINDS, "back", "bad", "panel", "text", "soft", "rule"]) {
      probe.style.color = `var(--${name})`;
      colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
  }
  const x = us => gutter + (us - from) / (to - from) * (width - gutter);
  const time = at => from + (at - gutter) / (width - gutter) * (to - from);

  // The first span of a lane that may reach into a period.
  function search(one, us) {
    let low = 0, high = one.spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (one.spans[middle][START] < us) low = middle + 1; else high = middle;
    }
    return low;
  }

  function paint() {
    readColours();
    width = stage.clientWidth || 900;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    pen.scale(ratio, ratio);
    pen.fillStyle = colours.panel;
    pen.fillRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    paintAxis();
    let drawn = 0;
    for (const spot of spots) drawn += spot.lane ? paintLane(spot) : paintStrip(spot);
    paintRaces();
    if (dragged && dragged.moved) {
      pen.fillStyle = colours.soft;
      pen.globalAlpha = .22;
      pen.fillRect(Math.min(dragged.at, dragged.now), axis, Math.abs(dragged.now - dragged.at), height - axis);
      pen.globalAlpha = 1;
    }
    Object.assign(canvas.dataset, {from: from.toFixed(2), to: to.toFixed(2), drawn});
  }

  function paintAxis() {
    for (const tick of timeTicks(from / 1e6, to / 1e6, Math.max(2, (width - gutter) / 110))) {
      const at = x(tick * 1e6);
      if (at < gutter) continue;
      pen.fillStyle = colours.rule;
      pen.fillRect(at, axis - 6, 1, height - axis);
      const text = formatSeconds(tick, (to - from) / 1e6);
      pen.fillStyle = colours.soft;
      pen.fillText(text, Math.min(at - pen.measureText(text).width / 2, width - pen.measureText(text).width - 2), 10);
    }
  }

  function paintLane({top, lane: one, group}) {
    pen.fillStyle = colours.text;
    if (group) {
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillText(group, 8, top - title / 2 + 1);
      pen.font = "12px system-ui, sans-serif";
    }
    pen.fillStyle = colours.soft;
    pen.fillText(one.label, 16, top + lane / 2, gutter - 24);
    pen.fillStyle = colours.rule;
    pen.fillRect(gutter, top + lane - 1, width - gutter, .5);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, top, width - gutter, lane);
    pen.clip();
    let drawn = 0;
    const until = new Float64Array(KINDS.length).fill(-1);
    for (let number = search(one, from - one.longest); number < one.spans.length; number++) {
      const span = one.spans[number], kind = span[KIND];
      if (span[START] > to) break;
      const at = x(span[START]), end = x(span[START] + span[TIME]);
      // What ends in a pixel that is painted already would change nothing.
      if (end < gutter || end < until[kind]) continue;
      const wide = Math.max(end - at, kind === WAIT || kind === EVENT ? 2 : 1);
      until[kind] = Math.floor(at + wide) + .5;
      drawn++;
      pen.fillStyle = colours[KINDS[kind]];
      if (kind === EVENT) {
        pen.beginPath();
        pen.moveTo(at - 4, top + 2);
        pen.lineTo(at + 4, top + 2);
        pen.lineTo(at, top + 10);
        pen.fill();
        continue;
      }
      if (kind === GRAPH) {
        pen.fillRect(at, top + lane - 5, wide, 3);
        continue;
      }
      // Merged work is as pale as the time between its pieces is long.
      pen.globalAlpha = span[CALLS] > 1 ? .35 + .65 * Math.min(1, span[BUSY] / Math.max(span[TIME], 1e-3)) : 1;
      pen.fillRect(at, top + 3, wide, lane - 8);
      pen.globalAlpha = 1;
      if (span === (hovered && hovered.span)) {
        pen.strokeStyle = colours.text;
        pen.lineWidth = 1.5;
        pen.strokeRect(at, top + 2.5, wide, lane - 7);
      }
      const shown = Math.min(end, width) - Math.max(at, gutter);
      if (shown > 44) {
        pen.fillStyle = colours.back;
        const name = data.names[span[NAME]].replace("aten::", "");
        pen.fillText(shorten(name, shown - 8), Math.max(at, gutter) + 4, top + lane / 2 - 1);
      }
    }
    pen.restore();
    return drawn;
  }

  // Where the arrow of a race begins or ends.
  const pointOf = ([number, us]) => [x(us), spots[number].top + lane / 2];

  // An arrow from the earlier access of a race to the later one.
  function paintRaces() {
    pen.save();
    pen.beginPath();
    pen.rect(gutter, axis, width - gutter, height - axis);
    pen.clip();
    pen.strokeStyle = pen.fillStyle = colours.bad;
    for (const race of data.races) {
      const [[fromX, fromY], [toX, toY]] = race.ends.map(pointOf), angle = Math.atan2(toY - fromY, toX - fromX);
      pen.lineWidth = race === (hovered && hovered.race) ? 3 : 1.5;
      pen.beginPath();
      pen.moveTo(fromX, fromY);
      pen.lineTo(toX, toY);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(toX, toY);
      for (const side of [-.4, .4]) pen.lineTo(toX - 9 * Math.cos(angle + side), toY - 9 * Math.sin(angle + side));
      pen.fill();
    }
    pen.restore();
    canvas.dataset.races = data.races.length;
  }

  // The race whose arrow passes within four pixels.
  function findRace(at, y) {
    return data.races.find(race => {
      const [[ax, ay], [bx, by]] = race.ends.map(pointOf), long = (bx - ax) ** 2 + (by - ay) ** 2;
      const part = long ? Math.min(1, Math.max(0, ((at - ax) * (bx - ax) + (y - ay) * (by - ay)) / long)) : 0;
      return Math.hypot(at - ax - part * (bx - ax), y - ay - part * (by - ay)) <= 4;
    });
  }

  function shorten(text, room) {
    if (pen.measureText(text).width <= room) return text;
    while (text && pen.measureText(`${text}…`).width > room) text = text.slice(0, -1);
    return `${text}…`;
  }

  function paintStrip({top, memory: one}) {
    pen.fillStyle = colours.soft;
    pen.fillText("memory", 16, top + 12);
    pen.fillText(one.name, 16, top + 27, gutter - 24);
    pen.fillText(`${formatBytes(one.peak)} at most`, 16, top + 42, gutter - 24);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, top, width - gutter, strip);
    pen.clip();
    pen.fillStyle = colours.kernel;
    pen.globalAlpha = .35;
    const y = bytes => top + strip - bytes / (one.peak || 1) * (strip - 4);
    pen.beginPath();
    pen.moveTo(x(one.curve[0][0] * 1e6), top + strip);
    let before = 0;
    for (const [seconds, most, end] of one.curve) {
      const at = x(seconds * 1e6);
      pen.lineTo(at, y(before));
      pen.lineTo(at, y(Math.max(most, before)));
      pen.lineTo(at, y(end));
      before = end;
    }
    pen.lineTo(Math.max(width, x(last)), y(before));
    pen.lineTo(Math.max(width, x(last)), top + strip);
    pen.fill();
    pen.restore();
    pen.globalAlpha = 1;
    return 0;
  }

  function schedule() {
    if (!wanted) wanted = requestAnimationFrame(() => {
      wanted = 0;
      paint();
    });
  }

  function show(start, end) {
    const whole = all[1] - all[0], span = Math.min(Math.max(end - start, .5), whole);
    from = Math.min(Math.max(start, all[0]), all[1] - span);
    to = from + span;
    schedule();
  }
  function zoom(factor, at = (from + to) / 2) {
    show(at - (at - from) * factor, at + (to - at) * factor);
  }

  function find(event) {
    const box = canvas.getBoundingClientRect(), at = event.clientX - box.left, y = event.clientY - box.top;
    const spot = spots.find(each => y >= each.top && y < each.top + (each.lane ? lane : strip));
    if (!spot || at < gutter) return null;
    const race = findRace(at, y);
    if (race) return {race};
    if (spot.memory) return {memory: spot.memory, us: time(at)};
    const us = time(at), near = 4 * (to - from) / (width - gutter);
    let best = null, distance = Infinity;
    for (let number = search(spot.lane, us - spot.lane.longest - near); number < spot.lane.spans.length; number++) {
      const span = spot.lane.spans[number];
      if (span[START] > us + near) break;
      // A graph's bracket is behind its nodes.
      const away = Math.max(span[START] - us, us - span[START] - span[TIME], 0) + (span[KIND] === GRAPH ? near / 2 : 0);
      if (away <= near && away <= distance) [best, distance] = [span, away];
    }
    return best && {span: best, lane: spot.lane};
  }

  function describe(found, into, linked) {
    into.replaceChildren();
    const add = (name, text, style) => {
      const made = document.createElement(name);
      made.textContent = text;
      if (style) made.className = style;
      return into.appendChild(made);
    };
    if (found.race) {
      add("div", found.race.text);
      return;
    }
    if (found.memory) {
      const step = found.memory.curve.findLast(each => each[0] * 1e6 <= found.us) ?? [0, 0, 0];
      add("b", `${formatBytes(step[2])} allocated`);
      add("div", `${found.memory.name}, after ${formatTime(found.us)}`, "soft");
      return;
    }
    const span = found.span, [site, text, link] = data.sites[span[SITE]];
    const several = span[CALLS] > 1;
    add("b", several ? `${span[CALLS].toLocaleString("en")} calls, longest: ${data.names[span[NAME]]}` : data.names[span[NAME]]);
    const parts = [SAID[span[KIND]] + (span[IN_GRAPH] ? " of a graph" : ""), formatTime(several ? span[BUSY] : span[TIME])];
    if (several) parts.push(`in ${formatTime(span[TIME])}`);
    parts.push(`after ${formatTime(span[START])}`);
    if (span[BYTES]) parts.push(formatBytes(span[BYTES]));
    parts.push(`${found.lane.group}, ${found.lane.label}`);
    add("div", parts.join(" · "), "soft");
    if (linked && link) add("a", site).href = link; else add("span", site);
    if (text) add("div", text, "mono");
  }

  canvas.addEventListener("pointerdown", event => {
    const at = event.clientX - canvas.getBoundingClientRect().left;
    if (event.button === 0 && at >= gutter) {
      dragged = {at, now: at, moved: false};
      canvas.setPointerCapture(event.pointerId);
    }
  });
  canvas.addEventListener("pointermove", event => {
    const at = event.clientX - canvas.getBoundingClientRect().left;
    if (dragged) {
      dragged.now = Math.max(gutter, Math.min(at, width));
      dragged.moved ||= Math.abs(dragged.now - dragged.at) > 4;
      schedule();
    }
    const before = hovered;
    hovered = dragged && dragged.moved ? null : find(event);
    if ((before && (before.span || before.race)) !== (hovered && (hovered.span || hovered.race))) schedule();
    tip.style.display = hovered ? "block" : "none";
    if (!hovered) return;
    describe(hovered, tip, false);
    const box = stage.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(at + 14, width - tip.offsetWidth - 6))}px`;
    tip.style.top = `${event.clientY - box.top + 18}px`;
  });
  canvas.addEventListener("pointerup", () => {
    const done = dragged;
    dragged = null;
    if (done && done.moved) show(time(Math.min(done.at, done.now)), time(Math.max(done.at, done.now)));
    else if (done && hovered && (hovered.span || hovered.race)) describe(hovered, pin, true);
    schedule();
  });
  canvas.addEventListener("pointerleave", () => {
    hovered = null;
    tip.style.display = "none";
    schedule();
  });
  canvas.addEventListener("dblclick", () => show(...all));
  canvas.addEventListener("wheel", event => {
    const at = time(event.clientX - canvas.getBoundingClientRect().left);
    if (event.ctrlKey || event.metaKey) zoom(1.0015 ** event.deltaY, at);
    else if (event.shiftKey || event.deltaX) {
      const moved = (event.deltaX || event.deltaY) / width * (to - from);
      show(from + moved, to + moved);
    } else return;
    event.preventDefault();
  }, {passive: false});
  const moves = {ArrowLeft: () => show(from - (to - from) / 5, to - (to - from) / 5),
    ArrowRight: () => show(from + (to - from) / 5, to + (to - from) / 5),
    "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), 0: () => show(...all)};
  canvas.addEventListener("keydown", event => {
    if (!moves[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    moves[event.key]();
  });
  const buttons = {in: () => zoom(.5), out: () => zoom(2), all: () => show(...all)};
  for (const button of root.querySelectorAll("[data-zoom]")) button.addEventListener("click", buttons[button.dataset.zoom]);
  addEventListener("resize", schedule);
  paint();
  return paint;
}
