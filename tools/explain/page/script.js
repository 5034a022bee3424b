'use strict';
// Without this script the page shows all the same: it adds filters, unfolding and the fields.
(() => {
  const facts = JSON.parse(document.getElementById('facts').textContent);
  const panel = document.getElementById('fields');
  const rows = [...document.querySelectorAll('.packet')];
  const byNumber = new Map(rows.map((row) => [row.dataset.packet, row]));
  let chosen = null;

  const unfold = (fold, open) => {
    fold.querySelector('button').setAttribute('aria-expanded', String(open));
    fold.querySelector('ol').hidden = !open;
  };

  const choose = (row) => {
    if (chosen) chosen.removeAttribute('aria-current');
    chosen = row;
    document.body.classList.toggle('with-fields', row !== null);
    panel.hidden = row === null;
    if (row === null) return;
    const fold = row.closest('.fold');
    if (fold) unfold(fold, true);
    row.setAttribute('aria-current', 'true');
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: 'nearest' });
    panel.querySelector('h2').textContent = `Packet ${row.dataset.packet}`;
    panel.querySelector('tbody').replaceChildren(
      ...facts.packets[row.dataset.packet].map(([name, value]) => {
        const line = document.createElement('tr');
        const head = document.createElement('th');
        const cell = document.createElement('td');
        head.scope = 'row';
        head.textContent = facts.names[name];
        if (typeof value === 'number') {
          const link = document.createElement('a');
          link.href = `#p${value}`;
          link.textContent = `packet ${value}`;
          cell.append(link);
        } else {
          cell.textContent = value;
        }
        line.append(head, cell);
        return line;
      }));
  };

  const chooseFromAddress = () => {
    const row = byNumber.get(location.hash.replace('#p', ''));
    if (row) choose(row);
  };

  const visible = () => rows.filter((row) => row.offsetParent !== null);

  const step = (by) => {
    const shown = visible();
    const at = shown.indexOf(chosen);
    const next = shown[at + by];
    if (next) choose(next);
  };

  document.addEventListener('click', (event) => {
    const button = event.target.closest('.fold button');
    if (button) {
      unfold(button.closest('.fold'), button.getAttribute('aria-expanded') !== 'true');
      return;
    }
    if (event.target.closest('a')) return;  // to another packet: its address changes
    const row = event.target.closest('.packet');
    if (row && String(getSelection()) === '') choose(row);
  });

  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      const row = chosen;
      choose(null);
      if (row) row.focus();
      return;
    }
    const row = event.target.closest('.packet');
    if (!row || event.target.closest('a')) return;
    if (event.key === 'Enter' || event.key === ' ') choose(row);
    else if (event.key === 'ArrowDown') step(1);
    else if (event.key === 'ArrowUp') step(-1);
    else return;
    event.preventDefault();
  });

  // Of a row with several connections, one that is shown is enough.
  const filter = () => {
    const off = new Set([...document.querySelectorAll('input[data-connection]')]
      .filter((box) => !box.checked).map((box) => box.dataset.connection));
    for (const row of document.querySelectorAll('[data-connections]')) {
      row.classList.toggle('off', row.dataset.connections.split(' ').every((c) => off.has(c)));
    }
  };

  for (const box of document.querySelectorAll('input[data-connection]')) {
    box.addEventListener('change', filter);
  }
  document.getElementById('calm').addEventListener('change', (event) => {
    document.body.classList.toggle('calm', event.target.checked);
  });
  document.getElementById('unfold').addEventListener('change', (event) => {
    for (const fold of document.querySelectorAll('.fold')) unfold(fold, event.target.checked);
  });
  panel.querySelector('.close').addEventListener('click', () => choose(null));
  window.addEventListener('hashchange', chooseFromAddress);
  filter();
  document.documentElement.dataset.ready = String(rows.length);
  chooseFromAddress();
})();
