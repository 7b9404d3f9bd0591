// What a page does beside being looked at: filter, sort, pick out, tables, CSV, news from a console.
// Every mark of a trial carries its number (data-t); nothing here draws a plot.
'use strict';
(() => {
  const root = document.documentElement;
  const live = location.protocol.startsWith('http');
  root.classList.add('has-js');
  const $ = (q, e = document) => e.querySelector(q);
  const $$ = (q, e = document) => [...e.querySelectorAll(q)];

  // What is below the first screen is laid out once that is painted (page.css): content-visibility: auto begins a screen and more before.
  // The first picture needs none of what follows, but where a link says what to show.
  let begun = false;
  function opened() {
    root.classList.add('opened');
    if (!begun) start();
  }
  addEventListener('scroll', opened, {once: true, passive: true});
  for (const e of ['pointerdown', 'keydown']) addEventListener(e, opened, {once: true, capture: true});

  // rowOf: trial -> row of the columns; plots: drawings with marks of trials, which are read when they are first filtered; lines: the
  // leaderboard's trials, in their order; made: trial -> row
  let data, rowOf, plots, lines, made;
  const state = {hide: new Set(), top: 0, ranges: {}, pick: null, open: false, sort: 'rank', down: false};

  // --- numbers and times -------------------------------------------------------------------------------------------------------
  const digits = (v, n) => String(+v.toPrecision(n));
  function show(c, v) {
    if (v === null || v === undefined) return '–';
    if (c.time) return utc(new Date(v * 1000));
    if (typeof v !== 'number') return String(v);
    if (c.d) return v.toFixed(c.d);
    const a = Math.abs(v);
    switch (c.u) {
      case 's': return a === 0 ? '0 s' : a < 1 ? digits(v * 1000, 2) + ' ms' : a < 59.5 ? digits(v, 2) + ' s' : a < 7200 ? Math.round(v / 60) + ' min' : a < 172800 ? digits(v / 3600, 2) + ' h' : digits(v / 86400, 2) + ' days';
      case 'B': { let i = 0; while (v >= 1024 && i < 4) { v /= 1024; i++; } v = Math.round(10 * v) / 10; return v.toFixed(i && v < 10 ? 1 : 0) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][i]; }
      case 'USD': return !v ? '$0' : a < 0.005 ? '<$0.01' : (v < 0 ? '-$' : '$') + a.toLocaleString('en', {minimumFractionDigits: 2, maximumFractionDigits: 2});
      case '#': return v.toLocaleString('en');
      case '%': { if (v && a < 1e-5) return v > 0 ? '<0.001 %' : '>-0.001 %'; let n = 2; while (a < 1 && n < 17 && +digits(100 * a, n) === 100) n++; return (a < 1 ? digits(100 * v, n) : Math.round(100 * v)) + ' %'; }
    }
    return a < 1e7 && Number.isInteger(v) ? String(v) : a < 1e4 ? digits(v, 4) : String(Math.round(v));
  }
  function ago(d) {
    const s = (Date.now() - d) / 1000, unit = [[86400, 'day'], [3600, 'hour'], [60, 'minute']].find(u => s >= u[0]);
    if (s < 0) return utc(d);
    if (!unit) return 'a moment ago';
    const n = Math.floor(s / unit[0]);
    return `${n} ${unit[1]}${n === 1 ? '' : 's'} ago`;
  }
  const utc = d => d.toISOString().slice(0, 16).replace('T', ' ');
  function make(tag, attrs, ...children) {
    const e = document.createElement(tag);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    e.append(...children);
    return e;
  }
  const column = k => Object.hasOwn(data.columns, k) ? data.columns[k] : undefined;

  // --- what is shown --------------------------------------------------------------------------------------------------------------
  // A range has two ends as they were typed, of which one may be empty or no number; texts are compared as texts.
  const within = (v, [low, high]) => { const as = typeof v === 'number' ? Number : String; return v !== null && (low === '' || !(v < as(low))) && (high === '' || !(v > as(high))); };
  function passes(t) {
    const r = rowOf.get(t);
    if (r === undefined) return true;
    if (state.hide.has(column('state').v[r])) return false;
    if (state.top && column('rank').v[r] > state.top) return false;
    for (const k in state.ranges) if (!within(column(k).v[r], state.ranges[k])) return false;
    return true;
  }
  let hidden = new Set();
  function apply() {
    if (!rowOf) return;
    hidden = new Set([...rowOf.keys()].filter(t => !passes(t)));
    for (const p of plots) p.late = true;
    most = page;
    list();
    catchUp();
    const s = $('#shown');
    const final = rowOf.has(data.final), all = rowOf.size - final, shown = rowOf.size - hidden.size - (final && !hidden.has(data.final));
    if (s) s.textContent = `${shown} of ${all} trials${final && !hidden.has(data.final) ? ' and the final' : ''}${hidden.size ? `, ${hidden.size} hidden by the filter` : ''}`;
    drawRanges();
    remember();
  }

  // A filter changes thousands of marks. Those in sight change at once; the others one drawing at a time, a moment after the last
  // change of the filter, or when they come into sight.
  const near = new Set();
  const sight = new IntersectionObserver(seen => {
    for (const s of seen) s.isIntersecting ? near.add(s.target.id) : near.delete(s.target.id);
    catchUp();
  });
  let later = 0;
  function catchUp() {
    for (const p of plots) if (p.late && near.has(p.id)) mark(p);
    clearTimeout(later);
    const late = plots.some(p => p.late);
    $('#main').setAttribute('aria-busy', late);
    if (late) later = setTimeout(() => { const p = plots.find(p => p.late); p && mark(p); catchUp(); }, 40);
  }
  function mark(p) {
    p.late = false;
    if (!p.marks) {
      p.marks = new Map();
      for (const e of $$('[data-t]', $('#' + p.id))) {
        const t = +e.getAttribute('data-t');
        p.marks.has(t) ? p.marks.get(t).push(e) : p.marks.set(t, [e]);
      }
    }
    for (const [t, elements] of p.marks) {
      const off = hidden.has(t);
      if (off === p.off.has(t)) continue;
      for (const e of elements) e.classList.toggle('off', off);
      off ? p.off.add(t) : p.off.delete(t);
    }
  }

  // The leaderboard lists the first of the rows that pass; who scrolls to its end gets more. To lay out a thousand rows takes too long,
  // and of thousands the page itself has only the best.
  const page = 50;
  let most = page;
  function line(t) {
    if (made.has(t)) return made.get(t);
    const tr = make('tr', {'data-t': t}), r = rowOf.get(t);
    $$('#board thead th').forEach((th, i) => {
      const k = th.firstElementChild.dataset.sort, c = column(k), v = c.v[r], text = v === null || k === 'rank' && !ranked(r) ? '-' : show(c, v);
      const cell = i === 1 ? make('th', {scope: 'row'}, make('button', {type: 'button', 'data-pick': t}, text)) : make('td', {class: th.className || (k === 'reason' || k === 'tried' ? 'r' : '')}, text);
      if (k === 'state') cell.prepend($(`[data-state="${v}"] + svg`).cloneNode(true));
      cell.hidden = without.has(i);
      tr.append(cell);
    });
    if (state.pick === t) tr.classList.add('hi');
    made.set(t, tr);
    return tr;
  }
  function list() {
    const rows = lines.filter(t => !hidden.has(t)), say = $('#listed'), rest = rows.length > most;
    $('#board tbody').replaceChildren(...rows.slice(0, most).map(line));
    say.parentNode.hidden = !rest;
    say.textContent = rest ? `The first ${most} of ${rows.length} rows.` : '';
  }
  function more(n) { if (most < lines.length) { most = n; list(); } }
  let where = ''; // the column that a reader has chosen
  function drawRanges() {
    const chips = $('#chips');
    if (!chips) return;
    chips.replaceChildren(...Object.entries(state.ranges).map(([k, [low, high]]) => {
      const chip = make('button', {type: 'button'}, `${column(k).n}: ${low || '…'} to ${high || '…'} ×`);
      chip.onclick = () => { delete state.ranges[k]; apply(); };
      return chip;
    }));
    if (where) $('#where').value = where;
    const [low, high] = state.ranges[$('#where').value] || ['', ''];
    $('#low').value = low;
    $('#high').value = high;
  }
  const marked = t => new Set([...$$(`#main [data-t="${t}"]`), made.get(t)].filter(e => e));
  function pick(t, scroll) {
    for (const e of marked(state.pick)) e.classList.remove('hi');
    state.pick = t;
    if (t !== null) {
      const row = scroll ? lines.filter(u => !hidden.has(u)).indexOf(t) : -1;
      if (row >= most) more(row + page);
      for (const e of marked(t)) {
        e.classList.add('hi');
        // on top of the others
        if (e.ownerSVGElement && e.matches('.curve')) e.parentNode.insertBefore(e, firstAfter(e));
        if (scroll && e.tagName === 'TR') e.scrollIntoView({block: 'nearest'});
      }
    }
    remember();
  }
  function firstAfter(e) {
    return $(':scope > text', e.parentNode) && [...e.parentNode.children].filter(c => c.dataset.t !== undefined && c.tagName === 'path').at(-1).nextSibling;
  }

  // --- the address: a link shows what its sender saw --------------------------------------------------------------------------------
  function remember() {
    const p = new URLSearchParams();
    if (state.hide.size) p.set('hide', [...state.hide].join(','));
    if (state.top) p.set('top', state.top);
    for (const k in state.ranges) p.append('range', [k, ...state.ranges[k]].map(encodeURIComponent).join(':'));
    if (state.pick !== null) p.set('trial', state.pick);
    if (state.open) p.set('open', '1');
    if (state.sort !== 'rank' || state.down) p.set('sort', (state.down ? '-' : '') + state.sort);
    const h = p.toString();
    if (h !== location.hash.slice(1)) { try { history.replaceState(null, '', h ? '#' + h : location.pathname + location.search); } catch {} }
  }
  function recall() {
    const p = new URLSearchParams(location.hash.slice(1));
    state.hide = new Set((p.get('hide') || '').split(',').filter(Boolean));
    state.top = +p.get('top') || 0;
    state.ranges = {};
    for (const r of p.getAll('range')) {
      try {
        const [k, low = '', high = ''] = r.split(':').map(decodeURIComponent);
        if (column(k)) state.ranges[k] = [low, high];
      } catch {} // no link of this page
    }
    const t = p.get('trial');
    const s = p.get('sort') || 'rank';
    state.down = s.startsWith('-');
    state.sort = s.replace(/^-/, '');
    $$('[data-state]').forEach(c => { c.checked = !state.hide.has(c.dataset.state); });
    const top = $('#top');
    if (top) { top.value = String(state.top); if (!top.value) { top.value = '0'; state.top = 0; } }
    sort();
    const open = p.get('open') === '1';
    pick(t !== null && rowOf && rowOf.has(+t) ? +t : null);
    apply();
    if (open && state.pick !== null && !$('#trial')) openTrial(state.pick);
  }

  // --- tables ------------------------------------------------------------------------------------------------------------------------
  // [columns, rows] of a chart's table
  function rows(id) {
    const t = data.tables[id];
    if (id === 'curves') {
      const head = [{n: 'trial', v: []}, {n: 'tree', v: []}, {n: 'score', v: []}], out = [];
      data.curves.t.forEach((trial, i) => { if (!hidden.has(trial)) { let x = 0; data.curves.x[i].forEach((step, j) => out.push([trial, x += step, data.curves.y[i][j]])); } });
      return [head, out];
    }
    const cols = t.c.map(column), trial = t.c.find(k => column(k).n === 'trial');
    const out = [];
    for (let r = 0; r < cols[0].v.length; r++) {
      if (trial && hidden.has(column(trial).v[r])) continue;
      out.push(cols.map(c => c.v[r]));
    }
    return [cols, out];
  }
  // of a table without data of its own, what it shows, with all digits
  function shown(id) {
    const table = $('#' + id), out = [...table.tBodies[0].rows].map(r => [...r.cells].map(c => c.dataset.v !== undefined ? +c.dataset.v : c.textContent.trim()));
    return [[...table.tHead.rows[0].cells].map(c => ({n: c.textContent})), out];
  }
  function csv(id) {
    const [cols, body] = data.tables[id] ? rows(id) : shown(id);
    const cell = (c, v) => {
      if (v === null || v === undefined) return '';
      let s = c.time ? new Date(v * 1000).toISOString() : String(v);
      // no spreadsheet takes a name for a formula
      if (typeof v === 'string' && /^[=+\-@\t]/.test(s)) s = "'" + s;
      return /[",\n]/.test(s) ? '"' + s.replaceAll('"', '""') + '"' : s;
    };
    const head = c => cell({}, c.n + (c.time ? ' (UTC)' : c.u ? ` (${c.u === '%' ? 'share' : c.u === '#' ? 'count' : c.u})` : ''));
    return [cols.map(head).join(','), ...body.map(r => r.map((v, i) => cell(cols[i], v)).join(','))].join('\n') + '\n';
  }
  // a table that the script makes, on request
  function tableOf(id, most) {
    const [cols, body] = rows(id), over = body.length > most;
    return make('table', {}, make('caption', over ? {} : {class: 'hush'}, data.tables[id].title + (over ? ` (the first ${most} of ${body.length} rows; all are in the CSV)` : '')),
      make('thead', {}, make('tr', {}, ...cols.map(c => make('th', {scope: 'col', class: 'n'}, c.n)))),
      make('tbody', {}, ...body.slice(0, most).map(r => make('tr', {}, ...r.map((v, i) => make('td', {class: 'n'}, show(cols[i], v)))))));
  }
  function toggleTable(button) {
    const id = button.dataset.table, fig = button.closest('figure'), old = $('.data', fig);
    button.setAttribute('aria-expanded', String(!old));
    if (old) { old.remove(); return; }
    fig.append(make('div', {class: 'data', tabindex: 0, role: 'group', 'aria-label': 'Table of ' + data.tables[id].title}, tableOf(id, 2000)));
  }
  function sort() {
    const table = $('#board'), c = table && column(state.sort);
    if (!c) return;
    lines.sort((a, b) => {
      const x = c.v[rowOf.get(a)], y = c.v[rowOf.get(b)], none = v => v === null || v === undefined;
      if (none(x) || none(y)) return none(x) - none(y);
      const d = typeof x === 'number' && typeof y === 'number' ? x - y : String(x) < String(y) ? -1 : x === y ? 0 : 1;
      return (state.down ? -d : d) || column('rank').v[rowOf.get(a)] - column('rank').v[rowOf.get(b)];
    });
    most = page;
    list();
    $$('th[aria-sort]', table).forEach(th => th.setAttribute('aria-sort', th.firstElementChild.dataset.sort !== state.sort ? 'none' : state.down ? 'descending' : 'ascending'));
  }

  // --- a trial by itself: what it was, how it went, and beside any other -----------------------------------------------------------------
  const ranked = r => column('score').v[r] === null ? '' : `, rank ${column('rank').v[r]} of ${rowOf.size - rowOf.has(data.final)}`;
  function openTrial(t) {
    const old = $('#trial');
    if (old) old.close();
    const ranks = column('rank').v, r = rowOf.get(t), cell = k => show(column(k), column(k).v[r]);
    const names = data.tables.board.c.filter(k => !['rank', 'trial', 'state', 'reason', 'tried', 'ended'].includes(k));
    const other = make('select', {}, ...column('trial').v.filter(n => n !== t).map(n => make('option', {value: n}, `trial ${n}${ranked(rowOf.get(n))}`)));
    const body = make('tbody', {}), step = (d, text) => {
      const next = column('trial').v[ranks.indexOf(ranks[r] + d)], b = make('button', {type: 'button'}, text);
      b.disabled = next === undefined;
      b.addEventListener('click', () => { pick(next); openTrial(next); });
      return b;
    };
    const beside = () => {
      const o = rowOf.get(+other.value);
      const lines = names.map(k => { const c = column(k), a = show(c, c.v[r]), b = o === undefined ? '' : show(c, c.v[o]); return [c.n, a, b, a !== b]; });
      body.replaceChildren(...lines.sort((a, b) => b[3] - a[3]).map(([n, a, b, differs]) => make('tr', differs ? {class: 'differs'} : {}, make('th', {scope: 'row'}, n), make('td', {class: 'n'}, a), make('td', {class: 'n'}, b))));
    };
    other.addEventListener('change', beside);
    beside();
    const box = make('dialog', {id: 'trial', 'aria-labelledby': 'trial-h'}, make('h2', {id: 'trial-h', tabindex: -1, autofocus: ''}, `Trial ${t}`, make('span', {class: 'fine'}, ` of ${data.id}`)));
    box.append(make('p', {}, make('strong', {}, `${cell('state')}${ranked(r)}. `), cell('reason')));
    if (data.columns.tried && column('tried').v[r]) box.append(make('p', {class: 'fine'}, 'Why it was tried: ' + cell('tried')));
    const drawn = $('#curves svg.plot');
    if (drawn && data.curves.t.includes(t)) {
      const svg = drawn.cloneNode(true);
      svg.removeAttribute('aria-describedby');
      svg.setAttribute('aria-labelledby', 'trial-h');
      $$('.hi', svg).forEach(e => e.classList.remove('hi'));
      $$('.off', svg).forEach(e => e.classList.remove('off'));
      $$(`[data-t="${t}"]`, svg).forEach(e => { e.classList.add('hi'); e.parentNode.append(e); });
      box.append($('#curves .keys').cloneNode(true), make('div', {class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Learning curve, scrolls'}, svg));
    }
    const table = make('table', {}, make('thead', {}, make('tr', {}, make('th', {scope: 'col'}, 'what'), make('th', {scope: 'col', class: 'n'}, `trial ${t}`), make('th', {scope: 'col', class: 'n'}, make('label', {}, make('span', {class: 'hush'}, 'beside '), other)))), body);
    box.append(make('div', {class: 'scroll data', tabindex: 0, role: 'group', 'aria-label': 'Beside another trial, scrolls'}, table));
    const close = make('button', {type: 'button'}, 'Close');
    close.addEventListener('click', () => box.close());
    box.append(make('p', {class: 'tools'}, step(-1, 'Better'), ' ', step(1, 'Worse'), ' ', close));
    box.addEventListener('close', () => { box.remove(); state.open = !!$('#trial'); remember(); });
    state.open = true;
    document.body.append(box);
    box.showModal();
    remember();
  }

  // The leaderboard without some of its columns.
  const without = new Set();
  function setColumn(i, shown) {
    shown ? without.delete(i) : without.add(i);
    for (const tr of [$('#board thead tr'), ...made.values()]) tr.children[i].hidden = !shown;
  }
  function columnMenu() {
    const menu = $('#columns-of');
    if (menu) menu.replaceChildren(...$$('#board thead th').map((th, i) => {
      const box = make('input', {type: 'checkbox', 'data-column': i});
      box.checked = !without.has(i);
      return i < 2 ? '' : make('label', {}, box, ' ' + th.textContent.trim());
    }));
    for (const i of without) setColumn(i, false);
  }

  // --- begin, and begin again with news --------------------------------------------------------------------------------------------------
  function begin() {
    data = JSON.parse($('#data').textContent);
    rowOf = null;
    hidden = new Set();
    plots = [];
    lines = [];
    made = new Map();
    sight.disconnect();
    if (data.columns.trial && data.kind === 'sweep') {
      rowOf = new Map(data.columns.trial.v.map((t, i) => [t, i]));
      lines = [...column('trial').v];
      for (const tr of $$('#board tbody tr')) made.set(+tr.dataset.t, tr);
      for (const figure of $$('#main figure')) {
        if ($('[data-t]', figure)) { plots.push({id: figure.id, off: new Set(), late: false}); sight.observe(figure); }
      }
    }
    // a file has no pages beside it
    if (!live) $$('a.in').forEach(a => a.removeAttribute('href'));
    $$('time').forEach(e => {
      const d = new Date(e.dateTime), kind = e.dataset.ago, old = Date.now() - d;
      e.title = `${utc(d)} UTC, here ${d.toLocaleString('en', {dateStyle: 'medium', timeStyle: 'long'})}`;
      e.textContent = (kind && kind !== 'clock' ? ago(d) : e.textContent) + (kind === 'night' && old > 2592e5 ? ', none since' : e.dataset.fresh && old > 36e5 ? ', over an hour ago' : '');
    });
    columnMenu();
    $('#main').setAttribute('aria-busy', false);
    recall();
  }

  document.addEventListener('click', e => {
    const cut = e.target.closest('td.r[title]');
    if (cut && !getSelection().toString()) cut.classList.toggle('whole');
    const b = e.target.closest('button, tr[data-t], svg [data-t]');
    if (!b) return;
    const d = b.dataset;
    if (b.id === 'theme') { theme(root.dataset.theme === 'dark' || !root.dataset.theme && dark.matches ? 'light' : 'dark'); return; }
    if (b.id === 'columns') { const m = $('#columns-of'); m.hidden = !m.hidden; b.setAttribute('aria-expanded', String(!m.hidden)); return; }
    if (b.id === 'more') { more(Infinity); return; }
    if (b.id === 'clear') { state.hide.clear(); state.ranges = {}; state.top = 0; state.pick !== null && pick(null); remember(); recall(); return; }
    if (d.table) { toggleTable(b); return; }
    if (d.csv) {
      const a = make('a', {href: URL.createObjectURL(new Blob([csv(d.csv)], {type: 'text/csv'})), download: `${data.id}-${d.csv}.csv`});
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 1000);
      return;
    }
    if (d.sort) { state.down = state.sort === d.sort ? !state.down : false; state.sort = d.sort; sort(); remember(); return; }
    if (d.pick !== undefined) { pick(+d.pick); openTrial(+d.pick); return; }
    const t = d.t !== undefined ? +d.t : null;
    if (t !== null && !getSelection().toString()) pick(state.pick === t ? null : t, b.tagName !== 'TR');
  });
  document.addEventListener('change', e => {
    if (e.target.dataset.state) { e.target.checked ? state.hide.delete(e.target.dataset.state) : state.hide.add(e.target.dataset.state); apply(); }
    if (e.target.dataset.column) setColumn(+e.target.dataset.column, e.target.checked);
    if (e.target.id === 'top') { state.top = +e.target.value; apply(); }
    if (e.target.id === 'where') { where = e.target.value; drawRanges(); }
    if (e.target.id === 'low' || e.target.id === 'high') {
      const r = [$('#low').value.trim(), $('#high').value.trim()], k = $('#where').value;
      r.join('') ? state.ranges[k] = r : delete state.ranges[k];
      apply();
    }
  });
  document.addEventListener('input', e => {
    const id = e.target.dataset.find;
    if (id) $$(`#${id} tbody tr`).forEach(tr => { tr.hidden = !tr.textContent.toLowerCase().includes(e.target.value.toLowerCase()); });
  });
  document.addEventListener('keydown', e => {
    if (e.target.matches('input,select') || e.ctrlKey || e.metaKey || e.altKey) return;
    const find = $('#filter input, [data-find]');
    if (e.key === '/' && find) { e.preventDefault(); find.focus(); }
    if (!rowOf) return;
    if (e.key === 'Escape') pick(null);
    if (e.key === 'j' || e.key === 'k') {
      const seen = lines.filter(t => !hidden.has(t)), i = seen.indexOf(state.pick);
      if (seen.length) pick(seen[Math.max(0, Math.min(seen.length - 1, i < 0 ? 0 : i + (e.key === 'j' ? 1 : -1)))], true);
    }
  });
  document.addEventListener('scroll', e => {
    const s = e.target;
    if (s.firstElementChild && s.firstElementChild.id === 'board' && s.scrollTop + 2 * s.clientHeight > s.scrollHeight) more(most + page);
  }, {capture: true, passive: true});
  addEventListener('beforeprint', () => { $$('details.part').forEach(d => { d.open = true; }); plots.filter(p => p.late).forEach(mark); });
  document.addEventListener('pointermove', tip);

  // --- what lies under the pointer ---------------------------------------------------------------------------------------------------------
  function tip(e) {
    const box = $('#tip'), m = e.target.closest && e.target.closest('svg.plot [data-t]');
    if (!box) return;
    const r = m && rowOf && rowOf.get(+m.dataset.t);
    box.hidden = r === null || r === undefined;
    if (box.hidden) return;
    const v = k => show(column(k), column(k).v[r]);
    box.textContent = `trial ${v('trial')}${ranked(r)}\n${column('score').n} ${v('score')}\n${v('state')}: ${v('reason')}\n${v('trees')} trees, ${v('seconds')}`;
    box.style.left = Math.min(e.clientX + 14, innerWidth - box.offsetWidth - 8) + 'px';
    box.style.top = Math.min(e.clientY + 14, innerHeight - box.offsetHeight - 8) + 'px';
  }

  // --- light and dark ------------------------------------------------------------------------------------------------------------------------
  const dark = matchMedia('(prefers-color-scheme: dark)');
  function theme(t) {
    if (t) { root.dataset.theme = t; try { localStorage.setItem('coppice-theme', t); } catch {} }
    const on = (root.dataset.theme || (dark.matches ? 'dark' : 'light')) === 'dark';
    const b = $('#theme');
    if (b) b.textContent = on ? 'Light' : 'Dark';
  }
  try { const t = localStorage.getItem('coppice-theme'); if (t === 'dark' || t === 'light') root.dataset.theme = t; } catch {}
  theme();
  dark.addEventListener('change', () => theme());
  addEventListener('hashchange', recall);

  // --- news: while a sweep runs a console is asked for other bytes; they are put in place of these -------------------------------------------
  function renew(text) {
    const next = new DOMParser().parseFromString(text, 'text/html');
    const open = $$('details[open] > summary').map(s => s.textContent), known = $$('details > summary').map(s => s.textContent);
    const tables = $$('figure:has(.data)').map(f => f.id);
    const scrolls = $$('.scroll').map(s => [s.scrollLeft, s.scrollTop]), focus = document.activeElement && document.activeElement.id;
    $('#main').replaceWith(next.getElementById('main'));
    $('#data').textContent = next.getElementById('data').textContent;
    document.title = next.title;
    $('meta[name=version]').content = $('meta[name=version]', next).content;
    begin();
    $$('details > summary').forEach(s => { s.parentNode.open = open.includes(s.textContent) || !known.includes(s.textContent) && s.parentNode.open; });
    tables.forEach(id => { const b = $(`#${id} [data-table]`); b && toggleTable(b); });
    $$('.scroll').forEach((s, i) => { if (scrolls[i]) [s.scrollLeft, s.scrollTop] = scrolls[i]; });
    focus && $('#' + focus) && $('#' + focus).focus({preventScroll: true});
  }
  // a telephone shows the answer, and the rest on request
  if (innerWidth < 600) $$('details.part').forEach(d => { d.open = false; });
  $('#main').setAttribute('aria-busy', true);
  if (location.hash) start();
  requestAnimationFrame(() => setTimeout(opened, 100));
  function start() {
    begun = true;
    begin();
    if (live && data.open) poll();
  }
  async function poll() {
    const say = $('#live');
    let wait = 10000, text = 'live';
    try {
      const answer = await fetch(location.pathname, {cache: 'no-store', headers: {'If-None-Match': `"${$('meta[name=version]').content}"`}});
      if (answer.status === 200) renew(await answer.text());
      else if (answer.status !== 304) throw answer.status;
      wait = +answer.headers.get('Poll') || wait;
      if (!data.open) text = 'ended';
    } catch { text = 'no connection; trying again'; }
    say.hidden = false;
    say.className = 'live' + (text.startsWith('no') ? ' off' : '');
    say.textContent = text;
    if (data.open) setTimeout(poll, wait);
  }
})();
