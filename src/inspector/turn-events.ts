/** What is read of what happens in a turn: names and numbers, none of what is said in it. */
interface Told {
  readonly turnId: string;
  readonly type: string;
  readonly call?: { readonly id: string };
  readonly result?: { readonly id: string; readonly is_error: boolean };
}

/** Makes events of flow out of those of agent turns: a turn is a call, and so is each use of a tool. Everything else passes as it is. */
export function turnEvents(): (told: unknown) => readonly unknown[] {
  const open = new Map<string, { readonly batchId: string; readonly since: number }>();
  let count = 0;
  return (told) => {
    const { turnId, type = '', call, result } = Object(told) as Partial<Told>;
    if (turnId === undefined) return [told];
    const use = call ?? result;
    const lane = use ? 'tools' : 'turns';
    const key = `${turnId}/${use?.id ?? ''}`;
    const at = Date.now();
    const isStart = /^(started|toolCall)$/.test(type);
    if (isStart) open.set(key, { batchId: `${lane} ${++count}`, since: at });
    const work = open.get(key);
    if (!work || !(isStart || /^(toolResult|finished|failed|cancelled)$/.test(type))) return [];
    const ms = at - work.since;
    // More than an event of its type has: whoever reads it takes what is needed.
    const event = {
      ...{ operator: 'createAgentTurn', at, lane, batchId: work.batchId, size: 1, weight: 1, attempt: 1, attempts: 1, splitDepth: 0 },
      ...{ queued: 0, count: 1, executing: open.size, latencyMs: ms, totalMs: ms },
    };
    if (isStart) return ['accepted', 'attemptStarted'].map((name) => ({ ...event, type: name }));
    open.delete(key);
    const isCancelled = type === 'cancelled';
    const isBad = result?.is_error ?? type !== 'finished';
    return [
      { ...event, type: 'attemptEnded', outcome: isCancelled ? type : isBad ? 'failed' : 'ok' },
      { ...event, type: isCancelled ? type : 'settled', outcome: isBad ? 'rejected' : 'fulfilled' },
    ];
  };
}
