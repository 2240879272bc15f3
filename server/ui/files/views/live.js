// What the server does now: one stream of GET /v1/live, for all parts of the view.
import { h, number, say } from '../dom.js'
import { events, Failure } from '../api.js'
import { chart } from '../chart.js'
import { strip } from '../steps.js'

export const title = 'Live'

const minutes = 5 // that the curves go back

const ms = s => s == null ? '–' : s < 1 ? number(s * 1000) + ' ms' : number(s) + ' s'
const percent = (a, b) => b ? number(100 * a / b) + ' %' : '–'
const age = s => s < 60 ? s.toFixed(1) + ' s' : Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s'

// figure is a number with what it is; set changes it.
function figure(label) {
  const value = h('dd', {}, '–'), more = h('dd.quiet-text', {})
  return { root: h('div.figure', {}, h('dt', {}, label), value, more), set(text, note = '') { value.textContent = text; more.textContent = note } }
}

// table has rows that are replaced as a whole. columns are [heading, number?].
function table(caption, columns, empty) {
  const body = h('tbody')
  const none = h('p.quiet-text', {}, empty)
  const box = h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', {}, h('thead', {}, h('tr', {}, columns.map(([name, n]) => h(n ? 'th.n' : 'th', { scope: 'col' }, name)))), body))
  box.hidden = true
  return {
    root: h('div', {}, none, box),
    set(rows) {
      none.hidden = rows.length > 0
      box.hidden = rows.length === 0
      body.replaceChildren(...rows.map(row => h('tr', {}, row.map((v, i) => h(columns[i][1] ? 'td.n' : 'td', {}, v ?? '–')))))
    },
  }
}

// past keeps what curves show: the newest minutes of it.
function past(width) {
  const data = Array.from({ length: width + 1 }, () => [])
  return {
    data,
    add(time, values) {
      data[0].push(time)
      values.forEach((v, i) => data[i + 1].push(v ?? null))
      while (data[0].length && data[0][0] < time - minutes * 60) for (const d of data) d.shift()
      return data
    },
  }
}

const reasons = {
  engine_full: 'the engine was full', queue_full: 'too many waited to be prepared', memory: 'memory', loading: 'the model was loading', stopping: 'the server was stopping',
  failed: 'the engine had failed', connections: 'too many connections', uploads: 'too many uploads', store_busy: 'too many writes waited', disk_full: 'the disk was full', disk_failed: 'the disk failed',
  key_requests: "a key's requests per minute", key_tokens: "a key's tokens per minute", key_day_tokens: "a key's tokens per day", key_concurrency: "a key's requests at a time",
  queued_tokens: 'the prompts that waited were too long', queue_time: 'it would have waited too long',
}

export async function mount(root, { signal }) {
  const status = h('span.tag', { role: 'status' }, 'Connecting…')
  const pause = h('button', { type: 'button', 'aria-pressed': 'false' }, 'Pause')
  let paused = false
  pause.addEventListener('click', () => {
    paused = !paused
    pause.setAttribute('aria-pressed', String(paused))
    status.textContent = paused ? 'Paused' : 'Live'
  })
  const f = {
    output: figure('Output tokens/s'), prompt: figure('Prompt tokens/s'), running: figure('Running'), waiting: figure('Waiting'), kv: figure('KV cache'), hits: figure('Prefix hits'),
    ttft: figure('First token, median'), itl: figure('Between tokens, median'), steps: figure('Steps/s'), finished: figure('Finished/s'),
  }
  const speed = h('div'), waits = h('div'), load = h('div'), stepBox = h('div')
  const requests = table('Requests', [['Request'], ['Path'], ['State'], ['Age', 1], ['First token', 1], ['Prompt', 1], ['Cached', 1], ['Output', 1], ['Project'], ['Key'], ['Model']], 'No request is being answered.')
  const requestNote = h('p.quiet-text', {})
  const projects = table('Use by project', [['Project'], ['Requests', 1], ['Prompt tokens', 1], ['Output tokens', 1], ['Output tokens/s', 1]], 'Nothing has been used since the server started, or your key may not see it.')
  const rejected = table('Refused requests', [['Because'], ['Requests', 1]], 'No request was refused since the server started.')
  root.append(
    h('div.row', {}, h('h1', {}, title), status, h('span.grow'), pause),
    h('dl.figures', {}, Object.values(f).map(x => x.root)),
    h('div.cards', {},
      h('section.card', {}, h('h2', {}, 'Tokens per second'), speed),
      h('section.card', {}, h('h2', {}, 'Waits'), waits),
      h('section.card', {}, h('h2', {}, 'Sequences and KV cache'), load)),
    h('section.card', {}, h('h2', {}, 'Steps of the engine'), stepBox),
    h('section.card', {}, h('h2', {}, 'Requests'), requestNote, requests.root),
    h('div.cards', {},
      h('section.card', {}, h('h2', {}, 'Use by project'), projects.root),
      h('section.card', {}, h('h2', {}, 'Refused'), rejected.root)))

  const quiet = { points: false, time: true, signal, height: 180 }
  const [speedChart, waitChart, loadChart, steps] = await Promise.all([
    chart(speed, { ...quiet, title: 'Tokens per second, over time', y: 'tokens/s', series: ['output', 'prompt'] }),
    chart(waits, { ...quiet, title: 'Waits in milliseconds, over time', y: 'ms', series: ['first token p50', 'first token p99', 'between tokens p50', 'between tokens p99'] }),
    chart(load, { ...quiet, title: 'Sequences and use of the KV cache, over time', y: 'sequences, %', series: ['running', 'waiting', 'KV cache, %'] }),
    strip(stepBox, signal),
  ])
  if (signal.aborted) return
  const curves = { speed: past(2), waits: past(4), load: past(3) }
  let before = null // the state before, for rates of projects

  const show = s => {
    const { engine: e, rates: r, ttft, itl } = s
    f.output.set(number(r?.generation_tokens))
    f.prompt.set(number(r?.prompt_tokens))
    f.steps.set(number(r?.steps), e?.step_age > 1 ? `one has taken ${age(e.step_age)}` : '')
    f.finished.set(number(r?.finished), e ? `${number(e.finished)} in all` : '')
    f.running.set(number(e?.running), e?.sitting_out ? `${number(e.sitting_out)} sit out` : '')
    f.waiting.set(number(e?.waiting), e?.preemptions ? `${number(e.preemptions)} preemptions` : '')
    f.kv.set(e ? percent(e.kv_blocks_used, e.kv_blocks_total) : '–', e ? `${number(e.kv_blocks_used)} of ${number(e.kv_blocks_total)} blocks` : 'there is no model yet')
    f.hits.set(e ? percent(e.prefix_hits, e.prefix_queries) : '–', e ? `${number(e.prefix_hits)} tokens` : '')
    f.ttft.set(ms(ttft?.p50), ttft ? `p90 ${ms(ttft.p90)}, p99 ${ms(ttft.p99)}` : 'none lately')
    f.itl.set(ms(itl?.p50), itl ? `p90 ${ms(itl.p90)}, p99 ${ms(itl.p99)}` : 'none lately')
    speedChart.set(curves.speed.add(s.time, [r?.generation_tokens, r?.prompt_tokens]))
    const k = x => x == null ? null : x * 1000
    waitChart.set(curves.waits.add(s.time, [k(ttft?.p50), k(ttft?.p99), k(itl?.p50), k(itl?.p99)]))
    loadChart.set(curves.load.add(s.time, [e?.running, e?.waiting, e ? 100 * e.kv_blocks_used / Math.max(1, e.kv_blocks_total) : null]))
    const c = s.request_counts
    requestNote.textContent = `${number(c.preparing)} being prepared, ${number(c.waiting)} waiting, ${number(c.running)} running` + (s.requests_left_out ? `; the oldest ${s.requests.length} are shown.` : '.')
    requests.set(s.requests.map(q => [
      q.request_id ?? q.id, q.path + (q.background ? ' (background)' : ''), q.state, age(q.age), ms(q.ttft), number(q.prompt_tokens), number(q.cached_tokens), number(q.output_tokens), q.project, q.key, q.model,
    ]))
    const then = new Map(before?.projects.map(p => [p.project, p.generation_tokens]))
    projects.set(s.projects.map(p => [p.project || 'none', number(p.requests), number(p.prompt_tokens), number(p.generation_tokens),
      before ? number((p.generation_tokens - (then.get(p.project) ?? 0)) / Math.max(0.001, s.time - before.time)) : '–']))
    rejected.set(Object.entries(s.rejected).map(([reason, n]) => [reasons[reason] ?? reason, number(n)]))
    before = s
  }

  // follow reads one stream to its end, and returns why it ended.
  const follow = async stop => {
    let fields
    for await (const { data } of events('v1/live', { signal: stop })) {
      const s = JSON.parse(data)
      if (s.type === 'hello') {
        fields = s.step_fields
        steps.begin(fields, s.scope === 'all')
        status.textContent = paused ? 'Paused' : s.scope === 'all' ? 'Live' : 'Live: your requests'
      } else if (s.type === 'state') {
        steps.add(s.steps)
        if (!paused) { show(s); steps.draw() }
      } else if (s.type === 'end') {
        return s.reason
      }
    }
    return ''
  }

  // Nobody looks at a page that is hidden, so the server is not asked for anything then.
  while (!signal.aborted) {
    if (document.hidden) {
      status.textContent = 'Stopped while the page is hidden'
      await new Promise(resolve => {
        document.addEventListener('visibilitychange', resolve, { signal, once: true })
        signal.addEventListener('abort', resolve, { once: true })
      })
      continue
    }
    const stop = new AbortController()
    const hide = () => { if (document.hidden) stop.abort() }
    const leave = () => stop.abort()
    document.addEventListener('visibilitychange', hide)
    signal.addEventListener('abort', leave)
    let why = ''
    try {
      const reason = await follow(stop.signal)
      why = reason === 'draining' ? 'The server is stopping' : reason === 'key' ? 'The key is not valid any more' : 'The stream has ended'
    } catch (e) {
      if (signal.aborted) return
      if (!stop.signal.aborted) {
        why = e.message
        if (e instanceof Failure && e.status >= 400 && e.status < 500 && e.status !== 429) {
          status.textContent = why
          say(why, 'bad')
          return
        }
      }
    } finally {
      document.removeEventListener('visibilitychange', hide)
      signal.removeEventListener('abort', leave)
    }
    if (signal.aborted || !why) continue
    status.textContent = why + '; trying again…'
    before = null
    await new Promise(resolve => { setTimeout(resolve, 2000); signal.addEventListener('abort', resolve, { once: true }) })
  }
}
