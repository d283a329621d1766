/** What is read of what happens in a turn: names and numbers, none of what is said in it. */
interface Told {
  readonly turnId: string;
  readonly type: string;
  readonly call?: { readonly id: string };
  readonly result?: { readonly id: string; readonly is_error: boolean };
}

const OPERATOR = 'createAgentTurn';

/** Makes events of flow out of those of agent turns: a turn is a call, and so is each use of a tool. Everything else passes as it is. */
export function turnEvents(): (told: unknown) => readonly unknown[] {
  const started = new Map<string, number>();
  let tools = 0;
  const open = new Map<string, string>();

  const begin = (batchId: string, lane: string): readonly unknown[] => {
    started.set(batchId, Date.now());
    return [event('accepted', batchId, lane, { queued: 0 }), event('attemptStarted', batchId, lane, { executing: started.size })];
  };
  const end = (batchId: string, lane: string, outcome: 'ok' | 'failed' | 'cancelled'): readonly unknown[] => {
    const latencyMs = Date.now() - (started.get(batchId) ?? Date.now());
    if (!started.delete(batchId)) return [];
    const over = event('attemptEnded', batchId, lane, { outcome, latencyMs });
    if (outcome === 'cancelled') return [over, event('cancelled', batchId, lane, { count: 1 })];
    return [
      over,
      event('settled', batchId, lane, { outcome: outcome === 'ok' ? 'fulfilled' : 'rejected', attempts: 1, totalMs: latencyMs }),
    ];
  };

  return (told) => {
    const { turnId, type, call, result } = Object(told) as Partial<Told>;
    if (turnId === undefined) return [told];
    if (type === 'started') return begin(turnId, 'turns');
    if (type === 'finished') return end(turnId, 'turns', 'ok');
    if (type === 'failed' || type === 'cancelled') return end(turnId, 'turns', type);
    if (type === 'toolCall' && call) {
      const name = `tool ${String(++tools)}`;
      open.set(`${turnId}/${call.id}`, name);
      return begin(name, 'tools');
    }
    const name = open.get(`${turnId}/${result?.id ?? ''}`);
    if (result === undefined || name === undefined) return [];
    open.delete(`${turnId}/${result.id}`);
    return end(name, 'tools', result.is_error ? 'failed' : 'ok');
  };
}

function event(type: string, batchId: string, lane: string, more: object): object {
  const one = { size: 1, weight: 1, attempt: 1, splitDepth: 0 };
  return { type, operator: OPERATOR, instance: 'turns', at: Date.now(), lane, batchId, ...one, ...more };
}
