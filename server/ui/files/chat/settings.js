// The settings of a conversation: models, system prompt, sampling, schema, tools.
import { h } from '../dom.js'
import { numbers } from './run.js'
import { project, standard } from '../project.js'

// panel fills root with the settings s, and calls changed after each change.
export function panel(root, s, models, changed) {
  const set = (name, value) => { s[name] = value; changed() }
  const chosen = () => s.models?.filter(m => models.some(x => x.id === m)) ?? []
  if (!chosen().length && models.length) s.models = [models[0].id]

  const model = h('fieldset', {}, h('legend', {}, models.length > 1 ? 'Models, side by side' : 'Model'), models.map(m => h('label.row', {},
    h('input', { type: 'checkbox', checked: s.models.includes(m.id), disabled: models.length === 1, onchange: e => {
      set('models', models.map(x => x.id).filter(id => id === m.id ? e.target.checked : s.models.includes(id)))
      if (!s.models.length) { e.target.checked = true; set('models', [m.id]) }
    } }), h('code', {}, m.id))))

  const system = h('fieldset', {}, h('legend', {}, 'System prompt'),
    h('textarea', { rows: 3, 'aria-label': 'System prompt', value: s.system ?? '', oninput: e => set('system', e.target.value), placeholder: 'What the model is told before the conversation' }))

  const sampling = h('fieldset', {}, h('legend', {}, 'Sampling'), numbers.map(([name, label, meaning, min, max, step]) => {
    const id = 'set-' + name
    return h('div.setting', {}, h('label', { for: id }, label),
      h('input', { id, type: 'number', min, max, step: 'any', inputmode: step < 1 ? 'decimal' : 'numeric', value: s[name] ?? '', placeholder: 'default', 'aria-describedby': id + '-is', oninput: e => set(name, e.target.value) }),
      h('p.hint', { id: id + '-is' }, meaning))
  }),
  h('label.stack', {}, 'Stop before', h('textarea', { rows: 2, value: s.stop ?? '', oninput: e => set('stop', e.target.value) })), h('p.hint', {}, 'The answer ends before any of these texts, one per line.'),
  h('label.row', {}, h('input', { type: 'checkbox', checked: Boolean(s.logprobs), onchange: e => set('logprobs', e.target.checked) }), 'Log-probabilities'),
  h('p.hint', {}, 'Colors each token by its probability, shows what else was probable, and lets you go on from there.'))

  const wrong = h('p.bad', { role: 'alert' })
  const check = text => {
    try { if (text.trim()) JSON.parse(text); return '' } catch (e) { return 'This is no JSON: ' + e.message }
  }
  const schema = h('details.part', { open: Boolean(s.schema) }, h('summary', {}, 'JSON schema'),
    h('p.hint', {}, 'The answer obeys this schema, and is shown as a tree.'),
    h('textarea.mono', { rows: 7, 'aria-label': 'JSON schema', spellcheck: 'false', value: s.schema ?? '', oninput: e => { wrong.textContent = check(e.target.value); set('schema', e.target.value) } }), wrong,
    h('button', { type: 'button', onclick: e => {
      const area = e.target.parentElement.querySelector('textarea')
      area.value = JSON.stringify({ type: 'object', properties: { title: { type: 'string', maxLength: 60 }, points: { type: 'array', items: { type: 'string', maxLength: 60 }, maxItems: 3 }, certain: { type: 'boolean' } }, required: ['title', 'points', 'certain'] }, null, 2)
      area.dispatchEvent(new Event('input'))
    } }, 'Use an example'))

  const list = h('div.stack', {})
  const drawTools = () => {
    s.tools ??= []
    list.replaceChildren(...s.tools.map((t, i) => {
      const bad = h('p.bad', { role: 'alert' })
      const field = (name, label, rows) => h('label.stack', {}, label, h(rows ? 'textarea.mono' : 'input', { rows, value: t[name] ?? '', spellcheck: 'false', oninput: e => {
        t[name] = e.target.value
        if (name === 'parameters') bad.textContent = check(e.target.value)
        changed()
      } }))
      return h('div.card.stack', {}, field('name', 'Name'), field('description', 'What it does'), field('parameters', 'Parameters, as a JSON schema', 4), bad,
        field('result', 'What it answers (a text; {name} is replaced by the argument of that name)', 2),
        h('button', { type: 'button', onclick: () => { s.tools.splice(i, 1); changed(); drawTools() } }, 'Remove ' + (t.name || 'this tool')))
    }))
  }
  drawTools()
  const addTool = t => { s.tools.push(t); changed(); drawTools() }
  const tools = h('details.part', { open: Boolean(s.tools?.length) }, h('summary', {}, 'Tools'),
    h('p.hint', {}, 'The model may call these. Nothing is run: a call is answered with the text that you give here, which you may change first.'), list,
    h('div.row', {}, h('button', { type: 'button', onclick: () => addTool({ name: '', description: '', parameters: '{\n  "type": "object",\n  "properties": {}\n}', result: '' }) }, 'Add a tool'),
      h('button', { type: 'button', onclick: () => addTool({ name: 'weather', description: 'The weather in a city', parameters: '{\n  "type": "object",\n  "properties": {"city": {"type": "string"}},\n  "required": ["city"]\n}', result: 'It is 21 degrees and sunny in {city}.' }) }, 'Add an example')),
    h('label.row', {}, h('input', { type: 'checkbox', checked: Boolean(s.answers), onchange: e => set('answers', e.target.checked) }), 'Answer calls at once'))

  const where = h('details.part', {}, h('summary', {}, 'Project'), h('label.stack', {}, 'Project of feedback, team/project',
    h('input', { value: project.chosen(), placeholder: standard, oninput: e => project.set(e.target.value.trim()) })),
  h('p.hint', {}, 'Ratings of answers are stored there. If you set one, requests are counted for it too.'))

  root.replaceChildren(model, system, sampling, schema, tools, where)
}
