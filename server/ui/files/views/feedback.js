// Feedback of a project: a table with filters, counts and an export.
import { h, save, number, when } from '../dom.js'
import { json, request } from '../api.js'
import { project, standard } from '../project.js'

export const title = 'Feedback'

const size = 100 // rows of a page

const field = name => ({ $getField: name })
const equal = (name, value) => ({ $eq: [field(name), { $literal: value }] })
const contains = (name, value) => ({ $contains: { input: field(name), substr: { $literal: value } } })

// expression is the query of the filters; undefined if there is none.
function expression(f) {
  const all = [f.type && equal('feedback_type', f.type), f.creator && equal('creator', f.creator), f.ref && contains('trace_ref', f.ref), ...(f.more ?? [])].filter(Boolean)
  return all.length ? { $expr: all.length > 1 ? { $and: all } : all[0] } : undefined
}

export function mount(root, { signal }) {
  const f = {}
  let offset = 0, asked = 0
  const rows = h('tbody', {}), counts = h('div.row', { role: 'status' }), pages = h('div.row', {}), wrong = h('p.bad', { role: 'alert' })
  const body = more => ({ project_id: project.get(), query: expression({ ...f, ...more }), sort_by: [{ field: 'created_at', direction: 'desc' }] })
  const ask = (more, options) => json('feedback/query', { body: { ...body(more), ...options }, signal })

  const draw = async () => {
    const now = ++asked
    wrong.textContent = ''
    try {
      const kinds = [['👍', [equal('payload.emoji', '👍')]], ['👎', [equal('payload.emoji', '👎')]], ['notes', [equal('feedback_type', 'wandb.note.1')]]]
      const [page, ...each] = await Promise.all([ask({}, { limit: size, offset }), ...kinds.map(([, more]) => ask({ more }, { limit: 1 }))])
      if (now !== asked) return
      const total = page.total_count
      counts.replaceChildren(h('strong', {}, number(total) + ' records'), ...kinds.map(([name], i) => h('span.tag', {}, name + ' ' + number(each[i].total_count))))
      rows.replaceChildren(...page.result.map(row))
      pages.replaceChildren(h('button', { type: 'button', disabled: offset === 0, onclick: () => { offset = Math.max(0, offset - size); draw() } }, 'Newer'),
        h('span.hint', {}, total ? `${number(offset + 1)} to ${number(Math.min(total, offset + size))} of ${number(total)}` : 'There is none.'),
        h('button', { type: 'button', disabled: offset + size >= total, onclick: () => { offset += size; draw() } }, 'Older'))
    } catch (e) {
      if (now === asked && !signal.aborted) wrong.textContent = e.message
    }
  }
  let later
  const soon = () => { clearTimeout(later); offset = 0; later = setTimeout(draw, 250) }
  const filter = (label, name) => h('label.stack', {}, label, h('input', { type: 'search', oninput: e => { f[name] = e.target.value.trim(); soon() } }))
  const download = async type => {
    try {
      const r = await request('feedback/export', { body: body({}), headers: { Accept: type }, signal })
      save('feedback.' + (type === 'text/csv' ? 'csv' : 'jsonl'), await r.blob())
    } catch (e) {
      if (!signal.aborted) wrong.textContent = e.message
    }
  }
  root.append(h('h1', {}, title),
    h('div.row', {}, h('label.stack', {}, 'Project', h('input', { value: project.chosen(), placeholder: standard, oninput: e => { project.set(e.target.value.trim()); soon() } })),
      filter('Type', 'type'), filter('Creator', 'creator'), filter('Reference contains', 'ref')),
    h('div.row', {}, counts, h('span.grow'), h('button', { type: 'button', onclick: () => download('text/csv') }, 'Export CSV'), h('button', { type: 'button', onclick: () => download('application/x-ndjson') }, 'Export JSON lines')),
    wrong, h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Records' }, h('table', {}, h('thead', {}, h('tr', {}, ['When', 'Type', 'What', 'Creator', 'Reference'].map(t => h('th', { scope: 'col' }, t)))), rows)), pages)
  return draw()
}

// row shows a record. All of it is text.
function row(r) {
  const p = r.payload ?? {}
  const text = typeof p.emoji === 'string' ? p.emoji : typeof p.note === 'string' ? p.note : JSON.stringify(p)
  return h('tr', {}, h('td', {}, when(r.created_at)), h('td', {}, r.feedback_type), h('td', {}, text.slice(0, 2000)), h('td', {}, r.creator ?? r.wb_user_id ?? ''), h('td', {}, h('code', {}, r.trace_ref ?? r.weave_ref ?? '')))
}
