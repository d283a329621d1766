// A chat in the browser with an agent on this machine. Run: npm run chat [-- --port 8080]
import { parseArgs } from 'node:util';
import { hasChatModel, realModel, scriptedModel } from './models.js';
import { startChatServer } from './server.js';

const { values } = parseArgs({ options: { port: { type: 'string', default: '0' } } });
const model = hasChatModel ? await realModel() : scriptedModel;
const server = await startChatServer({ model, port: Number(values.port) });
console.log(`${server.url} (answers come from ${model.name}; ctrl-c ends it)`);
if (!hasChatModel) console.log('For a real model: npm ci --prefix examples/model-server/chat');

const stop = async (): Promise<void> => {
  await server.close();
  await model.close();
  process.exit();
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stop());
