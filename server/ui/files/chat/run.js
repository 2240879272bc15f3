// The request of a conversation, and its answer as it comes.
import { events, base, key } from '../api.js'
import { path } from './store.js'

// numbers are the fields of a request that the settings have, with what each means.
export const numbers = [
  ['temperature', 'Temperature', '0 always takes the most probable token; 1 draws as the model says; more is more surprising.', 0, 2, 0.1],
  ['top_p', 'Top-p', 'Draw only among the most probable tokens that together have this probability.', 0.01, 1, 0.01],
  ['top_k', 'Top-k', 'Draw only among this many most probable tokens; 0 or -1: all.', -1, 100000, 1],
  ['min_p', 'Min-p', 'Leave out tokens less probable than this part of the most probable one.', 0, 1, 0.01],
  ['presence_penalty', 'Presence penalty', 'Above 0, tokens that the answer has already become less probable.', -2, 2, 0.1],
  ['frequency_penalty', 'Frequency penalty', 'The same, more with each time that the token was used.', -2, 2, 0.1],
  ['repetition_penalty', 'Repetition penalty', 'Above 1, tokens of prompt and answer become less probable; 1 has no effect.', 0.1, 2, 0.05],
  ['max_tokens', 'Most tokens', 'The answer ends after this many tokens; empty: when the context is full.', 1, 1000000, 1],
  ['seed', 'Seed', 'With the same seed the same request gets the same answer.', 0, 9007199254740991, 1],
  ['n', 'Answers', 'How many answers are drawn and shown side by side, from each model.', 1, 8, 1],
]

// messages are those that the model is given.
export function messages(c, leaf, upTo) {
  const list = []
  if (c.settings.system) list.push({ role: 'system', content: c.settings.system })
  for (const n of path(c, leaf)) {
    if (n.role === 'tool') list.push({ role: 'tool', tool_call_id: n.call, content: n.content })
    else if (n.calls?.length) list.push({ role: 'assistant', content: n.content || null, tool_calls: n.calls.map(t => ({ id: t.id, type: 'function', function: { name: t.name, arguments: t.arguments } })) })
    else list.push({ role: n.role, content: n.content })
  }
  if (upTo !== undefined) list.push({ role: 'assistant', content: upTo })
  return list
}

// bodyOf is the body of a request. begun is the text that the answer begins with, if there is one.
export function bodyOf(c, leaf, model, begun) {
  const s = c.settings
  const body = { model, messages: messages(c, leaf, begun), stream: true, stream_options: { include_usage: true } }
  for (const [name] of numbers) {
    if (s[name] !== undefined && s[name] !== '' && !(name === 'n' && Number(s.n) === 1)) body[name] = Number(s[name])
  }
  if (begun !== undefined) Object.assign(body, { continue_final_message: true, add_generation_prompt: false, n: undefined })
  if (s.stop) body.stop = s.stop.split('\n').filter(Boolean)
  if (s.logprobs) Object.assign(body, { logprobs: true, top_logprobs: 5 })
  if (s.schema?.trim()) body.response_format = { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: JSON.parse(s.schema) } }
  const tools = (s.tools ?? []).filter(t => t.name)
  if (tools.length && !s.schema?.trim()) body.tools = tools.map(t => ({ type: 'function', function: { name: t.name, description: t.description || undefined, parameters: t.parameters?.trim() ? JSON.parse(t.parameters) : { type: 'object', properties: {} } } }))
  return body
}

// answer asks for an answer and calls on(index, part) for what comes: { text }, { thought }, { calls },
// { logprobs }, { end }, and { id, usage } of the answer as a whole with the index -1.
export async function answer(body, { signal, project, on }) {
  const headers = project ? { 'OpenAI-Project': project } : {}
  let done = false
  for await (const e of events('v1/chat/completions', { body, signal, headers })) {
    if (e.data === '[DONE]') { done = true; break }
    const chunk = JSON.parse(e.data)
    if (chunk.error) throw new Error(chunk.error.message ?? 'The server ended the answer with an error.')
    if (chunk.id) on(-1, { id: chunk.id })
    if (chunk.usage) on(-1, { usage: chunk.usage })
    for (const choice of chunk.choices ?? []) {
      const d = choice.delta ?? {}
      const thought = d.reasoning ?? d.reasoning_content
      if (thought) on(choice.index, { thought })
      if (d.content) on(choice.index, { text: d.content })
      if (d.tool_calls) on(choice.index, { calls: d.tool_calls })
      if (choice.logprobs?.content) on(choice.index, { logprobs: choice.logprobs.content.map(t => [t.token, t.logprob, (t.top_logprobs ?? []).map(o => [o.token, o.logprob])]) })
      if (choice.finish_reason) on(choice.index, { end: choice.finish_reason })
    }
  }
  if (!done) throw new Error('The connection to the server broke off.')
}

// join adds the deltas of calls to the calls that are known.
export function join(calls, deltas) {
  for (const d of deltas) {
    const c = calls[d.index ?? calls.length] ??= { id: '', name: '', arguments: '' }
    if (d.id) c.id = d.id
    if (d.function?.name) c.name = d.function.name
    if (d.function?.arguments) c.arguments += d.function.arguments
  }
  return calls
}

const shell = text => "'" + text.replaceAll("'", `'\\''`) + "'"
const indent = (text, by) => text.split('\n').join('\n' + by)

// python writes a JSON value as Python does.
function python(v, by = '') {
  if (v === null) return 'None'
  if (v === true) return 'True'
  if (v === false) return 'False'
  const more = by + '    '
  if (Array.isArray(v)) return v.length ? '[\n' + v.map(x => more + python(x, more)).join(',\n') + ',\n' + by + ']' : '[]'
  if (typeof v === 'object') return '{\n' + Object.entries(v).filter(([, x]) => x !== undefined).map(([k, x]) => more + JSON.stringify(k) + ': ' + python(x, more)).join(',\n') + ',\n' + by + '}'
  return JSON.stringify(v)
}

// programs are programs that send a request.
export function programs(body) {
  const url = base.href + 'v1', secret = key.get()
  const text = JSON.stringify(body, null, 2)
  const known = new Set(['model', 'messages', 'stream', 'stream_options', 'temperature', 'top_p', 'presence_penalty', 'frequency_penalty', 'max_tokens', 'seed', 'n', 'stop', 'logprobs', 'top_logprobs', 'response_format', 'tools'])
  const own = Object.fromEntries(Object.entries(body).filter(([k, v]) => !known.has(k) && v !== undefined))
  const args = Object.entries(body).filter(([k, v]) => known.has(k) && v !== undefined).map(([k, v]) => `    ${k}=${indent(python(v), '    ')},\n`).join('')
  return {
    curl: `curl -N ${shell(url + '/chat/completions')} \\\n  -H 'Content-Type: application/json' \\\n${secret ? `  -H ${shell('Authorization: Bearer ' + secret)} \\\n` : ''}  -d ${shell(text)}`,
    Python: `from openai import OpenAI\n\nclient = OpenAI(base_url=${JSON.stringify(url)}, api_key=${JSON.stringify(secret || 'none')})\nstream = client.chat.completions.create(\n${args}${Object.keys(own).length ? `    extra_body=${indent(python(own), '    ')},\n` : ''})\nfor chunk in stream:\n    if chunk.choices:\n        print(chunk.choices[0].delta.content or "", end="", flush=True)`,
    JavaScript: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${JSON.stringify(url)}, apiKey: ${JSON.stringify(secret || 'none')} });\nconst stream = await client.chat.completions.create(${text});\nfor await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");`,
    Go: `package main\n\nimport (\n\t"io"\n\t"net/http"\n\t"os"\n\t"strings"\n)\n\nfunc main() {\n\tconst body = ${text.includes('`') ? JSON.stringify(JSON.stringify(body)) : '`' + text + '`'}\n\treq, err := http.NewRequest("POST", ${JSON.stringify(url + '/chat/completions')}, strings.NewReader(body))\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\treq.Header.Set("Content-Type", "application/json")\n${secret ? `\treq.Header.Set("Authorization", ${JSON.stringify('Bearer ' + secret)})\n` : ''}\tresp, err := http.DefaultClient.Do(req)\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tdefer resp.Body.Close()\n\t_, _ = io.Copy(os.Stdout, resp.Body)\n}`,
  }
}
