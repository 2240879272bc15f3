// Conversations with the models.
import { h, say, dialog, confirmed, copy, save, pick, frames, number } from '../dom.js'
import { json } from '../api.js'
import { ready } from '../text.js'
import { project } from '../project.js'
import * as store from '../chat/store.js'
import { answer, bodyOf, join, messages, programs } from '../chat/run.js'
import { panel } from '../chat/settings.js'
import { Answer, body as shown, feedback } from '../chat/message.js'
import { tabs } from './start.js'

export const title = 'Chat'

const lastSettings = 'weir-chat-settings'

export async function mount(root, { signal, query }) {
  root.classList.add('chat')
  const chat = new Chat(root, signal)
  await chat.begin(query.get('c'))
}

class Chat {
  constructor(root, signal) {
    this.root = root
    this.signal = signal
    this.running = null // the AbortController of the answers that are being written
    this.written = new Map() // by the id of a message, the Answer that showed it as it came
    this.views = {} // how a message is shown, by its id
    this.list = h('ul.conversations', {})
    this.log = h('div.log', { role: 'log', 'aria-label': 'Conversation', tabindex: 0 })
    this.input = h('textarea', { rows: 2, 'aria-label': 'Message', placeholder: 'Write a message. Enter sends, Shift+Enter begins a line.' })
    this.sendButton = h('button.main', { type: 'button', onclick: () => this.running ? this.stop() : this.send() }, 'Send')
    this.sizes = h('span.hint', {})
    this.settings = h('aside.settings', { 'aria-label': 'Settings', hidden: innerWidth < 1000 })
    this.side = h('aside.side', { 'aria-label': 'Conversations', hidden: innerWidth < 800 },
      h('button.main', { type: 'button', onclick: () => this.open(this.fresh()) }, 'New conversation'), this.list,
      h('div.row', {}, h('button', { type: 'button', onclick: () => this.exportAll() }, 'Export all'), h('button', { type: 'button', onclick: () => this.importAll() }, 'Import')))
    const toggle = (panel, label) => h('button', { type: 'button', 'aria-expanded': String(!panel.hidden), onclick: e => { panel.hidden = !panel.hidden; e.target.setAttribute('aria-expanded', String(!panel.hidden)) } }, label)
    this.heading = h('h1', {}, 'Chat')
    root.append(this.side, h('section.talk', {},
      h('div.row.bar', {}, toggle(this.side, 'Conversations'), this.heading, h('span.grow'), h('button', { type: 'button', onclick: () => this.code() }, 'Code'), h('button', { type: 'button', onclick: () => this.keys() }, 'Keys'), toggle(this.settings, 'Settings')),
      this.log, h('div.composer', {}, this.input, h('div.row', {}, this.sizes, h('span.grow'), this.sendButton))), this.settings)
    let sends = false // whether the key that was pressed last sends
    this.input.addEventListener('keydown', e => {
      sends = e.key === 'Enter' && !e.shiftKey && !e.isComposing
      if (sends) { e.preventDefault(); this.send() }
    })
    // A browser that is busy may insert the line all the same.
    this.input.addEventListener('beforeinput', e => { if (sends && e.inputType === 'insertLineBreak') e.preventDefault() })
    addEventListener('keydown', e => this.shortcut(e), { signal })
    signal.addEventListener('abort', () => this.stop())
  }

  shortcut(e) {
    if (document.querySelector('dialog[open]')) return
    if (e.key === 'Escape' && this.running) { e.preventDefault(); this.stop() }
    if (!e.altKey || e.ctrlKey || e.metaKey) return
    const f = { KeyN: () => this.open(this.fresh()), KeyR: () => this.regenerate(), KeyE: () => this.editLast(), KeyM: () => this.input.focus(), KeyS: () => { this.settings.hidden = !this.settings.hidden }, KeyC: () => this.code() }[e.code]
    if (f && this.c) { e.preventDefault(); f() }
  }

  keys() {
    return dialog('Keys', () => h('dl.keys', {}, [['Enter', 'send'], ['Shift+Enter', 'a new line'], ['Escape', 'stop'], ['Alt+N', 'new conversation'], ['Alt+R', 'regenerate the last answer'], ['Alt+E', 'edit your last message'], ['Alt+M', 'to the message field'], ['Alt+S', 'settings'], ['Alt+C', 'the request as code']].map(([k, v]) => [h('dt', {}, h('kbd', {}, k)), h('dd', {}, v)])))
  }

  async begin(id) {
    let failed
    const [models] = await Promise.all([json('v1/models', { signal: this.signal }).then(r => r.data ?? [], e => { failed = e; return [] }), ready()])
    if (this.signal.aborted) return
    this.models = models
    const saved = await store.all().catch(() => [])
    if (this.signal.aborted) return
    this.open(saved.find(c => c.id === id) ?? saved[0] ?? this.fresh())
    if (failed) this.log.append(h('p.bad', { role: 'alert' }, failed.message))
    this.drawList(saved)
    this.input.focus()
    if (this.early) this.send()
  }

  fresh() {
    let s = {}
    try { s = JSON.parse(localStorage.getItem(lastSettings) ?? '{}') } catch { /* it was damaged */ }
    return store.fresh(s)
  }

  open(c) {
    this.stop()
    this.c = c
    panel(this.settings, c.settings, this.models, () => {
      localStorage.setItem(lastSettings, JSON.stringify(c.settings))
      this.keepSoon()
    })
    this.draw()
    this.drawList()
    this.log.scrollTop = this.log.scrollHeight
    this.input.focus()
  }

  // keep stores the conversation, if it has begun.
  async keep() {
    const c = this.c
    if (!c.roots.length) return
    try { await store.put(c) } catch (e) { say('The conversation was not kept: ' + e.message, 'bad') }
  }

  keepSoon() {
    clearTimeout(this.later)
    this.later = setTimeout(() => this.keep(), 800)
  }

  async drawList(saved) {
    saved ??= await store.all().catch(() => [])
    this.list.replaceChildren(...saved.slice(0, 500).map(c => h('li.row', {},
      h('button.quiet.name', { type: 'button', 'aria-current': c.id === this.c.id ? 'true' : null, onclick: () => { this.open(c) } }, c.title),
      h('button.quiet', { type: 'button', 'aria-label': 'Delete ' + c.title, onclick: async () => {
        if (!await confirmed('Delete', `“${c.title}” is deleted from this browser.`, 'Delete')) return
        await store.remove(c.id)
        if (this.c.id === c.id) this.open(this.fresh())
        else this.drawList()
      } }, '✕'))))
  }

  async exportAll() { save('weir-conversations.json', JSON.stringify({ conversations: await store.all() }, null, 1)) }

  async importAll() {
    const file = await pick('.json')
    if (!file) return
    let list
    try { list = store.read(file.text) } catch (e) { say(`${file.name} has no conversations: ${e.message}`, 'bad'); return }
    for (const c of list) await store.put(c)
    say(`${list.length} conversations of ${file.name} are here now.`)
    if (list.length) this.open(list[0])
  }

  // draw shows the branch of the leaf.
  draw() {
    const list = store.path(this.c)
    if (!list.length) {
      this.log.replaceChildren(h('p.hint.empty', {}, 'Nothing is said yet.'))
      return
    }
    this.log.replaceChildren(...list.map((n, i) => this.row(n, i)))
  }

  // row shows a message, and beside it those that were drawn together with it.
  row(n) {
    const together = n.group ? store.siblings(this.c, n).map(id => this.c.nodes[id]).filter(x => x.group === n.group) : [n]
    if (together.length < 2) return this.message(n)
    return h('div.beside', { role: 'group', 'aria-label': together.length + ' answers' }, together.map(x => this.message(x, x === n)))
  }

  message(n, chosen) {
    const view = this.views[n.id] ?? (n.role === 'assistant' && n.schema ? 'tree' : n.logprobs?.length && this.c.settings.logprobs ? 'tokens' : 'text')
    const written = this.written.get(n.id)
    this.written.delete(n.id)
    const content = n.error && !n.content && !n.calls?.length ? h('div') : shown(n, view, text => this.continueFrom(n, text), written)
    const who = { user: 'You', assistant: n.model ?? 'Model', tool: 'Result of ' + (n.name ?? 'a tool') }[n.role]
    const article = h('article', { class: 'message-box ' + n.role + (chosen ? ' chosen' : ''), 'aria-label': who, data: { id: n.id } }, h('div.row.who', {}, h('strong', {}, who), this.branches(n), chosen === false && h('button', { type: 'button', onclick: () => this.choose(n) }, 'Go on with this')),
      content, n.error && h('p.bad', { role: 'alert' }, n.error), n.stopped && h('p.hint', {}, 'Stopped.'), n.end === 'length' && h('p.hint', {}, 'The answer ended at its most tokens.'))
    if (n.role === 'assistant' && n.calls?.length && this.c.leaf === n.id) article.append(this.results(n))
    article.append(this.actions(n, view))
    return article
  }

  actions(n, view) {
    const b = (label, f, more) => h('button.quiet', { type: 'button', onclick: f, ...more }, label)
    const views = (name, label) => b(label, () => { this.views[n.id] = name; this.redraw(n) }, { 'aria-pressed': String(view === name) })
    const parts = [b('Copy', () => copy(n.content))]
    if (n.role === 'user') parts.push(b('Edit', () => this.edit(n)))
    if (n.role === 'assistant') {
      parts.push(b('Regenerate', () => this.regenerate(n)), b('Continue', () => this.continueFrom(n, n.content)))
      if (n.logprobs?.length || n.schema) {
        parts.push(views('text', 'Text'))
        if (n.logprobs?.length) parts.push(views('tokens', 'Tokens'))
        if (n.schema) parts.push(views('tree', 'Tree'))
      }
      parts.push(h('span.grow'))
      if (n.usage) parts.push(h('span.hint', {}, `${number(n.usage.completion_tokens)} tokens` + (n.rate ? `, ${number(n.rate)} per second` : '')))
      if (n.answer) parts.push(feedback(n, () => this.keep()))
    }
    return h('div.row.actions', {}, parts)
  }

  redraw(n) {
    const old = this.log.querySelector(`article[data-id="${n.id}"]`)
    old?.replaceWith(this.message(n, old.classList.contains('chosen') ? true : old.closest('.beside') ? false : undefined))
  }

  // branches leads to the other branches that begin at a message.
  branches(n) {
    const all = store.siblings(this.c, n).map(id => this.c.nodes[id])
    const groups = [...new Set(all.map(x => x.group ?? x.id))]
    if (groups.length < 2) return null
    const at = groups.indexOf(n.group ?? n.id)
    const go = i => this.choose(all.find(x => (x.group ?? x.id) === groups[i]))
    return h('span.row', { role: 'group', 'aria-label': 'Branches' },
      h('button.quiet', { type: 'button', disabled: at === 0, 'aria-label': 'Branch before', onclick: () => go(at - 1) }, '‹'), h('span.hint', {}, `${at + 1} of ${groups.length}`),
      h('button.quiet', { type: 'button', disabled: at === groups.length - 1, 'aria-label': 'Next branch', onclick: () => go(at + 1) }, '›'))
  }

  choose(n) {
    if (this.running) return
    this.c.leaf = store.deepest(this.c, n.id)
    this.draw()
    this.keep()
  }

  send() {
    const text = this.input.value.trim()
    if (!text || this.running) return
    if (!this.c) { this.early = true; return } // the page is still loading
    this.input.value = ''
    const c = this.c
    if (!c.roots.length) c.title = text.slice(0, 60)
    store.add(c, c.leaf, { role: 'user', content: text })
    this.respond(c.leaf)
  }

  edit(n) {
    if (this.running) return
    const article = this.log.querySelector(`article[data-id="${n.id}"]`)
    const area = h('textarea', { rows: Math.min(12, n.content.split('\n').length + 1), value: n.content, 'aria-label': 'Message' })
    const done = () => {
      const text = area.value.trim()
      if (!text) return
      store.add(this.c, n.parent, { role: 'user', content: text })
      this.respond(this.c.leaf)
    }
    area.addEventListener('keydown', e => {
      if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); done() }
      if (e.key === 'Escape') { e.stopPropagation(); this.draw() }
    })
    article.replaceChildren(area, h('div.row.end', {}, h('button', { type: 'button', onclick: () => this.draw() }, 'Cancel'), h('button.main', { type: 'button', onclick: done }, 'Send as a new branch')))
    area.focus()
  }

  editLast() {
    const n = store.path(this.c).reverse().find(x => x.role === 'user')
    if (n) this.edit(n)
  }

  regenerate(n = store.path(this.c).reverse().find(x => x.role === 'assistant')) {
    if (n && !this.running) this.respond(n.parent)
  }

  continueFrom(n, text) {
    if (!this.running) this.respond(n.parent, { begun: text, models: [n.model] })
  }

  // results asks for what the tools of an answer's calls say, and goes on with it.
  results(n) {
    const fields = n.calls.map(t => ({ t, area: h('textarea', { rows: 2, value: this.mock(t), 'aria-label': 'Result of ' + t.name }) }))
    return h('div.card.stack', {}, fields.map(f => h('label.stack', {}, 'Result of ' + f.t.name, f.area)),
      h('button.main', { type: 'button', onclick: () => this.giveResults(n, fields.map(f => f.area.value)) }, 'Send results'))
  }

  mock(t) {
    const tool = (this.c.settings.tools ?? []).find(x => x.name === t.name)
    let args = {}
    try { args = JSON.parse(t.arguments) } catch { /* the text stays as it is */ }
    return (tool?.result ?? '').replace(/\{(\w+)\}/g, (all, name) => name in args ? String(args[name]) : all)
  }

  giveResults(n, texts) {
    if (this.running) return
    let at = n.id
    n.calls.forEach((t, i) => { at = store.add(this.c, at, { role: 'tool', call: t.id, name: t.name, content: texts[i] }).id })
    this.respond(at)
  }

  stop() { this.running?.abort() }

  // respond asks each model for answers to the branch that ends with a message.
  async respond(parent, { begun, models, round = 0 } = {}) {
    const c = this.c, s = c.settings
    models ??= s.models?.length ? s.models : [this.models[0]?.id]
    const each = begun === undefined ? Math.min(8, Math.max(1, Number(s.n) || 1)) : 1
    let bodies
    c.leaf = parent
    try { bodies = models.map(m => bodyOf(c, parent, m, begun)) } catch (e) { this.draw(); say(e.message, 'bad'); return }
    const group = models.length * each > 1 ? store.newID() : undefined
    const parts = models.map(m => Array.from({ length: each }, () => ({ n: { role: 'assistant', content: begun ?? '', reasoning: '', model: m, group, schema: Boolean(s.schema?.trim()) || undefined, logprobs: s.logprobs && begun === undefined ? [] : undefined, calls: undefined }, view: new Answer() })))
    this.draw()
    const boxes = parts.flat().map(p => { p.view.flow.add(begun ?? ''); return h('article', { class: 'message-box assistant', 'aria-label': p.n.model }, h('div.row.who', {}, h('strong', {}, p.n.model)), p.view.root, h('span.blink', { 'aria-hidden': 'true' }, '▍')) })
    this.log.append(boxes.length > 1 ? h('div.beside', {}, boxes) : boxes[0])
    this.log.scrollTop = this.log.scrollHeight
    const stop = this.running = new AbortController()
    this.sendButton.textContent = 'Stop'
    const draw = frames(() => {
      const low = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60
      for (const p of parts.flat()) p.view.show()
      if (low) this.log.scrollTop = this.log.scrollHeight
    })
    await Promise.all(bodies.map((body, i) => this.one(body, parts[i], stop.signal, draw)))
    draw.now()
    this.running = null
    this.sendButton.textContent = 'Send'
    const added = parts.flat().filter(p => p.n.content || p.n.calls || p.n.error || p.n.reasoning).map(p => {
      const n = store.add(c, parent, p.n)
      p.view.end()
      this.written.set(n.id, p.view)
      return n
    })
    if (added.length) c.leaf = added[0].id
    await store.put(c).catch(e => say('The conversation was not kept: ' + e.message, 'bad'))
    if (this.signal.aborted || this.c !== c) { this.written.clear(); return }
    const low = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 120
    const last = this.log.lastElementChild
    if (added.length) last.replaceWith(this.row(added[0]))
    else last.remove()
    this.written.clear()
    if (low) this.log.scrollTop = this.log.scrollHeight
    this.drawList()
    const n = added[0]
    if (s.answers && added.length === 1 && n.calls?.length && !n.error && round < 8) {
      let at = n.id
      for (const t of n.calls) at = store.add(c, at, { role: 'tool', call: t.id, name: t.name, content: this.mock(t) }).id
      this.respond(at, { round: round + 1 })
    }
  }

  // one has one model answer.
  async one(body, parts, signal, draw) {
    const begin = performance.now()
    let first = 0
    try {
      await answer(body, { signal, project: project.chosen(), on: (i, part) => {
        if (i < 0) {
          for (const p of parts) {
            if (part.id) p.n.answer = part.id
            if (part.usage) { p.n.usage = part.usage; p.n.rate = part.usage.completion_tokens > 1 ? (part.usage.completion_tokens - 1) * 1000 / (performance.now() - (first || begin)) : 0 }
          }
          return
        }
        first ||= performance.now()
        const p = parts[i]
        if (!p) return
        if (part.text) { p.n.content += part.text; p.view.flow.add(part.text) }
        if (part.thought) { p.n.reasoning += part.thought; p.view.think(part.thought) }
        if (part.calls) p.n.calls = join(p.n.calls ?? [], part.calls)
        if (part.logprobs) p.n.logprobs?.push(...part.logprobs)
        if (part.end) p.n.end = part.end
        draw()
      } })
    } catch (e) {
      for (const p of parts) signal.aborted ? p.n.stopped = true : p.n.error = e.message
    }
  }

  code() {
    const c = this.c
    let b
    try { b = bodyOf(c, c.leaf, c.settings.models?.[0] ?? this.models[0]?.id) } catch (e) { say(e.message, 'bad'); return }
    if (!messages(c, c.leaf).length) b.messages = [{ role: 'user', content: this.input.value || 'What is weir?' }]
    const warning = programs(b)
    return dialog('The request as code', () => h('div', {}, tabs('Code', warning), h('p.hint', {}, 'It holds your key, if you have entered one.')), { wide: true })
  }
}
