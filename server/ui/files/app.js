// The router, the key and the color scheme.
import { h, dialog, say } from './dom.js'
import { key, askForKey } from './api.js'

const names = ['start', 'chat', 'feedback', 'trajectories', 'live', 'bench']
const main = document.getElementById('view')
let leaving = new AbortController()
let shown = ''

// parse takes "#/chat/rest?a=b" apart.
function parse() {
  const [at, query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const [name, ...rest] = at.split('/')
  return { name: names.includes(name) ? name : 'start', rest: rest.map(safeDecode), query: new URLSearchParams(query) }
}

function safeDecode(text) {
  try { return decodeURIComponent(text) } catch { return text }
}

// show shows the view of the address.
async function show() {
  if (location.hash === '#view') return // the link that skips the navigation
  const { name, rest, query } = parse()
  leaving.abort()
  leaving = new AbortController()
  const { signal } = leaving
  for (const a of document.querySelectorAll('#nav a')) {
    a.getAttribute('href') === '#/' + name ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current')
  }
  const root = h('div.view', { id: 'view-' + name })
  try {
    const view = await import(`./views/${name}.js`)
    if (signal.aborted) return
    document.title = view.title + ' – weir'
    main.replaceChildren(root)
    if (shown && shown !== name) main.focus({ preventScroll: true })
    shown = name
    await view.mount(root, { rest, query, signal })
  } catch (e) {
    if (signal.aborted) return
    main.replaceChildren(h('div.view', {}, h('h1', {}, 'This view could not be shown'), h('p.bad', {}, e.message),
      h('button', { type: 'button', onclick: show }, 'Try again')))
  }
}

// The key.

const keyButton = document.getElementById('key')
function showKey() { keyButton.textContent = key.get() ? 'Key: set' : 'Key' }

function enterKey(refused) {
  return dialog('Key of the server', close => {
    const input = h('input', { type: 'password', autocomplete: 'off', value: key.get() })
    return h('form.stack', { onsubmit: e => { e.preventDefault(); close(input.value.trim()) } },
      refused === undefined ? null : h('p', { class: refused ? 'bad' : '' }, refused ? 'The server refused this key.' : 'The server asks for a key.'),
      h('label.stack', {}, 'Key', input),
      h('p.hint', {}, 'It is kept in this tab only, until it is closed, and is sent to this server only.'),
      h('div.row.end', {}, key.get() && h('button', { type: 'button', onclick: () => close('') }, 'Forget the key'), h('button.main', {}, 'Use')))
  }).then(value => {
    if (value !== undefined) key.set(value)
    showKey()
    return value
  })
}

askForKey(async refused => Boolean(await enterKey(refused)))
keyButton.addEventListener('click', async () => {
  if (await enterKey() !== undefined) show()
})
showKey()

// The color scheme: that of the system, or one that was chosen. It is remembered, the key is not.

const schemes = ['system', 'light', 'dark']
const schemeButton = document.getElementById('scheme')
function setScheme(name) {
  if (!schemes.includes(name)) name = 'system'
  name === 'system' ? document.documentElement.removeAttribute('data-scheme') : document.documentElement.setAttribute('data-scheme', name)
  schemeButton.textContent = 'Colors: ' + name
  localStorage.setItem('weir-scheme', name)
  dispatchEvent(new Event('scheme')) // charts are drawn anew
}
schemeButton.addEventListener('click', () => setScheme(schemes[(schemes.indexOf(localStorage.getItem('weir-scheme')) + 1) % 3]))
setScheme(localStorage.getItem('weir-scheme') ?? 'system')

addEventListener('unhandledrejection', e => {
  if (e.reason?.name !== 'AbortError') say(e.reason?.message ?? String(e.reason), 'bad')
  e.preventDefault()
})
addEventListener('hashchange', show)
show()
