import { h } from '../dom.js'

export const title = 'Chat'

export function mount(root) {
  root.append(h('h1', {}, title))
}
