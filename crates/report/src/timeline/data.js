// Embedded bytes -> runs: for each lane typed arrays by time, and sums that make any stretch of time cheap to add up.
// Times are ns from the run's begin.

const STATES = 8, RUNNING = 0, MINOR = 1, MAJOR = 2, BLOCKED = 3, WAITING = 4, PREEMPTED = 5, UNRECORDED = 6, UNKNOWN = 7;
const BLOCK = 32; // spans whose times are added up beforehand

const unbase64 = text => {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const chars = atob(text), bytes = new Uint8Array(chars.length);
  for (let i = 0; i < chars.length; i++) bytes[i] = chars.charCodeAt(i);
  return bytes;
};

const inflate = async bytes => {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

// Reads varints one after another.
class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  next() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, factor = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    return value;
  }
  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

// Index of the last of the first `count` numbers that is <= value, or -1.
const lastUpTo = (numbers, value, count = numbers.length) => {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
};

const readLane = (reader, run) => {
  const next = () => reader.next();
  const about = { pid: next(), tid: next(), name: run.names[next()], begin: next(), time: next(), recorded: next(), spans: next(), faults: next(), locks: next(), cpu: next() };
  const lane = { ...about, run };
  const begins = new Float64Array(about.spans + 1), states = new Uint8Array(about.spans);
  const blocks = new Float64Array((Math.floor(about.spans / BLOCK) + 1) * STATES);
  let time = about.begin;
  for (let i = 0; i < about.spans; i++) {
    const value = reader.next(), state = value % 8, length = (value - state) / 8;
    begins[i] = time;
    states[i] = state;
    blocks[Math.floor(i / BLOCK) * STATES + state] += length;
    time += length;
  }
  begins[about.spans] = time;
  const at = new Float64Array(about.faults), length = new Float64Array(about.faults);
  const kind = new Uint32Array(about.faults), place = new Float64Array(about.faults);
  time = about.begin;
  let addr = 0;
  for (let i = 0; i < about.faults; i++) {
    at[i] = time += reader.next();
    length[i] = reader.next() - 1;
    kind[i] = reader.next();
    place[i] = addr += reader.signed();
  }
  lane.locks = [];
  time = about.begin;
  for (let i = 0; i < about.locks; i++) {
    time += reader.signed();
    const value = reader.next(), write = value % 2;
    lane.locks.push({ end: time, begin: time - (value - write) / 2, write });
  }
  const cpuAt = new Float64Array(about.cpu), cpuStack = new Int32Array(about.cpu);
  time = about.begin;
  for (let i = 0; i < about.cpu; i++) {
    cpuAt[i] = time += reader.next();
    cpuStack[i] = reader.next() - 1;
  }
  return Object.assign(lane, { begins, states, blocks, end: begins[about.spans], at, length, kind, place, cpuAt, cpuStack });
};

// Lanes that are drawn as one. Spans are as read and samples are rounded: `scales` turn the sums of recorded faults and of
// samples into the time in faults that the totals have. With samples beside it, a recorded fault stands for itself at most.
const unite = (name, lanes) => {
  const sum = of => lanes.reduce((sum, lane) => sum + of(lane), 0), { run } = lanes[0], read = [0, 0];
  for (const lane of lanes) for (let i = 0; i < lane.at.length; i++) read[isSample(lane, i)] += asRead(lane, run, i, Infinity);
  const time = sum(lane => lane.time), recorded = read[1] ? Math.min(read[0], sum(lane => lane.recorded)) : time;
  const scales = [recorded, time - recorded].map((time, i) => read[i] > 0 ? Math.max(0, time) / read[i] : 1);
  return { name, lanes, run, time, scales, life: sum(lane => lane.end - lane.begin), ...samplesOf(lanes, run, scales[1]) };
};

// Sampled faults by time, and what they cost up to each. A sample stands for faults before it: their time is spread over as
// much as three times itself, but not to before the fault before.
const SPREAD = 3;
const samplesOf = (lanes, run, scale) => {
  const samples = [];
  for (const lane of lanes) {
    for (let i = 0; i < lane.at.length; i++) {
      const own = isSample(lane, i) * scale * asRead(lane, run, i, Infinity), at = lane.at[i];
      if (own > 0) samples.push({ at, own, from: Math.max(at - own * SPREAD, lanes.length > 1 ? 0 : i ? lane.at[i - 1] : lane.begin) });
    }
  }
  samples.sort((a, b) => a.at - b.at);
  const cost = new Float64Array(samples.length + 1);
  samples.forEach(({ own, from }, i) => {
    cost[i + 1] = cost[i] + own;
    samples[i].from = Math.max(from, i ? samples[i - 1].at : 0);
  });
  return { samples, at: Float64Array.from(samples, sample => sample.at), cost };
};

// 1 for a sample, 0 for a fault that was recorded with its end.
const isSample = (lane, fault) => lane.length[fault] >= 0 ? 0 : 1;

// Time of a fault as it was read, or as its sample stands for, up to a time; none of a major one, which waits for a disk.
const asRead = (lane, run, fault, to) => {
  const one = run.classes[lane.kind[fault]];
  if (one.major) return 0;
  return lane.length[fault] >= 0 ? Math.min(lane.length[fault], to - lane.at[fault]) : one.cost;
};

const readRun = async index => {
  const run = JSON.parse(document.getElementById('about-' + index).textContent);
  const bytes = await inflate(unbase64(document.getElementById('bytes-' + index).textContent));
  run.classes = run.classes.map(([kind, stack, owner, mapping, inFlight, weight, cost, kernel, major]) =>
    ({ kind, stack, owner, mapping: run.mappings[mapping] ?? '', inFlight, weight, cost, kernel, major }));
  run.manages = new Set(run.manages);
  const reader = new Reader(bytes);
  run.lanes = Array.from({ length: run.lanes }, () => readLane(reader, run));
  run.units = run.groups.map(([name, numbers]) => unite(name, numbers.map(number => run.lanes[number])));
  return run;
};

// Time in each state between `from` and `to`, added to `sums` at `offset`; `hint` is a span at or before `from`.
// Returns the span that holds `to`.
const addStates = (lane, from, to, sums, offset, hint = -1) => {
  const { begins, states, blocks } = lane, count = states.length;
  from = Math.max(from, lane.begin);
  to = Math.min(to, lane.end);
  if (from >= to) return hint;
  let i = hint < 0 ? lastUpTo(begins, from, count) : hint;
  while (i < count && begins[i + 1] <= from) i++;
  if (begins[i + 1] >= to) {
    sums[offset + states[i]] += to - from;
    return i;
  }
  sums[offset + states[i]] += begins[i + 1] - from;
  i++;
  while (i < count && begins[i + 1] <= to) {
    if (i % BLOCK === 0 && i + BLOCK < count && begins[i + BLOCK] <= to) {
      const block = i / BLOCK * STATES;
      for (let state = 0; state < STATES; state++) sums[offset + state] += blocks[block + state];
      i += BLOCK;
    } else {
      sums[offset + states[i]] += begins[i + 1] - begins[i];
      i++;
    }
  }
  if (i < count && begins[i] < to) sums[offset + states[i]] += to - begins[i];
  return Math.min(i, count - 1);
};

// Numbers of the faults that begin from `from` on and before `to`.
const faultsWithin = (lane, from, to) => [lastUpTo(lane.at, from - 1e-9) + 1, lastUpTo(lane.at, to - 1e-9) + 1];

// Estimated time of sampled faults between two times.
const estimateUpTo = ({ samples, at, cost }, time) => {
  const next = lastUpTo(at, time) + 1;
  if (next === at.length) return cost[next];
  const { own, from } = samples[next];
  return cost[next] + (time > from ? own * (time - from) / (at[next] - from) : 0);
};
const estimate = (unit, from, to) => estimateUpTo(unit, to) - estimateUpTo(unit, from);

// A cumulative curve of a run's levels at a time; `column` 1 faults, 2 resident bytes.
const level = (run, column, time) => {
  const levels = run.levels;
  let low = 0, high = levels.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (levels[middle][0] <= time) low = middle + 1; else high = middle;
  }
  if (low === 0 || low === levels.length) return levels[Math.min(low, levels.length - 1)][column];
  const [before, after] = [levels[low - 1], levels[low]];
  return before[column] + (after[column] - before[column]) * (time - before[0]) / (after[0] - before[0] || 1);
};

const labelsOf = (run, stack) => (run.stacks[stack] ?? []).map(label => run.labels[label]);

// The bins of a curve. Their length follows from the runs and the zoom, never from the width of the picture: so the highest
// bin is the same on every screen. At least BINS of them cover the view, and they stay in place while it moves.
const BINS = 512;
const binsOf = (view, whole) => {
  const step = whole / BINS / 2 ** Math.max(0, Math.floor(Math.log2(whole / (view.to - view.from)) + 1e-9));
  const first = Math.floor(view.from / step + 1e-6), end = Math.max(first + 1, Math.ceil(view.to / step - 1e-6));
  return { from: first * step, to: end * step, step, count: end - first };
};

// What is drawn as a curve: its value in each of `columns` columns.
const overLevels = column => (run, view, columns) => {
  const step = (view.to - view.from) / columns, values = new Float64Array(columns);
  const first = run.levels[0][0], last = run.levels[run.levels.length - 1][0];
  for (let i = 0; i < columns; i++) {
    const from = view.from + i * step, to = from + step;
    if (to <= first || from >= last) continue;
    values[i] = column === 1 ? (level(run, 1, to) - level(run, 1, from)) / step * 1e9 : level(run, 2, (from + to) / 2);
  }
  return values;
};
