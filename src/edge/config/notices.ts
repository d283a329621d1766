import { PromptTemplate } from '../../pipelines/prompt-template.js';
import { type Finding, type Path, told } from './finding.js';
import type { Config, ConfigFile, StageConfig } from './schema.js';

/** What is right in a file and does not do what its reader may expect. */
export function noticesOf(file: ConfigFile, { stages = [], model = {}, input }: Config): Finding[] {
  const pool: Path = ['concurrency', 'request_level', 'connection_pool'];
  const hasPool = file.concurrency?.request_level?.connection_pool !== undefined;
  const untold = stages.flatMap(({ name, prompt, listLength }, i): Finding[] => {
    if (listLength === undefined || prompt === undefined || prompt.match(/\d+/g)?.includes(String(listLength)) === true) return [];
    const isOwn = file.stages?.[i]?.listLength !== undefined;
    const placeholder = isOwn ? 'listLength' : 'questions_per_batch';
    const path: Path = isOwn ? ['stages', i, 'listLength'] : ['concurrency', 'batch_level', placeholder];
    return [{ path, ...told(`the prompt of \`${name}\` does not say this number to the model`, `Write \`{{${placeholder}}}\` in it.`) }];
  });
  return [
    ...(hasPool ? [{ path: pool, ...told('`connection_pool` has no effect', "Node's `fetch` keeps its own connections.") }] : []),
    ...untold,
    ...optionNotices(model, stages),
    // Elsewhere, code sends the prompts, and may add to them.
    ...(input === undefined ? [] : samePrompts(stages)),
  ];
}

/** Options that are put into the body beside a setting of the same meaning. */
function optionNotices({ options = {}, maxTokens }: NonNullable<Config['model']>, stages: readonly StageConfig[]): Finding[] {
  const path = (name: string): Path => ['model', 'options', name];
  const isSet = [maxTokens, ...stages.map((stage) => stage.maxTokens)].some((most) => most !== undefined);
  const overriding = ['max_tokens', 'max_completion_tokens'].filter((name) => isSet && Object.hasOwn(options, name));
  return [
    ...(Object.hasOwn(options, 'maxTokens')
      ? [
          {
            path: path('maxTokens'),
            ...told('`options` are sent as they are, and APIs know no `maxTokens`', 'Write `maxTokens` of `model` or of a stage.'),
          },
        ]
      : []),
    ...overriding.map((name) => ({
      path: path(name),
      ...told(`\`${name}\` is sent beside \`maxTokens\`, or in its place`, 'Remove one of them.'),
    })),
  ];
}

/** Prompts without a placeholder. */
function samePrompts(stages: readonly StageConfig[]): Finding[] {
  return stages.flatMap(({ prompt }, i) =>
    prompt === undefined || new PromptTemplate(prompt).placeholders.length > 0
      ? []
      : [
          {
            path: ['stages', i, 'prompt'],
            ...told('every row sends the same prompt, for it has no placeholder', 'Name a field of the row: `{{field}}`.'),
          },
        ],
  );
}
