import t from 'tap'
import { failure, files } from './call-plugin.ts'
import { type Given, pluginsOf, type Right, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('transform')

const right: Right = [
  [
    'regex',
    { text: 'due 2027-01, late 2027-02', pattern: '(?P<year>\\d{4})-(\\d\\d)' },
    {
      found: true,
      count: 2,
      matches: [{ match: '2027-01', index: 4, groups: ['2027', '01'], named: { year: '2027' } }, { index: 18 }],
    },
  ],
  [
    'regex',
    { operation: 'match', text: 'xay', pattern: 'A(b)?', flags: 'i' },
    { match: { match: 'a', groups: [null] } },
  ],
  ['regex', { operation: 'match', text: 'x', pattern: 'y' }, { found: false, match: null, count: 0 }],
  ['regex', { operation: 'test', text: 'a\nb', pattern: '^b$', flags: 'm' }, { found: true }],
  ['regex', { operation: 'test', text: 'a\nb', pattern: 'a.b' }, { found: false }],
  ['regex', { operation: 'test', text: 'a\nb', pattern: 'a.b', flags: 's' }, { found: true }],
  [
    'regex',
    { operation: 'replace', text: 'ab ab', pattern: '(?P<x>a)(b)', replacement: '$2$<x>$$$&' },
    { text: 'ba$ab ba$ab', count: 2 },
  ],
  ['regex', { operation: 'replace', text: 'aaa', pattern: 'a', replacement: 'b', limit: 2 }, { text: 'bba', count: 2 }],
  ['regex', { operation: 'split', text: 'a, b,,c', pattern: ',\\s*' }, { parts: ['a', 'b', '', 'c'], count: 4 }],
  ['regex', { operation: 'split', text: 'abc', pattern: '' }, { parts: ['a', 'b', 'c'] }],
  ['regex', { operation: 'split', text: 'a,b,c', pattern: ',', limit: 2 }, { parts: ['a', 'b,c'] }],
  // What takes a backtracking engine longer than the universe has.
  ['regex', { operation: 'test', text: `${'a'.repeat(50_000)}!`, pattern: '^(a+)+$' }, { found: false }],
  [
    'html',
    {
      text: '<ul><li><a href="/1">Alien</a> <b>1979</b></li><li><a href="//x.org/2">Brazil</a></li></ul>',
      selector: 'li',
      fields: {
        title: 'a',
        link: 'a@href',
        year: 'b',
        all: { selector: '*', all: true },
        raw: { selector: 'a', as: 'html' },
        self: '',
      },
      baseUrl: 'https://example.org/films',
    },
    {
      data: [
        {
          title: 'Alien',
          link: 'https://example.org/1',
          year: '1979',
          all: ['Alien', '1979'],
          raw: 'Alien',
          self: 'Alien 1979',
        },
        { title: 'Brazil', link: 'https://x.org/2', year: null },
      ],
      count: 2,
    },
  ],
  [
    'html',
    { text: '<title>T</title><h1>A &amp; B</h1>', fields: { t: 'title', h: 'h1' } },
    { data: { t: 'T', h: 'A & B' } },
  ],
  [
    'html',
    {
      operation: 'text',
      text: '<head><title>T</title></head><h1>A &lt;\n b</h1><p>one<br>two <i>x</i></p><pre>  k\n   l</pre><script>no</script><ul><li>1<li>2</ul>',
    },
    { text: 'A < b\none\ntwo x\n  k\n   l\n1\n2' },
  ],
  [
    'html',
    {
      operation: 'tables',
      text: '<table><caption>C</caption><tr><th>a<th>a<th></tr><tr><td rowspan=2>1<td colspan=2>2<tr><td>3<td>4</table>',
    },
    {
      tables: [
        {
          caption: 'C',
          columns: ['a', 'a_2', 'column_3'],
          rows: [
            { a: '1', a_2: '2', column_3: '2' },
            { a: '1', a_2: '3', column_3: '4' },
          ],
        },
      ],
    },
  ],
  [
    'html',
    { operation: 'tables', text: '<table><tr><td>1<td>2</table>' },
    { tables: [{ columns: [], rows: [['1', '2']] }], count: 1 },
  ],
  [
    'html',
    { operation: 'links', text: '<a href="a">x</a><a>y</a><area href="b" alt="B">', limit: 5 },
    {
      links: [
        { url: 'a', text: 'x' },
        { url: 'b', text: 'B' },
      ],
    },
  ],
  // https://spec.commonmark.org/0.31.2/, https://github.github.com/gfm/
  [
    'markdown',
    { text: '# Hello\n\n*a* **b**\n' },
    {
      text: '<h1>Hello</h1>\n<p><em>a</em> <strong>b</strong></p>\n',
      headings: [{ level: 1, text: 'Hello', id: 'hello' }],
      frontMatter: null,
    },
  ],
  [
    'markdown',
    { text: '---\ntitle: T\n---\n# A `b` & C\n## A b & C\n', headingIds: true },
    {
      text: '<h1 id="a-b--c">A <code>b</code> &amp; C</h1>\n<h2 id="a-b--c-1">A b &amp; C</h2>\n',
      frontMatter: { title: 'T' },
    },
  ],
  [
    'markdown',
    { text: '~~a~~ https://x.org\n\n- [x] done\n' },
    { text: /<del>a<\/del> <a href="https:\/\/x.org">[\s\S]*<input checked/ },
  ],
  ['markdown', { text: '~~a~~', gfm: false }, { text: '<p>~~a~~</p>\n' }],
  ['markdown', { text: 'a\nb', breaks: true }, { text: '<p>a<br>b</p>\n' }],
  [
    'markdown',
    { text: '<script>alert(1)</script>\n\na <b onclick="x">b</b>' },
    { text: '<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n<p>a &lt;b onclick=&quot;x&quot;&gt;b&lt;/b&gt;</p>\n' },
  ],
  ['markdown', { text: 'a <b>b</b>', html: 'drop' }, { text: '<p>a b</p>\n' }],
  ['markdown', { text: 'a <b>b</b>', html: 'keep' }, { text: '<p>a <b>b</b></p>\n' }],
  ...[
    'javascript:alert(1)',
    'JaVaScRiPt:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    '<java\tscript:x>',
    'java&#x73;cript:x',
    'javascript&colon;x',
  ].map((url): [string, Given, Given] => ['markdown', { text: `[x](${url})` }, { text: /^(?!.*href="\s*(j|d|v))/i }]),
  ['markdown', { text: '<javascript:alert(1)> [y]\n\n[y]: javascript:alert(1)\n' }, { text: /^(?!.*href="j)/ }],
  [
    'markdown',
    { text: '[x](/a "t") ![i](https://x.org/i.png)' },
    { text: '<p><a href="/a" title="t">x</a> <img src="https://x.org/i.png" alt="i"></p>\n' },
  ],
  [
    'markdown',
    {
      operation: 'to-markdown',
      text: '<h2>A</h2><p><em>e</em> <strong>s</strong> <del>d</del></p><ul><li><input type=checkbox checked> t</li></ul><table><tr><th>a<th>b<tr><td>1|2<td>x<br>y</table><script>no</script>',
    },
    { text: '## A\n\n*e* **s** ~~d~~\n\n-   [x] t\n\n| a | b |\n| --- | --- |\n| 1\\|2 | x<br>y |\n' },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['regex', { text: 'a', pattern: '(' }, /properties.pattern is no pattern that RE2 takes: .*missing/],
  ['regex', { text: 'a', pattern: '(?=a)' }, /properties.pattern is no pattern that RE2 takes/],
  ['regex', { text: 'a', pattern: '(a)\\1' }, /properties.pattern is no pattern that RE2 takes/],
  ['regex', { text: 'a', pattern: 'a', operation: 'replace' }, /properties.replacement is needed/],
  ['regex', { text: 'a', pattern: 'a', operation: 'replace', replacement: '$1' }, /there is no group 1/],
  [
    'regex',
    { text: 'a'.repeat(5_000), pattern: 'a', operation: 'replace', replacement: 'b'.repeat(10_000) },
    /larger than 16 MB/,
  ],
  ['html', { text: '<p>' }, /properties.fields is needed for extract/],
  ['html', { text: '<p>', selector: 'p[', fields: { a: 'b' } }, /properties.selector is no CSS selector/],
  ['html', { text: '<p>', fields: { a: 'b:nonsense' } }, /properties.fields.a is no CSS selector/],
  ['html', { text: '<a href=x>', operation: 'links', baseUrl: 'x' }, /properties.baseUrl is no URL/],
  ['html', { text: 'x', format: 'pdf' }, /of a PDF there is text only/],
  ['html', { text: 'x', format: 'pdf', operation: 'text' }, /no PDF/],
  ['markdown', { text: '---\na: [\n---\n' }, /The front matter: This is no YAML/],
  [
    'regex',
    { text: 'x'.repeat(700_000), pattern: `${'('.repeat(100)}x+${')'.repeat(100)}` },
    /What comes out is larger than 64 MB/,
  ],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

/** As small as a PDF can be. */
function pdfOf(...pages: readonly string[]): Buffer {
  const kids = pages.map((_, at) => `${4 + at * 2} 0 R`).join(' ')
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...pages.flatMap((text, at) => {
      const content = `BT /F1 12 Tf 20 20 Td (${text}) Tj ET`
      return [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents ${5 + at * 2} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
        `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
      ]
    }),
  ]
  let file = '%PDF-1.4\n'
  const places = objects.map((object, at) => {
    const place = file.length
    file += `${at + 1} 0 obj\n${object}\nendobj\n`
    return `${String(place).padStart(10, '0')} 00000 n \n`
  })
  const table = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.join('')}`
  return Buffer.from(
    `${file}${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${file.length}\n%%EOF`,
  )
}

t.test('the text of a PDF', async (t) => {
  files.set('pdf', pdfOf('Hello PDF', 'Second page'))
  const asked = { format: 'pdf', operation: 'text', file: 'pdf' }
  t.same(await call('html', asked), { text: 'Hello PDF\n\nSecond page', pages: ['Hello PDF', 'Second page'], count: 2 })
  await t.rejects(call('html', { ...asked, limit: 1 }), failure('refused', 'There are more than 1 pages'))
})
