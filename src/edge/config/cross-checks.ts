import { PromptTemplate } from '../../pipelines/prompt-template.js';
import { type Finding, type Path, told } from './finding.js';
import { HTTP_URL } from './patterns.js';
import { valueAt } from './problems.js';

/** What values have to do with each other. It looks at a value that may be wrong in itself, so that everything can be said at once. */
export function crossChecks(value: unknown): Finding[] {
  const findings: Finding[] = [];
  const isGiven = (...path: Path): boolean => valueAt(value, path) !== undefined;
  const wrong = (path: Path, problem: string, repair: string): void => void findings.push({ path, ...told(problem, repair) });
  const excludes = (path: Path, other: string): void => {
    wrong(path, `\`${String(path.at(-1))}\` cannot be combined with \`${other}\``, 'Remove one of them.');
  };

  const baseUrl = valueAt(value, ['model', 'baseUrl']);
  if (typeof baseUrl === 'string' && HTTP_URL.test(baseUrl) && !URL.canParse(baseUrl)) {
    wrong(['model', 'baseUrl'], 'invalid URL', 'Write it like `https://host/v1`.');
  }
  if (typeof baseUrl === 'string' && URL.canParse(baseUrl)) {
    const { username, password } = new URL(baseUrl);
    if (username !== '' || password !== '')
      wrong(['model', 'baseUrl'], 'the URL contains a user or a password', 'Use `apiKeyEnv` or `headers` instead.');
  }
  const headers = valueAt(value, ['model', 'headers']);
  for (const [name, header] of Object.entries(typeof headers === 'object' ? (headers ?? {}) : {})) {
    if (!isSendable(name, '')) wrong(['model', 'headers'], 'invalid header name', 'Use letters, digits and `-`.');
    else if (typeof header === 'string' && !isSendable(name, header))
      wrong(['model', 'headers', name], 'the value cannot be sent as a header', 'Remove line breaks and characters outside Latin-1.');
  }
  if (isGiven('limits', 'requestsPerSecond') && isGiven('limits', 'requestsPerMinute')) {
    excludes(['limits', 'requestsPerSecond'], 'requestsPerMinute');
  }
  if (isGiven('limits', 'burst') && !isGiven('limits', 'requestsPerMinute') && !isGiven('limits', 'requestsPerSecond')) {
    wrong(['limits', 'burst'], '`burst` needs a rate', 'Add `requestsPerSecond` or `requestsPerMinute`.');
  }
  checkPriority(['batches'], 'priority', 'maxQueued');
  checkPriority(['concurrency', 'batch_level'], 'priority');
  for (const section of ['limits', 'batches']) {
    if (isGiven('concurrency') && isGiven(section)) excludes(['concurrency'], section);
  }
  const given = valueAt(value, ['limits', 'lanes']);
  const list: readonly unknown[] = Array.isArray(given) ? given : ['user', 'normal', 'background'];
  const lanes = list.map((each) => (typeof each === 'string' ? each : valueAt(each, ['name'])));
  const kept = list.reduce<number>((sum, each) => sum + (Number(valueAt(each, ['reserve'])) || 0), 0);
  if (kept >= 1) {
    wrong(['limits', 'lanes'], `the reserves of all lanes add up to ${String(kept)}`, 'Lower them to less than 1 in total.');
  }
  for (const [i, lane] of lanes.entries()) {
    if (lanes.indexOf(lane) < i) wrong(['limits', 'lanes', i], 'two lanes have the same name', 'Rename one of them.');
  }
  const lane = valueAt(value, ['lane']);
  if (typeof lane === 'string' && !lanes.includes(lane)) {
    const repair = Array.isArray(given)
      ? 'Use one of `limits.lanes`.'
      : 'Use `user`, `normal` or `background`, or declare it in `limits.lanes`.';
    wrong(['lane'], 'unknown lane', repair);
  }
  checkStages();
  return findings;

  function checkPriority(within: Path, field: string, ...others: readonly string[]): void {
    const isByPriority = valueAt(value, [...within, 'scheduling']) === 'priority';
    if (isByPriority && !isGiven(...within, field)) {
      wrong([...within, field], `\`scheduling: priority\` needs \`${field}\``, 'Add the field that says how urgent a document is.');
    }
    for (const key of [field, ...others]) {
      if (isByPriority || !isGiven(...within, key)) continue;
      wrong([...within, key], `\`${key}\` needs \`scheduling: priority\``, `Add it, or remove \`${key}\`.`);
    }
  }

  function checkStages(): void {
    const stages = valueAt(value, ['stages']);
    if (!Array.isArray(stages)) return;
    const names = stages.map((_, i) => valueAt(stages, [i, 'name']));
    const levels = valueAt(value, ['concurrency', 'stage_level']);
    for (const name of typeof levels === 'object' ? Object.keys(levels ?? {}) : []) {
      if (!names.includes(name)) wrong(['concurrency', 'stage_level', name], 'no stage has this name', 'Use the name of one of `stages`.');
    }
    for (const [i, name] of names.entries()) {
      const path = ['stages', i];
      if (name !== undefined && names.indexOf(name) < i) wrong([...path, 'name'], 'two stages have the same name', 'Rename one of them.');
      if (isGiven(...path, 'prompt') && isGiven(...path, 'chunk')) excludes([...path, 'chunk'], 'prompt');
      if (isGiven(...path, 'listLength') && valueAt(value, [...path, 'answer']) !== 'list')
        wrong([...path, 'listLength'], '`listLength` needs `answer: list`', 'Add it, or remove `listLength`.');
      checkPrompt([...path, 'prompt'], names.slice(i));
    }
  }

  /** @param later - the stage itself, and those behind it */
  function checkPrompt(path: Path, later: readonly unknown[]): void {
    const prompt = valueAt(value, path);
    if (typeof prompt !== 'string') return;
    for (const steps of new PromptTemplate(prompt).placeholders) {
      if (steps.includes('')) wrong(path, '`{{}}` is empty', 'Name a field or an earlier stage.');
      else if (later.includes(steps[0]))
        wrong(path, '`{{…}}` names a stage that has no answer yet', 'Use fields of the document and earlier stages.');
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
