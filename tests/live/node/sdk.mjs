// One conversation of the TypeScript SDK with a base URL: `node sdk.mjs BASE_URL API_KEY SCENARIO`.
// Says on standard output, as one JSON document, what the SDK gave to its caller.

import Anthropic from '@anthropic-ai/sdk';

const [baseURL, apiKey, scenario] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });

const question = {
  model: 'claude-opus-5-5',
  max_tokens: 1024,
  messages: [{ role: 'user', content: 'What is the fare to “Châtelet”? 🚕' }],
};
const tools = [
  {
    name: 'get_fare',
    description: 'The fare to a place.',
    input_schema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  },
];

const create = (params, options) => client.messages.create(params, options);
const stream = (params, options) => client.messages.stream(params, options).finalMessage();

async function callTool(ask) {
  const asked = await ask({ ...question, tools });
  const results = asked.content
    .filter((block) => block.type === 'tool_use')
    .map((block) => ({ type: 'tool_result', tool_use_id: block.id, content: `12 € to ${block.input.to}` }));
  const messages = [
    ...question.messages,
    { role: 'assistant', content: asked.content },
    { role: 'user', content: results },
  ];
  return [asked, await ask({ ...question, tools, messages })];
}

async function leaveAtFirstText() {
  const texts = [];
  for await (const event of client.messages.stream(question)) {
    if (event.delta?.type !== 'text_delta') continue;
    texts.push(event.delta.text);
    break;
  }
  return texts;
}

// Stands still until the test closes standard input, which it does when the upstream is in the middle.
async function abortWhenTold() {
  const running = client.messages.stream(question);
  process.stdin.on('end', () => running.abort()).resume();
  return running.finalMessage();
}

const scenarios = {
  create: () => create(question),
  createLarge: () => create({ ...question, messages: [{ role: 'user', content: 'x'.repeat(20_000_000) }] }),
  stream: () => stream(question),
  streamTexts: async () => {
    const texts = [];
    const running = client.messages.stream(question).on('text', (text) => texts.push(text));
    const message = await running.finalMessage();
    return { texts, message };
  },
  toolsCreated: () => callTool(create),
  toolsStreamed: () => callTool(stream),
  countTokens: () => client.messages.countTokens({ model: question.model, messages: question.messages }),
  beta: () => client.beta.messages.create({ ...question, betas: ['context-management-2025-06-27'] }, { query: { beta: 'true' } }),
  retry: () => create(question, { maxRetries: 2 }),
  retryStream: () => stream(question, { maxRetries: 2 }),
  leaveAtFirstText,
  abortWhenTold,
};

function describe(error) {
  return {
    class: error.constructor.name,
    status: error.status,
    type: error.type,
    requestID: error.requestID,
    retryAfter: error.headers?.get?.('retry-after'),
  };
}

let report;
try {
  report = { result: await scenarios[scenario]() };
} catch (error) {
  report = { error: describe(error) };
}
process.stdout.write(JSON.stringify(report));
