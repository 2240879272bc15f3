// Text of models as HTML: Markdown by marked, mathematics by Temml as MathML, code by highlight.js.
// Whatever HTML comes of a text passes DOMPurify. The libraries are loaded when they are first needed.
import { h, copy } from './dom.js'

let libraries
let marked, purify

// ready loads what Markdown needs. After that markdown works without waiting.
export function ready() {
  libraries ??= Promise.all([import('./vendor/marked/marked.esm.js'), import('./vendor/dompurify/purify.es.mjs')]).then(([m, p]) => {
    purify = p.default
    purify.addHook('uponSanitizeAttribute', (node, data) => {
      // Texts of others get no classes but those that mark code and mathematics, so that they cannot look like parts of the page.
      if (data.attrName === 'class') data.attrValue = data.attrValue.split(/\s+/).filter(c => /^(hljs-[\w-]+|language-[\w+#.-]+|math|display|[a-z]+_)$/.test(c)).join(' ')
    })
    purify.addHook('afterSanitizeAttributes', node => {
      if (node.tagName === 'A' && node.hasAttribute('href')) {
        node.setAttribute('target', '_blank')
        node.setAttribute('rel', 'noopener noreferrer')
      }
    })
    const escape = text => text.replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';')
    const math = (name, level, start, rule, display) => ({
      name, level,
      start: src => { const i = src.search(start); return i < 0 ? undefined : i },
      tokenizer: src => { const m = rule.exec(src); return m ? { type: name, raw: m[0], tex: m[1] ?? m[2] } : undefined },
      renderer: t => `<${display ? 'div' : 'span'} class="math${display ? ' display' : ''}" data-tex="${escape(t.tex)}">${escape(t.tex)}</${display ? 'div' : 'span'}>`,
    })
    marked = new m.Marked({ gfm: true }, {
      extensions: [
        math('mathBlock', 'block', /\$\$|\\\[/, /^(?:\$\$([^$]+?)\$\$|\\\[([\s\S]+?)\\\])/, true),
        math('mathInline', 'inline', /\$|\\\(/, /^(?:\$(?![\s$])([^$\n]*?[^\s$\\])\$(?!\d)|\\\(([^\n]+?)\\\))/, false),
      ],
      // No image is fetched: an address in an answer could tell another server what was said.
      renderer: { image: t => `<a href="${escape(t.href)}">${escape(t.text || t.href)}</a>` },
    })
  })
  return libraries
}

const allowed = {
  RETURN_DOM_FRAGMENT: true, ALLOW_DATA_ATTR: false,
  ALLOWED_TAGS: ['a', 'b', 'blockquote', 'br', 'caption', 'code', 'dd', 'del', 'details', 'div', 'dl', 'dt', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 's', 'span', 'strong', 'sub', 'summary', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'u', 'ul'],
  ALLOWED_ATTR: ['href', 'title', 'class', 'start', 'align', 'data-tex', 'colspan', 'rowspan'],
  ADD_URI_SAFE_ATTR: ['data-tex', 'start', 'align', 'colspan', 'rowspan'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
}

// markdown returns a text as a fragment. Headings begin at the third level, below those of the page.
// Mathematics and code are set when their libraries are there.
export function markdown(text) {
  const fragment = purify.sanitize(marked.parse(text), allowed)
  for (const heading of fragment.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const e = h('h' + Math.min(6, Number(heading.tagName[1]) + 2))
    e.append(...heading.childNodes)
    heading.replaceWith(e)
  }
  for (const table of fragment.querySelectorAll('table')) {
    const box = h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Table' })
    table.replaceWith(box)
    box.append(table)
  }
  for (const math of fragment.querySelectorAll('.math[data-tex]')) setMath(math)
  for (const code of fragment.querySelectorAll('pre > code')) setCode(code)
  return fragment
}

let temml
async function setMath(e) {
  try {
    temml ??= import('./vendor/temml/temml.mjs').then(m => m.default)
    const html = (await temml).renderToString(e.dataset.tex.slice(0, 4000), { displayMode: e.classList.contains('display'), throwOnError: false, trust: false, maxExpand: 200, maxSize: [20, 200] })
    e.replaceChildren(purify.sanitize(html, { RETURN_DOM_FRAGMENT: true, USE_PROFILES: { mathMl: true }, FORBID_ATTR: ['style', 'href'] }))
  } catch { /* it stays as it was written */ }
}

const languages = {
  bash: 'bash', sh: 'bash', shell: 'bash', zsh: 'bash', c: 'c', h: 'c', cpp: 'cpp', 'c++': 'cpp', css: 'css', diff: 'diff', go: 'go', golang: 'go', java: 'java',
  javascript: 'javascript', js: 'javascript', json: 'json', markdown: 'markdown', md: 'markdown', python: 'python', py: 'python', rust: 'rust', rs: 'rust', sql: 'sql',
  typescript: 'typescript', ts: 'typescript', html: 'xml', xml: 'xml', yaml: 'yaml', yml: 'yaml',
}
let core
const loaded = new Map()
async function highlighter(language) {
  core ??= import('./vendor/highlight/core.min.js').then(m => m.default)
  const hljs = await core
  if (!loaded.has(language)) loaded.set(language, import(`./vendor/highlight/${language}.min.js`).then(m => hljs.registerLanguage(language, m.default)))
  await loaded.get(language)
  return hljs
}

async function setCode(code) {
  const pre = code.parentElement
  pre.tabIndex = 0
  pre.setAttribute('role', 'region')
  pre.setAttribute('aria-label', 'Code')
  const text = code.textContent
  pre.before(h('div.code-head', {}, h('button.quiet', { type: 'button', onclick: () => copy(text) }, 'Copy code')))
  const language = languages[/language-([\w+#-]+)/.exec(code.className)?.[1]?.toLowerCase()]
  if (!language || text.length > 20000) return
  try {
    const hljs = await highlighter(language)
    code.replaceChildren(purify.sanitize(hljs.highlight(text, { language, ignoreIllegals: true }).value, { RETURN_DOM_FRAGMENT: true, ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'] }))
  } catch { /* it stays plain */ }
}

// Flow shows a text that grows. What is complete becomes Markdown block by block, and what is being
// written stays text at the end of one node, so that the work of a frame does not grow with the text.
export class Flow {
  constructor(root) {
    this.root = root
    this.whole = ''
    this.fresh = ''
    this.tail = document.createTextNode('')
    this.last = h('div.tail', {}, this.tail)
    root.append(this.last)
  }

  // add takes text; show, once per frame, shows it.
  add(text) { this.whole += text; this.fresh += text }

  show() {
    if (!this.fresh) return
    this.tail.appendData(this.fresh)
    this.fresh = ''
    if (!purify) return
    const text = this.tail.data
    const cut = boundary(text)
    if (cut <= 0) return
    this.last.before(markdown(text.slice(0, cut)))
    this.tail.deleteData(0, cut)
  }

  // end makes the rest Markdown. A short text is set as a whole, in which blocks can refer to each other.
  end() {
    this.show()
    if (!purify) return
    if (this.whole.length < 6000) this.root.replaceChildren(markdown(this.whole))
    else this.last.replaceWith(markdown(this.tail.data))
  }
}

// boundary returns where the last complete block of a text ends; 0 if none does. A block ends with an empty
// line outside of code, but very long ones, such as a list of 5,000 characters, end with a line.
function boundary(text) {
  let end = 0, fenced = false, math = false
  for (let at = 0; ;) {
    const next = text.indexOf('\n', at)
    if (next < 0) break
    const line = text.slice(at, next)
    if (/^\s*(```|~~~)/.test(line)) fenced = !fenced
    else if (!fenced && (line.match(/\$\$/g)?.length ?? 0) % 2) math = !math
    at = next + 1
    if (!fenced && !math && line.trim() === '' && !/^(\s|[-*+] |\d+[.)] )/.test(text.slice(at, at + 4))) end = at
    if (!fenced && !math && at - end > 5000) end = at
  }
  return end
}
