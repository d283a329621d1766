import type { Trace } from './world.js';

/** The schedule as it went, one line for everything that happened. */
export function report(trace: Trace, problems: readonly string[]): string {
  const { plan, steps, offers, calls, settlements } = trace;
  const lines: [number, string][] = [];
  const say = (seq: number, at: number, what: string): void => {
    lines.push([seq, `${String(at).padStart(7)} ms  ${what}`]);
  };
  for (const { seq, at, what } of steps) say(seq, at, what);
  for (const { seq, at, item, op, lead } of offers.values()) {
    say(
      seq,
      at,
      `operator ${op} <- item ${item.n}, lane ${item.lane}, weight ${item.weight}${item.poison ? ', poisoned' : ''}${item.flaw ? `, ${item.flaw} fails` : ''}${lead === item.n ? '' : `, waits for item ${lead}`}`,
    );
  }
  for (const call of calls) {
    const items = call.items.map((item) => item.n).join(' ');
    say(
      call.seq,
      call.startedAt,
      `call ${call.no} of operator ${call.op} starts: ${call.batchId}, attempt ${call.attempt}, depth ${call.depth}, lane ${call.lane} [${items}], ${call.running} of ${call.limit} running`,
    );
    say(
      call.endSeq,
      call.endedAt,
      `call ${call.no} ${call.outcome}${call.error ? `: ${call.error.kind} ${JSON.stringify(call.error.verdict)}` : ''}${call.rejected.size > 0 ? `, rejects [${[...call.rejected.keys()].join(' ')}]` : ''}`,
    );
  }
  for (const { seq, at, n, result } of settlements) say(seq, at, `item ${n} -> ${result.ok ? result.value : String(result.reason)}`);
  lines.sort((a, b) => a[0] - b[0]);
  return [
    `Seed ${plan.seed} breaks ${problems.length} rule(s). To see it again: SLUICE_SEED=${plan.seed} npx vitest run test/simulation`,
    ...problems.slice(0, 10).map((problem) => `  * ${problem}`),
    ...plan.operators.map((operator, op) => `operator ${op}: ${show(operator)}`),
    ...(plan.limiter ? [`limiter: ${show(plan.limiter)}`] : []),
    ...lines.map(([, line]) => line),
  ].join('\n');
}

function show(plan: object): string {
  return JSON.stringify(plan, (_key, value: unknown) =>
    value === Infinity ? 'Infinity' : typeof value === 'function' ? 'a function' : value,
  );
}
