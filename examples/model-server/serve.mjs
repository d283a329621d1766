// @ts-check
// Starts the server until it is interrupted. Every flag is an option of `startModelServer`:
//   node examples/model-server/serve.mjs --port 8787 --requestsPerMinute 300 --faults.rate429 0.1 --chat
import { startModelServer } from './index.mjs';

const DEFAULTS = { port: 8787 };

try {
  const server = await startModelServer({ ...DEFAULTS, ...optionsFrom(process.argv.slice(2)) });
  console.log(`listening on ${server.baseUrl}`);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void server.close());
} catch (error) {
  // Options and files of the model are refused with a sentence.
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

/**
 * `--faults.rate429 0.1 --chat` is `{ faults: { rate429: 0.1 }, chat: true }`; `--faults.poisonSha256` may be given again.
 *
 * @param {string[]} args
 */
function optionsFrom(args) {
  const options = /** @type {Record<string, any>} */ ({});
  for (let i = 0; i < args.length; i++) {
    const flag = /^--(?:(chat|faults)\.)?([A-Za-z]\w*)$/.exec(args[i] ?? '');
    if (!flag) throw new TypeError(`expected an option such as \`--port\` or \`--faults.rate429\`, got \`${args[i]}\``);
    const [, group, name = ''] = flag;
    const value = args[i + 1]?.startsWith('--') === false ? valueOf(args[++i] ?? '') : true;
    const place = group === undefined ? options : typeof options[group] === 'object' ? options[group] : (options[group] = {});
    if (name === 'poisonSha256') place[name] = [...(place[name] ?? []), value];
    else place[name] = value;
  }
  return options;
}

/** @param {string} text */
function valueOf(text) {
  if (text === 'true' || text === 'false') return text === 'true';
  // A hash of digits alone is longer.
  return /^\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : text;
}
