import Bottleneck from 'bottleneck';

/** At most 20 calls a second, 5 texts in each. */
export function createEmbedder(embed: (texts: readonly string[]) => Promise<number[]>, store: (vectors: readonly number[]) => void) {
  const limiter = new Bottleneck({ maxConcurrent: 50, reservoir: 20, reservoirRefreshAmount: 20, reservoirRefreshInterval: 1000 });
  const batcher = new Bottleneck.Batcher({ maxSize: 5, maxTime: 50 });
  let failedCalls = 0;
  batcher.on('batch', (texts: string[]) => {
    limiter.schedule(() => embed(texts)).then(store, () => failedCalls++);
  });
  return {
    /** Resolves when the batch is handed on, with nothing: what became of the text is not known here. */
    add: (text: string): Promise<unknown> => batcher.add(text),
    failedCalls: () => failedCalls,
    close: () => limiter.disconnect(),
  };
}
