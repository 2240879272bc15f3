// Asks a question, rates the answer, and reads the rating back. It needs no package.
const url = process.env.WEIR_URL ?? 'http://127.0.0.1:8000'
const key = process.env.WEIR_API_KEY ?? 'none'
const project = 'acme/support'

async function post(path, body, authorization) {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Compat-Project': project, Authorization: authorization },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return response.json()
}

const bearer = `Bearer ${key}`
// Feedback takes a password, as the clients of W&B Weave send it: the user name "api" and the key.
const basic = `Basic ${btoa(`api:${key}`)}`

const messages = [{ role: 'user', content: 'What is the capital of France?' }]
const answer = await post('/v1/chat/completions', { messages, max_tokens: 50 }, bearer)
console.log('the answer is', answer.id)

// The id of an answer is what feedback refers to.
const ref = `weir:///${project}/call/${answer.id}`
const receipt = await post(
  '/feedback/replace',
  {
    project_id: project,
    trace_ref: ref,
    feedback_type: 'wandb.reaction.1',
    payload: { emoji: '👍' },
    feedback_id: 'none', // the record to replace: none
  },
  basic,
)
console.log('feedback', receipt.id, receipt.payload)

const query = { $expr: { $eq: [{ $getField: 'trace_ref' }, { $literal: ref }] } }
const found = await post('/feedback/query', { project_id: project, query }, basic)
console.log(found.total_count, 'found:', found.result)
