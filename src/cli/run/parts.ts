import type { StageConfig } from '../../edge/config/schema.js';
import { PromptTemplate } from '../../pipelines/prompt-template.js';
import { estimateTokens } from '../../tokenizers/estimate.js';
import { chunkText } from '../chunks.js';

type ChunkRules = NonNullable<StageConfig['chunk']>;

/** The parts of a text: split at the separator, and cut where they are too long. None is blank. */
export function partsOf({ field, ...rules }: ChunkRules, scope: Readonly<Record<string, unknown>>): string[] {
  const text = new PromptTemplate(`{{${field}}}`).fill(scope);
  const { separator } = rules;
  if (separator === undefined) return cut(text, rules);
  return text
    .replaceAll('\r\n', '\n')
    .split(separator)
    .flatMap((part) => within(part.trim(), rules));
}

/** A part between two separators. */
function within(part: string, rules: Omit<ChunkRules, 'field'>): string[] {
  if (part === '') return [];
  const { maxTokens } = rules;
  return maxTokens === undefined || estimateTokens(part) <= maxTokens ? [part] : cut(part, rules);
}

/** Parts of at most `maxTokens`, each behind the first with the end of the one before. */
function cut(text: string, { maxTokens, overlapTokens = 0 }: Omit<ChunkRules, 'field'>): string[] {
  if (maxTokens === undefined) return [...chunkText(text)];
  // A line break between the two.
  const own = overlapTokens === 0 ? maxTokens : maxTokens - overlapTokens - 1;
  const parts = [...chunkText(text, { maxTokens: Math.max(1, own) })];
  return parts.map((part, i) => {
    const before = endOf(parts[i - 1] ?? '', overlapTokens);
    return before === '' ? part : `${before}\n${part}`;
  });
}

/** As much of the end of a text as so many tokens hold, from the start of a word where there is one. */
function endOf(text: string, tokens: number): string {
  if (tokens === 0) return '';
  let end = text;
  for (let size = tokens * 4; estimateTokens(end) > tokens && end !== ''; size = Math.floor(size * 0.8))
    end = text.slice(text.length - size);
  if (end.length === text.length) return end;
  const space = end.search(/\s/);
  return (space < 0 || space > end.length / 2 ? end.replace(/^[\uDC00-\uDFFF]/, '') : end.slice(space)).trim();
}
