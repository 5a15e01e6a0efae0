'use strict';
// Draws the data of the page. Names come from tenants: they become text and attributes of elements, never markup.
(() => {
  const page = JSON.parse(document.getElementById('data').textContent);
  const byId = (id) => document.getElementById(id);
  const count = (number, word) => `${number.toLocaleString('en')} ${word}${number === 1 ? '' : 's'}`;
  const MAX_COLUMN = 8;
  const MAX_FOUND = 30;
  const MAX_ROWS = 50;
  const MAX_COMMANDS = 200;
  // Characters that a terminal would obey, or that turn the direction of text.
  const UNSHOWN = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
  const SAFE_WORD = /^[A-Za-z0-9][A-Za-z0-9._:@-]*$/;

  const shown = (text) => String(text).replace(UNSHOWN, '\ufffd');

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) element.setAttribute(name, '');
      else if (value !== false && value != null) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child != null && child !== false));
    return element;
  }
  const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const shape = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
  const isolated = (text) => make('bdi', {}, shown(text));

  // ---- The data, with each object's references in both directions.

  const kinds = page.kinds.map((kind) => ({ ...kind, objects: [], dangling: 0, dependents: [], targets: [] }));
  for (const edge of page.edges) {
    const [from, to] = [kinds[edge.from], kinds[edge.to]];
    from.targets.push({ from, to, edge });
    to.dependents.push({ from, to, edge });
  }
  const bySize = [...kinds];
  const objects = page.objects.map(([kind, namespace, name, flags, wave], id) => ({
    id, kind: kinds[kind], namespace: namespace < 0 ? null : page.namespaces[namespace], name, wave,
    terminating: (flags & 1) !== 0, missing: (flags & 2) !== 0, dependents: [], targets: [], unclear: [],
    locks: page.locks[id] || [],
  }));
  const references = page.references.map(([from, to, edge]) =>
    ({ from: objects[from], to: objects[to], edge: page.edges[edge] }));
  for (const reference of references) {
    reference.from.targets.push(reference);
    reference.to.dependents.push(reference);
    if (reference.to.missing) reference.from.kind.dangling += 1;
  }
  for (const [from, edge, why] of page.unclear) objects[from].unclear.push({ edge: page.edges[edge], why });
  for (const object of objects) if (!object.missing) object.kind.objects.push(object);
  for (const kind of kinds) {
    kind.dependents.sort((one, other) => other.from.objects.length - one.from.objects.length);
    kind.targets.sort((one, other) => other.to.objects.length - one.to.objects.length);
  }
  bySize.sort((one, other) => other.objects.length - one.objects.length || other.dangling - one.dangling);
  const inCycle = new Map(page.cycles.flatMap((members) => members.map((id) => [id, members])));
  const dangling = references.filter((reference) => reference.to.missing);

  const refuses = (reference) => reference.edge.onDelete === 'Deny' && !reference.to.terminating && !reference.to.missing;
  const unique = (list) => [...new Set(list)];
  const blockersOf = (object) => unique(object.dependents.filter(refuses).map((reference) => reference.from));
  const path = (object) => [object.namespace, object.name].filter((part) => part != null).join('/');
  const label = (object) => `${object.kind.kind} ${path(object)}`;
  const linkOf = (object) =>
    `#object/${[object.kind.resource, object.namespace ?? '', object.name].map(encodeURIComponent).join('/')}`;
  const kindLink = (kind) => `#kind/${encodeURIComponent(kind.resource)}`;
  const byLink = new Map([...objects].reverse().map((object) => [linkOf(object), object]));
  const kindByLink = new Map(kinds.map((kind) => [kindLink(kind), kind]));

  // ---- Commands. A name that a shell or a terminal could misread gets none.

  function words(object) {
    const parts = [object.kind.resource, object.name, object.namespace ?? 'x'];
    if (!parts.every((part) => SAFE_WORD.test(part))) return null;
    return `${object.kind.resource} ${object.name}${object.namespace == null ? '' : ` -n ${object.namespace}`}`;
  }
  const depguard = (command, object) => words(object) && `kubectl depguard ${command} ${words(object)}${page.flags}`;
  const kubectl = (command, object) => words(object) && `kubectl ${command} ${words(object)}${page.kubectlFlags}`;

  function commandRow(command) {
    if (command == null) {
      return make('p', { class: 'sub' }, 'No command to copy: the name has characters that a shell could misread.');
    }
    const code = make('code', {}, command);
    return make('div', { class: 'command' }, code, copyButton('Copy', command, code));
  }
  function copyButton(text, command, code) {
    const button = make('button', { type: 'button', class: 'small', 'aria-label': `${text}: ${command.split('\n')[0]}` }, text);
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(command);
        button.textContent = 'Copied';
        announce('Copied');
      } catch {
        // Without the right to the clipboard, the text is selected for the user to copy.
        if (code) getSelection().selectAllChildren(code);
        announce('Selected; copy it with your keyboard');
      }
    });
    return button;
  }
  const announce = (text) => { byId('live').textContent = text; };

  // ---- Lists, which grow by a button.

  function rows(list, row, tag = 'ul') {
    const holder = make('div');
    const element = make(tag, { class: 'rows' });
    const more = make('button', { type: 'button', class: 'small more-rows' });
    let next = 0;
    const grow = () => {
      element.append(...list.slice(next, next + MAX_ROWS).map(row));
      next = Math.min(next + MAX_ROWS, list.length);
      more.hidden = next >= list.length;
      more.textContent = `Show more (${(list.length - next).toLocaleString('en')} left)`;
    };
    more.addEventListener('click', grow);
    grow();
    holder.append(element, more);
    return holder;
  }
  function marks(object) {
    return [
      object.missing && make('span', { class: 'mark warn' }, 'does not exist'),
      object.terminating && make('span', { class: 'mark' }, 'being deleted'),
      object.locks.length > 0 && make('span', { class: 'mark bad' }, 'locked'),
    ];
  }
  const objectLink = (object) =>
    make('a', { href: linkOf(object), class: 'name' }, `${object.kind.kind} `, isolated(path(object)));
  function referenceRow(object, list) {
    const by = list.map(({ edge }) => `${edge.field} · rule ${edge.rule}${edge.onDelete === 'Deny' ? '' : ` · only ${edge.onDelete.toLowerCase()}s`}`);
    return make('li', {}, objectLink(object), ...marks(object), make('p', { class: 'sub' }, isolated(unique(by).join(', '))));
  }
  function grouped(list, end) {
    const groups = new Map();
    for (const reference of list) {
      const known = groups.get(reference[end]);
      if (known) known.push(reference);
      else groups.set(reference[end], [reference]);
    }
    return [...groups];
  }
  const section = (title, ...children) => [make('h3', {}, title), ...children.filter(Boolean)];

  // ---- The order in which an object and everything in its way could go.

  function orderOf(object) {
    const members = new Set([object]);
    const queue = [object];
    while (queue.length > 0) {
      for (const blocker of blockersOf(queue.pop())) {
        if (!members.has(blocker)) {
          members.add(blocker);
          queue.push(blocker);
        }
      }
    }
    const waves = new Map();
    const stuck = [];
    for (const member of members) {
      if (member.wave < 0) stuck.push(member);
      else waves.set(member.wave, [...(waves.get(member.wave) ?? []), member]);
    }
    return { stuck, waves: [...waves].sort(([one], [other]) => one - other).map(([, wave]) => wave), size: members.size };
  }
  function orderSection(object) {
    const { stuck, waves, size } = orderOf(object);
    if (stuck.length > 0) {
      const cycle = stuck.map((member) => inCycle.get(member.id)).find((members) => members);
      const why = cycle
        ? `No order: ${count(cycle.length, 'object')} protect each other in a cycle.`
        : 'No order: a lock, or a cycle elsewhere, keeps some of these objects.';
      return section('Order of deletion', make('p', { class: 'sub' }, why),
        rows(stuck, (member) => make('li', {}, objectLink(member), ...marks(member))),
        commandRow(object.namespace == null ? null : `kubectl depguard order -n ${object.namespace}${page.flags}`));
    }
    const commands = waves.flat().map((member) => kubectl('delete', member));
    const list = waves.map((wave, index) => make('li', {},
      make('strong', {}, waves.length === 1 ? 'Now' : index === waves.length - 1 ? 'Last' : `Wave ${index + 1}`),
      make('span', { class: 'mark' }, count(wave.length, 'object')),
      ...wave.slice(0, 5).map((member) => make('div', {}, objectLink(member), commandRow(kubectl('delete', member)))),
      wave.length > 5 && make('p', { class: 'sub' }, `and ${(wave.length - 5).toLocaleString('en')} more`)));
    const all = size > 1 && commands.length <= MAX_COMMANDS && commands.every((command) => command != null);
    return section('Order of deletion', rows(list, (item) => item, 'ol'),
      all && make('p', { class: 'more-rows' }, copyButton(`Copy all ${commands.length} commands`, commands.join('\n'))));
  }

  // ---- The panel.

  function state(object) {
    const say = (tone, ...text) => make('div', { class: `state ${tone}` }, make('p', {}, ...text));
    const blockers = blockersOf(object);
    if (object.missing) {
      const holders = unique(object.dependents.map(({ from }) => from)).length;
      return say('warn', `Does not exist, but ${count(holders, 'object')} ${holders === 1 ? 'refers' : 'refer'} to it.`);
    }
    if (object.terminating) return say('', 'Is being deleted: rules no longer hold it.');
    const reasons = [
      blockers.length > 0 && `blocked by ${count(blockers.length, 'object')}`,
      object.locks.length > 0 && `locked by ${object.locks.map(shown).join(', ')}`,
    ].filter(Boolean);
    if (reasons.length > 0) return say('bad', `Can't be deleted: ${reasons.join(', and ')}.`);
    if (page.unread.length > 0) return say('warn', 'Unknown: nothing that was read blocks it, but not everything could be read.');
    return say('good', 'No rule and no lock blocks its deletion.');
  }
  function objectPanel(object) {
    const dependents = grouped(object.dependents, 'from');
    const blockers = dependents.filter(([, list]) => list.some(refuses));
    const others = dependents.filter(([, list]) => !list.some(refuses));
    const targets = grouped(object.targets, 'to');
    return [
      make('h2', { tabindex: '-1' }, isolated(object.name)),
      make('p', { class: 'sub' }, make('a', { href: kindLink(object.kind) }, object.kind.kind),
        object.namespace == null ? '' : ' in namespace ', object.namespace == null ? null : isolated(object.namespace), ...marks(object)),
      state(object),
      ...(blockers.length > 0 ? section(`Blocked by ${blockers.length.toLocaleString('en')}`, rows(blockers, ([from, list]) => referenceRow(from, list))) : []),
      ...(others.length > 0 ? section(`Also refer to it (${others.length.toLocaleString('en')})`, rows(others, ([from, list]) => referenceRow(from, list))) : []),
      ...(object.missing ? [] : section(`Refers to ${targets.length.toLocaleString('en')}`,
        targets.length > 0 ? rows(targets, ([to, list]) => referenceRow(to, list)) : make('p', { class: 'sub' }, 'No rule finds a reference in it.'))),
      ...object.unclear.flatMap(({ edge, why }) => [make('p', { class: 'state warn' }, isolated(`${edge.field} (rule ${edge.rule}) could not be read: it ${why}`))]),
      ...(object.missing || object.terminating ? [] : orderSection(object)),
      ...(object.missing ? [] : section('Commands',
        make('p', { class: 'sub' }, 'Finalizers, owners and other webhooks are not on this page.'),
        commandRow(depguard('why', object)), commandRow(depguard('impact', object)))),
    ];
  }
  function kindPanel(kind) {
    const holder = make('div');
    const filter = make('input', { class: 'filter', type: 'search', 'aria-label': `Filter the objects of ${kind.kind}`, placeholder: 'Filter' });
    const row = (object) => make('li', {}, make('a', { href: linkOf(object), class: 'name' }, isolated(path(object))), ...marks(object),
      blockersOf(object).length > 0 && make('span', { class: 'mark' }, `used by ${blockersOf(object).length.toLocaleString('en')}`),
      object.targets.some(({ to }) => to.missing) && make('span', { class: 'mark warn' }, 'dangling reference'));
    const update = () => {
      const found = kind.objects.filter((object) => path(object).includes(filter.value));
      holder.replaceChildren(found.length > 0 ? rows(found, row) : make('p', { class: 'sub' }, 'No object.'));
    };
    filter.addEventListener('input', update);
    update();
    const rules = page.edges.filter((edge) => kinds[edge.from] === kind || kinds[edge.to] === kind);
    return [
      make('h2', { tabindex: '-1' }, kind.kind),
      make('p', { class: 'sub mono' }, kind.resource),
      ...section('Rules', rulesTable(rules)),
      ...section(count(kind.objects.length, 'object'), kind.objects.length > MAX_ROWS && filter, holder),
    ];
  }
  function rulesTable(edges) {
    const pairs = new Map();
    for (const edge of edges) {
      const key = `${edge.from} ${edge.to} ${edge.onDelete}`;
      pairs.set(key, [...(pairs.get(key) ?? []), edge]);
    }
    const link = (index) => make('a', { href: kindLink(kinds[index]) }, kinds[index].kind);
    const missing = (edge) => (edge.onMissing === 'Ignore' ? '' : ` · missing targets: ${edge.onMissing}`);
    const field = (edge) => make('p', { class: 'sub mono' }, isolated(`${edge.field} · rule ${edge.rule}${missing(edge)}`));
    return rows([...pairs.values()], ([edge, ...others]) => make('li', {}, link(edge.from), ' → ', link(edge.to),
      edge.onDelete !== 'Deny' && make('span', { class: 'mark' }, `only ${edge.onDelete.toLowerCase()}s`),
      others.length === 0 ? field(edge)
        : make('details', {}, make('summary', { class: 'sub' }, count(others.length + 1, 'field')), field(edge), ...others.map(field))));
  }
  function overviewPanel() {
    const row = (kind) => make('tr', {}, make('td', {}, make('a', { href: kindLink(kind) }, kind.kind)),
      make('td', { class: 'number' }, kind.objects.length.toLocaleString('en')),
      make('td', { class: 'number' }, kind.dangling > 0 ? make('span', { class: 'mark warn' }, kind.dangling.toLocaleString('en')) : '–'));
    return [
      make('h2', { tabindex: '-1' }, 'All kinds'),
      make('p', { class: 'sub' }, `${count(kinds.length, 'kind')}, ${count(page.edges.length, 'reference field')}, ${count(objects.filter((object) => !object.missing).length, 'object')}`),
      ...section('Kinds', make('table', {},
        make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Kind'), make('th', { scope: 'col', class: 'number' }, 'Objects'), make('th', { scope: 'col', class: 'number' }, 'Dangling'))),
        make('tbody', {}, ...bySize.map(row)))),
      ...(dangling.length > 0 ? section(`Dangling references (${dangling.length.toLocaleString('en')})`,
        rows(dangling, ({ from, to, edge }) => make('li', {}, objectLink(from), ' → ', objectLink(to), make('p', { class: 'sub mono' }, isolated(edge.field))))) : []),
      ...(page.cycles.length > 0 ? section(`Cycles (${page.cycles.length})`,
        rows(page.cycles, (members) => make('li', {}, ...members.slice(0, 4).flatMap((id, index) => [index > 0 ? ', ' : '', objectLink(objects[id])]),
          members.length > 4 ? ` and ${members.length - 4} more` : ''))) : []),
      ...section('Rules', rulesTable(page.edges)),
    ];
  }

  // ---- The drawing.

  const heads = () => shape('defs', {}, ...[['head', 'head'], ['blocks', 'blocks-head']].map(([id, look]) =>
    shape('marker', { id: `${id}-marker`, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' },
      shape('path', { class: look, d: 'M0 0L8 4L0 8z' }))));
  function cut(text, length) {
    const characters = [...shown(text)];
    const half = Math.floor((length - 1) / 2);
    return characters.length <= length ? characters.join('') : `${characters.slice(0, half).join('')}…${characters.slice(-half).join('')}`;
  }
  function box({ x, y, width, height }, href, look, name, sub, spoken) {
    const middle = x + width / 2;
    const inner = [
      shape('title', {}, spoken),
      shape('rect', { x, y, width, height, rx: 8 }),
      shape('text', { x: middle, y: y + height / 2 - 2, 'text-anchor': 'middle' }, name),
      shape('text', { class: 'sub', x: middle, y: y + height / 2 + 14, 'text-anchor': 'middle' }, sub),
    ];
    if (href == null) return shape('g', { class: look }, ...inner);
    return shape('a', { href, class: look, 'aria-label': spoken, tabindex: -1, 'data-x': middle, 'data-y': y + height / 2 }, ...inner);
  }
  function canvas(width, height, title, arrows, boxes) {
    const svg = shape('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': title }, heads(), ...arrows, ...boxes);
    const links = boxes.filter((one) => one.tagName === 'a');
    if (links.length > 0) (links.find((link) => link.classList.contains('focus')) ?? links[0]).setAttribute('tabindex', 0);
    svg.addEventListener('keydown', (event) => move(event, links));
    return make('div', { class: 'canvas' }, svg);
  }
  /** Moves the focus to the nearest box in the direction of an arrow key. */
  function move(event, links) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const from = event.target.closest('a');
    if (!way || !from) return;
    event.preventDefault();
    const at = (link) => [Number(link.dataset.x), Number(link.dataset.y)];
    const [x, y] = at(from);
    let best = null;
    for (const link of links) {
      const [ahead, aside] = ((dx, dy) => [dx * way[0] + dy * way[1], Math.abs(dx * way[1]) + Math.abs(dy * way[0])])(at(link)[0] - x, at(link)[1] - y);
      if (ahead > 1 && (!best || ahead + 2 * aside < best.far)) best = { link, far: ahead + 2 * aside };
    }
    if (best) {
      from.setAttribute('tabindex', -1);
      best.link.setAttribute('tabindex', 0);
      best.link.focus();
    }
  }
  function legend(...looks) {
    const meanings = { focus: 'selected', blocker: 'blocks its deletion', missing: 'does not exist', weak: 'only warns or audits' };
    return make('div', { class: 'legend' }, ...looks.filter(Boolean).map((look) => make('span', { class: look }, meanings[look])));
  }
  const spokenKind = (kind) =>
    `${kind.kind}, ${count(kind.objects.length, 'object')}${kind.dangling > 0 ? `, ${count(kind.dangling, 'dangling reference')}` : ''}`;
  function kindsDrawing() {
    const { drawing } = page;
    const boxes = drawing.boxes.map((place) => {
      const kind = kinds[place.kind];
      return box(place, kindLink(kind), '', cut(kind.kind, 40), count(kind.objects.length, 'object'), spokenKind(kind));
    });
    const arrows = drawing.arrows.flatMap((arrow) => [
      shape('path', { class: `arrow${arrow.dashed ? ' weak' : ''}`, d: arrow.path, 'marker-end': 'url(#head-marker)' }),
      ...arrow.lines.map((line, index) => shape('text', { class: 'label', x: arrow.x, y: arrow.y + 3 + 13 * (index - (arrow.lines.length - 1) / 2), 'text-anchor': 'middle' }, cut(line, 56))),
    ]);
    const rest = drawing.leftOut > 0 ? ` ${count(drawing.leftOut, 'kind')} with few or no objects are only in the list.` : '';
    return [make('div', { class: 'bar' }, make('span', {}, `An arrow points from the kind that refers to the kind that it refers to.${rest}`)),
      canvas(drawing.width, drawing.height, 'Drawing of the kinds; the details list them, too', arrows, boxes),
      legend(drawing.arrows.some((arrow) => arrow.dashed) && 'weak')];
  }
  let depth = 2;
  /** Chooses the nodes around one: those that refer to it in columns to its left, what it refers to at its right. */
  function columnsAround(node) {
    const columns = new Map([[0, { shown: [node], hidden: 0 }]]);
    const placed = new Set([node]);
    for (const side of [-1, 1]) {
      let ring = [node];
      for (let far = 1; far <= depth && ring.length > 0; far += 1) {
        const near = ring.flatMap((one) => side < 0 ? one.dependents.map(({ from }) => from) : one.targets.map(({ to }) => to));
        const next = unique(near).filter((one) => !placed.has(one));
        next.forEach((one) => placed.add(one));
        if (next.length > 0) columns.set(side * far, { shown: next.slice(0, MAX_COLUMN), hidden: Math.max(0, next.length - MAX_COLUMN) });
        ring = next.slice(0, MAX_COLUMN);
      }
    }
    return [...columns].sort(([one], [other]) => one - other).map(([, column]) => column);
  }
  /** Returns for each two of these nodes whether references lead from one to the other, and whether they only warn. */
  function arrowsBetween(nodes) {
    const arrows = new Map();
    for (const from of nodes.keys()) {
      for (const { to, edge } of from.targets) {
        if (to === from || !nodes.has(to)) continue;
        const heads = arrows.get(from) ?? new Map();
        heads.set(to, (heads.get(to) ?? true) && edge.onDelete !== 'Deny');
        arrows.set(from, heads);
      }
    }
    return [...arrows].flatMap(([from, heads]) => [...heads].map(([to, weak]) => ({ from, to, weak })));
  }
  /** Draws a node with its surroundings; `describe` returns a node's link, look, name, second line and description. */
  function surroundings(node, title, blockers, describe) {
    const [width, height, gapX, gapY] = [212, 48, 72, 18];
    const columns = columnsAround(node);
    const size = (column) => column.shown.length + (column.hidden > 0 ? 1 : 0);
    const total = Math.max(...columns.map(size)) * (height + gapY) + 30;
    const places = new Map();
    const boxes = [];
    columns.forEach((column, index) => {
      const x = 24 + index * (width + gapX);
      const top = (total - size(column) * (height + gapY) + gapY) / 2;
      column.shown.forEach((one, row) => {
        const place = { x, y: top + row * (height + gapY), width, height };
        places.set(one, place);
        boxes.push(box(place, ...describe(one)));
      });
      if (column.hidden > 0) {
        const place = { x, y: top + column.shown.length * (height + gapY), width, height };
        boxes.push(box(place, null, 'more', `+${column.hidden.toLocaleString('en')} more`, 'the details list them', `${column.hidden} more, not drawn`));
      }
    });
    const between = arrowsBetween(places);
    const arrows = between.map(({ from, to, weak }) => {
      const [a, b] = [places.get(from), places.get(to)];
      // An arrow leaves on the side of its target; within a column it goes around on the right.
      const [isAhead, isBeside] = [b.x > a.x, b.x === a.x];
      const [x1, x2] = [isAhead || isBeside ? a.x + width : a.x, isAhead ? b.x : b.x + width];
      const [y1, y2] = [a.y + height / 2, b.y + height / 2];
      const bend = isBeside ? 46 : (x2 - x1) / 2;
      const curve = `${x1 + bend} ${y1} ${isBeside ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`;
      const blocks = to === node && blockers.has(from);
      return shape('path', { class: `arrow${weak ? ' weak' : ''}${blocks ? ' blocks' : ''}`, 'marker-end': `url(#${blocks ? 'blocks' : 'head'}-marker)`,
        d: `M${x1} ${y1}C${curve}` });
    });
    return [depthBar(() => surroundings(node, title, blockers, describe)),
      canvas(columns.length * (width + gapX) - gapX + 48, total, `Drawing of what is around ${shown(title)}; the details list it, too`, arrows, boxes),
      legend('focus', blockers.size > 0 && 'blocker', [...places.keys()].some((one) => one.missing) && 'missing', between.some(({ weak }) => weak) && 'weak')];
  }
  function depthBar(redraw) {
    const select = make('select', { id: 'depth' }, ...[1, 2, 3, 4].map((value) => make('option', { value, selected: value === depth }, String(value))));
    select.addEventListener('change', () => {
      depth = Number(select.value);
      byId('drawing').replaceChildren(...redraw());
      centre();
      byId('depth').focus();
    });
    return make('div', { class: 'bar' }, make('label', { for: 'depth' }, 'Steps'), select, make('span', {}, 'left: refer to it · right: it refers to'));
  }
  function objectDrawing(object) {
    const blockers = new Set(blockersOf(object));
    return surroundings(object, label(object), blockers, (one) => [
      linkOf(one),
      one === object ? 'focus' : one.missing ? 'missing' : blockers.has(one) ? 'blocker' : '',
      cut(one.name, 25),
      cut(`${one.kind.kind}${one.namespace == null ? '' : ` · ${one.namespace}`}`, 34),
      [label(one), one === object && 'selected', blockers.has(one) && 'blocks its deletion', one.missing && 'does not exist',
        one.terminating && 'being deleted'].filter(Boolean).map(shown).join(', '),
    ]);
  }
  const kindDrawing = (kind) => surroundings(kind, kind.kind, new Set(), (one) =>
    [kindLink(one), one === kind ? 'focus' : '', cut(one.kind, 25), count(one.objects.length, 'object'), spokenKind(one)]);
  function centre() {
    const frame = byId('drawing');
    const focus = frame.querySelector('.focus');
    if (!focus) return;
    const [own, outer] = [focus.getBoundingClientRect(), frame.getBoundingClientRect()];
    frame.scrollLeft += own.left + own.width / 2 - outer.left - outer.width / 2;
    frame.scrollTop += own.top + own.height / 2 - outer.top - outer.height / 2;
  }

  // ---- Search.

  const search = byId('search');
  const results = byId('results');
  let found = [];
  let chosen = -1;
  const haystacks = objects.map((object) => label(object).toLowerCase());
  function find(text) {
    const words = text.toLowerCase().split(/[\s/]+/).filter(Boolean);
    const hits = words.length === 0 ? [] : objects.filter((_, id) => words.every((word) => haystacks[id].includes(word)));
    const rank = (object) => words.some((word) => object.name.toLowerCase() === word) ? 0 : words.some((word) => object.name.toLowerCase().startsWith(word)) ? 1 : 2;
    return hits.map((object) => [rank(object), object]).sort(([one], [other]) => one - other).map(([, object]) => object);
  }
  function suggest() {
    const hits = find(search.value);
    found = hits.slice(0, MAX_FOUND);
    chosen = found.length > 0 ? 0 : -1;
    const items = found.map((object, index) => {
      const item = make('li', { role: 'option', id: `found-${index}` }, make('span', { class: 'sub' }, object.kind.kind), isolated(path(object)), ...marks(object));
      item.addEventListener('mousedown', (event) => {
        event.preventDefault();
        open(object);
      });
      return item;
    });
    const rest = hits.length - found.length;
    if (rest > 0) items.push(make('li', { class: 'note', role: 'presentation' }, `and ${rest.toLocaleString('en')} more: type more letters`));
    if (hits.length === 0 && search.value.trim() !== '') items.push(make('li', { class: 'note', role: 'presentation' }, 'No object has this name.'));
    results.replaceChildren(...items);
    show(items.length > 0);
    if (search.value.trim() !== '') announce(`found ${count(hits.length, 'object')}`);
  }
  function show(isOpen) {
    results.hidden = !isOpen;
    search.setAttribute('aria-expanded', String(isOpen));
    [...results.children].forEach((item, index) => item.setAttribute('aria-selected', String(index === chosen)));
    if (isOpen && chosen >= 0) {
      search.setAttribute('aria-activedescendant', `found-${chosen}`);
      results.children[chosen].scrollIntoView({ block: 'nearest' });
    } else {
      search.removeAttribute('aria-activedescendant');
    }
  }
  function open(object) {
    search.value = '';
    chosen = -1;
    results.replaceChildren();
    show(false);
    go(linkOf(object));
  }
  function go(link) {
    if (location.hash === link) render();
    else location.hash = link;
  }
  search.addEventListener('input', suggest);
  search.addEventListener('focus', () => { if (search.value !== '') suggest(); });
  search.addEventListener('blur', () => show(false));
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && chosen >= 0) open(found[chosen]);
    else if ((event.key === 'ArrowDown' || event.key === 'ArrowUp') && found.length > 0) {
      event.preventDefault();
      chosen = (chosen + (event.key === 'ArrowDown' ? 1 : found.length - 1)) % found.length;
      show(true);
    }
  });

  // ---- Navigation.

  let isFromDrawing = false;
  let isFirst = true;
  function render() {
    const link = location.hash;
    const object = byLink.get(link);
    const kind = kindByLink.get(link);
    const isLost = !object && !kind && link !== '' && link !== '#';
    const [drawing, panel, title] = object ? [objectDrawing(object), objectPanel(object), label(object)]
      : kind ? [kindDrawing(kind), kindPanel(kind), kind.kind] : [kindsDrawing(), overviewPanel(), 'All kinds'];
    if (isLost) panel.unshift(make('p', { class: 'state warn' }, 'The object or kind of this address is not among what was read.'));
    byId('drawing').replaceChildren(...drawing);
    byId('panel').replaceChildren(...panel);
    byId('panel').scrollTop = 0;
    document.title = `${shown(title)} · depguard`;
    centre();
    if (!isFirst) {
      const target = (isFromDrawing && byId('drawing').querySelector('a.focus')) || byId('panel').querySelector('h2');
      target.focus({ preventScroll: isFromDrawing });
      announce(object ? `${shown(label(object))}. ${byId('panel').querySelector('.state').textContent}` : shown(title));
    }
    [isFirst, isFromDrawing] = [false, false];
  }
  byId('drawing').addEventListener('click', (event) => { isFromDrawing = event.target.closest('.canvas a') != null; });
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    byId('panel').focus();
  });
  addEventListener('hashchange', render);
  const keys = byId('keys');
  byId('help').addEventListener('click', () => keys.showModal());
  byId('refresh').addEventListener('click', () => location.reload());
  addEventListener('keydown', (event) => {
    if (keys.open || event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.closest?.('input, select, textarea') != null;
    if (event.key === '/' && !isTyping) {
      event.preventDefault();
      search.focus();
    } else if (event.key === '?' && !isTyping) {
      keys.showModal();
    } else if (event.key === 'Escape') {
      event.preventDefault();
      if (isTyping) {
        event.target.value = event.target === search ? '' : event.target.value;
        show(false);
        event.target.blur();
        byId('panel').querySelector('h2')?.focus();
      } else if (location.hash !== '') {
        go('#');
      }
    }
  });

  // ---- Beginning.

  byId('place').textContent = shown(page.place);
  byId('refresh').hidden = !page.isServed;
  const warning = byId('warning');
  if (page.unread.length > 0) {
    warning.append(make('details', {}, make('summary', {}, `Incomplete: ${count(page.unread.length, 'part')} could not be read, so references may be missing.`),
      make('ul', {}, ...page.unread.map((part) => make('li', {}, isolated(part))))));
    warning.hidden = false;
  }
  if (page.failure) {
    search.disabled = true;
    byId('panel').replaceChildren(make('h2', { tabindex: '-1' }, 'Could not read the objects'),
      make('div', { class: 'state bad' }, make('p', {}, isolated(page.failure.message))),
      page.failure.hint && make('p', { class: 'sub' }, isolated(page.failure.hint)));
    document.title = 'Error · depguard';
  } else {
    render();
  }
})();
