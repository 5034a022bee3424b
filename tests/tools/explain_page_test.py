#!/usr/bin/env python3
"""The page that `verbena explain --html` writes, in a browser without a network.

A script added to a copy of the page does what a user would, and leaves what it saw in an attribute
of the root element, from where it is read in the browser's dump of the document.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

VERBENA = os.environ['VERBENA']
PCAPS = pathlib.Path(os.environ['VERBENA_PCAPS'])
BROWSER = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
LIMIT_S = 100
SKIPPED = 77  # as meson understands it

HELPERS = """
const see = {};
const shown = () => [...document.querySelectorAll('.packet')]
  .filter((row) => row.offsetParent !== null).map((row) => Number(row.dataset.packet));
const press = (key) => document.activeElement.dispatchEvent(
  new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
const done = () => { document.documentElement.dataset.seen = JSON.stringify(see); };
"""


class PageCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def page(self, capture, *words):
        path = pathlib.Path(self.folder.name, 'page.html')
        subprocess.run([VERBENA, 'explain', '--html', path, *words, PCAPS / capture], check=True,
                       capture_output=True, timeout=LIMIT_S)
        return path.read_text()

    def browse(self, page):
        """The document after its scripts ran, and the browser's complaints."""
        path = pathlib.Path(self.folder.name, 'shown.html')
        path.write_text(page)
        result = subprocess.run(
            [BROWSER, '--headless', '--no-sandbox', '--disable-gpu', '--window-size=1200,900',
             '--proxy-server=127.0.0.1:9', '--enable-logging=stderr', '--log-level=0',
             f'--user-data-dir={self.folder.name}/profile', '--dump-dom', path.as_uri()],
            capture_output=True, timeout=LIMIT_S, check=True, text=True)
        return result.stdout, re.findall(r'.*CONSOLE.*', result.stderr)

    def act(self, page, script):
        """What `script` leaves in `see`."""
        added = f'<script>{HELPERS}{script}\ndone();</script></body>'
        document, complaints = self.browse(page.replace('</body>', added))
        self.assertEqual(complaints, [])
        return json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', document).group(1)))


class PageTest(PageCase):
    def test_complaints_would_be_seen(self):
        _, complaints = self.browse('<script>nothing.at.all();</script>')
        self.assertEqual(len(complaints), 1)

    def test_rows_are_shown_and_choose_packets(self):
        seen = self.act(self.page('rc_seq_nak.pcap'), """
            see.ready = document.documentElement.dataset.ready;
            see.rows = shown();
            see.overflow = document.documentElement.scrollWidth > innerWidth;
            const panel = document.getElementById('fields');
            see.hiddenBefore = panel.hidden;
            document.querySelector('#p6 .name').click();
            see.title = panel.querySelector('h2').textContent;
            see.fields = panel.textContent;
            press('ArrowDown');
            see.next = panel.querySelector('h2').textContent;
            press('ArrowUp'); press('ArrowUp');
            see.before = panel.querySelector('h2').textContent;
            press('Escape');
            see.hiddenAfter = panel.hidden;
            see.focus = document.activeElement.id;
        """)
        self.assertEqual(seen['ready'], '10')
        self.assertEqual(seen['rows'], list(range(1, 11)))
        self.assertFalse(seen['overflow'])
        self.assertTrue(seen['hiddenBefore'])
        self.assertEqual((seen['title'], seen['next'], seen['before']),
                         ('Packet 6', 'Packet 7', 'Packet 5'))
        self.assertIn('0x60: NAK, PSN sequence error', seen['fields'])
        self.assertTrue(seen['hiddenAfter'])
        self.assertEqual(seen['focus'], 'p5')

    def test_runs_unfold(self):
        seen = self.act(self.page('rc_send.pcap'), """
            see.folded = shown().length;
            const button = document.querySelector('.fold button');
            button.click();
            see.unfolded = shown().length;
            see.expanded = button.getAttribute('aria-expanded');
            button.click();
            see.again = shown().length;
            document.getElementById('unfold').click();
            see.all = shown().length;
        """)
        self.assertEqual(seen, {'folded': 19, 'unfolded': 79, 'expanded': 'true', 'again': 19,
                                'all': 79})

    def test_connections_and_what_is_unusual(self):
        seen = self.act(self.page('cm_ucmatose.pcap'), """
            const boxes = [...document.querySelectorAll('input[data-connection]')];
            see.all = shown().length;
            boxes[0].click();
            see.withoutFirst = shown();
            boxes[1].click(); boxes[2].click();
            see.none = shown();
            boxes.forEach((box) => box.click());
            document.getElementById('calm').click();
            see.unusual = shown();
        """)
        self.assertEqual(seen['all'], 26)
        self.assertEqual(seen['withoutFirst'], list(range(7, 23)))
        self.assertEqual(seen['none'], [])
        self.assertEqual(seen['unusual'], [*range(1, 7), *range(23, 27)])

    def test_links_lead_to_packets_even_folded_ones(self):
        page = self.page('rc_send.pcap').replace('<h1>', '<h1><a id="link" href="#p40">there</a>')
        seen = self.act(page, """
            document.getElementById('link').click();
            dispatchEvent(new HashChangeEvent('hashchange'));
            see.title = document.querySelector('#fields h2').textContent;
            see.shown = shown().includes(40);
        """)
        self.assertEqual(seen, {'title': 'Packet 40', 'shown': True})


if __name__ == '__main__':
    if BROWSER is None:
        print('skipped: there is no chromium to look at the page with; apt-get install chromium')
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], '-v'])
