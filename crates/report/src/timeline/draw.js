// Runs -> canvases: lanes column by column, curves, the axis. Nothing here listens or changes what is shown.

const NS = ['ns', 'us', 'ms', 's'];
const unitOf = ns => Math.min(3, Math.max(0, Math.floor(Math.log10(Math.max(1, Math.abs(ns))) / 3)));
// A length of time.
const timeText = ns => {
  const unit = unitOf(ns), value = ns / 1000 ** unit;
  return value.toFixed(unit && value < 10 ? 2 : unit && value < 100 ? 1 : 0) + ' ' + NS[unit];
};
// A point in time, as exact as `step`, in the unit that suits `most`.
const pointText = (ns, step, most = step) => {
  const unit = unitOf(most), digits = Math.max(0, -Math.floor(Math.log10(Math.max(1, step) / 1000 ** unit) + 1e-9));
  return (ns / 1000 ** unit).toFixed(digits) + ' ' + NS[unit];
};
const countText = number => String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const percentText = (part, whole) => {
  const percent = 100 * part / (whole || 1);
  return (percent === 0 ? '0' : percent < 0.05 ? '<0.1' : percent < 10 ? percent.toFixed(1) : percent.toFixed(0)) + ' %';
};
const bytesText = bytes => {
  const unit = Math.min(4, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** unit;
  return value.toFixed(value < 10 && unit ? 1 : 0) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit];
};
const hexText = addr => addr ? '0x' + addr.toString(16) : 'no address';

// The order from the bottom up: faults lie on the ground, where the smallest share is seen.
const ORDER = [MAJOR, MINOR, BLOCKED, PREEMPTED, RUNNING, UNRECORDED, WAITING, UNKNOWN];
const LANE = 24, BAR = 18; // CSS pixels: a lane, and its part that shows states

let colours = {};
const readColours = printing => {
  const style = getComputedStyle(document.documentElement);
  const get = name => style.getPropertyValue(name).trim();
  const paper = printing ? 'l' : 's';
  colours = { states: [], ink: printing ? '#1f2328' : get('--ink'), faint: printing ? '#59636e' : get('--faint'), rule: printing ? '#d8dee4' : get('--rule'), ground: printing ? '#fff' : get('--card') };
  for (let state = 0; state < STATES; state++) colours.states.push(get(`--${paper}${state}`));
  for (const name of ['lock', 'manage', 'match', 'estimate', 'loss', 'curve', 'select']) colours[name] = get('--' + name);
};

// A canvas of this size in CSS pixels, cleared, and its context.
const prepare = (canvas, width, height) => {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + 'px';
  }
  const context = canvas.getContext('2d');
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  return { context, ratio, columns: canvas.width };
};

// Time in each state in each of `columns` columns, all lanes added up, and how much of it sampled faults stand for.
const columnsOf = (unit, view, columns) => {
  const sums = new Float64Array(columns * STATES), guesses = new Float64Array(columns), step = (view.to - view.from) / columns;
  for (const lane of unit.lanes) {
    let hint = -1;
    const first = Math.max(0, Math.floor((lane.begin - view.from) / step));
    const end = Math.min(columns, Math.ceil((lane.end - view.from) / step));
    for (let column = first; column < end; column++) {
      const from = view.from + column * step;
      hint = addStates(lane, from, from + step, sums, column * STATES, hint);
    }
  }
  for (let column = 0; column < columns; column++) {
    const free = sums[column * STATES + UNRECORDED], from = view.from + column * step;
    if (free > 0) guesses[column] = Math.min(free, estimate(unit, from, from + step));
  }
  return { sums, guesses, step };
};

// Where several lanes are one, each state has its share of the threads that live.
const drawLane = (canvas, unit, view, width, matches, selection) => {
  const { context, ratio, columns } = prepare(canvas, width, LANE);
  const { sums, guesses } = columnsOf(unit, view, columns);
  const bar = Math.round(BAR * ratio), least = Math.max(1, Math.round(1.5 * ratio));
  let run = -1, runBegin = 0; // columns of one state alone are drawn as one
  const flush = to => {
    if (run >= 0) {
      context.fillStyle = colours.states[run];
      context.fillRect(runBegin, 0, to - runBegin, bar);
    }
    run = -1;
  };
  for (let column = 0; column < columns; column++) {
    const base = column * STATES;
    let whole = 0, only = -1, several = false;
    for (let state = 0; state < STATES; state++) {
      const sum = sums[base + state];
      if (sum > 0) {
        whole += sum;
        several = several || only >= 0;
        only = state;
      }
    }
    if (whole <= 0) { flush(column); continue; }
    const guess = guesses[column];
    if (!several && !guess) {
      if (run !== only) { flush(column); run = only; runBegin = column; }
      continue;
    }
    flush(column);
    let bottom = bar;
    const stack = (colour, share, isFault) => {
      let height = Math.round(share / whole * bar);
      if (isFault) height = Math.max(least, height);
      height = Math.min(height, bottom);
      context.fillStyle = colour;
      context.fillRect(column, bottom - height, 1, height);
      bottom -= height;
    };
    let top = UNKNOWN;
    for (const state of ORDER) {
      let sum = sums[base + state];
      if (state === PREEMPTED && guess) stack(colours.estimate, guess, true);
      if (state === UNRECORDED) sum -= guess;
      if (sum > 0) {
        stack(colours.states[state], sum, state <= BLOCKED && state !== RUNNING);
        top = state;
      }
    }
    if (bottom > 0) {
      context.fillStyle = colours.states[top];
      context.fillRect(column, 0, 1, bottom);
    }
  }
  flush(columns);
  context.scale(ratio, ratio);
  const isSingle = unit.lanes.length === 1;
  for (const lane of unit.lanes) {
    if (isSingle) drawDetails(context, lane, view, width);
    drawLocks(context, lane, view, width);
    if (isSingle) drawSamples(context, lane, view, width);
    drawMatches(context, lane, view, width, matches);
  }
  if (selection) drawSelection(context, selection, view, width, LANE);
};

const toX = (view, width, time) => (time - view.from) / (view.to - view.from) * width;

// Borders and names of single faults, where they are wide enough; sampled ones as ticks, and those whose end was not seen.
const drawDetails = (context, lane, view, width) => {
  const [first, end] = faultsWithin(lane, view.from - (view.to - view.from), view.to);
  if (end - first > width * 1.5) return;
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  for (let i = first; i < end; i++) {
    const x = toX(view, width, lane.at[i]), length = lane.length[i];
    const right = length < 0 ? x : toX(view, width, lane.at[i] + length);
    if (right < 0) continue;
    if (length < 0) {
      context.fillStyle = colours.states[MINOR];
      context.fillRect(x - 0.75, 0, 1.5, BAR);
      continue;
    }
    if (right - x < 3) continue;
    context.fillStyle = 'rgba(0,0,0,.35)';
    context.fillRect(x, 0, 0.75, BAR);
    if (right - x < 44) continue;
    const one = lane.run.classes[lane.kind[i]], label = labelsOf(lane.run, one.stack)[0] ?? one.kind;
    const left = Math.max(x, 0) + 4, room = Math.min(right, width) - left - 3;
    const text = clipText(context, `${label} ${timeText(length)}`, room);
    context.fillStyle = '#201000';
    if (text) context.fillText(text, left, BAR / 2 + 0.5);
  }
};

const clipText = (context, text, room) => {
  if (room < 20) return '';
  if (context.measureText(text).width <= room) return text;
  const fits = Math.floor(text.length * room / context.measureText(text).width) - 1;
  return fits > 2 ? text.slice(0, fits) + '\u2026' : '';
};

// The thin line below: waits for mmap_lock, samples of the CPU clock.
const drawLocks = (context, lane, view, width) => {
  context.fillStyle = colours.lock;
  for (const { begin, end } of lane.locks) {
    if (end < view.from || begin > view.to) continue;
    const x = Math.max(0, toX(view, width, begin));
    context.fillRect(x, BAR + 1, Math.max(1.5, Math.min(width, toX(view, width, end)) - x), 3);
  }
};
const drawSamples = (context, lane, view, width) => {
  const first = lastUpTo(lane.cpuAt, view.from) + 1, last = lastUpTo(lane.cpuAt, view.to);
  if (last - first > width / 4) return;
  for (let i = first; i <= last; i++) {
    // Giving memory back is drawn as high as the line, so that it shows among the dots.
    const manages = lane.run.manages.has(lane.cpuStack[i]);
    context.fillStyle = manages ? colours.manage : colours.faint;
    context.fillRect(toX(view, width, lane.cpuAt[i]) - 0.75, manages ? BAR + 1 : BAR + 4, 1.5, manages ? 5 : 1.5);
  }
};

const drawMatches = (context, lane, view, width, matches) => {
  const found = matches.get(lane);
  if (!found) return;
  context.fillStyle = colours.match;
  let before = -9;
  const first = faultsWithin(lane, view.from, view.to)[0];
  for (let i = lastUpTo(found, first - 1) + 1; i < found.length; i++) {
    const time = lane.at[found[i]];
    if (time > view.to) break;
    const x = toX(view, width, time);
    if (x - before < 1) continue;
    before = x;
    context.fillRect(x - 0.5, 0, 1.5, BAR);
    context.fillRect(x - 2.5, 0, 5.5, 3.5);
  }
};

const drawSelection = (context, selection, view, width, height) => {
  const x = toX(view, width, selection.from), right = toX(view, width, selection.to);
  context.fillStyle = colours.select;
  context.globalAlpha = 0.16;
  context.fillRect(x, 0, right - x, height);
  context.globalAlpha = 1;
  context.fillRect(x, 0, 1, height);
  context.fillRect(right - 1, 0, 1, height);
};

const tickStep = (span, width) => {
  const rough = span / Math.max(2, width / 90), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough);
};

const drawAxis = (canvas, view, width, selection) => {
  const { context, ratio } = prepare(canvas, width, 22);
  context.scale(ratio, ratio);
  context.font = '12px system-ui, sans-serif';
  context.textBaseline = 'middle';
  const step = tickStep(view.to - view.from, width);
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const x = toX(view, width, time), text = pointText(time, step, view.to);
    context.fillStyle = colours.rule;
    context.fillRect(x, 14, 1, 8);
    const half = context.measureText(text).width / 2;
    context.fillStyle = colours.faint;
    context.fillText(text, Math.min(Math.max(x - half, 0), width - 2 * half), 8);
  }
  if (selection) drawSelection(context, selection, view, width, 22);
};

// A filled curve of the values in these bins, the top being `most`.
const drawCurve = (canvas, view, width, height, bins, values, most, label, colour, selection) => {
  const { context, ratio } = prepare(canvas, width, height);
  context.scale(ratio, ratio);
  context.fillStyle = colours.rule;
  context.fillRect(0, height - 1, width, 1);
  if (most > 0) {
    context.fillStyle = colour;
    context.globalAlpha = 0.75;
    // Bins that are narrower than a pixel share one, and the highest shows.
    const at = bin => Math.round(toX(view, width, bins.from + bin * bins.step) * ratio) / ratio;
    const each = Math.max(1, Math.ceil((view.to - view.from) / width / bins.step - 1e-6));
    for (let bin = 0; bin < values.length; bin += each) {
      const size = values.subarray(bin, bin + each).reduce((most, value) => Math.max(most, value), 0) / most * (height - 4);
      if (size > 0) context.fillRect(at(bin), height - 1 - Math.max(1, size), at(bin + each) - at(bin), Math.max(1, size));
    }
    context.globalAlpha = 1;
  }
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'top';
  const size = context.measureText(label).width;
  context.fillStyle = colours.ground;
  context.globalAlpha = 0.8;
  context.fillRect(2, 1, size + 6, 14);
  context.globalAlpha = 1;
  context.fillStyle = colours.faint;
  context.fillText(label, 5, 2);
  if (selection) drawSelection(context, selection, view, width, height);
};

// Where every fault was recorded, and where records were lost.
const drawCoverage = (canvas, run, view, width) => {
  const { context, ratio } = prepare(canvas, width, 9);
  context.scale(ratio, ratio);
  context.fillStyle = colours.rule;
  context.fillRect(0, 4, Math.min(width, toX(view, width, run.length)), 1);
  context.fillStyle = colours.curve;
  for (const [from, to] of run.recorded) {
    if (to < view.from || from > view.to) continue;
    const x = Math.max(0, toX(view, width, from));
    context.fillRect(x, 2, Math.max(1, Math.min(width, toX(view, width, to)) - x), 5);
  }
  context.fillStyle = colours.loss;
  for (const [from, to] of run.losses) {
    if (to < view.from || from > view.to) continue;
    const x = Math.max(0, toX(view, width, from));
    context.fillRect(x, 0, Math.max(2, Math.min(width, toX(view, width, to)) - x), 9);
  }
};

// The whole run, all threads added up, and which part of it is in view. The top is where most of them live.
const drawOverview = (canvas, run, whole, view, width, height) => {
  const { context, ratio, columns } = prepare(canvas, width, height);
  if (run.overview?.columns !== columns) {
    const sums = new Float64Array(columns * STATES), guesses = new Float64Array(columns);
    for (const unit of run.units) {
      const own = columnsOf(unit, { from: 0, to: whole }, columns);
      own.sums.forEach((sum, i) => sums[i] += sum);
      own.guesses.forEach((guess, i) => guesses[i] += guess);
    }
    const alive = Array.from({ length: columns }, (_, column) => sums.subarray(column * STATES, (column + 1) * STATES).reduce((sum, one) => sum + one, 0));
    run.overview = { columns, sums, guesses, most: Math.max(1, ...alive) };
  }
  const { sums, guesses, most } = run.overview, pixels = canvas.height;
  for (let column = 0; column < columns; column++) {
    let bottom = pixels;
    const stack = (colour, sum) => {
      const size = sum / most * pixels;
      if (size <= 0) return;
      context.fillStyle = colour;
      context.fillRect(column, bottom - size, 1, size + 0.5);
      bottom -= size;
    };
    for (const state of ORDER) {
      if (state === PREEMPTED) stack(colours.estimate, guesses[column]);
      stack(colours.states[state], sums[column * STATES + state] - (state === UNRECORDED ? guesses[column] : 0));
    }
  }
  context.scale(ratio, ratio);
  const x = toX({ from: 0, to: whole }, width, view.from), right = toX({ from: 0, to: whole }, width, view.to);
  context.fillStyle = colours.ground;
  context.globalAlpha = 0.65;
  context.fillRect(0, 0, x, height);
  context.fillRect(right, 0, width - right, height);
  context.globalAlpha = 1;
  context.strokeStyle = colours.ink;
  context.strokeRect(x + 0.5, 0.5, Math.max(2, right - x - 1), height - 1);
};

const threadsInFaults = (run, view, columns) => {
  const values = new Float64Array(columns);
  for (const unit of run.units) {
    const { sums, guesses, step } = columnsOf(unit, view, columns);
    for (let i = 0; i < columns; i++) {
      const base = i * STATES;
      values[i] += (sums[base + MINOR] + sums[base + MAJOR] + sums[base + BLOCKED] + guesses[i]) / step;
    }
  }
  return values;
};
const hasLevels = run => run.levels.length > 1;
const CURVES = [
  { name: 'threads in faults', title: 'How many at once: where it is above 1, they can hold each other up', has: run => run.lanes.length > 1,
    values: threadsInFaults, text: most => `${most.toFixed(most < 10 ? 1 : 0)} at most`, colour: MINOR },
  { name: 'faults/s', title: 'Page faults of all processes', has: hasLevels, values: overLevels(1), text: most => countText(most) + '/s at most', colour: MINOR },
  { name: 'resident', title: 'Resident anonymous memory of all processes', has: hasLevels, values: overLevels(2), text: most => bytesText(most) + ' at most', colour: 'curve' },
];
