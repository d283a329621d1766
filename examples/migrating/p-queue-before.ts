import PQueue from 'p-queue';

type Ask = (prompt: string, signal?: AbortSignal) => Promise<string>;

/** Two queues, because chat and index have limits of their own; the account behind them is one. */
export function createQueues(ask: Ask) {
  const chat = new PQueue({ concurrency: 4, interval: 1000, intervalCap: 20 });
  const index = new PQueue({ concurrency: 4, interval: 1000, intervalCap: 20 });
  return {
    chat: (prompt: string, signal?: AbortSignal) => chat.add(() => ask(prompt, signal), { signal }),
    index: (prompt: string, signal?: AbortSignal) => index.add(() => ask(prompt, signal), { signal }),
  };
}
