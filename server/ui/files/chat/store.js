// Conversations, kept in this browser (IndexedDB). A conversation is a tree of messages: editing and
// regenerating add branches, and leaf says which one is shown.

let opened
function database() {
  opened ??= new Promise((resolve, reject) => {
    const r = indexedDB.open('weir', 1)
    r.onupgradeneeded = () => r.result.createObjectStore('conversations', { keyPath: 'id' })
    r.onsuccess = () => resolve(r.result)
    r.onerror = () => reject(r.error)
  })
  return opened
}

async function run(mode, f) {
  const t = (await database()).transaction('conversations', mode)
  const r = f(t.objectStore('conversations'))
  return new Promise((resolve, reject) => {
    t.oncomplete = () => resolve(r.result)
    t.onerror = t.onabort = () => reject(t.error)
  })
}

export const all = async () => (await run('readonly', s => s.getAll())).sort((a, b) => b.changed - a.changed)
export const put = c => run('readwrite', s => s.put({ ...c, changed: Date.now() }))
export const remove = id => run('readwrite', s => s.delete(id))

export const newID = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), b => b.toString(16).padStart(2, '0')).join('')

export const fresh = settings => ({ id: newID(), title: 'New conversation', changed: Date.now(), settings: structuredClone(settings), nodes: {}, leaf: '', roots: [] })

// add puts a message below another one ('' for the beginning) and makes it the last one shown.
export function add(c, parent, node) {
  const n = { id: newID(), parent, children: [], ...node }
  c.nodes[n.id] = n
  siblings(c, n).push(n.id)
  c.leaf = n.id
  return n
}

// siblings are the branches that begin where a message begins, itself included.
export const siblings = (c, n) => n.parent ? c.nodes[n.parent].children : c.roots

// path returns the messages from the beginning to a message.
export function path(c, id = c.leaf) {
  const list = []
  for (let n = c.nodes[id]; n; n = c.nodes[n.parent]) list.push(n)
  return list.reverse()
}

// deepest returns the last message of the branch that was added last below a message.
export function deepest(c, id) {
  for (;;) {
    const next = c.nodes[id]?.children.at(-1)
    if (!next) return id
    id = next
  }
}

// read takes conversations from a text that export wrote. What it holds is data of somebody else: only the
// members that are known are taken, with their types.
export function read(text) {
  const list = JSON.parse(text)
  const string = x => typeof x === 'string' ? x : ''
  return (Array.isArray(list) ? list : list.conversations ?? [list]).map(raw => {
    const c = { id: newID(), title: string(raw.title) || 'Imported', changed: Date.now(), settings: raw.settings && typeof raw.settings === 'object' ? raw.settings : {}, nodes: {}, leaf: '', roots: [] }
    const nodes = raw.nodes && typeof raw.nodes === 'object' ? raw.nodes : {}
    for (const [id, n] of Object.entries(nodes)) {
      if (!n || typeof n !== 'object' || !['user', 'assistant', 'tool'].includes(n.role)) continue
      c.nodes[id] = { ...n, id, parent: string(n.parent), content: string(n.content), reasoning: string(n.reasoning), children: [], calls: Array.isArray(n.calls) ? n.calls : undefined }
    }
    for (const n of Object.values(c.nodes)) {
      if (!c.nodes[n.parent]) n.parent = ''
    }
    for (const n of Object.values(c.nodes)) siblings(c, n).push(n.id)
    c.leaf = c.nodes[raw.leaf] ? raw.leaf : deepest(c, c.roots.at(-1) ?? '')
    return c
  }).filter(c => c.roots.length)
}
