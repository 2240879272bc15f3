// How fast the server is: loads that it puts on itself, runs that are kept, and reports of weir bench.
import { h, number, say, when, pick, save, confirmed } from '../dom.js'
import { json, Failure } from '../api.js'
import { chart } from '../chart.js'

export const title = 'Bench'

const most = 6 // runs that are compared

// figures are the columns of a report, by the members that weir bench serve writes.
const figures = [
  ['Output tokens/s', 'output_throughput'], ['Requests/s', 'request_throughput'],
  ['First token, median', 'median_ttft_ms', 'ms'], ['First token, p99', 'p99_ttft_ms', 'ms'], ['Between tokens, median', 'median_itl_ms', 'ms'], ['Between tokens, p99', 'p99_itl_ms', 'ms'],
  ['Completed', 'completed'], ['Failed', 'failed'],
]
const value = (result, name) => typeof result?.[name] === 'number' ? result[name] : null

// read makes a run of a file of weir bench: a report of serve, several runs of it, or a sweep.
function read(name, text) {
  const o = JSON.parse(text)
  const of = result => ({ concurrency: result.max_concurrency ?? null, rate: result.request_rate ?? null, result })
  let points
  if (o.object === 'bench.run') points = o.points
  else if (Array.isArray(o.cells)) points = o.cells.map(c => ({ ...of(c.result), server: c.server }))
  else if (Array.isArray(o.runs)) points = o.runs.map(of)
  else points = [of(o)]
  if (!points.length || points.some(p => value(p.result, 'output_throughput') === null)) throw new Error('It is no report of weir bench serve or sweep.')
  const one = server => ({ id: name + (server ? ' ' + server : ''), name: o.name || (server ? `${server}, ${name}` : name), status: 'file', points: points.filter(p => !server || p.server === server) })
  const servers = [...new Set(points.map(p => p.server).filter(Boolean))]
  return servers.length > 1 ? servers.map(one) : [one()]
}

const labelOf = run => run.name || run.id
const loadOf = p => p.concurrency != null ? `${number(p.concurrency)} at a time` : p.rate != null ? `${p.rate} requests/s` : '–'

export async function mount(root, { signal }) {
  const chosen = new Map() // runs that are shown, by id
  let runs = [], files = [], may = true, going = null
  const input = (label, name, props) => h('label.stack', {}, label, h('input', { name, required: true, ...props }))
  const whole = (min, max, v) => ({ type: 'number', min, max, step: 1, value: v, inputmode: 'numeric' })
  const startButton = h('button.main', {}, 'Start')
  const form = h('form', {},
    h('div.figures', {},
      h('label.stack', {}, 'Name', h('input', { name: 'name', maxlength: 80, autocomplete: 'off' })),
      input('Requests at a time', 'concurrencies', { value: '1, 2, 4, 8', pattern: '\\s*\\d+(\\s*[,\\s]\\s*\\d+)*\\s*', title: 'Up to 12 whole numbers, separated by commas' }),
      input('Requests of each point', 'requests', whole(1, 2000, 32)), input('Tokens of a prompt', 'input_tokens', whole(1, 32768, 128)),
      input('Tokens of an answer', 'output_tokens', whole(1, 8192, 64)), input('Longest time in seconds', 'max_seconds', whole(1, 1800, 600))),
    h('p.hint', {}, 'The load runs on the machine of the server and takes a part of it, and all other clients feel it. There is one run at a time.'),
    startButton)
  const state = h('p', { role: 'status' })
  const cancel = h('button', { type: 'button', hidden: true }, 'Cancel')
  const list = h('div'), curves = h('div'), reports = h('div')
  const open = h('button', { type: 'button' }, 'Open a report…')
  root.append(h('h1', {}, title),
    h('section.card', {}, h('h2', {}, 'Load this server'), form, h('div.row', {}, state, cancel)),
    h('section.card', {}, h('h2', {}, 'Latency over throughput'), h('p.hint', {}, 'Each point is a load. A curve grows while its run goes on. Up to six runs are compared.'), curves),
    h('section.card', {}, h('div.row', {}, h('h2', {}, 'Runs'), h('span.grow'), open), h('p.hint', {}, 'Reports are files of weir bench serve --result-filename or weir bench sweep --json. They stay in this page.'), list),
    h('section', {}, reports))

  // The chart has fixed series, so it is drawn anew when other runs are chosen.
  let drawn = '', drawing = new AbortController(), plot = null
  signal.addEventListener('abort', () => drawing.abort())
  const draw = async () => {
    const shown = [...chosen.values()].filter(r => r.points.length).slice(0, most)
    const key = shown.map(r => r.id).join('\n')
    const of = name => r => r.points.map(p => [value(p.result, 'output_throughput'), value(p.result, name)]).filter(([x, y]) => x !== null && y !== null)
    if (key !== drawn) {
      drawn = key
      drawing.abort()
      drawing = new AbortController()
      curves.replaceChildren()
      plot = null
      if (!shown.length) {
        curves.append(h('p.quiet-text', {}, 'Choose a run that has a point.'))
        return
      }
      const mine = drawing.signal, boxes = [h('div'), h('div')]
      curves.append(h('div.cards', {}, boxes.map((b, i) => h('div', {}, h('h3', {}, i ? 'Between tokens, median' : 'First token, median'), b))))
      const series = shown.map(labelOf)
      const made = await Promise.all(boxes.map((b, i) => chart(b, { title: (i ? 'Time between tokens' : 'Time to the first token') + ' over output tokens per second', x: 'output tokens/s', y: 'ms', series, signal: mine })))
      if (mine.aborted) return
      plot = made
    }
    ;['median_ttft_ms', 'median_itl_ms'].forEach((name, i) => {
      const lines = shown.map(of(name))
      const xs = [...new Set(lines.flat().map(([x]) => x))].sort((a, b) => a - b)
      plot?.[i].set([xs, ...lines.map(line => { const at = new Map(line); return xs.map(x => at.get(x) ?? null) })])
    })
  }
  const tables = () => reports.replaceChildren(...[...chosen.values()].map(r => h('section.card', {}, h('div.row', {}, h('h2', {}, labelOf(r)), h('span.tag', {}, r.status), h('span.grow'),
    h('button', { type: 'button', onclick: () => save(labelOf(r) + '.json', JSON.stringify(r, null, 1)) }, 'Download')), r.error && h('p.bad', {}, r.error),
  h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Points of ' + labelOf(r) }, h('table', {}, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Load'), figures.map(([n]) => h('th.n', { scope: 'col' }, n)))),
    h('tbody', {}, r.points.map(p => h('tr', {}, h('th', { scope: 'row' }, loadOf(p)), figures.map(([, name, unit]) => {
      const v = value(p.result, name)
      return h('td.n', {}, v === null ? '–' : number(v, 4) + (unit ? ' ' + unit : ''))
    })))))))))
  const show = async () => { tables(); await draw() }

  const choose = async (run, on) => {
    if (!on) chosen.delete(run.id)
    else if (chosen.size >= most) { say(`Up to ${most} runs are compared.`, 'bad'); rows(); return }
    else chosen.set(run.id, run.status === 'file' ? run : await json('v1/bench/' + encodeURIComponent(run.id), { signal }))
    await show()
  }
  function rows() {
    const all = [...files, ...runs]
    if (!all.length) { list.replaceChildren(h('p.quiet-text', {}, 'There are none yet.')); return }
    list.replaceChildren(h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Runs' }, h('table', {}, h('thead', {}, h('tr', {}, ['Shown', 'Name', 'Status', 'Started', 'Load', ''].map(n => h('th', { scope: 'col' }, n)))),
      h('tbody', {}, all.map(r => h('tr', {},
        h('td', {}, h('input', { type: 'checkbox', checked: chosen.has(r.id), 'aria-label': 'Show ' + labelOf(r), onchange: e => choose(r, e.target.checked) })),
        h('td', {}, labelOf(r)), h('td', {}, r.status), h('td', {}, r.created_at ? when(r.created_at * 1000) : '–'),
        h('td', {}, r.load ? `${r.load.concurrencies.join(', ')} at a time; ${number(r.load.input_tokens)} and ${number(r.load.output_tokens)} tokens` : '–'),
        h('td', {}, r.status !== 'running' && h('button', { type: 'button', 'aria-label': (r.status === 'file' ? 'Close ' : 'Delete ') + labelOf(r), onclick: () => drop(r) }, r.status === 'file' ? 'Close' : 'Delete'))))))))
  }
  async function drop(r) {
    if (r.status === 'file') files = files.filter(f => f !== r)
    else {
      if (!await confirmed('Delete a run', `“${labelOf(r)}” will be gone.`, 'Delete')) return
      await json('v1/bench/' + encodeURIComponent(r.id), { method: 'DELETE', signal })
      runs = runs.filter(x => x.id !== r.id)
    }
    chosen.delete(r.id)
    rows()
    await show()
  }

  // follow looks at a run until it has ended.
  async function follow(id) {
    if (going === id) return
    going = id
    startButton.disabled = true
    cancel.hidden = false
    try {
      for (let run; !signal.aborted;) {
        run = await json('v1/bench/' + encodeURIComponent(id), { signal })
        if (chosen.has(id) || chosen.size < most) chosen.set(id, run)
        state.textContent = run.status === 'running' ? `${labelOf(run)}: ${run.points.length} of ${run.load.concurrencies.length} points` + (run.current ? `, ${run.current} at a time now` : '') : `${labelOf(run)}: ${run.status}` + (run.error ? `: ${run.error}` : '')
        await show()
        if (run.status !== 'running') break
        await new Promise(resolve => { setTimeout(resolve, 1000); signal.addEventListener('abort', resolve, { once: true }) })
      }
    } finally {
      going = null
      startButton.disabled = !may
      cancel.hidden = true
    }
    if (!signal.aborted) await refresh()
  }
  async function refresh() {
    try {
      runs = (await json('v1/bench', { signal })).data
    } catch (e) {
      if (signal.aborted) return
      if (!(e instanceof Failure) || ![401, 403, 404].includes(e.status)) throw e
      may = false
      for (const f of form.elements) f.disabled = true
      state.textContent = e.status === 404 ? 'This server does not load itself: it was started without --enable-bench. Reports can be opened all the same.' : e.message
    }
    rows()
  }

  form.addEventListener('submit', async e => {
    e.preventDefault()
    const data = new FormData(form), n = name => Number(data.get(name))
    const body = { name: data.get('name'), concurrencies: data.get('concurrencies').split(/[\s,]+/).filter(Boolean).map(Number), requests: n('requests'), input_tokens: n('input_tokens'), output_tokens: n('output_tokens'), max_seconds: n('max_seconds') }
    try {
      const run = await json('v1/bench', { body, signal })
      await refresh()
      await follow(run.id)
    } catch (e2) {
      if (!signal.aborted) { state.textContent = e2.message; say(e2.message, 'bad') }
    }
  })
  cancel.addEventListener('click', () => going && json(`v1/bench/${encodeURIComponent(going)}/cancel`, { method: 'POST', signal }))
  open.addEventListener('click', async () => {
    const file = await pick('.json,application/json')
    if (!file) return
    try {
      const opened = read(file.name, file.text)
      files = [...files.filter(f => !opened.some(o => o.id === f.id)), ...opened]
      for (const r of opened) if (chosen.size < most) chosen.set(r.id, r)
      rows()
      await show()
    } catch (e) {
      say(`${file.name} cannot be shown. ${e.message}`, 'bad')
    }
  })
  await refresh()
  if (signal.aborted) return
  await show()
  const now = runs.find(r => r.status === 'running')
  if (now) await follow(now.id)
}
