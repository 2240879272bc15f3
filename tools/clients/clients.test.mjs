// JavaScript clients against a running weir: openai-node, the Vercel AI SDK and
// LangChain.js, with streams, errors, retries, aborts and reasoning. `make clients` runs
// it. The environment variable WEIR is the path of the binary.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import OpenAI from 'openai'
import { APICallError, generateText, Output, streamText } from 'ai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'

import { serve } from './serve.mjs'

const apiKey = 'secret'
const model = 'weir-tiny'
const prompt = 'What is the capital of France?'
const messages = [{ role: 'user', content: prompt }]
const thinking = { chat_template_kwargs: { enable_thinking: true } }

// start starts a weir that wants a key.
async function start(...flags) {
  const { url, stop } = await serve('--api-key', apiKey, ...flags)
  return { baseURL: `${url}/v1`, stop }
}

let weir // the bundled model
let full // takes one request at a time, and generates at the pace of a large model

before(async () => {
  weir = await start('--reasoning-field', 'both')
  full = await start('--device', 'sim', '--sim-profile', 'h100-llama-8b', '--max-num-queued', '1', '--shutdown-timeout', '1s')
})
after(async () => {
  await weir?.stop()
  await full?.stop()
})

const openai = (options) => new OpenAI({ baseURL: weir.baseURL, apiKey, maxRetries: 0, ...options })
const provider = (options) => createOpenAICompatible({ name: 'weir', baseURL: weir.baseURL, apiKey, includeUsage: true, ...options })(model)
const langchain = ({ baseURL = weir.baseURL, ...options } = {}) =>
  new ChatOpenAI({ model, apiKey, temperature: 0, maxRetries: 0, configuration: { baseURL }, ...options })

// hold occupies the only place that `full` has, and returns a function that frees it.
async function hold() {
  const controller = new AbortController()
  const stream = await openai({ baseURL: full.baseURL }).chat.completions.create({ ...endless, stream: true }, { signal: controller.signal })
  await stream[Symbol.asyncIterator]().next()
  return () => controller.abort()
}

// soon repeats an attempt that must succeed once weir has noticed that a client left.
async function soon(attempt) {
  const end = Date.now() + 2000
  for (;;) {
    try {
      return await attempt()
    } catch (err) {
      if (Date.now() > end) throw err
    }
  }
}

const brief = { model, messages, max_tokens: 4 }
const endless = { model, messages, max_tokens: 3000, ignore_eos: true }

test('openai-node', async (t) => {
  const client = openai()
  let answer

  await t.test('an answer', async () => {
    const c = await client.chat.completions.create({ model, messages, temperature: 0 })
    answer = c.choices[0].message.content
    assert.match(answer, /Paris/)
    assert.equal(c.choices[0].finish_reason, 'stop')
    assert.equal(c.usage.total_tokens, c.usage.prompt_tokens + c.usage.completion_tokens)
  })

  await t.test('a stream gives the same answer', async () => {
    const stream = await client.chat.completions.create({ model, messages, temperature: 0, stream: true, stream_options: { include_usage: true } })
    let text = ''
    let finish, usage
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      finish = chunk.choices[0]?.finish_reason ?? finish
      usage = chunk.usage ?? usage
    }
    assert.equal(text, answer)
    assert.equal(finish, 'stop')
    assert.ok(usage.completion_tokens > 0)
  })

  await t.test('the stream helper gives the same answer', async () => {
    const final = await client.chat.completions.stream({ model, messages, temperature: 0 }).finalChatCompletion()
    assert.equal(final.choices[0].message.content, answer)
  })

  await t.test('errors have their classes', async () => {
    await assert.rejects(client.chat.completions.create({ ...brief, model: 'other' }), OpenAI.NotFoundError)
    await assert.rejects(client.chat.completions.create({ ...brief, model: 'other', stream: true }), OpenAI.NotFoundError)
    await assert.rejects(client.chat.completions.create({ ...brief, temperature: 3 }), (err) => err instanceof OpenAI.BadRequestError && err.param === 'temperature')
    await assert.rejects(openai({ apiKey: 'wrong' }).chat.completions.create(brief), OpenAI.AuthenticationError)
  })

  await t.test('models are listed', async () => {
    const ids = []
    for await (const m of client.models.list()) ids.push(m.id)
    assert.deepEqual(ids, [model])
  })

  await t.test('reasoning, under both names', async () => {
    const whole = await client.chat.completions.create({ model, messages, temperature: 0, ...thinking })
    const { message } = whole.choices[0]
    assert.ok(message.reasoning)
    assert.equal(message.reasoning_content, message.reasoning)
    assert.match(message.content, /Paris/)
    const got = { reasoning: '', reasoning_content: '', content: '' }
    for await (const chunk of await client.chat.completions.create({ model, messages, temperature: 0, stream: true, ...thinking })) {
      for (const key of Object.keys(got)) got[key] += chunk.choices[0].delta[key] ?? ''
    }
    assert.deepEqual(got, { reasoning: message.reasoning, reasoning_content: message.reasoning, content: message.content })
    const hidden = await client.chat.completions.create({ model, messages, temperature: 0, include_reasoning: false, ...thinking })
    assert.equal(hidden.choices[0].message.reasoning, null)
    assert.equal(hidden.choices[0].message.content, message.content)
  })

  await t.test('JSON mode', async () => {
    // The bundled model does not know when to end a string that has no bound.
    const schema = { type: 'object', properties: { city: { type: 'string', maxLength: 40 } }, required: ['city'], additionalProperties: false }
    const request = { model, messages, temperature: 0, response_format: { type: 'json_schema', json_schema: { name: 'city', schema } } }
    const c = await client.chat.completions.create(request)
    assert.equal(typeof JSON.parse(c.choices[0].message.content).city, 'string')
  })

  await t.test('a client that leaves a stream frees its place', async () => {
    const stream = await openai({ baseURL: full.baseURL }).chat.completions.create({ ...endless, stream: true })
    for await (const _ of stream) break
    await soon(() => openai({ baseURL: full.baseURL }).chat.completions.create(brief))
  })

  await t.test('an aborted request frees its place', async () => {
    const controller = new AbortController()
    const request = openai({ baseURL: full.baseURL }).chat.completions.create(endless, { signal: controller.signal })
    setTimeout(() => controller.abort(), 100)
    await assert.rejects(request, OpenAI.APIUserAbortError)
    await soon(() => openai({ baseURL: full.baseURL }).chat.completions.create(brief))
  })

  await t.test('a refusal by a full server is retried', async () => {
    const release = await hold()
    await assert.rejects(openai({ baseURL: full.baseURL }).chat.completions.create(brief), (err) => err.status === 503 && err.headers.get('retry-after') > 0)
    setTimeout(release, 300)
    const c = await openai({ baseURL: full.baseURL, maxRetries: 2 }).chat.completions.create(brief)
    assert.equal(c.usage.completion_tokens, 4)
  })
})

test('Vercel AI SDK', async (t) => {
  const retryless = { maxRetries: 0, temperature: 0 }
  let answer

  await t.test('an answer', async () => {
    const r = await generateText({ model: provider(), prompt, ...retryless })
    answer = r.text
    assert.match(answer, /Paris/)
    assert.equal(r.finishReason, 'stop')
    assert.ok(r.usage.inputTokens > 0 && r.usage.outputTokens > 0)
  })

  await t.test('a stream gives the same answer', async () => {
    const r = streamText({ model: provider(), prompt, ...retryless })
    let text = ''
    for await (const piece of r.textStream) text += piece
    assert.equal(text, answer)
    assert.equal(await r.finishReason, 'stop')
    assert.ok((await r.usage).outputTokens > 0)
  })

  await t.test('reasoning, once', async () => {
    const options = { prompt, ...retryless, providerOptions: { weir: thinking } }
    const whole = await generateText({ model: provider(), ...options })
    assert.ok(whole.reasoningText)
    assert.match(whole.text, /Paris/)
    const r = streamText({ model: provider(), ...options })
    let reasoning = ''
    for await (const part of r.fullStream) if (part.type === 'reasoning-delta') reasoning += part.text
    assert.equal(reasoning, whole.reasoningText)
    assert.equal(await r.text, whole.text)
  })

  await t.test('errors', async () => {
    const other = createOpenAICompatible({ name: 'weir', baseURL: weir.baseURL, apiKey })('other')
    await assert.rejects(generateText({ model: other, prompt, ...retryless }), (err) => APICallError.isInstance(err) && err.statusCode === 404 && !err.isRetryable)
    let caught
    const r = streamText({ model: other, prompt, ...retryless, onError: ({ error }) => (caught = error) })
    await r.consumeStream()
    assert.equal(caught.statusCode, 404)
  })

  await t.test('JSON mode', async () => {
    const strict = provider({ supportsStructuredOutputs: true })
    const r = await generateText({ model: strict, output: Output.object({ schema: z.object({ city: z.string().max(40) }) }), prompt, ...retryless })
    assert.equal(typeof r.output.city, 'string')
  })

  await t.test('an aborted stream frees its place', async () => {
    const controller = new AbortController()
    const r = streamText({ model: provider({ baseURL: full.baseURL }), prompt, maxOutputTokens: 2000, abortSignal: controller.signal, providerOptions: { weir: { ignore_eos: true } } })
    let aborted = false
    for await (const part of r.fullStream) {
      if (part.type === 'text-delta') controller.abort()
      aborted ||= part.type === 'abort'
    }
    assert.ok(aborted)
    await soon(() => generateText({ model: provider({ baseURL: full.baseURL }), prompt, maxOutputTokens: 4, maxRetries: 0 }))
  })

  await t.test('a refusal by a full server is retried', async () => {
    const release = await hold()
    setTimeout(release, 300)
    const r = await generateText({ model: provider({ baseURL: full.baseURL }), prompt, maxOutputTokens: 4, maxRetries: 2 })
    assert.equal(r.usage.outputTokens, 4)
  })
})

test('LangChain.js', async (t) => {
  let answer

  await t.test('an answer', async () => {
    const r = await langchain().invoke(prompt)
    answer = r.content
    assert.match(answer, /Paris/)
    assert.equal(r.response_metadata.finish_reason, 'stop')
    assert.ok(r.usage_metadata.output_tokens > 0)
  })

  await t.test('a stream gives the same answer', async () => {
    let all
    for await (const chunk of await langchain().stream(prompt)) all = all ? all.concat(chunk) : chunk
    assert.equal(all.content, answer)
    assert.equal(all.response_metadata.finish_reason, 'stop')
    assert.ok(all.usage_metadata.output_tokens > 0)
  })

  await t.test('reasoning, by its older name', async () => {
    const llm = langchain({ modelKwargs: thinking })
    const whole = await llm.invoke(prompt)
    assert.ok(whole.additional_kwargs.reasoning_content)
    let all
    for await (const chunk of await llm.stream(prompt)) all = all ? all.concat(chunk) : chunk
    assert.equal(all.additional_kwargs.reasoning_content, whole.additional_kwargs.reasoning_content)
    assert.equal(all.content, whole.content)
    assert.match(all.content, /Paris/)
  })

  await t.test('errors', async () => {
    await assert.rejects(langchain({ model: 'other' }).invoke(prompt), (err) => err.status === 404)
    await assert.rejects(async () => {
      for await (const _ of await langchain({ model: 'other' }).stream(prompt));
    }, (err) => err.status === 404)
  })

  await t.test('JSON mode', async () => {
    const llm = langchain().withStructuredOutput(z.object({ city: z.string().max(40) }), { method: 'jsonSchema' })
    const r = await llm.invoke(prompt)
    assert.equal(typeof r.city, 'string')
  })

  await t.test('an aborted stream frees its place', async () => {
    const controller = new AbortController()
    const llm = langchain({ baseURL: full.baseURL, maxTokens: 3000, modelKwargs: { ignore_eos: true } })
    await assert.rejects(async () => {
      for await (const _ of await llm.stream(prompt, { signal: controller.signal })) controller.abort()
    }, /abort/i)
    await soon(() => langchain({ baseURL: full.baseURL, maxTokens: 4 }).invoke(prompt))
  })

  await t.test('a refusal by a full server is retried', async () => {
    const release = await hold()
    setTimeout(release, 300)
    const r = await langchain({ baseURL: full.baseURL, maxTokens: 4, maxRetries: 4 }).invoke(prompt)
    assert.equal(r.usage_metadata.output_tokens, 4)
  })
})
