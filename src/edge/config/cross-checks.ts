import { PromptTemplate } from '../../pipelines/prompt-template.js';
import { type Finding, type Path, told } from './finding.js';
import { HTTP_URL, withoutOperation } from './patterns.js';
import { valueAt } from './problems.js';

/**
 * What values have to do with each other. It looks at a value that may be wrong in itself, so that everything can be said at once.
 *
 * @param isOfVariable - whether a variable has filled in a part of what stands at a path
 */
export function crossChecks(value: unknown, isOfVariable: (path: string) => boolean): Finding[] {
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
    const repaired = withoutOperation(baseUrl);
    if (repaired !== undefined)
      wrong(
        ['model', 'baseUrl'],
        'the URL ends in the path of a request, which is added to it',
        isOfVariable('model.baseUrl') ? 'End it before `/chat/completions` or `/embeddings`.' : `Write \`${repaired}\`.`,
      );
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
  if (isGiven('budget', 'windowMs') && !isGiven('budget', 'usd') && !isGiven('budget', 'tokens'))
    wrong(['budget', 'windowMs'], '`windowMs` alone limits nothing', 'Add `usd` or `tokens`, or remove it.');
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
      for (const at of [['prompt'], ['gleaning', 'prompt'], ['gleaning', 'continue']])
        checkNames([...path, ...at], (prompt) => prompt, i, '`{{…}}`');
      checkNames([...path, 'chunk', 'field'], (field) => `{{${field}}}`, i, 'it');
      if (isGiven(...path, 'listLength') && valueAt(value, [...path, 'answer']) !== 'list')
        wrong([...path, 'listLength'], '`listLength` needs `answer: list`', 'Add it, or remove `listLength`.');
      checkAnswer(path);
      checkChunk([...path, 'chunk']);
    }

    /**
     * @param templateOf - the value as a template
     * @param at - which stage it is of
     */
    function checkNames(path: Path, templateOf: (value: string) => string, at: number, shown: string): void {
      const given = valueAt(value, path);
      if (typeof given !== 'string') return;
      const template = new PromptTemplate(templateOf(given));
      if (template.isUnclosed)
        wrong(path, '`{{` opens a placeholder that does not end', 'Close it with `}}`; put a space between two braces that are text.');
      for (const steps of template.placeholders) {
        const [first = ''] = steps;
        if (steps.includes('')) wrong(path, '`{{}}` is empty', 'Name a field or an earlier stage.');
        else if (first === names[at])
          wrong(path, `${shown} names its own stage, which hides a field of that name`, 'Rename the stage, or name another field.');
        else if (names.includes(first, at))
          wrong(path, `${shown} names a stage that has no answer yet`, 'Use fields of the document and earlier stages.');
        else if (steps.length > 1 && isText(valueAt(stages, [names.lastIndexOf(first, at)])))
          wrong(path, `${shown} names a part of an answer that is a text`, 'Name the stage alone, or use `answer: json` there.');
      }
    }
  }

  /** What is done with an answer, in a stage that asks for one. */
  function checkAnswer(path: Path): void {
    for (const key of ['fixAnswer', 'gleaning', 'cache'])
      if (isGiven(...path, key) && isGiven(...path, 'chunk')) excludes([...path, key], 'chunk');
    const answer = valueAt(value, [...path, 'answer']) ?? 'text';
    if (isGiven(...path, 'fixAnswer') && answer === 'text')
      wrong([...path, 'fixAnswer'], '`fixAnswer` needs `answer: json` or `answer: list`', 'Add it, or remove `fixAnswer`.');
    if (isGiven(...path, 'gleaning', 'continue') && [undefined, 1].includes(valueAt(value, [...path, 'gleaning', 'rounds']) as number))
      wrong([...path, 'gleaning', 'continue'], '`continue` is asked between two rounds', 'Add `rounds: 2` or more, or remove it.');
  }

  function checkChunk(path: Path): void {
    const maxTokens = valueAt(value, [...path, 'maxTokens']);
    const overlapTokens = valueAt(value, [...path, 'overlapTokens']);
    if (overlapTokens === undefined) return;
    if (maxTokens === undefined) wrong([...path, 'overlapTokens'], '`overlapTokens` needs `maxTokens`', 'Add it.');
    else if (typeof maxTokens === 'number' && typeof overlapTokens === 'number' && overlapTokens > maxTokens / 2)
      wrong([...path, 'overlapTokens'], '`overlapTokens` is more than half of `maxTokens`', 'Lower it.');
  }

  /** Whether what comes of a stage is a text: one that has parts may have any. */
  function isText(stage: unknown): boolean {
    const isList = valueAt(value, ['concurrency', 'stage_level', String(valueAt(stage, ['name'])), 'batch_mode']) === true;
    const answer = valueAt(stage, ['answer']);
    const isAsking = typeof valueAt(stage, ['prompt']) === 'string' && (answer === undefined || answer === 'text') && !isList;
    return isAsking || typeof valueAt(stage, ['chunk']) === 'object';
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
