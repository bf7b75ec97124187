// Conversations of the TypeScript SDK, one after the other. A line of standard input, as JSON, names the
// scenario of the next, with `baseURL` and `apiKey`; a line of standard output says, as JSON too, what the SDK
// gave to its caller.

import { createInterface } from 'node:readline';

import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';

let client;
let abort;
let question;

const tools = [
  {
    name: 'get_fare',
    description: 'The fare to a place.',
    input_schema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  },
];

const create = (params) => client.messages.create(params);
const stream = (params) => client.messages.stream(params).finalMessage();

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

// Sends message threads, and runs the tool.
function runTools() {
  const [{ name, description, input_schema }] = tools;
  const run = ({ to }) => `12 € to ${to}`;
  const tool = betaTool({ name, description, inputSchema: input_schema, run });
  return client.beta.messages.toolRunner({ ...question, tools: [tool] }).runUntilDone();
}

// Stands still until the test says so, which it does when the upstream is in the middle.
async function abortWhenTold() {
  const running = client.messages.stream(question);
  abort = () => running.abort();
  return running.finalMessage();
}

const scenarios = {
  create: () => create(question),
  createLarge: () => create({ ...question, messages: [{ role: 'user', content: 'x'.repeat(20_000_000) }] }),
  stream: () => stream(question),
  toolRunner: runTools,
  toolsCreated: () => callTool(create),
  toolsStreamed: () => callTool(stream),
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

async function play({ baseURL, apiKey, scenario }) {
  client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
  // No other conversation begins with these words.
  const content = `What is the fare to “Châtelet”, for ${baseURL}? 🚕`;
  question = { model: 'claude-opus-5-5', max_tokens: 1024, messages: [{ role: 'user', content }] };
  let report;
  try {
    report = { result: await scenarios[scenario]() };
  } catch (error) {
    report = { error: describe(error) };
  }
  console.log(JSON.stringify(report));
}

createInterface({ input: process.stdin }).on('line', (line) => (line === 'abort' ? abort() : play(JSON.parse(line))));
