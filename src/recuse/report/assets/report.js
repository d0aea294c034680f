'use strict';
(() => {
  const content = JSON.parse(document.getElementById('content').textContent);
  const element = id => document.getElementById(id);

  // ---- numbers of the rows, sorted by the position of the slider from which on they are accepted

  const unpack = (text, type) => {
    const bytes = atob(text), array = new Uint8Array(bytes.length);
    for (let i = 0; i < bytes.length; i++) array[i] = bytes.charCodeAt(i);
    return new type(array.buffer);
  };
  const threshold = unpack(content.rows.threshold, Float64Array);
  const loss = unpack(content.rows.loss, Float64Array);
  const unit = content.rows.unit ? unpack(content.rows.unit, Float64Array) : null;
  const expected = content.rows.expected ? unpack(content.rows.expected, Float64Array) : null;
  const n = loss.length, positions = content.rows.positions, fixed = positions.length === 1;

  const sums = value => {
    const total = new Float64Array(n + 1);
    for (let i = 0; i < n; i++) total[i + 1] = total[i] + value(i);
    return total;
  };
  const unitOf = i => (unit ? unit[i] : 1);
  const lossSum = sums(i => loss[i]), squareSum = sums(i => loss[i] * loss[i]);
  const unitSum = unit ? sums(unitOf) : null, unitSquareSum = unit ? sums(i => unit[i] * unit[i]) : null;
  const unitsOf = (from, to) => (unitSum ? unitSum[to] - unitSum[from] : to - from);
  const unitSquaresOf = (from, to) => (unitSquareSum ? unitSquareSum[to] - unitSquareSum[from] : to - from);

  // number of rows accepted by cost at a position
  const acceptedByCost = position => {
    let low = 0, high = n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (threshold[middle] < position) low = middle + 1; else high = middle;
    }
    return low;
  };

  // the accepted rows at a position and a budget: the first k rows or, if costs differ by row and too many would be
  // rejected, those with the largest cost minus expected loss
  const selection = (position, budget) => {
    const k = acceptedByCost(position), allowed = Math.floor(budget * n + 1e-9);
    if (n - k <= allowed) return {k, has: i => i < k};
    if (!expected) return {k: n - allowed, has: i => i < n - allowed};
    const score = Float64Array.from(expected, (value, i) => position * unit[i] - value);
    const cut = Float64Array.from(score).sort()[allowed];
    return {k: null, has: i => score[i] >= cut};
  };

  const measures = (position, budget) => {
    const {has} = selection(position, budget);
    let below = 0, belowRejected = 0, aboveAccepted = 0, oracle = 0, count = 0, accepted = 0, rejected = 0, paidCost = 0;
    for (let i = 0; i < n; i++) {
      const cost = position * unitOf(i), taken = has(i);
      if (taken) { count++; accepted += loss[i]; } else { rejected += loss[i]; paidCost += cost; }
      if (loss[i] < cost) { below++; if (!taken) belowRejected++; oracle += loss[i]; }
      else { if (taken) aboveAccepted++; oracle += cost; }
    }
    return {
      rcr_loss: (accepted + paidCost) / n,
      always_accept: lossSum[n] / n,
      always_reject: position * unitsOf(0, n) / n,
      oracle: oracle / n,
      rejection_rate: (n - count) / n,
      accepted_loss: accepted / count,
      rejected_loss: rejected / (n - count),
      false_rejection_rate: belowRejected / below,
      false_acceptance_rate: aboveAccepted / (n - below),
    };
  };

  // mean loss and the half width of its 95% interval
  const interval = (sum, squares) => {
    const mean = sum / n;
    return [mean, 1.96 * Math.sqrt(Math.max(squares / n - mean * mean, 0) / n)];
  };
  const paid = (position, budget) => {
    const {k, has} = selection(position, budget);
    if (k !== null) return interval(lossSum[k] + position * unitsOf(k, n), squareSum[k] + position * position * unitSquaresOf(k, n));
    let sum = 0, squares = 0;
    for (let i = 0; i < n; i++) {
      const value = has(i) ? loss[i] : position * unit[i];
      sum += value; squares += value * value;
    }
    return interval(sum, squares);
  };
  const acceptedMean = k => {
    const mean = lossSum[k] / k;
    return [mean, 1.96 * Math.sqrt(Math.max(squareSum[k] / k - mean * mean, 0) / k)];
  };

  // ---- text

  const number = value => {
    if (value === null || value === undefined || Number.isNaN(value)) return '–';
    const size = Math.abs(value);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(2);
    const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    return value.toLocaleString('en', {maximumFractionDigits: digits});
  };
  const percent = value => (Number.isNaN(value) ? '–' : `${(100 * value).toLocaleString('en', {maximumFractionDigits: 1})}%`);
  const price = content.money ? content.money.unit : null;
  const lossName = content.model.loss;
  const amount = value => (price === null ? `${number(value)} units of the ${lossName} loss` : `${number(value * price)} in money`);
  const make = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const replace = (id, ...children) => element(id).replaceChildren(...children);

  const table = (head, lines) => make('div', {class: 'scroll'}, make('table', {},
    make('thead', {}, make('tr', {}, ...head.map(each => make('th', {scope: 'col', class: each.number ? 'number' : ''}, each.text)))),
    make('tbody', {}, ...lines.map(line => make('tr', {class: line.kind || ''}, ...line.cells.map((cell, place) =>
      make('td', {class: head[place].number ? 'number' : ''}, cell instanceof Node ? cell : String(cell ?? '–'))))))));

  // ---- drawing

  const SVG = 'http://www.w3.org/2000/svg';
  const draw = (tag, attributes, text) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const ticks = (low, high, count) => {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(each => each * power).find(each => each >= raw);
    const found = [];
    for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step) found.push(Math.abs(value) < 1e-12 ? 0 : value);
    return found;
  };
  const logTicks = (low, high) => {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const digit of [1, 2, 5]) {
        const value = digit * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    return found;
  };

  class Chart {
    constructor({width = 520, height = 320, x, y, logX = false, label, xLabel, yLabel, left = 56, right = 16}) {
      Object.assign(this, {width, height, logX, left, right, top: 14, bottom: xLabel ? 46 : 30});
      this.xRange = x; this.yRange = y;
      this.svg = draw('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label});
      for (const value of ticks(...y, 5)) {
        this.svg.append(draw('line', {class: 'grid', x1: left, x2: width - right, y1: this.y(value), y2: this.y(value)}));
        this.svg.append(draw('text', {x: left - 8, y: this.y(value) + 4, 'text-anchor': 'end'}, number(value)));
      }
      let lastEnd = -Infinity;
      for (const value of logX ? logTicks(...x) : ticks(...x, Math.max(3, Math.round(width / 110)))) {
        const text = number(value), half = 3.6 * text.length, at = this.x(value);
        if (at - half < lastEnd + 6) continue;
        lastEnd = at + half;
        this.svg.append(draw('line', {class: 'axis', x1: at, x2: at, y1: height - this.bottom, y2: height - this.bottom + 5}));
        this.svg.append(draw('text', {x: at, y: height - this.bottom + 18, 'text-anchor': 'middle'}, text));
      }
      this.svg.append(draw('line', {class: 'axis', x1: left, x2: width - right, y1: height - this.bottom, y2: height - this.bottom}));
      if (xLabel) this.svg.append(draw('text', {x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle'}, xLabel));
      if (yLabel) this.svg.append(draw('text', {x: left, y: 8, 'text-anchor': 'start'}, yLabel));
    }
    x(value) {
      const [low, high] = this.logX ? this.xRange.map(Math.log) : this.xRange;
      const place = this.logX ? Math.log(value) : value;
      return this.left + (place - low) / (high - low || 1) * (this.width - this.left - this.right);
    }
    y(value) {
      const [low, high] = this.yRange;
      return this.height - this.bottom - (value - low) / (high - low || 1) * (this.height - this.top - this.bottom);
    }
    path(points) { return points.map(([x, y], i) => `${i ? 'L' : 'M'}${this.x(x).toFixed(2)},${this.y(y).toFixed(2)}`).join(''); }
    line(points, color, extra = {}) {
      this.svg.append(draw('path', {d: this.path(points), fill: 'none', stroke: color, 'stroke-width': 2, ...extra}));
    }
    band(points) { // [x, low, high]
      const up = points.map(([x, , high]) => [x, Math.min(high, this.yRange[1])]);
      const down = points.map(([x, low]) => [x, Math.max(low, this.yRange[0])]).reverse();
      this.svg.append(draw('path', {d: `${this.path(up)}${this.path(down).replace('M', 'L')}Z`, fill: 'var(--band)'}));
    }
    dot(x, y, color, id) {
      this.svg.append(draw('circle', {cx: this.x(x), cy: this.y(y), r: 5, fill: color, stroke: 'var(--panel)', 'stroke-width': 2, ...(id ? {id} : {})}));
    }
    text(x, y, text, color, anchor = 'end', dy = -7) {
      const made = draw('text', {class: 'label', x: this.x(x), y: this.y(y) + dy, 'text-anchor': anchor}, text);
      made.style.fill = color;
      this.svg.append(made);
    }
  }

  // ---- sections that follow the sliders

  const state = {place: content.rows.start, budget: 100};
  const costWord = content.rows.by_row ? 'factor of the costs' : 'cost of a rejection';

  const summary = current => {
    const best = Math.min(current.always_accept, current.always_reject);
    const rival = current.always_accept <= current.always_reject ? 'accepting all rows' : 'rejecting all rows';
    const saved = 1000 * (best - current.rcr_loss), share = best > 0 ? Math.abs(best - current.rcr_loss) / best : 0;
    const outcome = saved >= 0
      ? `Per 1,000 rows it saves ${amount(saved)} (${percent(share)}) compared with ${rival}, the better of the two simple choices.`
      : `Per 1,000 rows it costs ${amount(-saved)} (${percent(share)}) more than ${rival}: rejection does not pay here.`;
    const held = state.budget < 100 ? ` At most ${state.budget}% of the rows may be rejected.` : '';
    element('words').textContent = `The model leaves ${percent(current.rejection_rate)} of the rows to somebody else and predicts the others.${held} ${outcome}`;
    const tiles = [
      ['Loss per row', number(current.rcr_loss), 'main', 'rcr_loss'],
      ['if all rows were accepted', number(current.always_accept), '', 'always_accept'],
      ['if all rows were rejected', number(current.always_reject), '', 'always_reject'],
      ['Rows rejected', percent(current.rejection_rate), '', 'rejection_rate'],
      ['Loss of accepted rows', number(current.accepted_loss), '', 'accepted_loss'],
      [price === null ? 'Saved per 1,000 rows' : 'Money saved per 1,000 rows', price === null ? number(saved) : number(saved * price), '', 'saved'],
    ];
    replace('tiles', ...tiles.map(([name, value, kind, id]) =>
      make('div', {class: `tile ${kind}`}, make('dt', {}, name), make('dd', {id: `tile-${id}`}, value))));
  };

  const MEANINGS = {
    rcr_loss: 'mean over all rows of the loss if accepted and the cost if rejected',
    always_accept: 'loss per row if all rows were accepted',
    always_reject: 'loss per row if all rows were rejected',
    oracle: 'smallest possible loss with these predictions',
    rejection_rate: 'share of the rows that are rejected',
    accepted_loss: 'mean loss of the accepted rows',
    rejected_loss: 'mean loss of the rejected rows, had they been accepted',
    false_rejection_rate: 'share rejected of the rows whose loss is below their cost',
    false_acceptance_rate: 'share accepted of the rows whose loss is at least their cost',
  };
  const measureTable = current => {
    const lines = Object.entries(MEANINGS).map(([name, meaning]) => make('tr', {}, make('th', {scope: 'row'}, name),
      make('td', {class: 'number', id: `measure-${name}`, 'data-value': String(current[name])}, name.endsWith('rate') ? percent(current[name]) : number(current[name])),
      make('td', {}, meaning)));
    replace('measures', make('tbody', {}, ...lines));
  };

  const costCurve = () => {
    const position = positions[state.place], budget = state.budget / 100;
    if (fixed) {
      replace('cost-curve', make('p', {class: 'note'}, 'This model decides at one cost only, the cost that it was fitted for.'));
      return;
    }
    // every position needs its own order of the rows if costs differ by row and the budget is limited
    const some = expected && budget < 1 ? positions.filter((_, i) => i % 5 === 0) : positions;
    const points = some.map(each => [each, ...paid(each, budget)]);
    const accept = lossSum[n] / n;
    const top = 1.25 * Math.max(accept, ...points.map(([, mean, half]) => mean + half));
    const chart = new Chart({x: [positions[0], positions[positions.length - 1]], y: [0, top], logX: true, xLabel: costWord, yLabel: 'loss per row', label: 'Loss per row against the cost'});
    const perUnit = unitsOf(0, n) / n;
    const reject = positions.map(each => [each, each * perUnit]).filter(([, value]) => value <= top);
    chart.band(points.map(([x, mean, half]) => [x, mean - half, mean + half]));
    chart.line([[positions[0], accept], [positions[positions.length - 1], accept]], 'var(--accept)', {'stroke-dasharray': '6 4'});
    if (reject.length > 1) chart.line(reject, 'var(--reject)', {'stroke-dasharray': '2 4'});
    chart.line(points.map(([x, mean]) => [x, mean]), 'var(--model)', {'stroke-width': 2.5});
    chart.text(positions[0], accept, 'accept all', 'var(--accept)', 'start');
    if (reject.length > 1) chart.text(...reject[reject.length - 1], 'reject all', 'var(--reject)', 'end', 4 - 10);
    const last = points[points.length - 1];
    chart.text(last[0], last[1], 'model', 'var(--model)', 'end', 18);
    chart.dot(position, paid(position, budget)[0], 'var(--model)', 'cost-dot');
    replace('cost-curve', chart.svg);
  };

  const coverageCurve = current => {
    const count = Math.min(n, 160), points = [];
    for (let i = 1; i <= count; i++) {
      const k = Math.max(1, Math.round(i * n / count));
      if (k >= Math.min(20, n)) points.push([k / n, ...acceptedMean(k)]);
    }
    const top = 1.1 * Math.max(...points.map(([, mean, half]) => mean + half));
    const chart = new Chart({x: [0, 1], y: [0, top], xLabel: 'share of the rows accepted', yLabel: 'loss of accepted rows', label: 'Loss of accepted rows against their share'});
    chart.band(points.map(([x, mean, half]) => [x, mean - half, mean + half]));
    chart.line(points.map(([x, mean]) => [x, mean]), 'var(--model)', {'stroke-width': 2.5});
    if (current.rejection_rate < 1) chart.dot(1 - current.rejection_rate, current.accepted_loss, 'var(--model)', 'coverage-dot');
    replace('coverage-curve', chart.svg);
  };

  const groups = (content.groups || []).map(each => ({...each, codes: unpack(each.codes, Uint16Array)}));
  const groupTables = () => {
    if (!groups.length) return;
    const {has} = selection(positions[state.place], state.budget / 100);
    replace('groups', ...groups.flatMap(({column, labels, codes, flags}) => {
      const total = labels.map(() => 0), rejected = labels.map(() => 0), lost = labels.map(() => 0);
      for (let i = 0; i < n; i++) {
        total[codes[i]]++;
        if (has(i)) lost[codes[i]] += loss[i]; else rejected[codes[i]]++;
      }
      const flag = each => {
        const words = [each.rejected_more && 'rejected more often', each.mispredicted_more && 'larger losses'].filter(Boolean);
        return words.length ? make('span', {class: 'flag'}, words.join(', ')) : make('span', {class: 'fine'}, 'none');
      };
      return [make('h3', {}, column), table(
        [{text: 'group'}, {text: 'rows', number: true}, {text: 'rejected', number: true}, {text: 'loss of accepted rows', number: true}, {text: 'flag'}],
        labels.map((label, place) => ({cells: [label, total[place].toLocaleString('en'), percent(rejected[place] / total[place]),
          number(lost[place] / (total[place] - rejected[place])), flag(flags[place])]})))];
    }));
  };

  const update = () => {
    const position = positions[state.place], current = measures(position, state.budget / 100);
    element('cost-value').textContent = content.rows.by_row ? `× ${number(position)}` : price === null ? number(position) : `${number(position)} (${number(position * price)} in money)`;
    element('budget-value').textContent = state.budget === 100 ? 'no limit' : `${state.budget}% of the rows`;
    element('cost').setAttribute('aria-valuetext', element('cost-value').textContent);
    element('budget').setAttribute('aria-valuetext', element('budget-value').textContent);
    summary(current); measureTable(current); costCurve(); coverageCurve(current); groupTables();
  };

  // ---- sections that stay

  const calibration = () => {
    const bins = content.calibration;
    if (!bins) { element('calibration-section').hidden = true; return; }
    const top = 1.08 * Math.max(...bins.map(each => Math.max(each.expected, each.observed, each.high)));
    const chart = new Chart({x: [0, top], y: [0, top], xLabel: 'expected loss', yLabel: 'observed loss', label: 'Observed against expected loss'});
    chart.line([[0, 0], [top, top]], 'var(--reject)', {'stroke-dasharray': '4 4', 'stroke-width': 1.5});
    for (const each of bins) {
      if (each.low !== null) chart.line([[each.expected, each.low], [each.expected, each.high]], 'var(--model)', {'stroke-width': 1.5});
      chart.dot(each.expected, each.observed, 'var(--model)');
    }
    replace('calibration', chart.svg);
    const total = bins.reduce((sum, each) => sum + each.rows, 0);
    const mean = name => bins.reduce((sum, each) => sum + each.rows * each[name], 0) / total;
    element('calibration-note').textContent = `On average the observed loss is ${number(mean('observed'))} and the expected loss ${number(mean('expected'))}. On the dashed line they are equal; bars are 95% intervals.`;
  };

  const bars = () => {
    const list = content.drivers.importances.slice(0, 10);
    const width = 520, rowHeight = 26, left = Math.min(190, 24 + 7.2 * Math.max(...list.map(each => each.column.length)));
    const most = Math.max(...list.map(each => each.changed), 1e-9);
    const svg = draw('svg', {viewBox: `0 0 ${width} ${rowHeight * list.length + 6}`, role: 'img', 'aria-label': 'Share of decisions that change by column'});
    list.forEach((each, place) => {
      const y = place * rowHeight, length = each.changed / most * (width - left - 60);
      const name = each.column.length > 24 ? `${each.column.slice(0, 23)}…` : each.column;
      svg.append(draw('text', {x: left - 8, y: y + 17, 'text-anchor': 'end'}, name));
      svg.append(draw('rect', {x: left, y: y + 5, width: Math.max(length, 1), height: rowHeight - 10, rx: 3, fill: 'var(--model)'}));
      svg.append(draw('text', {x: left + length + 6, y: y + 17}, percent(each.changed)));
    });
    replace('importances', svg);
  };

  const dependences = () => {
    const curves = content.drivers.curves;
    element('dependence-caption').textContent = `Mean ${content.drivers.outcome} if a column had other values`;
    const all = curves.flatMap(each => each.mean), low = Math.min(0, ...all), high = 1.1 * Math.max(...all, 1e-9);
    replace('dependence', ...curves.map(curve => {
      const x = curve.is_number ? [curve.values[0], curve.values[curve.values.length - 1]] : [-0.5, curve.values.length - 0.5];
      const chart = new Chart({width: 250, height: 190, x, y: [low, high], left: 44, right: 12, label: `Mean ${content.drivers.outcome} by ${curve.column}`});
      if (curve.is_number) chart.line(curve.values.map((value, i) => [value, curve.mean[i]]), 'var(--model)');
      else {
        chart.svg.querySelectorAll('text').forEach(each => { if (each.getAttribute('text-anchor') === 'middle') each.remove(); });
        curve.values.forEach((value, i) => {
          chart.dot(i, curve.mean[i], 'var(--model)');
          chart.svg.append(draw('text', {x: chart.x(i), y: 178, 'text-anchor': 'middle'}, String(value).slice(0, Math.max(3, Math.floor(30 / curve.values.length)))));
        });
      }
      return make('div', {}, make('strong', {}, curve.column), chart.svg);
    }));
  };

  const cell = value => (value === null ? 'missing' : typeof value === 'number' ? number(value) : value);
  const examples = () => {
    const {columns, kinds, more_columns: more, has_training: near} = content.examples;
    element('examples-note').textContent = `Test rows${near ? ', each with its three nearest training rows' : ''}. Decisions are those at the cost of the model.` + (more ? ` ${more} more columns are not shown.` : '');
    const titles = {rejected: 'Rejected most clearly', accepted: 'Accepted most clearly', 'near the limit': 'Nearest to the limit'};
    replace('examples', ...kinds.filter(each => each.rows.length).map(({kind, rows}, place) => make('details', place === 0 ? {open: ''} : {},
      make('summary', {}, titles[kind]),
      table([{text: 'row'}, {text: 'prediction', number: true}, {text: 'true value', number: true}, {text: 'loss', number: true},
        {text: content.calibration ? 'expected loss' : 'score', number: true}, ...columns.map(text => ({text}))],
      rows.flatMap(row => [
        {cells: [row.label, cell(row.prediction), cell(row.target), number(row.loss), number(content.calibration ? row.cost - row.score : row.score), ...row.cells.map(cell)]},
        ...row.neighbours.map(other => ({kind: 'neighbour', cells: ['training row', '', cell(other.target), '', '', ...other.cells.map(cell)]})),
      ])))));
  };

  const PROBLEMS = {};
  const data = () => {
    const problems = content.problems;
    replace('problems', problems.length
      ? table([{text: 'column'}, {text: 'problem'}, {text: 'rows', number: true}, {text: 'example'}],
        problems.map(each => ({cells: [each.column, PROBLEMS[each.problem] || each.problem, each.rows === null ? '' : each.rows.toLocaleString('en'), each.example ?? '']})))
      : make('p', {}, 'All columns are as in training: no unseen categories, no new missing values, no numbers outside the range.'));
    if (!content.drift) {
      replace('drift', make('p', {class: 'note'}, 'Training rows were not given, so drift was not tested.'));
      return;
    }
    const drifted = content.drift.filter(each => each.drifted);
    replace('drift', make('h3', {}, 'Drift against the training rows'),
      drifted.length ? table(
        [{text: 'column'}, {text: 'distance', number: true}, {text: 'p-value, adjusted', number: true}, {text: 'missing in training', number: true}, {text: 'missing here', number: true}],
        drifted.map(each => ({cells: [each.column, number(each.distance), number(each.p), percent(each.missing[0] ?? NaN), percent(each.missing[1] ?? NaN)]})))
        : make('p', {}, `None of ${content.drift.length} columns has drifted (tests adjusted for all columns, level 5%).`));
  };

  const certificates = () => replace('certificates', ...(content.certificates.length
    ? content.certificates.map(each => make('p', {class: 'certificate'}, each.statement))
    : [make('p', {class: 'note'}, 'There is no certificate. recuse certify gives one, from rows that were not used for training.')]));

  const method = () => {
    const model = content.model, rows = model.rows.toLocaleString('en');
    const lines = [
      `The model is ${model.estimator}, with the ${model.loss} loss, ${model.columns} columns${model.training_rows ? ` and ${model.training_rows.toLocaleString('en')} training rows` : ''}.`,
      `All losses on this page are means over the ${rows} rows that were given to the report. They are honest only if the model was not fitted to these rows.`,
      fixed ? 'The model decides at one cost. The slider for rejected rows keeps the rows with the lowest scores.'
        : 'A row is accepted at every cost above its own threshold. The sliders recompute every measure in the browser, from the threshold and the loss of each row.',
      content.rows.expected ? 'With a limit on rejected rows, the rows whose cost is the smallest compared with their expected loss are rejected first.' : 'With a limit on rejected rows, the rows with the highest thresholds are rejected first.',
      'Importance: each column is shuffled five times in up to 1,000 rows. Curves: up to 300 rows with one column replaced.',
      `Written ${model.date} by recuse ${model.written_by}; the model was saved with ${Object.entries(model.versions).map(([name, version]) => `${name} ${version}`).join(', ')}.`,
    ];
    replace('method', make('ul', {}, ...lines.map(text => make('li', {}, text))));
  };

  // ---- start

  const cost = element('cost'), budget = element('budget');
  cost.max = positions.length - 1; cost.value = state.place; cost.disabled = fixed;
  element('cost-label').textContent = content.rows.by_row ? 'Costs of the rows' : 'Cost of a rejection';
  const target = content.model.targets.length ? ` of ${content.model.targets.join(', ')}` : '';
  element('subtitle').textContent = `Predictions${target} for ${content.model.rows.toLocaleString('en')} test rows by ${content.model.estimator}. Move the sliders to see what changes.`;
  if (!groups.length) element('groups-section').hidden = true;
  let waiting = false;
  const refresh = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; update(); }); } };
  cost.addEventListener('input', () => { state.place = Number(cost.value); refresh(); });
  budget.addEventListener('input', () => { state.budget = Number(budget.value); refresh(); });
  element('reset').addEventListener('click', () => { state.place = content.rows.start; state.budget = 100; cost.value = state.place; budget.value = 100; refresh(); });
  element('controls').addEventListener('submit', event => event.preventDefault());
  calibration(); bars(); dependences(); examples(); data(); certificates(); method(); update();
  window.report = {measures, positions, update: (place, share) => { state.place = place; state.budget = share; cost.value = place; budget.value = share; update(); }};
})();
