import { h } from '../dom.js'
import { chart } from '../chart.js'

export const title = 'Trajectories'

export function mount(root) {
  root.append(h('h1', {}, title))
}
