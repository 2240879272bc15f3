// Elements without HTML in strings, and small things that every view needs.

// h makes an element: h('a.quiet', { href: '#/' }, 'text', child). Properties that begin with "on" are
// listeners, "class" adds classes, "data" sets data attributes, and true and false set and leave out an
// attribute. Children that are null or false are left out, arrays are flattened, and all else is text.
export function h(name, props, ...children) {
  const [tag, ...classes] = name.split('.')
  const e = document.createElement(tag)
  if (classes.length) e.className = classes.join(' ')
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value)
    else if (key === 'class') e.classList.add(...value.split(' ').filter(Boolean))
    else if (key === 'data') Object.assign(e.dataset, value)
    else if (key === 'value') e.value = value
    else if (key === 'checked' || key === 'selected' || key === 'disabled' || key === 'open') e[key] = value
    else e.setAttribute(key, value === true ? '' : value)
  }
  e.append(...children.flat(Infinity).filter(c => c != null && c !== false))
  return e
}

// say shows a message for some seconds, which screen readers read aloud.
export function say(text, kind = '') {
  const box = document.getElementById('messages')
  const m = h('div.message', { class: kind }, text)
  box.append(m)
  while (box.children.length > 4) box.firstChild.remove()
  setTimeout(() => m.remove(), kind === 'bad' ? 12000 : 4000)
}

// dialog shows a modal dialog. fill gets a function that closes it, and returns the content; the value
// that it is closed with is the promise's, undefined if it was dismissed.
export function dialog(title, fill, { wide = false } = {}) {
  return new Promise(resolve => {
    const id = 'd' + Math.random().toString(36).slice(2)
    const d = h('dialog', { 'aria-labelledby': id, class: wide ? 'wide' : '' })
    let result
    const close = value => { result = value; d.close() }
    d.append(
      h('div.row.head', {}, h('h2', { id }, title), h('span.grow'), h('button.quiet', { type: 'button', onclick: () => close(), 'aria-label': 'Close' }, '✕')),
      fill(close),
    )
    d.addEventListener('close', () => { d.remove(); resolve(result) })
    d.addEventListener('click', e => { if (e.target === d) close() })
    document.body.append(d)
    d.showModal()
  })
}

// ask asks for a text in a dialog.
export function ask(title, label, value = '', { type = 'text', hint = '', multiline = false } = {}) {
  return dialog(title, close => {
    const input = multiline ? h('textarea', { rows: 5, value }) : h('input', { type, value, autocomplete: 'off' })
    return h('form.stack', { onsubmit: e => { e.preventDefault(); close(input.value) } },
      h('label.stack', {}, label, input), hint && h('p.hint', {}, hint),
      h('div.row.end', {}, h('button', { type: 'button', onclick: () => close() }, 'Cancel'), h('button.main', {}, 'OK')))
  })
}

// confirmed asks before something that cannot be undone.
export function confirmed(title, text, action) {
  return dialog(title, close => h('div.stack', {}, h('p', {}, text),
    h('div.row.end', {}, h('button', { type: 'button', onclick: () => close(false) }, 'Cancel'), h('button.danger', { type: 'button', onclick: () => close(true) }, action))))
}

// copy puts a text on the clipboard. Pages that are not served over TLS or from this machine may not use
// the clipboard directly, so there it goes by way of a selection.
export async function copy(text, what = 'Copied.') {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = h('textarea', { class: 'offscreen', value: text })
    document.body.append(area)
    area.select()
    const ok = document.execCommand('copy')
    area.remove()
    if (!ok) { say('The browser does not allow copying.', 'bad'); return }
  }
  say(what)
}

// save downloads a blob or a text as a file.
export function save(name, content, type = 'application/json') {
  const blob = content instanceof Blob ? content : new Blob([content], { type })
  const a = h('a', { href: URL.createObjectURL(blob), download: name.replace(/[^\w.+-]+/g, '_') || 'download' })
  a.click()
  setTimeout(() => URL.revokeObjectURL(a.href), 60000)
}

// pick lets the user choose a file and returns its text; null if none was chosen.
export function pick(accept = '.json') {
  return new Promise(resolve => {
    const input = h('input', { type: 'file', accept })
    const done = value => { input.remove(); resolve(value) }
    input.hidden = true
    input.addEventListener('change', async () => done(input.files[0] ? { name: input.files[0].name, text: await input.files[0].text() } : null))
    input.addEventListener('cancel', () => done(null))
    document.body.append(input)
    input.click()
  })
}

// frames calls f at most once per frame, however often the returned function is called.
export function frames(f) {
  let waiting = 0
  const run = () => { waiting = 0; f() }
  const later = () => { waiting ||= requestAnimationFrame(run) }
  later.now = () => { if (waiting) { cancelAnimationFrame(waiting); run() } }
  return later
}

// number writes a number with few digits.
export function number(x, digits = 3) {
  if (x == null || !Number.isFinite(x)) return '–'
  return Number.isInteger(x) ? x.toLocaleString('en') : Number(x.toPrecision(digits)).toLocaleString('en', { maximumSignificantDigits: digits })
}

// when writes a time as people of this browser do.
export function when(t) {
  const d = new Date(t)
  return Number.isNaN(d.getTime()) ? String(t ?? '') : d.toLocaleString()
}
