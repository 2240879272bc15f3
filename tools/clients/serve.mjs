// A weir that is started for a test.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'

// serve starts a weir with the bundled model on a free port and waits until it is ready.
// The result has the server's address and a function that stops it, which fails unless it
// ends with status 0.
export async function serve(...flags) {
  const args = ['serve', '--port', '0', '--kv-cache-memory', '256MiB', ...flags]
  const child = spawn(process.env.WEIR ?? '../../weir', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  let log = ''
  const url = await new Promise((resolve, reject) => {
    child.once('error', reject)
    ended.then(() => reject(new Error(`weir ended:\n${log}`)))
    child.stderr.on('data', (data) => {
      log += data
      if (log.includes('msg=ready')) resolve(/url=(\S+)/.exec(log)[1])
    })
  })
  const stop = async () => {
    child.kill('SIGTERM')
    assert.equal(await ended, 0, log)
  }
  return { url, stop }
}
