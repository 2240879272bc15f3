// OpenAI's Python SDK with /v1/files and /v1/batches of a running weir (batches.py). `make clients`
// runs it. The environment variable WEIR is the path of the binary, SDK_PYTHON that of a Python with
// the packages of requirements.txt.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

import { serve } from './serve.mjs'

test('openai-python with batches', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-batches-'))
  const weir = await serve('--api-key', 'secret', '--data-dir', folder)
  try {
    const script = new URL('batches.py', import.meta.url).pathname
    const env = { ...process.env, WEIR_URL: weir.url, WEIR_API_KEY: 'secret', PYTHONIOENCODING: 'utf-8' }
    const { stdout } = await promisify(execFile)(process.env.SDK_PYTHON ?? 'python3', [script], { env, timeout: 120_000 })
    for (const part of ['files', 'completed', 'failed', 'cancelled']) assert.ok(stdout.includes(`${part} ok`), stdout)
  } finally {
    await weir.stop()
    await rm(folder, { recursive: true })
  }
})
