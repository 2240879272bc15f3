// How a message is shown: text, thoughts, calls, log-probabilities, trees of JSON, feedback.
import { h, say, dialog, ask, number } from '../dom.js'
import { json } from '../api.js'
import { Flow, markdown } from '../text.js'
import { project, reference } from '../project.js'

// step is the class of a probability: five colors, from improbable to certain.
export const step = logprob => { const p = Math.exp(logprob); return 'p' + (p < 0.1 ? 0 : p < 0.3 ? 1 : p < 0.6 ? 2 : p < 0.9 ? 3 : 4) }
const percent = logprob => (100 * Math.exp(logprob)).toPrecision(3) + ' %'
const visible = token => JSON.stringify(token).slice(1, -1).replaceAll('\\"', '"')

// tokens shows an answer token by token. go is called with the text up to a token and an alternative.
export function tokens(list, go) {
  const root = h('div.tokens', { role: 'group', 'aria-label': 'Tokens by probability. Choose one to see what else was probable.' })
  const spans = list.map((t, i) => h('span.token', { class: step(t[1]), role: 'button', tabindex: i ? -1 : 0, data: { i } }, t[0]))
  root.append(...spans)
  // One token is reached by Tab, the others by the arrows.
  let at = 0
  const focus = i => {
    spans[at].tabIndex = -1
    at = Math.max(0, Math.min(spans.length - 1, i))
    spans[at].tabIndex = 0
    spans[at].focus()
  }
  const box = h('div.alternatives', { role: 'status', hidden: true })
  const show = i => {
    const [token, logprob, top] = list[i]
    const before = list.slice(0, i).map(t => t[0]).join('')
    box.hidden = false
    box.replaceChildren(h('div', {}, h('code', {}, visible(token)), ' ' + percent(logprob) + ', log-probability ' + number(logprob, 4)),
      h('div.row', {}, top.filter(o => o[0] !== token).map(([other, l]) => h('button', { type: 'button', title: 'Continue from this alternative', onclick: () => go(before + other) }, h('code', {}, visible(other)), ' ' + percent(l)))),
      top.length ? h('p.hint', {}, 'Choose an alternative to continue the answer from there.') : '')
  }
  root.addEventListener('mouseover', e => { if (e.target.dataset.i) show(Number(e.target.dataset.i)) })
  root.addEventListener('focusin', e => { if (e.target.dataset.i) show(Number(e.target.dataset.i)) })
  root.addEventListener('click', e => { if (e.target.dataset.i) focus(Number(e.target.dataset.i)) })
  root.addEventListener('keydown', e => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[e.key]
    if (by) { e.preventDefault(); focus(at + by) }
    if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); box.querySelector('button')?.focus() }
  })
  return h('div', {}, root, h('div.legend.hint', { 'aria-hidden': 'true' }, 'probability: ', ['below 10 %', 'to 30 %', 'to 60 %', 'to 90 %', 'above'].map((t, i) => h('span', { class: 'p' + i }, t))), box)
}

// tree shows a JSON value.
export function tree(value, name = '') {
  const label = name === '' ? [] : [h('span.tree-key', {}, name), ': ']
  if (value === null || typeof value !== 'object') return h('div.tree-leaf', {}, label, h('span', { class: 'tree-' + (value === null ? 'null' : typeof value) }, JSON.stringify(value)))
  const entries = Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value)
  const d = h('details.tree', { open: true }, h('summary', {}, label, Array.isArray(value) ? `list of ${entries.length}` : `object of ${entries.length}`))
  const shown = 200
  d.append(...entries.slice(0, shown).map(([k, v]) => tree(v, k)))
  if (entries.length > shown) d.append(h('p.hint', {}, `and ${entries.length - shown} more`))
  return d
}

// Answer is an answer that grows, or that is whole.
export class Answer {
  constructor() {
    this.thoughts = h('details.thoughts', { hidden: true }, h('summary', {}, 'Thoughts'))
    this.body = h('div.text', {})
    this.calls = h('div', {})
    this.root = h('div', {}, this.thoughts, this.body, this.calls)
    this.flow = new Flow(this.body)
    this.thought = new Flow(this.thoughts)
  }

  think(text) {
    this.thoughts.hidden = false
    this.thought.add(text)
  }

  show() {
    this.flow.show()
    if (!this.thoughts.hidden) this.thought.show()
  }

  end() {
    this.flow.end()
    if (!this.thoughts.hidden) this.thought.end()
  }
}

// body shows a message that is whole. view is "text", "tokens" or "tree".
export function body(n, view, go) {
  const root = h('div', {})
  if (n.reasoning) {
    const d = h('details.thoughts', {}, h('summary', {}, 'Thoughts'))
    d.addEventListener('toggle', () => { if (d.children.length < 2) d.append(h('div.text', {}, markdown(n.reasoning))) })
    root.append(d)
  }
  if (view === 'tokens' && n.logprobs?.length) root.append(tokens(n.logprobs, go))
  else if (view === 'tree') {
    try { root.append(tree(JSON.parse(n.content))) } catch { root.append(h('p.warn', {}, 'The answer is not complete JSON.'), h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Answer' }, n.content)) }
  } else if (n.role === 'assistant') root.append(h('div.text', {}, long(n.content)))
  else root.append(h('div.text.plain', {}, n.content))
  for (const t of n.calls ?? []) root.append(call(t))
  return root
}

// long is Markdown of a text of any length: what is far below the beginning is set when there is time.
function long(text) {
  if (text.length < 20000) return markdown(text)
  const box = h('div', {})
  const parts = []
  for (let at = 0; at < text.length;) {
    let end = text.indexOf('\n\n', at + 8000)
    if (end < 0 || end > at + 16000) end = text.indexOf('\n', at + 8000)
    if (end < 0 || end > at + 16000) end = Math.min(text.length, at + 8000)
    parts.push(text.slice(at, end))
    at = end
  }
  const next = () => {
    const part = parts.shift()
    if (part === undefined) return
    box.append(h('div.chunk', {}, markdown(part)))
    setTimeout(next)
  }
  next()
  return box
}

export function call(t) {
  let args
  try { args = tree(JSON.parse(t.arguments || '{}')) } catch { args = h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Arguments' }, t.arguments) }
  return h('div.call', {}, h('div', {}, 'Calls ', h('code', {}, t.name)), args)
}

// feedback is thumbs, emoji and a note on an answer. They are stored as the user chooses, replaced when the
// choice changes, and their ids are kept in the message (n.feedback), so that a second choice replaces the first.
export function feedback(n, changed) {
  const kept = n.feedback ??= {}
  const root = h('span.row.rating', { role: 'group', 'aria-label': 'Feedback on this answer' })
  const store = async (slot, type, payload, shown) => {
    try {
      const r = await json('feedback/replace', { body: { project_id: kept.project ?? project.get(), trace_ref: reference(n.answer, kept.project), feedback_type: type, payload, feedback_id: kept[slot]?.id ?? 'none' } })
      kept.project ??= project.get()
      kept[slot] = { id: r.id, value: shown }
      await changed()
      say('Saved.')
    } catch (e) {
      say('The feedback was not saved: ' + e.message, 'bad')
    }
    draw()
  }
  const react = emoji => store('emoji', 'wandb.reaction.1', { emoji }, emoji)
  const draw = () => {
    const emoji = kept.emoji?.value
    const button = (e, label) => h('button.quiet', { type: 'button', 'aria-pressed': String(emoji === e), 'aria-label': label, title: label, onclick: () => react(e) }, e)
    root.replaceChildren(button('👍', 'Good answer'), button('👎', 'Bad answer'),
      emoji && !['👍', '👎'].includes(emoji) ? button(emoji, 'Your reaction ' + emoji) : '',
      h('button.quiet', { type: 'button', title: 'React with an emoji', 'aria-label': 'React with an emoji', onclick: async () => {
        const e = await dialog('Reaction', close => h('div.row', {}, [...'🎉❤🔥😂😮😢🤔👏🚀💯🐛🤖'].map(x => h('button', { type: 'button', 'aria-label': 'React with ' + x, onclick: () => close(x) }, x))))
        if (e) react(e)
      } }, '☺'),
      h('button.quiet', { type: 'button', 'aria-pressed': String(Boolean(kept.note?.value)), onclick: async () => {
        const note = await ask('Note on this answer', 'Note', kept.note?.value ?? '', { multiline: true, hint: 'At most 1024 characters.' })
        if (note?.trim()) store('note', 'wandb.note.1', { note: note.slice(0, 1024) }, note)
      } }, kept.note?.value ? 'Edit note' : 'Note'))
  }
  draw()
  return root
}
