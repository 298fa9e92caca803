// What is at a place, what a stretch of time holds, what matches a search: data -> small pieces of document.

const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') made.className = value; else if (key.startsWith('on')) made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children.filter(child => child != null && child !== ''));
  return made;
};
const swatch = state => element('i', { class: 's' + state });

// The fault at a time, or the nearest within `reach` ns; longer ones first where several are near.
const faultNear = (lane, time, reach) => {
  const [first, end] = faultsWithin(lane, time - reach, time + reach);
  const before = first - 1;
  if (before >= 0 && lane.at[before] + lane.length[before] >= time) return before;
  let best = -1;
  for (let i = first; i < Math.min(end, first + 5000); i++) {
    if (lane.at[i] <= time && lane.at[i] + lane.length[i] >= time) return i;
    if (best < 0 || lane.length[i] > lane.length[best]) best = i;
  }
  return best;
};

const spanAt = (lane, time) => lane.begin <= time && time < lane.end ? lastUpTo(lane.begins, time, lane.states.length) : -1;

const stackList = (run, stack, most = Infinity) => {
  const labels = labelsOf(run, stack);
  if (!labels.length) return element('p', { class: 'faint' }, 'No stack was recorded.');
  const list = element('ol', { class: 'stack' }, ...labels.slice(0, most).map(label => element('li', {}, label)));
  if (labels.length > most) list.append(element('li', { class: 'faint' }, `and ${labels.length - most} more`));
  return list;
};

const faultFacts = (lane, i) => {
  const { run } = lane, one = run.classes[lane.kind[i]], facts = [];
  facts.push(['kind', one.kind + (one.kernel ? ', taken in kernel mode' : '')]);
  if (lane.length[i] >= 0) {
    const sums = new Float64Array(STATES);
    addStates(lane, lane.at[i], lane.at[i] + lane.length[i], sums, 0);
    const blocked = sums[BLOCKED] ? `, blocked ${timeText(sums[BLOCKED])} of it` : '';
    facts.push(['took', timeText(lane.length[i]) + blocked]);
  } else if (one.inFlight === 0) facts.push(['stands for', `${countText(one.weight)} faults` + (one.cost ? `, about ${timeText(one.cost)}` : '')]);
  else facts.push(['took', 'not known: its end was not seen']);
  facts.push(['began', pointText(lane.at[i], 1, lane.at[i]) + ' after the begin']);
  facts.push(['address', hexText(lane.place[i])]);
  if (one.mapping) facts.push(['mapping', one.mapping]);
  if (one.inFlight > 1) facts.push(['threads in faults', `${one.inFlight} of the process when it began`]);
  return facts;
};

const factList = facts => element('dl', { class: 'facts' }, ...facts.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value))));

const threadText = lane => `${lane.name} ${lane.pid}/${lane.tid}`;
const unitText = unit => unit.lanes.length > 1 ? `${unit.name} \u00d7${countText(unit.lanes.length)}` : threadText(unit.lanes[0]);

// What lies under the pointer: the fault if one is near, else the span; zoomed out, what its column holds. Of several lanes it
// is the one with the most faults there.
const lookAt = (unit, time, perPixel) => {
  const sums = new Float64Array(STATES), from = time - perPixel / 2, to = time + perPixel / 2;
  let faults = 0, most = -1, lane = unit.lanes[0];
  for (const one of unit.lanes) {
    if (one.end <= from || one.begin >= to) continue;
    addStates(one, from, to, sums, 0);
    const [first, end] = faultsWithin(one, from, to);
    faults += end - first;
    if (end - first > most) [most, lane] = [end - first, one];
  }
  const several = sums.filter(sum => sum > 0).length > 1 || unit.lanes.length > 1 && faults > 1;
  return { unit, lane, time, fault: faultNear(lane, time, perPixel * 2), span: spanAt(lane, time), sums, several, faults };
};

const sharesText = (run, sums) => {
  const whole = sums.reduce((sum, one) => sum + one, 0);
  return ORDER.filter(state => sums[state] > 0).sort((a, b) => sums[b] - sums[a])
    .map(state => element('div', {}, swatch(state), `${run.states[state]} ${percentText(sums[state], whole)}`));
};

const tipOf = ({ unit, lane, time, fault, span, sums, several, faults }, perPixel) => {
  const { run } = lane, tip = [element('b', {}, unitText(unit)), element('span', { class: 'faint' }, ' at ' + pointText(time, perPixel, time))];
  if (several) tip.push(element('div', { class: 'faint' }, `${timeText(perPixel)} wide, ${countText(faults)} faults`), ...sharesText(run, sums));
  else if (span >= 0) {
    const from = lane.begins[span];
    tip.push(element('div', {}, swatch(lane.states[span]), `${run.states[lane.states[span]]} for ${timeText(lane.begins[span + 1] - from)}`));
  } else tip.push(element('div', { class: 'faint' }, time < lane.begin ? 'not yet begun' : 'ended'));
  if (fault >= 0) {
    const one = run.classes[lane.kind[fault]];
    tip.push(element('div', {}, `${one.kind}${lane.length[fault] >= 0 ? ', ' + timeText(lane.length[fault]) : ''}`), stackList(run, one.stack, 5));
  }
  return tip;
};

const detailsOf = ({ lane, fault, span, time, sums, several, faults }, perPixel) => {
  const { run } = lane, head = element('h2', {}, threadText(lane));
  if (fault < 0) {
    const near = lastUpTo(lane.cpuAt, time + 1e6), sample = near >= 0 && Math.abs(lane.cpuAt[near] - time) < 1e6 ? near : -1;
    const what = several ? [element('p', { class: 'faint' }, `${timeText(perPixel)} with ${countText(faults)} faults`), ...sharesText(run, sums)]
      : span < 0 ? [element('p', {}, time < lane.begin ? 'Not yet begun.' : 'Ended.')]
      : [factList([['state', run.states[lane.states[span]]], ['for', timeText(lane.begins[span + 1] - lane.begins[span])], ['from', pointText(lane.begins[span], 1, lane.begins[span])]])];
    return [head, ...what, ...(sample >= 0 ? [element('h3', {}, 'Running there, by a sample'), stackList(run, lane.cpuStack[sample])] : [])];
  }
  const one = run.classes[lane.kind[fault]];
  return [head, factList(faultFacts(lane, fault)), element('div', { class: 'stacks' },
    element('div', {}, element('h3', {}, 'Who touched'), stackList(run, one.stack)),
    one.owner >= 0 ? element('div', {}, element('h3', {}, 'Who allocated'), stackList(run, one.owner)) : '')];
};

// A site as one line: the function that touched, and who called it.
const siteText = (run, stack) => {
  const labels = labelsOf(run, stack);
  return labels.length ? labels.slice(0, 2).join('  \u2190  ') : 'no stack recorded';
};

const summaryOf = (run, from, to, several) => {
  const sums = new Float64Array(STATES), perClass = new Float64Array(run.classes.length), counts = new Float64Array(run.classes.length);
  let locks = 0;
  for (const { lanes, scales } of run.units) for (const lane of lanes) {
    addStates(lane, from, to, sums, 0);
    const [first, end] = faultsWithin(lane, from, to);
    for (let i = first; i < end; i++) {
      const one = run.classes[lane.kind[i]];
      perClass[lane.kind[i]] += scales[isSample(lane, i)] * asRead(lane, run, i, to);
      counts[lane.kind[i]] += one.weight;
    }
    for (const lock of lane.locks) locks += Math.max(0, Math.min(to, lock.end) - Math.max(from, lock.begin));
  }
  const sites = new Map();
  run.classes.forEach((one, i) => {
    if (!counts[i]) return;
    const text = siteText(run, one.stack), site = sites.get(text) ?? { text, time: 0, count: 0, label: labelsOf(run, one.stack)[0] };
    site.time += perClass[i];
    site.count += counts[i];
    sites.set(text, site);
  });
  const whole = sums.reduce((sum, one) => sum + one, 0), top = [...sites.values()].sort((a, b) => b.time - a.time || b.count - a.count);
  const isWhole = from <= 0 && to >= run.length, [others, othersTime] = isWhole ? run.elsewhere : [0, 0];
  const sum = of => top.reduce((sum, site) => sum + site[of], 0), time = isWhole ? run.time : sum('time'), count = isWhole ? run.faults : sum('count');
  const row = (...cells) => element('tr', {}, ...cells.map((cell, i) => element('td', i ? { class: 'right' } : {}, cell)));
  const rows = top.slice(0, 8).map(site => row(
    site.label ? element('button', { class: 'site', title: 'Search for it', onclick: () => searchFor(site.label) }, site.text) : site.text,
    timeText(site.time), percentText(site.time, time), countText(site.count)));
  // As the table below splits lives: the parts add up, and time in faults is that of the faults.
  const free = sums[RUNNING] + sums[MINOR] + sums[MAJOR] + sums[UNRECORDED] + sums[UNKNOWN], inFaults = Math.min(time, free);
  const unknown = Math.min(sums[UNKNOWN], free - inFaults);
  const shown = [['in faults', MINOR, inFaults], ['blocked in faults', BLOCKED, sums[BLOCKED]], ['on a processor otherwise', RUNNING, free - inFaults - unknown],
    ['waiting', WAITING, sums[WAITING]], ['preempted', PREEMPTED, sums[PREEMPTED]], ['unknown', UNKNOWN, unknown]].filter(part => part[2] > 0);
  return element('div', { class: 'summary' },
    several ? element('h3', {}, run.name) : '',
    element('div', { class: 'shares', role: 'img', 'aria-label': shown.map(([name, , time]) => `${name} ${percentText(time, whole)}`).join(', ') },
      ...shown.map(([, state, time]) => element('span', { class: 's' + state, style: `flex-grow:${Math.max(0.004, time / whole)}` }))),
    element('div', { class: 'legend' }, ...shown.map(([name, state, time]) => element('span', {}, swatch(state), `${name} ${timeText(time)}, ${percentText(time, whole)}`)),
      locks ? element('span', {}, element('i', { class: 'lock' }), `mmap_lock waits ${timeText(locks)}`) : ''),
    rows.length ? element('div', { class: 'scroll' }, element('table', { class: 'figures' },
      element('thead', {}, element('tr', {}, ...['faults by who touched', 'time', 'of it', 'faults'].map((text, i) => element('th', i ? { class: 'right' } : {}, text)))),
      element('tbody', {}, ...rows, top.length > 8 ? row(`${top.length - 8} more`, '', '', '') : '',
        others ? row('in no thread: kernel mode, populated', timeText(othersTime), percentText(othersTime, time), countText(others)) : '', row(element('b', {}, 'all'), timeText(time), '', countText(count)))))
      : element('p', { class: 'faint' }, 'No faults in it.'));
};

// Faults that match: lane -> their numbers. Every word must occur in a thread's name and number, or in kind, mapping and stacks.
const search = (runs, text) => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), found = new Map(), threads = new Set();
  let count = 0;
  if (!words.length) return { found, threads, count };
  for (const run of runs) {
    const texts = run.classes.map(one => [one.kind, one.mapping, ...labelsOf(run, one.stack), ...labelsOf(run, one.owner)].join('\n').toLowerCase());
    for (const lane of run.lanes) {
      const thread = threadText(lane).toLowerCase(), rest = words.filter(word => !thread.includes(word));
      if (rest.length < words.length) threads.add(lane);
      if (!rest.length) continue;
      const matches = Uint8Array.from(texts, own => rest.every(word => own.includes(word)));
      const own = [];
      for (let i = 0; i < lane.kind.length; i++) if (matches[lane.kind[i]]) own.push(i);
      if (own.length) found.set(lane, own);
      count += own.length;
    }
  }
  if (found.size) for (const lane of threads) if (!found.has(lane)) threads.delete(lane);
  return { found, threads, count };
};
