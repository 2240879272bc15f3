// Asks a question, then streams an answer, with OpenAI's own client.
import OpenAI from 'openai'

const client = new OpenAI({
  baseURL: (process.env.WEIR_URL ?? 'http://127.0.0.1:8000') + '/v1',
  apiKey: process.env.WEIR_API_KEY ?? 'none',
})
const model = (await client.models.list()).data[0].id

const answer = await client.chat.completions.create({
  model,
  messages: [{ role: 'user', content: 'What is the capital of France?' }],
  temperature: 0,
  max_tokens: 50,
})
console.log(`${model}: ${answer.choices[0].message.content}\n`)

const stream = await client.chat.completions.create({
  model,
  messages: [{ role: 'user', content: 'Tell me a story about a robot.' }],
  max_tokens: 50,
  stream: true,
  stream_options: { include_usage: true },
})
for await (const chunk of stream) {
  for (const choice of chunk.choices) process.stdout.write(choice.delta.content ?? '')
  if (chunk.usage) console.log(`\n(${chunk.usage.completion_tokens} tokens)`)
}
