// Parts that streams and tables share: the state, the reason and remedy, the rows of the last hour, a backlog, pages.

import { brief, count, lasting, make, rate, say, set } from './text.js';

const glyphs = { running: '●', starting: '◌', paused: '‖', waiting: '◐', degraded: '▲', stopped: '■', gone: '○' };
export const glyph = (state) => (state ? glyphs[state] || '◆' : '');

const worstFirst = ['stopped', 'degraded', 'waiting', 'starting', 'paused', 'gone', 'running'];

/** statesOf lists the states of which there are tables, the worst first. A state of a newer bridge comes first. */
export const statesOf = (states) =>
  Object.keys(states)
    .filter((state) => states[state])
    .sort((a, b) => worstFirst.indexOf(a) - worstFirst.indexOf(b));
export const inStates = (states) =>
  statesOf(states)
    .map((state) => `${count(states[state])} ${state}`)
    .join(', ');

export function stateMark() {
  const mark = make('span', { 'aria-hidden': 'true' }),
    text = make('span');
  const node = make('span', { class: 'state' }, mark, text);
  return {
    node,
    update(state, words = state) {
      set(node, 'data-state', state);
      say(mark, glyph(state));
      say(text, words);
    },
  };
}

/** runbook returns the heading of the runbook for a table that is not running. source and bus are the dependencies. */
export function runbook({ state, cause }, { bus, source, checkpoint }) {
  if (cause === 'idsReused') return 'Ids that are used again';
  if (cause === 'superseded') return 'Two instances run';
  if (cause === 'deadLetterLimit') return 'Dead letters';
  if (state === 'waiting' && !cause)
    return (
      [
        [bus, 'The bus does not answer'],
        [source, 'The source does not answer'],
        [checkpoint, 'The store is away'],
      ].find(([d]) => d?.answers === false)?.[1] || 'What you see'
    );
  return (
    { stopped: 'A stream is stopped', waiting: 'A stream is stopped', degraded: 'A stream is degraded', paused: 'A stream is paused', starting: 'Catch-up runs long', gone: 'Tables of a pattern' }[
      state
    ] || 'What you see'
  );
}

export function runbookLink() {
  const node = make('a');
  return {
    node,
    update(heading) {
      set(node, 'href', `/docs/operations.md#${heading.toLowerCase().replaceAll(' ', '-')}`);
      say(node, `Runbook: ${heading}`);
    },
  };
}

/** trouble says why a table is not running and what to do. */
export function trouble() {
  const why = make('p'),
    todo = make('p'),
    link = runbookLink();
  const node = make('div', { class: 'trouble' }, why, todo, make('p', {}, link.node));
  return {
    node,
    update(table, needs, name) {
      node.hidden = !table || table.state === 'running';
      if (node.hidden) return;
      set(node, 'data-state', table.state);
      say(why, `${name ? `${table.shard}: ` : ''}${table.reason || `it is ${table.state}`}`);
      say(todo, table.remedy ? `What to do: ${table.remedy}` : '');
      link.update(runbook(table, needs));
    },
  };
}

const svgNode = (tag, attributes = {}) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

/** sparkline shows the rows of each minute of the last hour. Its axis: the most rows of a minute above, an hour ago and now below. */
export function sparkline(withTimes = false) {
  const line = svgNode('path'),
    most = make('span', { class: 'most' });
  const svg = svgNode('svg', { viewBox: '0 0 58 20', preserveAspectRatio: 'none', role: 'img' });
  svg.append(svgNode('path', { class: 'base', d: 'M0 0H58M0 20H58' }), line);
  const node = make('div', { class: 'spark' }, most, svg);
  if (withTimes)
    node.append(make('span', { class: 'times', 'aria-hidden': 'true' }, make('span', {}, '60 min ago'), make('span', {}, 'now')));
  return {
    node,
    update(minutes) {
      // The last minute has not ended.
      const list = (minutes || []).slice(0, -1),
        top = Math.max(0, ...list);
      node.classList.toggle('nothing', !top);
      say(most, top ? `${brief(top)}/min` : '0/min');
      set(line, 'd', list.map((n, i) => `${i ? 'L' : 'M'}${i} ${(20 - (20 * n) / Math.max(1, top)).toFixed(1)}`).join(''));
      set(
        svg,
        'aria-label',
        top
          ? `Rows of each minute in the last hour: up to ${count(top)}, ${count(list.at(-1))} in the last one`
          : 'Nothing was published in the last hour',
      );
    },
  };
}

const limits = { rate: ', held back by RATE', connections: ', held back by SOURCE_CONNECTIONS' };

export const backlogText = (b) =>
  `${Math.floor(b.percent)} % done, ${b.secondsLeft === null ? 'the position does not advance' : `about ${lasting(b.secondsLeft)} left at ${rate(b.idsPerSecond)} ids/s`}${limits[b.limit] || ''}`;

export function backlogBar() {
  const text = make('p', { class: 'quiet' }),
    bar = make('progress', { max: 100 });
  const node = make('div', { class: 'backlog' }, text, bar);
  return {
    node,
    update(b, name) {
      node.hidden = !b;
      if (!b) return;
      say(text, `Backlog: ${count(b.ids)} ids, ${backlogText(b)}`);
      set(bar, 'value', b.percent.toFixed(1));
      set(bar, 'aria-label', `Backlog of ${name}`);
    },
  };
}

/** pager shows which part of a list is shown, and turns it by go(offset). */
export function pager(name, size, go) {
  const text = make('span', { class: 'quiet' }),
    back = make('button', { type: 'button' }, 'Previous'),
    on = make('button', { type: 'button' }, 'Next');
  const node = make('nav', { class: 'pager', 'aria-label': `Pages of ${name}` }, text, back, on);
  let at = 0;
  back.addEventListener('click', () => go(Math.max(0, at - size)));
  on.addEventListener('click', () => go(at + size));
  return {
    node,
    update(offset, listed, matching, words) {
      at = offset;
      say(text, matching ? `${count(offset + 1)} to ${count(offset + listed)} of ${words}` : `No ${name} match.`);
      back.hidden = on.hidden = matching <= size;
      back.disabled = offset === 0;
      on.disabled = offset + listed >= matching;
    },
  };
}

/** The differences that a reconcile has found. */
export const differences = (r) => r.added + r.modified + r.deleted + r.missed;
export const byKind = (r) =>
  ['added', 'modified', 'deleted', 'missed']
    .filter((kind) => r[kind])
    .map((kind) => `${count(r[kind])} ${kind}`)
    .join(', ');
