// Anthropic's SDK and Ollama's client against a running weir: whole answers, streams, calls of tools in
// a loop over a kept thread, a thread that is lost, counts and errors. The environment variable
// WEIR is the path of the binary.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'

import { serve } from './serve.mjs'

const model = 'weir-tiny'
const messages = [{ role: 'user', content: 'What is weir?' }]
const answer = /inference server/

let weir
before(async () => {
  weir = await serve('--api-key', 'secret')
})
after(() => weir?.stop())

const anthropic = (options) => new Anthropic({ baseURL: weir.url, apiKey: 'secret', maxRetries: 0, ...options })
const ollama = () => new Ollama({ host: weir.url, headers: { Authorization: 'Bearer secret' } })

test('messages: whole, streamed and counted', async () => {
  const whole = await anthropic().messages.create({ model, max_tokens: 100, messages })
  assert.match(whole.content[0].text, answer)
  assert.equal(whole.stop_reason, 'end_turn')
  assert.ok(whole._request_id)
  const stream = anthropic().messages.stream({ model, max_tokens: 100, thinking: { type: 'adaptive' }, messages })
  const kinds = new Set()
  stream.on('contentBlock', (block) => kinds.add(block.type))
  const final = await stream.finalMessage()
  assert.deepEqual([...kinds], ['thinking', 'text'])
  assert.ok(final.content[0].signature)
  assert.ok(final.usage.output_tokens > 10)
  const { input_tokens } = await anthropic().messages.countTokens({ model, messages })
  assert.equal(input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)
})

test('messages: a runner calls tools over a thread, and the second turn uses the first', async () => {
  const seen = []
  const fetched = []
  const client = anthropic({
    fetch: (url, init) => {
      fetched.push(JSON.parse(init.body))
      return fetch(url, init)
    },
  })
  const add = {
    type: 'custom',
    name: 'add',
    description: 'Add two numbers.',
    input_schema: { type: 'object', properties: { a: { enum: [2] }, b: { enum: [3] } }, required: ['a', 'b'], additionalProperties: false },
    parse: (input) => input,
    run: ({ a, b }) => {
      seen.push([a, b])
      return String(a + b)
    },
  }
  const runner = client.beta.messages.toolRunner({ model, max_tokens: 200, tools: [add], tool_choice: { type: 'any' }, max_iterations: 2, messages: [{ role: 'user', content: 'What is 2 + 3?' }] })
  const turns = []
  for await (const message of runner) turns.push(message)
  assert.equal(turns.length, 2)
  assert.ok(turns.every((turn) => turn.stop_reason === 'tool_use'))
  assert.deepEqual(seen[0], [2, 3])
  assert.equal(fetched[0].thread.type, 'create')
  assert.equal(fetched[1].thread.previous_message_id, turns[0].id)
  assert.equal(fetched[1].tools, undefined)
  assert.ok(turns[1].usage.cache_read_input_tokens > 0)
})

test('messages: errors', async () => {
  await assert.rejects(anthropic().messages.create({ model: 'none', max_tokens: 1, messages }), (err) => err instanceof Anthropic.NotFoundError && err.error.error.type === 'not_found_error')
  await assert.rejects(anthropic({ apiKey: 'no' }).messages.create({ model, max_tokens: 1, messages }), Anthropic.AuthenticationError)
  await assert.rejects(
    anthropic().beta.messages.create({ model, max_tokens: 1, messages, thread: { type: 'continue', previous_message_id: 'msg_lost' } }),
    (err) => err.status === 404 && err.error.error.details.error_code === 'thread_not_found',
  )
})

test("Ollama's client", async () => {
  const client = ollama()
  assert.equal((await client.list()).models[0].name, 'weir-tiny:latest')
  assert.ok((await client.show({ model })).capabilities.includes('completion'))
  const whole = await client.chat({ model, messages, think: false })
  assert.match(whole.message.content, answer)
  let text = ''
  let last
  for await (const part of await client.chat({ model: 'weir-tiny:latest', messages, stream: true, options: { num_ctx: 2048, temperature: 0 } })) {
    text += part.message.content
    last = part
  }
  assert.match(text, answer)
  assert.ok(last.done && last.eval_count > 0 && last.total_duration > 0)
  assert.match((await client.generate({ model, prompt: 'What is weir?' })).response, answer)
  const { message } = await client.chat({ model, messages, format: { type: 'object', properties: { a: { enum: [1] } }, required: ['a'], additionalProperties: false } })
  assert.deepEqual(JSON.parse(message.content), { a: 1 })
  await assert.rejects(client.chat({ model: 'none', messages }), (err) => err.status_code === 404)
})
