import { check } from '../../../operators/build.js';
import { valueAt } from '../../edge/config/problems.js';
import type { StageConfig } from '../../edge/config/schema.js';
import { PromptTemplate } from '../../pipelines/prompt-template.js';
import { type RunProblem, runProblem } from './run-problem.js';

/** A placeholder that only a field of the row can fill. */
export interface FieldPlaceholder {
  readonly stage: string;
  /** Where it stands in the configuration: `stages[1].prompt`. */
  readonly path: string;
  readonly steps: readonly string[];
  /** Names of the stages before. */
  readonly earlier: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;

/** What the first rows have. */
export interface FirstRows {
  readonly rows: readonly Fields[];
  /** Names of all fields that rows can have; undefined where each row may have others. */
  readonly fields: readonly string[] | undefined;
}

/** What a stage fills in, by where it stands in the stage. */
function templatesOf({ prompt, chunk, gleaning }: StageConfig): (readonly [path: string, template: string])[] {
  if (prompt === undefined) return [['chunk.field', `{{${chunk?.field ?? ''}}}`]];
  return [
    ['prompt', prompt],
    ['gleaning.prompt', gleaning?.prompt ?? ''],
    ['gleaning.continue', gleaning?.continue ?? ''],
  ];
}

/** What a stage names in its prompts, or as the text that it cuts, each as its steps. */
export function placeholdersOf(stage: StageConfig): readonly (readonly string[])[] {
  return templatesOf(stage).flatMap(([, template]) => new PromptTemplate(template).placeholders);
}

/** The placeholders of all stages that name no earlier stage. */
export function fieldPlaceholders(stages: readonly StageConfig[]): FieldPlaceholder[] {
  return stages.flatMap((stage, i) => {
    const earlier = stages.slice(0, i).map(({ name }) => name);
    return templatesOf(stage).flatMap(([path, template]) =>
      new PromptTemplate(template).placeholders.flatMap((steps) =>
        earlier.includes(steps[0] ?? '') ? [] : [{ stage: stage.name, path: `stages[${String(i)}].${path}`, steps, earlier }],
      ),
    );
  });
}

/** Why a row cannot go through all stages: the first field that it lacks, and the stage that names it. */
export function lackOfRow(
  placeholders: readonly FieldPlaceholder[],
  fields: Fields,
): { readonly stage: string; readonly error: string } | undefined {
  const lacking = placeholders.find(({ steps }) => valueAt(fields, steps) === undefined);
  return lacking && { stage: lacking.stage, error: `there is no value for \`{{${lacking.steps.join('.')}}}\`` };
}

/** Placeholders that no field of the first rows can fill. */
export function unknownFields(placeholders: readonly FieldPlaceholder[], first: FirstRows): RunProblem[] {
  const shown = (steps: readonly string[]): string => `\`{{${shortened(steps.join('.'))}}}\``;
  const problems = placeholders
    .filter(({ steps }) => isUnknown(steps, first))
    .map(({ path, steps, earlier }) =>
      runProblem(path, `${shown(steps)} names no field of ${rowsOf(first)} and no earlier stage`, repairOf(steps, first, earlier, shown)),
    );
  return [...new Map(problems.map((problem) => [problem.message, problem])).values()];
}

/** The same for a field that an option names: `input.id`. */
export function unknownField(path: string, name: string, first: FirstRows): RunProblem[] {
  const shown = (steps: readonly string[]): string => `\`${shortened(steps.join('.'))}\``;
  if (!isUnknown([name], first)) return [];
  return [runProblem(path, `${shown([name])} names no field of ${rowsOf(first)}`, repairOf([name], first, [], shown))];
}

/** Placeholders that name a field and an earlier stage: they are filled with the answer of the stage. */
export function hiddenFields(stages: readonly StageConfig[], first: FirstRows): { readonly path: string; readonly message: string }[] {
  const fields = namesAt(first, []);
  return stages.flatMap(({ name }, i) => {
    const isNamed = fields.includes(name) && stages.slice(i + 1).some((stage) => placeholdersOf(stage).some(([step]) => step === name));
    const path = `stages[${String(i)}].name`;
    const message = `\`${path}\`: \`${name}\` is a field of the rows as well. In later stages \`{{${name}}}\` is the answer of this stage. Rename the stage to name the field there.`;
    return isNamed ? [{ path, message }] : [];
  });
}

/** Without a row, anything may be one. */
function isUnknown(steps: readonly string[], { rows, fields }: FirstRows): boolean {
  if (fields !== undefined) return steps.length > 1 || !fields.includes(steps[0] ?? '');
  return rows.length > 0 && rows.every((row) => valueAt(row, steps) === undefined);
}

function rowsOf({ rows, fields }: FirstRows): string {
  if (fields !== undefined) return 'the rows';
  return rows.length === 1 ? 'the first row' : `the first ${String(rows.length)} rows`;
}

/** Fields of all rows, or of what they have at some place. */
function namesAt({ rows, fields }: FirstRows, path: readonly string[]): string[] {
  if (fields !== undefined) return path.length === 0 ? [...fields] : [];
  const found = rows.map((row) => valueAt(row, path)).filter((value) => typeof value === 'object' && value !== null);
  return [...new Set(found.flatMap((value) => Object.keys(value)))];
}

const MOST_NAMES = 10;
/** A longer name is a text that got in by mistake. */
const MOST_CHARACTERS = 60;

function shortened(name: string): string {
  return name.length > MOST_CHARACTERS ? `${name.slice(0, MOST_CHARACTERS)}…` : name;
}

function repairOf(
  steps: readonly string[],
  first: FirstRows,
  earlier: readonly string[],
  shown: (steps: readonly string[]) => string,
): string {
  const at = steps.findIndex((_, i) => isUnknown(steps.slice(0, i + 1), first));
  const before = steps.slice(0, at);
  const wrong = steps[at] ?? '';
  const names = [...new Set([...(at === 0 ? earlier : []), ...namesAt(first, before)])].filter(({ length }) => length <= MOST_CHARACTERS);
  const meant = wrong.length > MOST_CHARACTERS ? undefined : check.nearest(wrong, names);
  if (meant !== undefined) return `Did you mean ${shown([...before, meant, ...steps.slice(at + 1)])}?`;
  if (names.length === 0) return at === 0 ? 'Correct the name, or the input.' : `Write ${shown(before)}, which has no parts.`;
  const listed = names.slice(0, MOST_NAMES).map((name) => shown([...before, name]));
  return `Known names: ${listed.join(', ')}${names.length > MOST_NAMES ? ', …' : ''}.`;
}
