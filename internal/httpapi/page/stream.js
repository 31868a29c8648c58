// One stream: its figures, its tables in pages, and what may be done with it.

import { ago, clock, count, countIDs, lasting, make, many, rate, say, set, show } from './text.js';
import { backlogBar, byKind, differences, inStates, pager, runbookLink, sparkline, stateMark, trouble } from './parts.js';
import { actionBar } from './actions.js';

export function catchingUp(c) {
  if (c.error) return `cannot catch up from the bus: ${c.error}`;
  return c.ready ? '' : `catches up from the bus, ${count(c.left)} offsets left${c.secondsLeft ? `, about ${lasting(c.secondsLeft)}` : ''}`;
}

// ---- Figures, of a stream or of one of its tables.

/** stat is a number with its name, and what stands below it. */
function stat(name) {
  const value = make('b'),
    more = make('small'),
    dd = make('dd', {}, value, more);
  return {
    node: make('div', {}, make('dt', {}, name), dd),
    update(text, below = '', kind = '') {
      say(value, text);
      say(more, below);
      set(dd, 'class', kind);
    },
  };
}

/** gapsText says of the ids below the position that no row was seen for what becomes of them. */
function gapsText(g) {
  const hot = Number(g.hot) - Number(g.inFlight);
  return [
    [hot, 'looked for at every poll'],
    [g.inFlight, 'inserted by a transaction that is open'],
    [g.cold, 'looked for every minute'],
    [g.unpolled, 'no longer looked for: left to reconcile'],
  ]
    .filter(([n]) => n > 0)
    .map(([n, words]) => `${countIDs(n)} ${words}`)
    .concat(g.oldestSeconds ? `the oldest for ${lasting(g.oldestSeconds)}` : [])
    .join('; ');
}

const missing = (g) => Number(g.hot) + Number(g.cold) + Number(g.unpolled);

function reconciled(r, kind) {
  const guards = r.guards ?? (r.guard ? 1 : 0),
    found = differences(r);
  const running = r.running && (r.percent === undefined ? `runs for ${many(r.running, 'table')}` : `${Math.floor(r.percent)} % done`);
  return [
    guards ? 'deletes held back' : r.running ? 'running' : r.endedAt ? `${many(found, 'difference')}` : 'none yet',
    [
      guards &&
        `${many(r.absent, 'entity has', 'entities have')} no row${r.guards ? `; deletes of ${many(r.guards, 'table')} are held back` : ''}`,
      r.endedAt && !guards && (found ? byKind(r) : kind === 'release' ? 'no row under ids that are no longer looked for' : ''),
      running,
      !r.running && r.waiting && (r.guards === undefined ? 'waits for its turn' : `${many(r.waiting, 'table')} waiting`),
      r.endedAt && `ended ${ago(r.endedAt)}`,
    ]
      .filter(Boolean)
      .join('; '),
    guards ? 'bad' : '',
  ];
}

/** reached says how far a table is published; one whose ids have no order has no position. */
const reached = (sh) => (sh.noTail ? ['–', 'its ids have no order: reconcile publishes'] : [count(sh.position), `of ${count(sh.highest)}`]);

/** stats has the figures of a stream's summary, or of a table; names says which. */
function stats(kind, ...names) {
  const all = Object.fromEntries(names.map((name) => [name, stat(name)]));
  return {
    node: make('dl', { class: 'stats' }, ...names.map((name) => all[name].node)),
    update(x, only = x) {
      const r = x.reconcile,
        d = x.deadLetters,
        again = only?.republish,
        put = (name, ...texts) => all[name]?.update(...texts);
      put(
        'Lag',
        lasting(x.lagSeconds),
        x.lagUnknown
          ? only
            ? only.pausedAt
              ? 'while the table is paused'
              : 'while the table cannot be read'
            : `not known of ${many(x.lagUnknown, 'table')}`
          : 'oldest row that is not published',
        x.backlog ? 'odd' : '',
      );
      put(
        'Published',
        `${rate(x.published.rowsPerSecond)} rows/s`,
        `${again && !again.endedAt ? `published again: ${again.to < 2 ** 64 ? `${Math.floor(again.percent)} %, ` : ''}${many(again.rows, 'event')}; ` : ''}${count((x.published.lastHour || []).reduce((a, b) => a + b, 0))} in the last hour`,
      );
      if (only) put('Position', ...reached(only));
      if (x.states) put('Tables', count(x.shards), inStates(x.states));
      put('Missing ids', countIDs(missing(x.gaps)), missing(x.gaps) ? gapsText(x.gaps) : 'below the position each id was seen');
      put('Late rows', count(x.late), 'since the start: they took an id below the position, and were published');
      put(
        'Dead letters',
        count(d.count),
        d.reasons.length
          ? d.reasons.map((one) => `${count(one.count)} × ${one.reason}`).join('; ')
          : 'rows that the bus refused since the start',
        d.count ? 'odd' : '',
      );
      if (!r) return;
      if (r.verifiedThrough)
        put('Complete up to', clock(r.verifiedThrough), `${ago(r.verifiedThrough)}: every commit up to then is published`);
      else
        put(
          'Complete up to',
          'not yet',
          r.unverified > 1 ? `no reconcile has ended of ${many(r.unverified, 'table')}` : 'no reconcile has ended',
        );
      put('Last reconcile', ...reconciled(r, kind));
      put('Last fault', x.lastError ? '' : 'none', x.lastError || '');
    },
  };
}

/** missingIDs lists the oldest ranges of ids without a row. */
function missingIDs() {
  const list = make('ul'),
    node = make(
      'details',
      {},
      make('summary', {}, 'Which ids are missing, and why'),
      make(
        'div',
        { class: 'why quiet' },
        make(
          'p',
          {},
          'An id without a row was rolled back, or its transaction is open. bridge looks for it at every poll, later every minute, and publishes the row when it commits; after GAP_TTL a reconcile compares what is left with the table.',
        ),
        list,
      ),
    );
  return {
    node,
    update(shards) {
      const all = shards.flatMap((sh) => sh.gaps.oldest.map((g) => ({ ...g, shard: sh.shard })));
      node.hidden = !all.length;
      if (!node.open || !all.length) return;
      show(
        list,
        all.slice(0, 12),
        (g) => `${g.shard} ${g.first}`,
        () => {
          const li = make('li');
          return {
            node: li,
            update(g) {
              say(
                li,
                `${g.shard}: ${g.first === g.last ? `id ${count(g.first)}` : `ids ${count(g.first)} to ${count(g.last)}`}, missed ${ago(g.missed)}`,
              );
            },
          };
        },
      );
    },
  };
}

// ---- The stream.

let serial = 0;

/** streamPart shows a stream. page has how many tables are listed, look and the address of all streams. */
export function streamPart({ name, kind, summary: first }, page) {
  const back = make('a', {}, '← All streams'),
    title = make('h2', { id: `s${++serial}`, tabindex: -1 }, name),
    mark = stateMark(),
    about = make('span', { class: 'quiet' });
  const figures = stats(
    kind,
    'Lag',
    'Published',
    first.shards === 1 ? 'Position' : 'Tables',
    'Missing ids',
    'Late rows',
    'Dead letters',
    'Complete up to',
    'Last reconcile',
  );
  const hour = sparkline(true),
    bar = backlogBar(),
    why = trouble(),
    letters = runbookLink(),
    ids = missingIDs(),
    actions = actionBar(name),
    list = tableList(kind, page);
  letters.update('Dead letters');
  ids.node.addEventListener('toggle', () => ids.update(shards));
  let shards = [];
  const node = make(
    'section',
    { class: 'card stream', 'aria-labelledby': title.id },
    make('p', {}, back),
    make('header', {}, title, mark.node, about),
    why.node,
    figures.node,
    make('div', {}, make('h3', {}, 'Rows published in each minute of the last hour'), hour.node),
    bar.node,
    letters.node,
    ids.node,
    actions.node,
    list.node,
  );
  return {
    node,
    update(s, status) {
      const sum = s.summary,
        only = sum.shards === 1 ? s.shards[0] : null;
      ({ shards } = s);
      back.parentNode.hidden = status.totals.streams === 1;
      say(back, `← All ${many(status.totals.streams, 'stream')}`);
      set(back, 'href', page.address());
      set(node, 'data-state', s.state);
      mark.update(s.state);
      say(about, [s.kind, many(sum.shards, 'table'), catchingUp(s.catchUp), s.reason].filter(Boolean).join(' · '));
      why.update(sum.shards === 1 ? sum.worst : null, status);
      figures.update(sum, only);
      hour.update(sum.published.lastHour);
      bar.update(sum.backlog, s.name);
      letters.node.hidden = !sum.deadLetters.count;
      ids.update(s.shards);
      actions.update(s);
      list.node.hidden = sum.shards < 2;
      if (sum.shards > 1) list.update(s, status);
    },
  };
}

// ---- Its tables, a row each; more of one when its name is pressed.

const heads = [
  ['Table', 'name'],
  ['State', ''],
  ['Lag', 'number'],
  ['Rows/s', 'number'],
  ['Rows a minute, 60 min ago to now', 'wide'],
  ['Position', 'number'],
  ['Highest id', 'number'],
  ['Missing ids', 'number'],
];

function tableList(kind, { tables, look }) {
  const table = make(
    'table',
    { class: 'rows' },
    make('caption', { class: 'unseen' }, 'Tables, the worst first'),
    make('thead', {}, make('tr', {}, ...heads.map(([name, kind]) => make('th', { scope: 'col', class: kind }, name)))),
  );
  const pages = pager('tables', tables, (offset) => look({ offset }));
  return {
    node: make('div', { class: 'why' }, make('h3', {}, 'Tables'), table, pages.node),
    update(s, status) {
      const { matching, offset, shards } = s.summary;
      show(
        table,
        s.shards,
        (sh) => sh.shard,
        (sh) => tablePart(sh, kind),
        table.tHead,
      );
      s.shards.forEach((sh) => table.parts.get(sh.shard).explain(status));
      table.hidden = !s.shards.length;
      pages.update(
        offset,
        s.shards.length,
        matching,
        `${many(matching, 'table')}${matching < shards ? ` that match, of ${count(shards)}` : ''}, the worst first`,
      );
    },
  };
}

function tablePart({ shard }, kind) {
  const opener = make('button', { type: 'button', class: 'plain', 'aria-expanded': false }, shard),
    mark = stateMark(),
    spark = sparkline();
  const [lag, speed] = ['Lag', 'Rows/s'].map((name) => make('td', { class: 'number', 'data-name': name }));
  // A phone shows these where the table is opened.
  const [position, highest, gaps] = [1, 2, 3].map(() => make('td', { class: 'number rare' }));
  const why = trouble(),
    whyRow = make('tr', {}, make('td', { colspan: heads.length }, why.node)),
    bar = backlogBar();
  const figures = stats(
    kind,
    'Published',
    'Position',
    'Missing ids',
    'Late rows',
    'Dead letters',
    'Complete up to',
    'Last reconcile',
    'Last fault',
  );
  const more = make('tr', { class: 'more' }, make('td', { colspan: heads.length }, bar.node, figures.node));
  more.hidden = true;
  let last = null;
  opener.addEventListener('click', () => {
    more.hidden = !more.hidden;
    set(opener, 'aria-expanded', !more.hidden);
    if (!more.hidden) part.update(last);
  });
  const node = make(
    'tbody',
    {},
    make(
      'tr',
      {},
      make('th', { scope: 'row', class: 'name' }, opener),
      make('td', {}, mark.node),
      lag,
      speed,
      make('td', { class: 'wide' }, spark.node),
      position,
      highest,
      gaps,
    ),
    whyRow,
    more,
  );
  const part = {
    node,
    update(sh) {
      last = sh;
      set(node, 'data-state', sh.state);
      mark.update(sh.state);
      say(lag, lasting(sh.lagSeconds));
      say(speed, rate(sh.published.rowsPerSecond));
      spark.update(sh.published.lastHour);
      say(position, reached(sh)[0]);
      say(highest, count(sh.highest));
      say(gaps, countIDs(missing(sh.gaps)));
      if (more.hidden) return;
      bar.update(sh.backlog, sh.shard);
      figures.update(sh);
    },
    explain(status) {
      why.update(last, status);
      whyRow.hidden = why.node.hidden;
    },
  };
  return part;
}
