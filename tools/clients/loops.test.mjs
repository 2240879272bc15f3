// Loops of tools with JavaScript's packages against a running weir: the model calls a tool, the package runs it, the result
// goes back, and the last answer has it. `make clients` runs it; loops-python.test.mjs has those of Python. The environment variable
// WEIR is the path of the binary.

import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import { betaZodOutputFormat, betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod'
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod'
import { ChatAnthropic } from '@langchain/anthropic'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents'
import { generateText, isStepCount, Output, streamText, tool as aiTool } from 'ai'
import { createAgent, providerStrategy, tool as langchainTool, toolStrategy } from 'langchain'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { ResponsesToolRunner, runnerFunction } from 'openai/helpers/responses-tool-runner'
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'

import { force } from './forcing.mjs'
import { serve } from './serve.mjs'

const apiKey = 'secret'
const model = 'weir-tiny'
const question = 'What is the weather in Oslo?'
const messages = [{ role: 'user', content: question }]
const description = 'Tell the weather in a city.'
const city = z.object({ city: z.enum(['Oslo']) })
const person = z.object({ tall: z.boolean(), fast: z.boolean() })

let folder, weir, forcing, scripted
let asked = [] // the cities that the tool was called with

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-loops-'))
  weir = await serve('--api-key', apiKey, '--data-dir', folder)
  forcing = await force(weir.url)
  // What no proxy can demand of a model, a simulated one does.
  scripted = await serve('--api-key', apiKey, '--device', 'sim', '--sim-script', new URL('loops/weather.json', import.meta.url).pathname)
})
after(async () => {
  await forcing?.stop()
  await scripted?.stop()
  await weir?.stop()
  if (folder) await rm(folder, { recursive: true })
})

function weather({ city }) {
  asked.push(city)
  return '{"sky": "rainy", "celsius": 7}'
}

// check checks that there was one call, and that the answer has its result.
function check(text) {
  const cities = asked
  asked = []
  assert.deepEqual(cities, ['Oslo'])
  assert.match(text, /rainy/)
}

const openai = () => new OpenAI({ baseURL: `${forcing.url}/v1`, apiKey, maxRetries: 0 })
const anthropic = () => new Anthropic({ baseURL: forcing.url, apiKey, maxRetries: 0 })

test('openai-node', async (t) => {
  const client = openai()
  const chat = { model, temperature: 0 }

  await t.test('runTools', async () => {
    const tools = [zodFunction({ name: 'get_weather', description, parameters: city, function: weather })]
    const plain = client.chat.completions.runTools({ ...chat, messages, tools })
    check(await plain.finalContent())
    assert.equal(plain.messages.length, 4)
    const streamed = client.chat.completions.runTools({ ...chat, messages, tools, stream: true })
    let text = ''
    streamed.on('content', (delta) => (text += delta))
    check(await streamed.finalContent())
    assert.equal(text, await streamed.finalContent())
  })

  await t.test('chat completions, streamed and parsed', async () => {
    const tools = [zodFunction({ name: 'get_weather', description, parameters: city })]
    const stream = client.chat.completions.stream({ ...chat, messages, tools })
    let pieces = ''
    stream.on('tool_calls.function.arguments.delta', (e) => (pieces += e.arguments_delta))
    const one = (await stream.finalChatCompletion()).choices[0].message
    const call = one.tool_calls[0]
    assert.equal(call.function.arguments, pieces)
    assert.deepEqual(call.function.parsed_arguments, { city: 'Oslo' })
    const more = [...messages, one, { role: 'tool', tool_call_id: call.id, content: weather(call.function.parsed_arguments) }]
    check((await client.chat.completions.parse({ ...chat, messages: more, tools })).choices[0].message.content)
    const who = await client.chat.completions.parse({ ...chat, messages, response_format: zodResponseFormat(person, 'person') })
    assert.equal(typeof who.choices[0].message.parsed.tall, 'boolean')
  })

  await t.test('responses, streamed, parsed and continued', async () => {
    const tools = [zodResponsesFunction({ name: 'get_weather', description, parameters: city })]
    const one = await client.responses.stream({ ...chat, input: question, tools }).finalResponse()
    const call = one.output.at(-1)
    assert.deepEqual(call.parsed_arguments, { city: 'Oslo' })
    const input = [{ type: 'function_call_output', call_id: call.call_id, output: weather(call.parsed_arguments) }]
    const two = await client.responses.parse({ ...chat, input, previous_response_id: one.id, tools })
    check(two.output_text)
    const who = await client.responses.parse({ ...chat, input: 'Who?', text: { format: zodTextFormat(person, 'person') } })
    assert.equal(typeof who.output_parsed.fast, 'boolean')
  })

  await t.test('the tool runner of responses', async () => {
    const functions = [runnerFunction(zodResponsesFunction({ name: 'get_weather', description, parameters: city, function: weather }))]
    for (const stream of [false, true]) {
      const final = await new ResponsesToolRunner({ functions }).run(client, { ...chat, input: question }, { stream, eager: stream })
      check(final.output_text)
    }
  })
})

test("Anthropic's SDK", async (t) => {
  const client = anthropic()
  const chat = { model, max_tokens: 200 }
  const tools = [betaZodTool({ name: 'get_weather', description, inputSchema: city, run: weather })]

  await t.test('by hand', async () => {
    const declared = [{ name: 'get_weather', description, input_schema: z.toJSONSchema(city) }]
    const one = await client.messages.stream({ ...chat, messages, tools: declared }).finalMessage()
    assert.equal(one.stop_reason, 'tool_use')
    const { id, input } = one.content.at(-1)
    const more = [...messages, { role: 'assistant', content: one.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: weather(input) }] }]
    const two = await client.messages.create({ ...chat, messages: more, tools: declared })
    assert.equal(two.stop_reason, 'end_turn')
    check(two.content[0].text)
  })

  await t.test('the tool runner, with a thread and without', async () => {
    for (const options of [{}, { thread: false }]) {
      const final = await client.beta.messages.toolRunner({ ...chat, messages, tools, ...options }).runUntilDone()
      check(final.content.at(-1).text)
    }
  })

  await t.test('the tool runner, streamed', async () => {
    let final
    for await (const stream of client.beta.messages.toolRunner({ ...chat, messages, tools, stream: true })) final = await stream.finalMessage()
    check(final.content.at(-1).text)
  })

  await t.test('parsed answers', async () => {
    const one = await client.messages.parse({ ...chat, messages, output_config: { format: zodOutputFormat(person) } })
    assert.equal(typeof one.parsed_output.tall, 'boolean')
    const two = await client.beta.messages.parse({ ...chat, messages, output_config: { format: betaZodOutputFormat(person) } })
    assert.equal(typeof two.parsed_output.fast, 'boolean')
  })
})

test('Vercel AI SDK', async (t) => {
  const where = { baseURL: `${forcing.url}/v1`, apiKey }
  const models = {
    'openai, responses': createOpenAI(where)(model),
    'openai, chat': createOpenAI(where).chat(model),
    'openai-compatible': createOpenAICompatible({ name: 'weir', includeUsage: true, supportsStructuredOutputs: true, ...where })(model),
    anthropic: createAnthropic(where)(model),
  }
  const tools = { get_weather: aiTool({ description, inputSchema: city, execute: weather }) }
  for (const [name, kind] of Object.entries(models)) {
    await t.test(name, async () => {
      const options = { model: kind, maxRetries: 0, ...(name === 'anthropic' ? {} : { temperature: 0 }) }
      const whole = await generateText({ ...options, prompt: question, tools, stopWhen: isStepCount(5) })
      assert.deepEqual(whole.steps.map((s) => s.finishReason), ['tool-calls', 'stop'])
      assert.ok(whole.steps.every((s) => s.usage.inputTokens > 0 && s.usage.outputTokens > 0))
      check(whole.text)

      let streamed, failed
      const stream = streamText({ ...options, prompt: question, tools, stopWhen: isStepCount(5), onError: ({ error }) => (failed = error) })
      const kinds = new Set()
      streamed = ''
      for await (const part of stream.fullStream) {
        kinds.add(part.type)
        if (part.type === 'text-delta') streamed += part.text
      }
      assert.ifError(failed)
      for (const kind of ['tool-input-start', 'tool-input-delta', 'tool-input-end', 'tool-call', 'tool-result']) assert.ok(kinds.has(kind), kind)
      check(streamed)

      const typed = await generateText({ ...options, prompt: 'Who?', output: Output.object({ schema: person }) })
      assert.equal(typeof typed.output.tall, 'boolean')
    })
  }
})

test('LangChain', async (t) => {
  const greedy = { model, apiKey, temperature: 0, maxTokens: 200, maxRetries: 0 }
  const configuration = { baseURL: `${forcing.url}/v1` }
  const models = {
    chat: new ChatOpenAI({ ...greedy, configuration }),
    responses: new ChatOpenAI({ ...greedy, configuration, useResponsesApi: true }),
    messages: new ChatAnthropic({ ...greedy, temperature: undefined, anthropicApiUrl: forcing.url }),
  }
  const tools = [langchainTool(weather, { name: 'get_weather', description, schema: city })]
  for (const [name, kind] of Object.entries(models)) {
    await t.test(name, async () => {
      const agent = createAgent({ model: kind, tools })
      const result = await agent.invoke({ messages })
      assert.deepEqual(result.messages.map((m) => m.type), ['human', 'ai', 'tool', 'ai'])
      check(result.messages.at(-1).text)

      let text = ''
      const guided = createAgent({ model: kind, tools, systemPrompt: 'Use the tools when they help.' })
      for await (const [piece] of await guided.stream({ messages }, { streamMode: 'messages' })) if (piece.type === 'ai') text += piece.text
      check(text)

      for (const strategy of [toolStrategy, providerStrategy]) {
        const { structuredResponse } = await createAgent({ model: kind, tools: [], responseFormat: strategy(person) }).invoke({ messages })
        assert.equal(typeof structuredResponse.tall, 'boolean')
      }
    })
  }
})

test('OpenAI Agents SDK', async (t) => {
  setTracingDisabled(true)
  const tools = [agentTool({ name: 'get_weather', description, parameters: city, execute: weather })]
  for (const kind of [OpenAIResponsesModel, OpenAIChatCompletionsModel]) {
    await t.test(kind.name, async () => {
      const options = { name: 'guide', instructions: 'Use the tools when they help.', model: new kind(openai(), model), modelSettings: { temperature: 0, maxTokens: 200 } }
      check((await run(new Agent({ ...options, tools }), question)).finalOutput)
      const streamed = await run(new Agent({ ...options, tools }), question, { stream: true })
      for await (const _ of streamed);
      await streamed.completed
      check(streamed.finalOutput)
      const typed = await run(new Agent({ ...options, outputType: person }), 'Who?')
      assert.equal(typeof typed.finalOutput.fast, 'boolean')
    })
  }
})

test("Ollama's client", async (t) => {
  const client = new Ollama({ host: scripted.url, headers: { Authorization: `Bearer ${apiKey}` } })
  const tools = [{ type: 'function', function: { name: 'get_weather', description, parameters: z.toJSONSchema(city) } }]
  const results = (calls) => calls.map((call) => ({ role: 'tool', tool_name: call.function.name, content: weather(call.function.arguments) }))

  await t.test('plain', async () => {
    const { message } = await client.chat({ model, messages, tools, think: false })
    const more = [...messages, message, ...results(message.tool_calls)]
    check((await client.chat({ model, messages: more, tools, think: false })).message.content)
  })

  await t.test('streamed', async () => {
    const more = [...messages]
    for await (const { message } of await client.chat({ model, messages, tools, stream: true })) if (message.tool_calls) more.push(message, ...results(message.tool_calls))
    let text = ''
    for await (const part of await client.chat({ model, messages: more, tools, stream: true })) text += part.message.content
    check(text)
  })
})

test('loops in which the model calls by itself', async (t) => {
  const where = { baseURL: `${scripted.url}/v1`, apiKey }

  await t.test('runTools', async () => {
    const tools = [zodFunction({ name: 'get_weather', description, parameters: city, function: weather })]
    check(await new OpenAI(where).chat.completions.runTools({ model, messages, tools, stream: true }).finalContent())
  })

  await t.test('the tool runner of messages', async () => {
    const tools = [betaZodTool({ name: 'get_weather', description, inputSchema: city, run: weather })]
    const client = new Anthropic({ baseURL: scripted.url, apiKey })
    check((await client.beta.messages.toolRunner({ model, max_tokens: 200, messages, tools }).runUntilDone()).content.at(-1).text)
  })

  await t.test('the Vercel AI SDK over responses', async () => {
    const tools = { get_weather: aiTool({ description, inputSchema: city, execute: weather }) }
    check((await generateText({ model: createOpenAI(where)(model), prompt: question, tools, stopWhen: isStepCount(3) })).text)
  })
})
