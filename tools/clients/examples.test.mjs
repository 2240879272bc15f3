// The examples in Python and JavaScript against a running weir. `make clients` runs it;
// the examples in Go and with curl are run by `go test ./examples`. The environment
// variable WEIR is the path of the binary, PYTHON that of a Python with the packages of
// examples/python/requirements.txt.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'

import { serve } from './serve.mjs'

const apiKey = 'secret'
const examples = new URL('../../examples/', import.meta.url).pathname
const python = process.env.PYTHON ?? 'python3'

// What each example has to print: proof that it has done what it says.
const wanted = {
  chat: ['weir-tiny', 'Paris'],
  feedback: ['chatcmpl-', '👍', ':thumbs_up:'],
  trajectories: ['train/reward', 'Paris.'],
}

let folder
let weir

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-examples-'))
  weir = await serve('--api-key', apiKey, '--data-dir', folder)
})
after(async () => {
  await weir?.stop()
  if (folder) await rm(folder, { recursive: true })
})

for (const [name, texts] of Object.entries(wanted)) {
  for (const [command, file] of [[python, `python/${name}.py`], [process.execPath, `javascript/${name}.mjs`]]) {
    test(file, async () => {
      const env = { ...process.env, WEIR_URL: weir.url, WEIR_API_KEY: apiKey, PYTHONIOENCODING: 'utf-8' }
      const { stdout } = await promisify(execFile)(command, [join(examples, file)], { env, timeout: 60_000 })
      for (const text of texts) assert.ok(stdout.includes(text), `${text} is not in what it printed:\n${stdout}`)
    })
  }
}
