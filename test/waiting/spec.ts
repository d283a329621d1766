import type { Overflow } from '../../operators/index.js';
import type { Case, Given, Operators } from './operators.js';
import { Clock, DEADLINE_MS, MAX_QUEUED } from './operators.js';

/** What an operator does otherwise than its case says; nothing when all is well. */
export async function problemsOf(operators: Operators, each: Case): Promise<string[]> {
  const problems: string[] = [];
  try {
    await look(operators, each, problems);
  } catch (error) {
    problems.push(String(error));
  }
  return problems;
}

async function look(operators: Operators, each: Case, problems: string[]): Promise<void> {
  const expect = (what: string, found: unknown, expected: unknown): void => {
    const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
    if (one !== other) problems.push(`${what}: ${one}, not ${other}`);
  };
  for (const [policy, served] of Object.entries(each.served)) {
    const given = givenWith(policy as Overflow);
    const busy = each.make(operators, given);
    for (const item of [1, 2, 3, 4, 5]) busy.send(item, policy === 'dropLowest' && item > 3 ? 'high' : 'low');
    given.clock.pass(0);
    await busy.serve();
    expect(`served under ${policy}`, given.served, served);
    for (const error of given.errors) expect(`error under ${policy}`, told(error), ['FLOW_OVERFLOW', MAX_QUEUED, policy]);
  }
  if (each.fails) {
    for (const sent of [MAX_QUEUED, MAX_QUEUED + 1]) {
      const given = givenWith('error');
      const busy = each.make(operators, given);
      for (let item = 1; item <= sent; item++) busy.send(item);
      given.clock.pass(0);
      await busy.serve();
      const errors = [...given.errors].map(told);
      expect(`errors of ${sent}`, errors, sent > MAX_QUEUED ? [['FLOW_OVERFLOW', MAX_QUEUED, 'error']] : []);
      if (sent === MAX_QUEUED) expect(`served of ${sent}`, given.served, [1, 2, 3]);
    }
  }
  if (each.hasDeadline) {
    const given = givenWith('error', DEADLINE_MS);
    each.make(operators, given).send(1);
    given.clock.pass(DEADLINE_MS - 1);
    expect('errors before the deadline', [...given.errors].map(told), []);
    given.clock.pass(1);
    expect('errors at the deadline', [...given.errors].map(told), [['FLOW_DEADLINE', DEADLINE_MS, DEADLINE_MS]]);
  }
}

function givenWith(overflow: Overflow, deadlineMs = Infinity): Given {
  return { overflow, deadlineMs, clock: new Clock(), served: [], errors: new Set() };
}

/** What an error says. */
function told(error: unknown): unknown[] {
  const { code, limit, policy, deadlineMs, elapsedMs } = error as Readonly<Record<string, unknown>>;
  return code === 'FLOW_DEADLINE' ? [code, deadlineMs, elapsedMs] : [code, limit, policy];
}
