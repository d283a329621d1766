import type { Tool, ToolRun } from 'sluice';
import { type BatchToolOptions, createBatchTool } from 'sluice/edge';
import * as z from 'zod';

const batchOptions: BatchToolOptions = { name: 'batch' };
