// Logs a group of rollouts with rewards, then reads their metrics and exports them. It
// needs no package.
const url = (process.env.WEIR_URL ?? 'http://127.0.0.1:8000') + '/v1/preview/models/capitals'
const key = process.env.WEIR_API_KEY ?? 'none'

async function call(path, body) {
  const response = await fetch(url + path, {
    method: body ? 'POST' : 'GET',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
    body: body && JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return response.text()
}

// rollout is a conversation that somebody has judged.
const rollout = (answer, reward) => ({
  messages_and_choices: [
    { role: 'user', content: 'What is the capital of France?' },
    { role: 'assistant', content: answer },
  ],
  reward,
})

const group = { trajectories: [rollout('Paris.', 1), rollout('I think it is Lyon.', 0)], metadata: { question: 'france' } }
console.log('logged:', await call('/log', { split: 'train', step: 1, trajectory_groups: [group] }))
console.log('metrics:', await call('/metrics?split=train'))
console.log('the good ones, a line each:')
process.stdout.write(await call('/export?format=jsonl&split=train&min_reward=0.5'))
