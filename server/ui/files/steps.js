// The newest steps of the engine as a strip that can be zoomed with the mouse and with buttons.
import { h, number } from './dom.js'
import { chart } from './chart.js'

const most = 5000 // steps that are kept
const kinds = ['prefill', 'decode', 'mixed']

const variable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// strip fills root, and returns begin(fields, shown), add(steps) and draw().
export async function strip(root, signal) {
  let at = {}, all = [], shown = true
  let view = null // [from, to] in seconds; null: everything
  const note = h('p.quiet-text', {}), place = h('div'), worst = h('tbody')
  const button = (text, label, f) => h('button', { type: 'button', 'aria-label': label, onclick: () => { f(); draw() } }, text)
  const bounds = () => view ?? (all.length ? [all[0].time, all.at(-1).time + 1e-6] : [0, 1])
  const zoom = factor => { const [a, b] = bounds(), m = (a + b) / 2, w = (b - a) * factor / 2; if (w > 1e-5) view = [m - w, m + w] }
  const move = part => { const [a, b] = bounds(), d = (b - a) * part; view = [a + d, b + d] }
  const controls = h('div.row', { role: 'group', 'aria-label': 'Part of the strip' },
    button('−', 'Show more time', () => zoom(2)), button('+', 'Show less time', () => zoom(0.5)), button('←', 'Earlier', () => move(-0.25)), button('→', 'Later', () => move(0.25)),
    button('Last second', 'Show the last second', () => { const b = bounds()[1]; view = all.length ? [all.at(-1).time - 1, all.at(-1).time + 0.01] : [b - 1, b] }),
    button('All', 'Show everything and follow', () => { view = null }))
  root.append(h('p.hint', {}, 'How long each step took. Drag over a part to see it closer; “All” follows the newest steps again.'), controls, place, note,
    h('details', {}, h('summary', {}, 'The slowest steps in this part'), h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'The slowest steps' }, h('table', {}, h('thead', {}, h('tr', {},
      ['Step', 'Kind', 'Took', 'Device', 'Host', 'Sequences', 'Prompt tokens', 'Output tokens', 'Waiting', 'KV blocks'].map(n => h(n === 'Kind' ? 'th' : 'th.n', { scope: 'col' }, n)))), worst))))
  const c = await chart(place, {
    title: 'Time of each step of the engine, by kind', y: 'ms', series: kinds, height: 200, time: true, signal,
    more: {
      get series() {
        return [{ label: 'time' }, ...kinds.map((label, i) => ({
          label, stroke: variable('--series-' + [2, 1, 3][i]), fill: variable('--series-' + [2, 1, 3][i]), paths: () => null, points: { show: true, size: 4 + i, width: 1 },
          value: (_, v) => v == null ? '–' : number(v) + ' ms',
        }))]
      },
      hooks: {
        setSelect: [u => {
          if (u.select.width < 3) return
          view = [u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')]
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
          draw()
        }],
      },
      cursor: { drag: { setScale: false } },
    },
  })

  function draw() {
    if (signal.aborted) return
    const [from, to] = bounds()
    const part = view ? all.filter(s => s.time >= from && s.time <= to) : all
    c.set([part.map(s => s.time), ...kinds.map(k => part.map(s => s.kind === k ? s.took : null))])
    if (view) c.plot.setScale('x', { min: from, max: to })
    if (!shown) {
      note.textContent = 'The steps are shown to keys with the right “admin”.'
      return
    }
    const total = part.reduce((n, s) => n + s.took, 0), failed = part.filter(s => s.failed).length
    note.textContent = part.length
      ? `${number(part.length)} steps in ${number(to - from)} s: ${number(total / part.length)} ms on average, ${number(100 * total / 1000 / Math.max(to - from, 1e-6))} % of the time` + (failed ? `, ${failed} failed` : '') + '.'
      : 'No step in this part.'
    worst.replaceChildren(...part.toSorted((a, b) => b.took - a.took).slice(0, 10).map(s => h('tr', {},
      h('td.n', {}, String(s.step)), h('td', {}, s.kind + (s.failed ? ', failed' : '')),
      [number(s.took) + ' ms', number(s.wait) + ' ms', number(s.took - s.wait) + ' ms', number(s.sequences), number(s.prefill), number(s.decode), number(s.waiting), number(s.blocks)].map(v => h('td.n', {}, v)))))
  }

  return {
    draw,
    begin(fields, may) {
      at = Object.fromEntries(fields.map((name, i) => [name, i]))
      shown = may
      all = []
    },
    add(steps) {
      for (const s of steps) {
        const us = name => s[at[name]] ?? 0
        all.push({
          step: s[at.step], time: s[at.time], kind: String(s[at.kind]), failed: s[at.failed] > 0, wait: us('wait_us') / 1000, took: (us('plan_us') + us('draw_us') + us('wait_us') + us('book_us')) / 1000,
          sequences: us('sequences'), prefill: us('prefill_tokens'), decode: us('decode_tokens'), waiting: us('waiting'), blocks: us('kv_blocks_used'),
        })
      }
      if (all.length > most) all = all.slice(-most)
    },
  }
}
