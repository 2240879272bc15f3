// Charts by uPlot in the colors of the page. The library is loaded with the first chart.
import { h, number } from './dom.js'

let library
async function load() {
  library ??= Promise.all([import('./vendor/uplot/uPlot.esm.js'), styled()]).then(([m]) => m.default)
  return library
}

function styled() {
  const link = h('link', { rel: 'stylesheet', href: new URL('./vendor/uplot/uPlot.min.css', import.meta.url).href })
  return new Promise((resolve, reject) => {
    link.onload = resolve
    link.onerror = () => reject(new Error('The style of charts could not be loaded.'))
    document.head.append(link)
  })
}

const variable = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// chart draws lines into root, which it follows in width:
//
//	const c = await chart(root, { title, x: 'policy version', y: 'reward', series: ['train', 'val'], signal })
//	c.set([[x…], [train…], [val…]])
//
// Options of uPlot may be given in more; points draws points beside the lines. A table of the last values is the
// legend, so that a chart is not told by color alone.
export async function chart(root, { title, x = '', y = '', series, height = 220, time = false, points = true, signal, more = {} }) {
  const uPlot = await load()
  let data = [[], ...series.map(() => [])]
  let plot
  const draw = () => {
    plot?.destroy()
    const grid = variable('--line'), text = variable('--text-2')
    const axis = label => ({ label, stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '12px system-ui', labelFont: '12px system-ui', labelSize: 20 })
    plot = new uPlot({
      width: Math.max(200, root.clientWidth), height, scales: { x: { time } },
      axes: [axis(x), { ...axis(y), size: 56 }],
      series: [{ label: x || 'x' }, ...series.map((label, i) => ({
        label, stroke: variable('--series-' + (i % 6 + 1)), width: 2, points: { show: points, size: 5 }, dash: i >= 6 ? [6, 3] : undefined, spanGaps: true,
        value: (_, v) => number(v, 4),
      }))],
      ...more,
    }, data, root)
    plot.root.setAttribute('role', 'img')
    plot.root.setAttribute('aria-label', title)
  }
  draw()
  const watch = new ResizeObserver(() => { if (root.clientWidth) plot.setSize({ width: Math.max(200, root.clientWidth), height }) })
  watch.observe(root)
  addEventListener('scheme', draw, { signal })
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw, { signal })
  signal?.addEventListener('abort', () => { watch.disconnect(); plot.destroy() })
  return { set(d) { data = d; plot.setData(d) }, get plot() { return plot } }
}
