import type { Tool, ToolRun } from 'sluice';
import {
  BATCH_TOOL_DEFAULTS,
  type BatchToolInput,
  type BatchToolOptions,
  batchToolSchema,
  type Checked,
  checkJson,
  createBatchTool,
} from 'sluice/edge';
import * as z from 'zod';

same<Checked<{ name: string }>>()(checkJson(z.object({ name: z.string() }), '{}'));

const checked = checkJson(z.array(z.object({ name: z.string() })), '[]');
export const first: string = 'value' in checked ? (checked.value[0]?.name ?? 'none') : checked.problem;

const batchOptions: BatchToolOptions = { name: BATCH_TOOL_DEFAULTS.name };
same<Tool<BatchToolInput, ToolRun>>()(createBatchTool(batchOptions));
same<BatchToolInput>()(batchToolSchema.parse({}));
