// A proxy between a client and weir that makes the model call a tool where a loop of tools begins.

import http from 'node:http'
import { appendFileSync } from 'node:fs'

// Requests that have one of these texts have the result of a tool in them, or go on from an answer.
const later = ['"tool_call_id"', '"function_call_output"', '"tool_result"', '"previous_message_id"', '"role":"tool"']

// forced is a request's body, in which tool_choice says that a tool has to be called if the request has tools, leaves the
// choice to the model and has no result yet.
function forced(path, text) {
  if (!text.includes('"tools"') || later.some((word) => text.includes(word))) return text
  const body = JSON.parse(text)
  const choice = body.tool_choice?.type ?? body.tool_choice ?? 'auto'
  if (!body.tools?.length || choice !== 'auto') return text
  return JSON.stringify({ ...body, tool_choice: path.includes('/messages') ? { ...body.tool_choice, type: 'any' } : 'required' })
}

// force starts the proxy on a free port. The bundled model is too small to be relied on to see
// when it needs a tool; so the first turn of a loop is told to, on the way, and the code of the loop is
// that of any user of its package. The result has the proxy's address and a function that stops it.
export async function force(url) {
  const server = http.createServer(async (request, response) => {
    const parts = []
    for await (const part of request) parts.push(part)
    const body = Buffer.from(forced(request.url, Buffer.concat(parts).toString()))
    if (process.env.WEIR_REQUESTS) appendFileSync(process.env.WEIR_REQUESTS, `${request.method} ${request.url}\n${JSON.stringify(request.headers)}\n${body}\n`)
    const headers = { ...request.headers, 'content-length': body.length }
    delete headers['transfer-encoding']
    delete headers['content-encoding']
    const onward = http.request(url + request.url, { method: request.method, headers }, (answer) => {
      if (process.env.WEIR_REQUESTS) answer.on('data', (data) => appendFileSync(process.env.WEIR_REQUESTS, `<${answer.statusCode}> ${data}\n`))
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    onward.end(body)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return { url: `http://127.0.0.1:${server.address().port}`, stop }
}
