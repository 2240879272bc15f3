// Clients of /v1/responses against a running weir: openai-node here, and with responses.py
// OpenAI's Python SDK and its Agents SDK. `make clients` runs it. The environment variable WEIR is
// the path of the binary, SDK_PYTHON that of a Python with the packages of requirements.txt.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'

import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'

import { serve } from './serve.mjs'

const apiKey = 'secret'
const short = { model: 'weir-tiny', temperature: 0, max_output_tokens: 200 }

let folder
let weir

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-responses-'))
  weir = await serve('--api-key', apiKey, '--data-dir', folder)
})
after(async () => {
  await weir?.stop()
  if (folder) await rm(folder, { recursive: true })
})

test('openai-python and openai-agents', async () => {
  const script = new URL('responses.py', import.meta.url).pathname
  const env = { ...process.env, WEIR_URL: weir.url, WEIR_API_KEY: apiKey, PYTHONIOENCODING: 'utf-8' }
  const { stdout } = await promisify(execFile)(process.env.SDK_PYTHON ?? 'python3', [script], { env, timeout: 120_000 })
  for (const part of ['plain', 'streamed', 'parsed', 'tools', 'agents']) assert.ok(stdout.includes(`${part} ok`), stdout)
})

test('openai-node', async () => {
  const client = new OpenAI({ baseURL: `${weir.url}/v1`, apiKey, maxRetries: 0 })
  const one = await client.responses.create({ ...short, input: 'What is the capital of France?' })
  assert.match(one.output_text, /Paris/)
  const two = await client.responses.create({ ...short, input: 'Are you sure?', previous_response_id: one.id })
  assert.ok(two.usage.input_tokens > one.usage.total_tokens && two.usage.input_tokens_details.cached_tokens > 0)
  assert.equal((await client.responses.retrieve(two.id)).output_text, two.output_text)

  const stream = client.responses.stream({ ...short, input: 'What is the capital of France?' })
  let text = ''
  stream.on('response.output_text.delta', (e) => (text += e.delta))
  const final = await stream.finalResponse()
  assert.match(text, /Paris/)
  assert.equal(final.output_text, text)

  const format = zodTextFormat(z.object({ tall: z.boolean() }), 'person')
  const parsed = await client.responses.parse({ ...short, input: 'Who?', text: { format } })
  assert.equal(typeof parsed.output_parsed.tall, 'boolean')

  const parameters = { type: 'object', properties: { large: { type: 'boolean' } }, required: ['large'], additionalProperties: false }
  const tools = [{ type: 'function', name: 'city', strict: true, parameters }, { type: 'web_search' }]
  const called = await client.responses.create({ ...short, input: 'Where?', tools, tool_choice: 'required' })
  const call = called.output.at(-1)
  assert.equal(call.name, 'city')
  const input = [{ role: 'user', content: 'Where?' }, ...called.output, { type: 'function_call_output', call_id: call.call_id, output: 'Oslo' }]
  const done = await client.responses.create({ ...short, input, tools, store: false })
  assert.ok(done.output_text)
  assert.equal(done.status, 'completed')
})
