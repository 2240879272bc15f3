// Requests to the server: the key, errors, and streams of server-sent events.

// The page is at the root of the server or below a prefix, so all paths are relative to the page.
export const base = new URL('.', document.baseURI)

export const address = path => new URL(path.replace(/^\//, ''), base).href

const slot = 'weir-key' // of the session storage, which ends with the tab and which no other origin can read

export const key = {
  get: () => sessionStorage.getItem(slot) ?? '',
  set: value => { value ? sessionStorage.setItem(slot, value) : sessionStorage.removeItem(slot) },
}

// asking asks the user for a key; app.js sets it. There is one question at a time.
let asking = null
let question = null
export const askForKey = f => { asking = f }

// Failure is an error that the server answered with, or that kept an answer from coming (status 0).
export class Failure extends Error {
  constructor(status, message, id = '') {
    super(message)
    this.status = status
    this.id = id
  }
}

// messageOf finds the message of an error in each of the forms that the interfaces have.
function messageOf(text, status) {
  try {
    const e = JSON.parse(text)
    const m = e.error?.message ?? e.error ?? e.reason ?? e.message ?? e.detail
    if (typeof m === 'string') return m
    if (Array.isArray(m)) return m.map(d => [d.loc?.slice(1).join('.'), d.msg].filter(Boolean).join(': ')).join('; ')
  } catch { /* it is no JSON */ }
  return text.slice(0, 300) || `The server answered with status ${status}.`
}

// request asks the server and returns its response, which has status 2xx. body is sent as JSON unless
// it is a string. Without a valid key the user is asked for one, and the request is sent again.
export async function request(path, { method, body, headers, signal, quiet = false } = {}) {
  for (;;) {
    const sent = key.get()
    const all = { ...headers }
    if (sent) all.Authorization = 'Bearer ' + sent
    if (body !== undefined) all['Content-Type'] ??= 'application/json'
    let r
    try {
      r = await fetch(address(path), {
        method: method ?? (body === undefined ? 'GET' : 'POST'), headers: all, signal,
        body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
      })
    } catch (e) {
      if (signal?.aborted) throw e
      throw new Failure(0, 'The server cannot be reached.')
    }
    if (r.ok) return r
    const text = await r.text().catch(() => '')
    if (r.status === 401 && !quiet && asking) {
      question ??= asking(sent !== '').finally(() => { question = null })
      if (await question) continue
    }
    throw new Failure(r.status, messageOf(text, r.status), r.headers.get('x-request-id') ?? '')
  }
}

// json asks the server and returns the JSON of its answer.
export async function json(path, options) { return (await request(path, options)).json() }

// lines yields the lines of a response as they come.
export async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) break
      const parts = (rest + value).split('\n')
      rest = parts.pop()
      for (const line of parts) yield line.endsWith('\r') ? line.slice(0, -1) : line
    }
    if (rest) yield rest
  } finally {
    reader.cancel().catch(() => {})
  }
}

// events asks the server and yields the server-sent events of its answer as { event, data, id }, data
// being text. It ends when the answer ends; an answer that breaks off is a Failure with status 0.
export async function* events(path, options) {
  const r = await request(path, { ...options, headers: { Accept: 'text/event-stream', ...options?.headers } })
  let event = '', data = [], id = ''
  try {
    for await (const line of lines(r)) {
      if (line === '') {
        if (data.length) yield { event: event || 'message', data: data.join('\n'), id }
        event = ''
        data = []
        continue
      }
      const at = line.indexOf(':')
      if (at === 0) continue // a comment, which keeps the connection open
      const name = at < 0 ? line : line.slice(0, at)
      const value = at < 0 ? '' : line.slice(at + 1).replace(/^ /, '')
      if (name === 'data') data.push(value)
      else if (name === 'event') event = value
      else if (name === 'id') id = value
    }
  } catch (e) {
    if (e instanceof Failure || options?.signal?.aborted) throw e
    throw new Failure(0, 'The connection to the server broke off.')
  }
}
