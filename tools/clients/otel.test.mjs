// Exporters of OpenTelemetry for JavaScript, which send JSON and protobuf, and the spans of the
// Vercel AI SDK in both forms that it has, against a running weir that answers the model's part as well. `make clients`
// runs it.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { context, trace } from '@opentelemetry/api'
import { generateText } from 'ai'
import { LegacyOpenTelemetry, OpenTelemetry } from '@ai-sdk/otel'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OTLPTraceExporter as JSONExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'

import { serve } from './serve.mjs'

const apiKey = 'secret'
let weir, dir

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'weir-otel-'))
  weir = await serve('--api-key', apiKey, '--data-dir', dir)
})
after(async () => {
  await weir?.stop()
  await rm(dir, { recursive: true, force: true })
})

// calls asks the server for calls.
async function calls(query) {
  const answer = await fetch(`${weir.url}/calls/stream_query`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: 'Basic ' + Buffer.from('api:' + apiKey).toString('base64') },
    body: JSON.stringify(query),
  })
  assert.equal(answer.status, 200)
  return (await answer.text()).split('\n').filter(Boolean).map((line) => JSON.parse(line))
}

for (const [name, Exporter, compression] of [['JSON', JSONExporter, 'none'], ['JSON, compressed', JSONExporter, 'gzip'], ['protobuf', ProtobufExporter, 'gzip']]) {
  test(`the Vercel AI SDK, exported as ${name}`, async () => {
    const project = `acme/${name.replace(/\W+/g, '-')}`
    const exporter = new Exporter({ url: `${weir.url}/otel/v1/traces`, headers: { 'wandb-api-key': apiKey, project_id: project }, compression })
    const provider = new NodeTracerProvider({ resource: resourceFromAttributes({ 'service.name': 'test' }), spanProcessors: [new BatchSpanProcessor(exporter)] })
    trace.disable()
    context.disable()
    provider.register() // so that spans know their parents
    const tracer = provider.getTracer('ai')
    const model = createOpenAICompatible({ name: 'weir', baseURL: `${weir.url}/v1`, apiKey, includeUsage: true })('weir-tiny')
    const { text } = await generateText({ model, prompt: 'What is the capital of France?', temperature: 0, maxOutputTokens: 16, telemetry: { integrations: [new LegacyOpenTelemetry({ tracer })] } })
    await generateText({ model, prompt: 'What is the capital of France?', temperature: 0, maxOutputTokens: 16, telemetry: { integrations: [new OpenTelemetry({ tracer })] } })
    const failing = tracer.startSpan('fails', { attributes: { 'input.value': 'x' } })
    failing.recordException(new TypeError('it broke'))
    failing.setStatus({ code: 2 })
    failing.end()
    await provider.shutdown()

    const [failed] = await calls({ project_id: project, filter: { trace_ids: [failing.spanContext().traceId] } })
    assert.equal(failed.exception, 'TypeError: it broke')
    assert.deepEqual(failed.inputs, { 'input.value': 'x' })

    const found = await calls({ project_id: project })
    const outer = found.find((c) => c.op_name === 'ai.generateText')
    const inner = found.find((c) => c.op_name === 'ai.generateText.doGenerate')
    assert.equal(inner.parent_id, outer.id)
    assert.equal(inner.trace_id, outer.trace_id)
    assert.ok(JSON.stringify(outer.inputs['ai.prompt']).includes('capital of France'), JSON.stringify(outer.inputs))
    assert.equal(outer.output['ai.response'].text, text)
    assert.equal(inner.attributes.model, 'weir-tiny')
    const usage = inner.summary.usage['weir-tiny']
    assert.ok(usage.total_tokens > 10 && usage.total_tokens === (usage.prompt_tokens ?? usage.input_tokens) + (usage.completion_tokens ?? usage.output_tokens), JSON.stringify(usage))

    // The same in the terms of OpenTelemetry's conventions: an agent, its step, and the chat in it.
    const chat = found.find((c) => c.op_name === 'chat weir-tiny')
    const agent = found.find((c) => c.op_name === 'invoke_agent weir-tiny')
    assert.equal(found.find((c) => c.id === chat.parent_id).parent_id, agent.id)
    assert.equal(chat.output['gen_ai.output.messages'][0].parts[0].content, text)
    assert.equal(chat.attributes.model, 'weir-tiny')
  })
}
