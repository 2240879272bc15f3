import { h } from '../dom.js'

export const title = 'Bench'

export function mount(root) {
  root.append(h('h1', {}, title), h('p', {}, 'This version of weir has nothing to show here.'))
}
