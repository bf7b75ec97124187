// Sends one message with the TypeScript SDK, as it is set up by the environment, and prints the text of the response.

import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({ maxRetries: 0 });
const message = await client.messages.create({
  model: 'claude-opus-5-5',
  max_tokens: 10,
  messages: [{ role: 'user', content: 'hi' }],
});
console.log(JSON.stringify(message.content[0].text));
