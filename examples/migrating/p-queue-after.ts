import { createAccount } from '../../operators/index.js';

type Ask = (prompt: string, signal?: AbortSignal) => Promise<string>;

/** One limiter for the account: at most 20 calls and 1000 tokens in any second, spread out, and chat goes first. */
export function createQueues(ask: Ask) {
  const account = createAccount({
    concurrency: 8,
    requestsPerMinute: 1200,
    tokensPerMinute: 60_000,
    burstSeconds: 0.05,
    lanes: [{ name: 'chat' }, { name: 'index', floor: 0.2 }],
  });
  const through =
    (lane: string) =>
    (prompt: string, signal?: AbortSignal): Promise<string> =>
      account.runAsync((permit) => ask(prompt, permit.signal), { lane, cost: { tokens: prompt.length / 4 }, ...(signal && { signal }) });
  return { chat: through('chat'), index: through('index') };
}
