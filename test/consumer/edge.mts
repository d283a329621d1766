import type { Tool, ToolRun } from 'sluice';
import {
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

const batchOptions: BatchToolOptions = { name: 'batch' };
same<Tool<BatchToolInput, ToolRun>>()(createBatchTool(batchOptions));
same<BatchToolInput>()(batchToolSchema.parse({}));
