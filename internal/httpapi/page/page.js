// The page: it asks for the status every 2 s and shows the streams as rows, or one stream with its tables.

import { $, age, ask, clock, count, keepToken, lasting, make, many, rate, say, set, show } from './text.js';
import { backlogText, glyph, inStates, pager, runbookLink, sparkline, stateMark, statesOf, trouble } from './parts.js';
import { catchingUp, streamPart } from './stream.js';
import { actionOpen } from './actions.js';

// ---- What is looked at: the whole, or one stream; the address keeps it.

const none = { stream: '', state: '', find: '', offset: 0 };
const view = { ...none };
const rows = 40,
  tables = 20;
let shown = null,
  lastSeen = null,
  failures = 0,
  refusal = '',
  timer = 0,
  polls = 0,
  opened = false;

function readAddress() {
  Object.assign(view, none, Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  view.offset = Number(view.offset) || 0;
}

const address = (change) => `#${new URLSearchParams(Object.entries({ ...view, offset: 0, ...change }).filter(([, value]) => value))}`;

function look(change) {
  history.replaceState(null, '', address(change));
  readAddress();
  poll();
}

/** single is the name of the stream whose tables are shown. */
const single = () => view.stream || (shown?.totals?.streams === 1 ? shown.streams[0]?.name : '');

function query(extra = {}) {
  const stream = single(),
    filter = { state: view.state, contains: view.find };
  const page = stream ? { stream, streams: 1, limit: tables, offset: view.offset } : { streams: rows, streamOffset: view.offset, limit: 0 };
  const parameters = new URLSearchParams({ ...page, examples: 0, ...extra });
  for (const [name, value] of Object.entries(filter)) if (value) parameters.set(name, value);
  return `/api/v1/status?${parameters}`;
}

/** newStatus returns the status, and that of the one that works where this process waits. */
async function newStatus() {
  const own = await ask(query());
  if (!own.standby || own.standby.works) return { ...own, own };
  try {
    const works = await ask(query({ working: true })).catch((e) => {
      // One of an earlier version may not know a parameter: it lists all.
      if (e.status === 400) return ask('/api/v1/status?working=true');
      throw e;
    });
    if (!works.totals) throw new Error('It is of an earlier version: its own page shows it.');
    return { ...works, own };
  } catch (e) {
    return { ...own, own, streams: [], totals: null, unseen: e.message };
  }
}

async function poll() {
  const mine = ++polls;
  clearTimeout(timer);
  const before = single();
  let again = false;
  try {
    const now = await newStatus();
    // Another one was asked for meanwhile.
    if (mine !== polls) return;
    if (shown && shown.version !== now.version && !actionOpen()) location.reload();
    [shown, lastSeen, failures] = [now, Date.now(), 0];
    // The only stream is shown with its tables, which were not asked for yet.
    again = single() !== before;
  } catch (e) {
    if (mine !== polls) return;
    failures++;
    refusal = e.status ? e.message : '';
  }
  if (again) {
    poll();
    return;
  }
  timer = setTimeout(poll, document.hidden ? 10000 : 2000);
  renderLost();
  // Not in the try: a fault of the page does not mean that the daemon is lost.
  if (!failures) render(shown);
}

// ---- The head.

function render(s) {
  renderHead(s);
  renderGroup(s.own.standby, s.unseen);
  renderNeeds(s);
  renderFilter(s);
  const name = single(),
    one = name && s.streams.find((stream) => stream.name === name);
  const parts = s.unseen ? [] : [one ? { key: `stream ${name}`, one } : name ? { key: 'unknown', name } : { key: 'all' }];
  show(
    $('#streams'),
    parts,
    (part) => part.key,
    (part) => (part.one ? opening(part.one) : part.name ? unknownPart() : listPart()),
  );
}

/** summed says what a person has to know first. */
function summed({ unseen, totals }) {
  if (unseen) return ['waiting', 'This process waits; the one that works cannot be seen'];
  const { states, shards } = totals,
    worst = statesOf(states)[0] || 'running',
    bad = (states.stopped || 0) + (states.degraded || 0);
  const part = (n, verb, verbs) =>
    shards === 1 ? `The table ${verb}` : `${count(n)} of ${count(shards)} tables ${n === 1 ? verb : verbs}`;
  if (bad) return [worst, part(bad, 'needs a person', 'need a person')];
  if (worst === 'waiting') return [worst, part(states.waiting, 'waits until an outage ends', 'wait until an outage ends')];
  if (worst === 'starting') return [worst, part(states.starting, 'starts', 'start')];
  if (worst === 'running')
    return [worst, !shards ? 'There is no table' : shards === 1 ? 'The table is running' : `All ${count(shards)} tables are running`];
  return [worst, part(states[worst], `is ${worst}`, `are ${worst}`)];
}

const overall = stateMark();
$('#overall').replaceChildren(overall.node);

function renderHead(s) {
  const [state, words] = summed(s);
  overall.update(state, words);
  const share = s.own.share && `share ${s.own.share.index}/${s.own.share.number}: the other tables are those of other processes`;
  say($('#about'), [s.version, s.delivery, s.started && `up ${lasting(age(s.started))}`, share].filter(Boolean).join(' · '));
  document.title = `${glyph(state)} ${words} – bridge`;
  // Changes of state are read aloud; numbers are not.
  const bad = s.streams.filter((one) => one.state !== 'running').map((one) => `${one.name} is ${one.state}`);
  say($('#news'), [words, ...bad.slice(0, 5)].join('. '));
}

function renderLost() {
  const lost = failures > 1 || (failures > 0 && Date.now() - lastSeen > 5000);
  document.body.classList.toggle('stale', lost);
  const banner = $('#lost');
  banner.hidden = !lost;
  if (!lost) return;
  const since = lastSeen ? `No answer from bridge since ${clock(lastSeen)}. What you see is from then.` : 'No answer from bridge.';
  say($('b', banner), `${since} ${refusal ? `It says: ${refusal}.` : ''} The page tries again every 2 s.`);
  const quiet = $('span', banner);
  quiet.setAttribute('aria-hidden', 'true');
  say(quiet, lastSeen ? `for ${lasting((Date.now() - lastSeen) / 1000)}` : '');
}

function renderGroup(g, unseen) {
  const card = $('#group');
  card.hidden = !g;
  if (!g) return;
  say($('h2', card), `Standby group ${g.group}`);
  const since = g.since ? ` since ${clock(g.since)}` : '';
  const works = g.works
    ? `This process works${since}.`
    : g.working
      ? `This process waits. ${g.working} on ${g.workingHost || 'an unknown host'} works${since}; below is its status.`
      : 'This process waits. Which one works is not known now.';
  say($('p', card), [works, unseen, g.error && `The bus does not say who works: ${g.error}`].filter(Boolean).join(' '));
  show(
    $('ul', card),
    g.waiting,
    (m) => m.member,
    () => {
      const node = make('li');
      return {
        node,
        update(m) {
          say(
            node,
            `${m.member} on ${m.host} waits, ${m.differing.length ? `and differs in ${m.differing.join(', ')}: it does not take over` : m.ready ? 'ready to take over' : 'and is not ready yet'}`,
          );
        },
      };
    },
  );
}

function renderNeeds(s) {
  const answers = ['was not used yet', 'answers', 'does not answer'],
    saves = ['was not saved yet', 'is saved', 'cannot be read or saved'];
  const all = [
    ['Source', s.source, answers, 'The source does not answer'],
    ['Bus', s.bus, answers, 'The bus does not answer'],
    ['Checkpoint', s.checkpoint, saves, 'The store is away'],
    ['Progress on the bus', s.progress, saves, 'The bus does not answer'],
  ].filter(([, d]) => d);
  show(
    $('#needs'),
    all,
    ([name]) => name,
    ([name, , words, heading]) => {
      const mark = stateMark(),
        more = make('small'),
        link = runbookLink();
      const node = make('li', {}, mark.node, more, link.node);
      link.update(heading);
      return {
        node,
        update([, d]) {
          mark.update(
            d.answers === false ? 'stopped' : d.answers ? 'running' : 'starting',
            `${name} ${words[d.answers === false ? 2 : d.answers ? 1 : 0]}`,
          );
          say(
            more,
            [d.kind, d.address, d.since && `since ${clock(d.since)} (${lasting(age(d.since))})`, d.error].filter(Boolean).join(' · '),
          );
          link.node.hidden = d.answers !== false;
        },
      };
    },
  );
}

// ---- The filter: a button for each state, and a text.

function renderFilter(s) {
  const form = $('#filter'),
    of = single() ? s.streams[0]?.summary : s.totals;
  form.hidden = !of || of.shards < 2;
  if (form.hidden) return;
  const states = statesOf(of.states);
  if (view.state && !states.includes(view.state)) states.push(view.state);
  const all = `${of.streams > 1 && of.streams !== of.shards ? `${many(of.streams, 'stream')}, ` : ''}${many(of.shards, 'table')}`;
  show(
    $('#totals'),
    [{ state: '', text: all }, ...states.map((state) => ({ state, text: `${count(of.states[state] || 0)} ${state}` }))],
    ({ state }) => state,
    ({ state }) => {
      const mark = stateMark(),
        node = make('button', { type: 'button' }, mark.node);
      node.addEventListener('click', () => look({ state }));
      return {
        node,
        update({ text }) {
          mark.update(state, text);
          set(node, 'aria-pressed', view.state === state);
        },
      };
    },
  );
  if (document.activeElement !== form.find) form.find.value = view.find;
}

// ---- The streams, a row each.

const heads = [
  ['Stream', 'name'],
  ['State', ''],
  ['Lag', 'number'],
  ['Rows/s', 'number'],
  ['Rows a minute, 60 min ago to now', 'wide'],
  ['Notes', 'notes'],
];

function listPart() {
  const table = make(
    'table',
    { class: 'card rows' },
    make('caption', { class: 'unseen' }, 'Streams, the worst first'),
    make('thead', {}, make('tr', {}, ...heads.map(([name, kind]) => make('th', { scope: 'col', class: kind }, name)))),
  );
  const pages = pager('streams', rows, (offset) => {
    look({ offset });
    scrollTo(0, 0);
  });
  const node = make('section', { class: 'why', 'aria-label': 'Streams' }, table, pages.node);
  return {
    node,
    update() {
      const { streams, totals } = shown;
      show(table, streams, (one) => one.name, rowPart, table.tHead);
      explain(table, streams);
      table.hidden = !streams.length;
      const words = `${many(totals.matching, 'stream')}${totals.matching < totals.streams ? ` that match, of ${count(totals.streams)}` : ''}`;
      pages.update(totals.offset, streams.length, totals.matching, totals.matching > rows ? `${words}, the worst first` : words);
    },
  };
}

function rowPart({ name }) {
  const link = make('a', {}, name),
    kind = make('small'),
    mark = stateMark(),
    lag = make('td', { class: 'number', 'data-name': 'Lag' }),
    speed = make('td', { class: 'number', 'data-name': 'Rows/s' }),
    spark = sparkline(),
    notes = make('td', { class: 'notes quiet' });
  const why = trouble(),
    more = make('tr', {}, make('td', { colspan: heads.length }, why.node));
  const node = make(
    'tbody',
    {},
    make(
      'tr',
      {},
      make('th', { scope: 'row', class: 'name' }, link, ' ', kind),
      make('td', {}, mark.node),
      lag,
      speed,
      make('td', { class: 'wide' }, spark.node),
      notes,
    ),
    more,
  );
  return {
    node,
    update(s) {
      const sum = s.summary;
      set(link, 'href', address({ stream: name }));
      say(kind, `${s.kind}${sum.shards === 1 ? '' : ` · ${many(sum.shards, 'table')}`}`);
      set(node, 'data-state', s.state);
      mark.update(s.state);
      say(lag, `${lasting(sum.lagSeconds)}${sum.lagSeconds !== null && sum.lagUnknown ? ' or more' : ''}`);
      say(speed, rate(sum.published.rowsPerSecond));
      spark.update(sum.published.lastHour);
    },
    explain(s, whole) {
      const { worst, shards } = s.summary;
      say(notes, [...notesOf(s), ...(worst && !whole ? [worst.reason] : [])].filter(Boolean).join('; '));
      why.update(whole ? worst : null, shown, shards > 1);
      more.hidden = why.node.hidden;
    },
  };
}

/** explain says of each stream why it is not running. What to do is said once, where many wait for one thing. */
function explain(table, streams) {
  const said = new Set();
  for (const s of streams) {
    const { worst } = s.summary,
      key = worst && `${worst.state} ${worst.remedy}`;
    table.parts.get(s.name).explain(s, worst?.state !== 'waiting' || !said.has(key));
    said.add(key);
  }
}

/** notesOf says what a person may want to look at, nothing of most streams. */
function notesOf({ state, summary: sum, catchUp, reason }) {
  const r = sum.reconcile;
  return [
    sum.shards > 1 && state !== 'running' && inStates(sum.states),
    catchingUp(catchUp),
    reason,
    sum.backlog && `backlog ${backlogText(sum.backlog)}`,
    r.guards && `deletes of ${many(r.guards, 'table')} are held back`,
    sum.deadLetters.count && `${many(sum.deadLetters.count, 'dead letter')}`,
  ].filter(Boolean);
}

// ---- One stream.

function opening(one) {
  const part = streamPart(one, { tables, look, address: () => address({ stream: '' }) });
  // The first part is shown with the page; a later one was opened by a person.
  if (opened) requestAnimationFrame(() => $('h2', part.node).focus());
  return { node: part.node, update: ({ one }) => part.update(one, shown) };
}

function unknownPart() {
  const text = make('p');
  return {
    node: make('section', { class: 'card why' }, text, make('p', {}, make('a', { href: '#' }, 'Show all streams'))),
    update({ name }) {
      say(text, `There is no stream ${name}.`);
    },
  };
}

// ---- The clock and the address.

const form = $('#filter');
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('input', (event) => look({ find: event.target.value }));
$('#token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  keepToken(event.target.token.value);
  event.target.token.value = '';
  say($('#news'), 'The token is kept until the tab is closed.');
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) poll();
});
addEventListener('action-done', poll);
addEventListener('hashchange', () => {
  readAddress();
  opened = true;
  scrollTo(0, 0);
  poll();
});
readAddress();
poll();
