// Trajectories: models, curves by policy version, groups, rollouts beside each other, downloads.
import { h, save, number, when } from '../dom.js'
import { json, request } from '../api.js'
import { chart } from '../chart.js'
import { tokens, call } from '../chat/message.js'

export const title = 'Trajectories'

const models = 'v1/preview/models'
const formats = { jsonl: 'jsonl', 'jsonl-groups': 'jsonl', parquet: 'parquet', art: 'tar', verl: 'jsonl', trl: 'jsonl', verifiers: 'jsonl', sft: 'jsonl' }
const at = (...parts) => '#/trajectories/' + parts.map(encodeURIComponent).join('/')
const table = (label, heads, rows) => h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': label }, h('table', {}, h('thead', {}, h('tr', {}, heads.map(t => h('th', { scope: 'col' }, t)))), h('tbody', {}, rows)))

export async function mount(root, { rest, signal }) {
  const [model, ...ids] = rest
  root.append(h('h1', {}, title))
  try {
    if (!model) await list(root, signal)
    else if (!ids.length || !ids[0]) await one(root, model, signal)
    else await rollouts(root, model, ids, signal)
  } catch (e) {
    if (!signal.aborted) root.append(h('p.bad', { role: 'alert' }, e.message))
  }
}

async function list(root, signal) {
  const { data } = await json(models, { signal })
  root.append(data.length ? table('Models', ['Model', 'Splits', 'Groups', 'Trajectories', 'Exceptions', 'Policy versions', 'Last'], data.map(m => h('tr', {},
    h('td', {}, h('a', { href: at(m.id) }, [m.entity, m.project, m.name].filter(Boolean).join('/') || m.id)), h('td', {}, m.splits.join(', ')), h('td.n', {}, number(m.groups)), h('td.n', {}, number(m.trajectories)),
    h('td.n', {}, number(m.exceptions)), h('td.n', {}, m.min_policy_version == null ? '–' : `${m.min_policy_version} to ${m.max_policy_version}`), h('td', {}, m.last_received_at ? when(m.last_received_at) : ''))))
    : h('p', {}, 'Nothing is logged yet. A trainer logs its rollouts with POST /v1/preview/models/{model}/log, and --record-trajectories records what the server answers.'))
}

async function one(root, model, signal) {
  const path = models + '/' + encodeURIComponent(model)
  const filter = h('input', { value: '', placeholder: 'all' })
  const where = h('div', {})
  const wrong = h('p.bad', { role: 'alert' })
  const format = h('select', { 'aria-label': 'Format' }, Object.keys(formats).map(f => h('option', {}, f)))
  root.append(h('p', {}, h('a', { href: '#/trajectories' }, 'All models'), ' / ', h('strong', {}, model)),
    h('div.row', {}, h('label.row', {}, 'Split', filter), h('span.grow'), format, h('button', { type: 'button', onclick: async () => {
      try {
        const r = await request(`${path}/export?format=${format.value}`, { signal })
        save(`${model}-${format.value}.${formats[format.value]}`, await r.blob())
      } catch (e) { if (!signal.aborted) wrong.textContent = e.message }
    } }, 'Download')), wrong)
  const curves = h('div.cards', {})
  root.append(curves, where)
  const { data } = await json(path + '/metrics?group_by=policy_version', { signal })
  const known = data.filter(d => d.key !== null)
  const splits = [...new Set(known.map(d => d.split))], keys = [...new Set(known.map(d => d.key))].sort((a, b) => a - b)
  for (const [name, key] of [['Reward', 'reward'], ['Exceptions', 'exception_rate']]) {
    const card = h('div.card', {}, h('h2', {}, name + ' by policy version'))
    curves.append(card)
    const c = await chart(card, { title: name + ' by policy version', x: 'policy version', y: name.toLowerCase(), series: splits, signal })
    const find = (k, s) => known.find(d => d.key === k && d.split === s)?.metrics[`${s}/${key}`] ?? null
    c.set([keys, ...splits.map(s => keys.map(k => find(k, s)))])
  }
  const draw = async () => {
    const split = filter.value.trim()
    const page = await json(`${path}/trajectories?limit=500${split ? '&split=' + encodeURIComponent(split) : ''}`, { signal })
    const groups = new Map()
    for (const t of page.data) {
      const id = t.log_id + '/' + t.group_index
      groups.set(id, [...groups.get(id) ?? [], t])
    }
    const chosen = []
    const compare = h('button', { type: 'button', disabled: true, onclick: () => { location.hash = at(model, ...chosen.slice(0, 2)) } }, 'Compare the two that are marked')
    const rollout = t => h('span.row', {}, h('input', { type: 'checkbox', 'aria-label': 'Mark ' + t.id, onchange: e => {
      e.target.checked ? chosen.push(t.id) : chosen.splice(chosen.indexOf(t.id), 1)
      compare.disabled = chosen.length !== 2
    } }), h('a', { href: at(model, t.id) }, t.reward == null ? 'no reward' : number(t.reward)))
    where.replaceChildren(h('div.row', {}, h('h2', {}, 'Groups'), h('span.grow'), compare),
      table('Groups', ['Received', 'Split', 'Step', 'Rewards of the rollouts', 'Mean', 'Spread'], [...groups.values()].map(g => {
        const r = g.map(t => t.reward).filter(x => x != null)
        const mean = r.reduce((a, b) => a + b, 0) / r.length
        return h('tr', {}, h('td', {}, when(g[0].received_at)), h('td', {}, g[0].split), h('td.n', {}, String(g[0].step ?? '–')), h('td', {}, h('div.row', {}, g.map(rollout))),
          h('td.n', {}, r.length ? number(mean) : '–'), h('td.n', {}, r.length ? number(Math.sqrt(r.reduce((a, b) => a + (b - mean) ** 2, 0) / r.length)) : '–'))
      })), page.has_more ? h('p.hint', {}, 'These are the newest 500 rollouts.') : '')
  }
  filter.addEventListener('change', () => draw().catch(e => { if (!signal.aborted) wrong.textContent = e.message }))
  await draw()
}

async function rollouts(root, model, ids, signal) {
  root.append(h('p', {}, h('a', { href: '#/trajectories' }, 'All models'), ' / ', h('a', { href: at(model) }, model)))
  const all = await Promise.all(ids.slice(0, 2).map(id => json(`${models}/${encodeURIComponent(model)}/trajectories/${id.split('/').map(encodeURIComponent).join('/')}`, { signal })))
  root.append(h('div', { class: all.length > 1 ? 'beside' : '' }, all.map(rollout)))
}

const text = c => typeof c === 'string' ? c : Array.isArray(c) ? c.map(p => p?.text ?? JSON.stringify(p)).join('\n') : c == null ? '' : JSON.stringify(c)

// rollout shows one trajectory as a chat. Choices, which can be trained on, are marked.
function rollout(t, i) {
  const metrics = Object.entries(t.trajectory.metrics ?? {})
  return h('section', { 'aria-label': 'Rollout ' + (i + 1) }, h('h2', {}, `Reward ${t.reward == null ? '–' : number(t.reward)}, ${t.split}`),
    h('p.hint', {}, `Policy version ${t.final_policy_version ?? '–'}, received ${when(t.received_at)}`),
    metrics.length ? table('Metrics of rollout ' + (i + 1), ['Metric', 'Value'], metrics.map(([k, v]) => h('tr', {}, h('td', {}, k), h('td.n', {}, String(v))))) : '',
    (t.trajectory.messages_and_choices ?? []).map(x => {
      const m = x.message ?? x
      const probable = (x.logprobs?.content ?? []).map(p => [p.token, p.logprob, (p.top_logprobs ?? []).map(o => [o.token, o.logprob])])
      return h('article', { class: 'message-box ' + (m.role === 'user' ? 'user' : x.message ? 'assistant chosen' : 'assistant'), 'aria-label': String(m.role) },
        h('div.row.who', {}, h('strong', {}, String(m.role)), x.message && h('span.tag', {}, 'trainable')),
        probable.length ? tokens(probable, () => {}) : h('div.text.plain', {}, text(m.content)),
        (m.tool_calls ?? []).map(c => call({ name: String(c.function?.name), arguments: String(c.function?.arguments ?? '') })))
    }))
}
