// Loops of tools with Python's packages against a running weir, in the files of the folder loops; see loops.test.mjs. The environment
// variable WEIR is the path of the binary, SDK_PYTHON that of a Python with the packages of requirements.txt.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'

import { force } from './forcing.mjs'
import { serve } from './serve.mjs'

const apiKey = 'secret'
const folderOfLoops = new URL('loops/', import.meta.url).pathname

// What each file has to do, one word a line of what it prints.
const parts = {
  'openai_sdk.py': ['chat_plain', 'chat_stream', 'chat_parse', 'responses_plain', 'responses_stream', 'responses_parse', 'runner'],
  'openai_agents.py': ['responses', 'responses_continued', 'chat', 'sessions', 'output_types', 'handoffs'],
  'anthropic_sdk.py': ['by_hand', 'by_hand_streamed', 'runner', 'runner_without_thread', 'runner_streamed', 'runner_with_other_tools', 'runner_async', 'parsed', 'counted'],
  'langchain_agents.py': ['plain', 'streamed', 'structured'],
  'pydantic_agents.py': ['plain', 'streamed', 'outputs'],
  'ollama_client.py': ['plain', 'streamed', 'asynchronous', 'structured'],
}

let folder, weir, forcing, scripted

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-loops-'))
  weir = await serve('--api-key', apiKey, '--data-dir', folder)
  forcing = await force(weir.url)
  scripted = await serve('--api-key', apiKey, '--device', 'sim', '--sim-script', join(folderOfLoops, 'weather.json'))
})
after(async () => {
  await forcing?.stop()
  await scripted?.stop()
  await weir?.stop()
  if (folder) await rm(folder, { recursive: true })
})

for (const [file, words] of Object.entries(parts)) {
  test(file, async () => {
    const env = { ...process.env, WEIR_URL: file === 'ollama_client.py' ? scripted.url : forcing.url, WEIR_API_KEY: apiKey, PYTHONIOENCODING: 'utf-8' }
    const { stdout } = await promisify(execFile)(process.env.SDK_PYTHON ?? 'python3', [join(folderOfLoops, file)], { env, timeout: 300_000 })
    assert.deepEqual(stdout.trim().split('\n'), words.map((word) => `${word} ok`))
  })
}
