import { PromptTemplate } from '../../pipelines/prompt-template.js';
import type { Finding, Path } from './finding.js';
import { HTTP_URL } from './patterns.js';
import { kindOf, valueAt } from './problems.js';

/** What values have to do with each other. It looks at a value that may be wrong in itself, so that everything can be said at once. */
export function crossChecks(value: unknown): Finding[] {
  const findings: Finding[] = [];
  const isGiven = (...path: Path): boolean => valueAt(value, path) !== undefined;
  const wrong = (path: Path, expected: string, got = kindOf(valueAt(value, path))): void => void findings.push({ path, expected, got });

  const baseUrl = valueAt(value, ['model', 'baseUrl']);
  if (typeof baseUrl === 'string' && HTTP_URL.test(baseUrl) && !URL.canParse(baseUrl)) {
    wrong(['model', 'baseUrl'], 'a URL that can be called, such as `https://host/v1`');
  }
  if (typeof baseUrl === 'string' && URL.canParse(baseUrl)) {
    const { username, password } = new URL(baseUrl);
    if (username !== '' || password !== '')
      wrong(['model', 'baseUrl'], 'a URL alone: what is secret goes by `apiKeyEnv`, or into `headers`', 'one with a user or a password');
  }
  const headers = valueAt(value, ['model', 'headers']);
  for (const [name, header] of Object.entries(typeof headers === 'object' ? (headers ?? {}) : {})) {
    if (!isSendable(name, '')) wrong(['model', 'headers'], 'names that a header can have', 'another');
    else if (typeof header === 'string' && !isSendable(name, header))
      wrong(['model', 'headers', name], 'what a header can carry', 'something else');
  }
  if (isGiven('limits', 'requestsPerSecond') && isGiven('limits', 'requestsPerMinute')) {
    wrong(['limits', 'requestsPerSecond'], 'either this or `requestsPerMinute`', 'both');
  }
  if (isGiven('limits', 'burst') && !isGiven('limits', 'requestsPerMinute') && !isGiven('limits', 'requestsPerSecond')) {
    wrong(['limits', 'burst'], 'a rate beside it, `requestsPerSecond` or `requestsPerMinute`', 'none');
  }
  const isByPriority = valueAt(value, ['batches', 'scheduling']) === 'priority';
  if (isByPriority && !isGiven('batches', 'priority')) wrong(['batches', 'priority'], 'the field that says how urgent a document is');
  for (const key of ['priority', 'maxQueued']) {
    if (!isByPriority && isGiven('batches', key)) wrong(['batches', key], '`scheduling: priority` beside it', 'another');
  }
  for (const section of ['limits', 'batches']) {
    if (isGiven('concurrency') && isGiven(section)) wrong(['concurrency'], `either this or \`${section}\``, 'both');
  }
  const given = valueAt(value, ['limits', 'lanes']);
  const list: readonly unknown[] = Array.isArray(given) ? given : ['user', 'normal', 'background'];
  const lanes = list.map((each) => (typeof each === 'string' ? each : valueAt(each, ['name'])));
  const kept = list.reduce<number>((sum, each) => sum + (Number(valueAt(each, ['reserve'])) || 0), 0);
  if (kept >= 1) wrong(['limits', 'lanes'], 'lanes whose reserves add up to less than 1', String(kept));
  for (const [i, lane] of lanes.entries()) {
    if (lanes.indexOf(lane) < i) wrong(['limits', 'lanes', i], 'each name once', 'one for the second time');
  }
  const lane = valueAt(value, ['lane']);
  if (typeof lane === 'string' && !lanes.includes(lane)) {
    wrong(
      ['lane'],
      Array.isArray(given) ? 'one of `limits.lanes`' : 'one of `user`, `normal`, `background`, or `limits.lanes` that name it',
    );
  }
  checkStages();
  return findings;

  function checkStages(): void {
    const stages = valueAt(value, ['stages']);
    if (!Array.isArray(stages)) return;
    const names = stages.map((_, i) => valueAt(stages, [i, 'name']));
    const levels = valueAt(value, ['concurrency', 'stage_level']);
    for (const name of typeof levels === 'object' ? Object.keys(levels ?? {}) : []) {
      if (!names.includes(name)) wrong(['concurrency', 'stage_level', name], 'the name of one of `stages`', 'another');
    }
    for (const [i, name] of names.entries()) {
      const path = ['stages', i];
      if (name !== undefined && names.indexOf(name) < i) wrong([...path, 'name'], 'each name once', 'one for the second time');
      if (isGiven(...path, 'prompt') && isGiven(...path, 'chunk')) wrong([...path, 'chunk'], 'either this or `prompt`', 'both');
      checkPrompt([...path, 'prompt'], names.slice(i));
    }
  }

  /** @param later - the stage itself, and those behind it */
  function checkPrompt(path: Path, later: readonly unknown[]): void {
    const prompt = valueAt(value, path);
    if (typeof prompt !== 'string') return;
    for (const steps of new PromptTemplate(prompt).placeholders) {
      if (steps.includes('')) wrong(path, 'a name in each pair of `{{` and `}}`', 'nothing between them');
      else if (later.includes(steps[0])) wrong(path, 'fields and earlier stages in `{{…}}`', 'a stage that has no answer by then');
    }
  }
}

function isSendable(name: string, value: string): boolean {
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}
