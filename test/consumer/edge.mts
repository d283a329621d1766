import type { Tool, ToolRun } from 'sluice';
import {
  BATCH_TOOL_DEFAULTS,
  type BatchToolInput,
  type BatchToolOptions,
  batchToolSchema,
  type Checked,
  checkJson,
  createBatchTool,
  type IndexChunk,
  type IndexFooter,
  type IndexHeader,
  indexChunkSchema,
  indexFooterSchema,
  indexHeaderSchema,
  type JournalLine,
  journalLineSchema,
  type Questions,
  questionsSchema,
} from 'sluice/edge';
import * as z from 'zod';

same<Checked<Questions>>()(checkJson(questionsSchema, '[]'));
same<Checked<{ name: string }>>()(checkJson(z.object({ name: z.string() }), '{}'));
same<IndexHeader>()(indexHeaderSchema.parse({}));
same<IndexChunk>()(indexChunkSchema.parse({}));
same<IndexFooter>()(indexFooterSchema.parse({}));
same<JournalLine>()(journalLineSchema.parse({}));

const checked = checkJson(questionsSchema, '[]');
export const first: string = 'value' in checked ? (checked.value[0]?.question ?? 'none') : checked.problem;

const batchOptions: BatchToolOptions = { name: BATCH_TOOL_DEFAULTS.name };
same<Tool<BatchToolInput, ToolRun>>()(createBatchTool(batchOptions));
same<BatchToolInput>()(batchToolSchema.parse({}));
