// What the server is, and what to try.
import { h, copy } from '../dom.js'
import { json, base, key } from '../api.js'

export const title = 'Start'

const quote = text => "'" + text.replaceAll("'", `'\\''`) + "'"

// snippets are programs that ask this server, with the key that was entered if there is one.
export function snippets(model, secret) {
  const url = base.href + 'v1'
  const token = secret || 'none'
  const text = JSON.stringify
  return {
    curl: `curl -N ${quote(url + '/chat/completions')} \\\n  -H 'Content-Type: application/json' \\\n${secret ? `  -H ${quote('Authorization: Bearer ' + secret)} \\\n` : ''}  -d ${quote(text({ model, messages: [{ role: 'user', content: 'What is weir?' }], stream: true }))}`,
    Python: `from openai import OpenAI\n\nclient = OpenAI(base_url=${text(url)}, api_key=${text(token)})\nfor chunk in client.chat.completions.create(model=${text(model)}, stream=True,\n        messages=[{"role": "user", "content": "What is weir?"}]):\n    print(chunk.choices[0].delta.content or "", end="", flush=True)`,
    JavaScript: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${text(url)}, apiKey: ${text(token)} });\nconst stream = await client.chat.completions.create({\n  model: ${text(model)}, stream: true, messages: [{ role: "user", content: "What is weir?" }],\n});\nfor await (const chunk of stream) process.stdout.write(chunk.choices[0].delta.content ?? "");`,
    Go: `package main\n\nimport (\n\t"context"\n\t"fmt"\n\n\t"github.com/openai/openai-go/v3"\n\t"github.com/openai/openai-go/v3/option"\n)\n\nfunc main() {\n\tclient := openai.NewClient(option.WithBaseURL(${text(url)}), option.WithAPIKey(${text(token)}))\n\tstream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{\n\t\tModel:    ${text(model)},\n\t\tMessages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is weir?")},\n\t})\n\tfor stream.Next() {\n\t\tif c := stream.Current().Choices; len(c) > 0 {\n\t\t\tfmt.Print(c[0].Delta.Content)\n\t\t}\n\t}\n}`,
  }
}

// tabs shows texts under buttons, one at a time.
export function tabs(label, texts) {
  const pre = h('pre', { tabindex: 0, 'aria-label': label })
  const buttons = Object.keys(texts).map(name => h('button', { type: 'button', onclick: () => choose(name) }, name))
  let shown
  const choose = name => {
    shown = name
    pre.textContent = texts[name]
    for (const b of buttons) b.setAttribute('aria-pressed', b.textContent === name)
  }
  choose(Object.keys(texts)[0])
  return h('div', {}, h('div.row', { role: 'group', 'aria-label': label }, buttons, h('span.grow'), h('button', { type: 'button', onclick: () => copy(texts[shown]) }, 'Copy')), pre)
}

export async function mount(root, { signal }) {
  root.append(h('h1', {}, 'This is a weir server'),
    h('p', {}, 'It serves language models to many streams at once, with the interfaces of OpenAI, Anthropic and Ollama. All that this page does goes through them, so a program of yours can do the same.'))
  const facts = h('div.card', {}, h('h2', {}, 'Model'), h('p.quiet-text', {}, 'Loading…'))
  const code = h('div.card', {}, h('h2', {}, 'From a program'))
  root.append(h('div.cards', {},
    h('div.card', {}, h('h2', {}, 'Try'), h('ul', {},
      h('li', {}, h('a', { href: '#/chat' }, 'Chat'), ' with the model: tools, schemas, log-probabilities, several answers side by side.'),
      h('li', {}, h('a', { href: '#/feedback' }, 'Feedback'), ' on answers, as a table with filters and an export.'),
      h('li', {}, h('a', { href: '#/trajectories' }, 'Trajectories'), ' for reinforcement learning: rewards by policy version, groups, rollouts.'),
      h('li', {}, h('a', { href: '#/live' }, 'Live'), ': what the server does now.'),
      h('li', {}, h('a', { href: '#/bench' }, 'Bench'), ': how fast it is.'))),
    facts), code,
  h('div.card', {}, h('h2', {}, 'The interface'), h('p', {}, h('a', { href: 'docs' }, 'Every function as a page'), ', from ', h('a', { href: 'openapi.json' }, 'openapi.json'), '. ',
    h('a', { href: 'metrics' }, 'Metrics'), ' are for Prometheus.'), h('p', {}, 'The base URL for SDKs is ', h('code', {}, base.href + 'v1'), '.')))
  const models = json('v1/models', { signal })
  const version = await json('version', { signal }).catch(() => ({}))
  let list
  try {
    list = (await models).data ?? []
  } catch (e) {
    if (signal.aborted) return
    facts.replaceChildren(h('h2', {}, 'Model'), h('p.bad', { role: 'alert' }, e.message), h('button', { type: 'button', onclick: () => dispatchEvent(new Event('hashchange')) }, 'Try again'))
    return
  }
  facts.replaceChildren(h('h2', {}, list.length > 1 ? 'Models' : 'Model'), ...list.map(m => h('dl', {},
    h('dt', {}, 'Name'), h('dd', {}, h('code', {}, m.id)),
    m.max_model_len && [h('dt', {}, 'Context'), h('dd', {}, m.max_model_len.toLocaleString('en') + ' tokens')],
    m.root && m.root !== m.id && [h('dt', {}, 'Files'), h('dd', {}, String(m.root))])),
  h('p.quiet-text', {}, 'weir ' + (version.version ?? '')))
  code.append(tabs('Program', snippets(list[0]?.id ?? 'model', key.get())))
}
