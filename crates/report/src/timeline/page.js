// The page: rows for what there is, the part of time in view, and everything that changes it.

const $ = id => document.getElementById(id);
const NEAREST = 20; // ns: the least that is shown across the view

let runs = [], rows = [], whole = 1, view = { from: 0, to: 1 }, selection = null, picked = null;
let matches = { found: new Map(), threads: new Set(), count: 0 }, printing = false, drawn = 0;

// Rows: a label, a canvas, and how to draw it at a width.
const addRow = (parent, name, label, draw, unit) => {
  const canvas = element('canvas', unit ? { role: 'img' } : { 'aria-hidden': 'true' });
  const cell = element('div', { class: 'cell' }, canvas), row = element('div', { class: 'row ' + name }, element('div', { class: 'label' }, ...label), cell);
  parent.append(row);
  rows.push({ row, cell, canvas, draw, unit, seen: true });
  return rows.at(-1);
};

// A lane, or many as one that opens by a click.
const opened = new Set();
let observer = null;
const addUnit = (parent, unit) => {
  const { life, lanes } = unit, faults = Math.min(unit.time, life), share = percentText(faults, life), isMany = lanes.length > 1;
  const toggle = () => {
    if (!opened.delete(unit)) opened.add(unit);
    build();
    drawAll();
  };
  const name = element(isMany ? 'button' : 'span', { class: 'name', title: unitText(unit), ...(isMany ? { onclick: toggle, 'aria-expanded': opened.has(unit) } : {}) },
    unit.name, element('small', {}, isMany ? ` \u00d7${countText(lanes.length)}` : ' ' + lanes[0].tid));
  const { canvas } = addRow(parent, isMany ? 'lane many' : 'lane', [name, element('span', { class: 'share', title: `${timeText(faults)} in page faults` }, share)],
    (canvas, width) => drawLane(canvas, unit, view, width, matches.found, selection), unit);
  canvas.setAttribute('aria-label', `${unitText(unit)}: ${share} of ${isMany ? 'their lives' : 'its life'} in page faults`);
  if (opened.has(unit)) for (const lane of lanes) addUnit(parent, unite(lane.name, [lane]));
};

const build = () => {
  const place = $('view');
  rows = [];
  place.replaceChildren();
  for (const run of runs) {
    const row = addRow(place, 'overview', [runs.length > 1 ? element('span', { class: 'name' }, run.name) : 'whole run'], (canvas, width) => drawOverview(canvas, run, whole, view, width, runs.length > 1 ? 26 : 34));
    row.run = run;
  }
  addRow(place, 'axis', ['time'], (canvas, width) => drawAxis(canvas, view, width, selection));
  for (const run of runs) {
    const group = element('div', { class: 'run' });
    place.append(group);
    if (runs.length > 1) group.append(element('h2', {}, run.name, element('small', {}, ` ${timeText(run.length)}, ${run.lanes.length} threads`)));
    if (run.losses.length || run.recorded.length !== 1 || run.recorded[0][1] - run.recorded[0][0] < run.length * 0.999) {
      addRow(group, 'coverage', [element('span', { title: 'Where every fault was recorded; red: records were lost' }, 'recorded')], (canvas, width) => drawCoverage(canvas, run, view, width));
    }
    // A process has a line of its own if several of its threads follow.
    const firsts = new Map(), pidOf = unit => unit.lanes.length > 1 ? null : unit.lanes[0].pid;
    for (const lane of run.lanes) if (!firsts.has(lane.pid)) firsts.set(lane.pid, lane);
    run.units.forEach((unit, i) => {
      const pid = pidOf(unit), [before, after] = [run.units[i - 1], run.units[i + 1]].map(one => one && pidOf(one));
      if (pid && pid !== before && pid === after && firsts.size > 1) group.append(element('h3', { class: 'process' }, firsts.get(pid).name + ' ', element('small', {}, pid)));
      addUnit(group, unit);
    });
    for (const curve of CURVES.filter(curve => runs.some(curve.has))) {
      const { canvas } = addRow(group, 'curve', [element('span', { title: curve.title }, curve.name)], (canvas, width) => {
        // The same scale for all runs.
        const bins = binsOf(view, whole), all = runs.map(one => curve.has(one) ? curve.values(one, bins, bins.count) : new Float64Array(bins.count));
        const peaks = all.map(values => values.reduce((most, value) => Math.max(most, value), 0)), at = runs.indexOf(run);
        const text = `${curve.text(peaks[at])}, in bins of ${timeText(bins.step)}`;
        canvas.setAttribute('aria-label', `${curve.name}: ${text}`);
        drawCurve(canvas, view, width, runs.length > 1 ? 26 : 34, bins, all[at], Math.max(...peaks), text, colours[curve.colour] ?? colours.states[curve.colour], selection);
      });
      canvas.setAttribute('role', 'img');
      canvas.removeAttribute('aria-hidden');
    }
  }
  observer?.disconnect();
  observer = new IntersectionObserver(entries => {
    for (const entry of entries) {
      const row = rows.find(one => one.row === entry.target);
      row.seen = entry.isIntersecting;
      if (row.seen && row.drawn !== drawn) drawRow(row);
    }
  }, { rootMargin: '200px' });
  rows.forEach(row => observer.observe(row.row));
};

const drawRow = row => {
  row.drawn = drawn;
  row.draw(row.canvas, row.cell.clientWidth);
};

let asked = false;
const redraw = () => {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    drawAll();
  });
};
const drawAll = () => {
  drawn++;
  rows.filter(row => row.seen || printing).forEach(drawRow);
};

let summing = 0;
const summarise = () => {
  clearTimeout(summing);
  summing = setTimeout(() => {
    const span = selection ?? view, what = selection ? 'In the selection' : span.from <= 0 && span.to >= whole ? 'In the whole run' : 'In view';
    $('summary').replaceChildren(element('h2', {}, `${what}: ${timeText(span.to - span.from)} from ${pointText(span.from, (span.to - span.from) / 100, Math.max(span.from, span.to - span.from))}`),
      element('div', { class: 'summaries' }, ...runs.map(run => summaryOf(run, span.from, Math.min(span.to, run.length + 1), runs.length > 1))));
  }, 60);
};

const look = (from, to) => {
  const span = Math.min(whole, Math.max(NEAREST, to - from));
  from = Math.min(Math.max(0, from), whole - span);
  view = { from, to: from + span };
  redraw();
  if (!selection) summarise();
};
const zoom = (factor, time = (view.from + view.to) / 2) => {
  const span = Math.min(whole, Math.max(NEAREST, (view.to - view.from) * factor));
  const left = (time - view.from) / (view.to - view.from);
  look(time - span * left, time - span * left + span);
};
const move = share => look(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
const select = span => {
  selection = span;
  redraw();
  summarise();
};

const searchFor = text => {
  $('search').value = text;
  matches = search(runs, text);
  const threads = matches.threads.size ? `${matches.threads.size} threads` : '', faults = matches.count ? `${countText(matches.count)} faults` : '';
  $('found').textContent = text.trim() ? [faults, threads].filter(Boolean).join(' in ') || 'nothing found' : '';
  for (const { row, unit } of rows) if (unit) row.classList.toggle('match', unit.lanes.some(lane => matches.threads.has(lane)));
  redraw();
};

// To the next fault that matches behind (or before) the one shown last, else the middle; or to a thread.
const jump = direction => {
  const middle = picked?.jumped ?? (view.from + view.to) / 2;
  let best = null;
  for (const [lane, found] of matches.found) {
    let low = 0, high = found.length;
    while (low < high) {
      const at = (low + high) >> 1;
      if (direction > 0 ? lane.at[found[at]] <= middle : lane.at[found[at]] < middle) low = at + 1; else high = at;
    }
    const fault = found[direction > 0 ? low : low - 1];
    if (fault === undefined) continue;
    if (!best || (lane.at[fault] - best.lane.at[best.fault]) * direction < 0) best = { lane, fault };
  }
  const row = rows.find(one => one.unit?.lanes.some(lane => best ? lane === best.lane : matches.threads.has(lane)));
  if (!best) return row?.row.scrollIntoView({ block: 'center' });
  const { lane, fault } = best, time = lane.at[fault], span = Math.min(view.to - view.from, Math.max(lane.length[fault] * 20, whole / 2000, 2000));
  look(time - span / 2, time + span / 2);
  show({ ...lookAt(unite(lane.name, [lane]), time, 0.01), fault }, span / 1000);
  picked.jumped = time;
  row.row.scrollIntoView({ block: 'center' });
};

const show = (found, perPixel) => {
  picked = found;
  $('details').replaceChildren(...detailsOf(found, perPixel), element('button', { class: 'close', 'aria-label': 'Close', onclick: closeDetails }, '\u00d7'));
  $('details').classList.add('pinned');
};

const closeDetails = () => {
  $('details').classList.remove('pinned');
};

const tip = (found, perPixel, x, y) => {
  const box = $('tip');
  box.hidden = !found;
  if (!found) return;
  box.replaceChildren(...tipOf(found, perPixel));
  const width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 8)) + 'px';
  box.style.top = (y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18) + 'px';
};

// Pointers: one drags, two pinch; in the overview one chooses what is in view.
const pointers = new Map();
let drag = null;
const rowOf = event => rows.find(row => row.cell.contains(event.target));
const timeAt = (row, x, span = row.run ? { from: 0, to: whole } : view) => {
  const box = row.cell.getBoundingClientRect();
  return span.from + (x - box.left) / box.width * (span.to - span.from);
};
const perPixelOf = row => (view.to - view.from) / row.cell.clientWidth;

const listen = () => {
  const place = $('view');
  place.addEventListener('wheel', event => {
    const row = rowOf(event);
    if (!row) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX || event.deltaY) / 1000);
    else zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 300), row.run ? undefined : timeAt(row, event.clientX));
  }, { passive: false });
  place.addEventListener('pointerdown', event => {
    const row = rowOf(event);
    if (!row || event.button) return;
    pointers.set(event.pointerId, event);
    if (pointers.size === 2) drag = { pinch: true };
    else drag = { row, x: event.clientX, time: timeAt(row, event.clientX), view, kind: row.run ? 'overview' : event.shiftKey ? 'select' : 'move', moved: false };
  });
  addEventListener('pointermove', event => {
    const before = pointers.get(event.pointerId);
    if (!before) return hover(event);
    if (drag?.pinch && pointers.size === 2) {
      const [one, two] = [...pointers.values()], row = rowOf(one) ?? rows[0];
      const distance = Math.max(20, Math.abs(one.clientX - two.clientX)), centre = (one.clientX + two.clientX) / 2;
      pointers.set(event.pointerId, event);
      const [left, right] = [...pointers.values()];
      zoom(distance / Math.max(20, Math.abs(left.clientX - right.clientX)), timeAt(row, centre, view));
      return;
    }
    pointers.set(event.pointerId, event);
    if (!drag?.row || (!drag.moved && Math.abs(event.clientX - drag.x) < 4)) return;
    drag.moved = true;
    tip(null);
    const time = timeAt(drag.row, event.clientX, drag.kind === 'move' ? drag.view : undefined), ends = { from: Math.min(time, drag.time), to: Math.max(time, drag.time) };
    if (drag.kind === 'overview') look(ends.from, ends.to);
    else if (drag.kind === 'select') select({ from: Math.max(0, ends.from), to: Math.min(whole, ends.to) });
    else look(drag.view.from + drag.time - time, drag.view.to + drag.time - time);
  });
  const up = event => {
    if (!pointers.delete(event.pointerId)) return;
    if (drag?.row && !drag.moved && event.type === 'pointerup') {
      if (drag.kind === 'overview') look(drag.time - (view.to - view.from) / 2, drag.time + (view.to - view.from) / 2);
      else if (drag.row.unit) show(lookAt(drag.row.unit, drag.time, perPixelOf(drag.row)), perPixelOf(drag.row));
    }
    drag = null;
  };
  addEventListener('pointerup', up);
  addEventListener('pointercancel', up);
  place.addEventListener('pointerleave', () => tip(null));
  place.addEventListener('dblclick', event => {
    const row = rowOf(event);
    if (row && !row.run) zoom(0.2, timeAt(row, event.clientX));
  });
  const hover = event => {
    const row = event.pointerType === 'touch' ? null : rowOf(event);
    if (!row?.unit) return tip(null);
    tip(lookAt(row.unit, timeAt(row, event.clientX), perPixelOf(row)), perPixelOf(row), event.clientX, event.clientY);
  };
  addEventListener('keydown', event => {
    if (event.target.matches?.('input')) {
      if (event.key === 'Enter') jump(event.shiftKey ? -1 : 1);
      else if (event.key === 'Escape') event.target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || $('keys').open) return;
    const keys = {
      ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), a: () => move(-0.2), d: () => move(0.2),
      '+': () => zoom(0.7), '=': () => zoom(0.7), w: () => zoom(0.7), '-': () => zoom(1 / 0.7), s: () => zoom(1 / 0.7),
      0: () => look(0, whole), '/': () => $('search').focus(), n: () => jump(1), N: () => jump(-1), '?': () => $('keys').showModal(),
      Escape: () => { select(null); searchFor(''); closeDetails(); },
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  let typing = 0;
  $('search').addEventListener('input', event => {
    clearTimeout(typing);
    typing = setTimeout(() => searchFor(event.target.value), 120);
  });
  const press = { next: () => jump(1), previous: () => jump(-1), closer: () => zoom(0.5), wider: () => zoom(2), all: () => look(0, whole), help: () => $('keys').showModal() };
  for (const [id, act] of Object.entries(press)) $(id).addEventListener('click', act);
  addEventListener('resize', redraw);
  const recolour = () => {
    readColours(printing);
    drawAll();
  };
  matchMedia('(prefers-color-scheme:dark)').addEventListener('change', recolour);
  addEventListener('beforeprint', () => { printing = true; recolour(); });
  addEventListener('afterprint', () => { printing = false; recolour(); });
};

(async () => {
  try {
    const count = document.querySelectorAll('[id^=about-]').length;
    for (let index = 0; index < count; index++) runs.push(await readRun(index));
  } catch (error) {
    $('view').replaceChildren(element('p', {}, `The picture can't be drawn: ${error.message}. A newer browser may help; the totals below are right.`));
    throw error;
  }
  whole = Math.max(1, ...runs.map(run => run.length));
  view = { from: 0, to: whole };
  readColours(false);
  build();
  listen();
  drawAll();
  summarise();
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
