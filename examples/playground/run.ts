// The playground, built and served on this machine. Run: npm run playground [-- --port 8080]
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { preview } from 'vite';
import { buildPlayground } from './build.js';

const { values } = parseArgs({ options: { port: { type: 'string', default: '0' } } });
await buildPlayground();
const server = await preview({
  root: import.meta.dirname,
  configFile: false,
  logLevel: 'warn',
  preview: { host: '127.0.0.1', port: Number(values.port), strictPort: true },
});
const { port } = server.httpServer.address() as AddressInfo;
console.log(`http://127.0.0.1:${String(port)}/ (ctrl-c ends it)`);
const stop = (): void => {
  void server.close().then(() => process.exit());
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
