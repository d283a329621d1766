import { beforeEach } from 'vitest';
import { DIFFERENCES } from './rate-differences.js';

const reasons = new Map(Object.entries(DIFFERENCES).flatMap(([reason, names]) => names.map((name) => [name, reason] as const)));

beforeEach(({ skip, task }) => {
  const names = [task.name];
  for (let { suite } = task; suite; suite = suite.suite) names.unshift(suite.name);
  const reason = reasons.get(names.join(' '));
  if (reason !== undefined) skip(reason);
});
