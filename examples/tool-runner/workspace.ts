import * as z from 'zod';
import { createBatchTool } from '../../src/edge/index.js';
import type { ToolCall, ToolGuard, ToolRunner, ToolRunnerOptions } from '../../src/index.js';
import { createToolRunner, defineTool, toToolResults } from '../../src/index.js';
import type { GuardedCall } from '../../src/pipelines/tools/tool-types.js';

/** Files by their paths, and what takes a while: every access is a promise. */
export interface Workspace {
  read(path: string): Promise<string>;
  list(): Promise<readonly string[]>;
  write(path: string, text: string, signal: AbortSignal): Promise<void>;
}

const path = z.string().min(1).describe('Path in the workspace');

/** What a model may do in a workspace. */
export function workspaceTools(workspace: Workspace) {
  return [
    defineTool({
      name: 'read',
      description: 'Reads a file.',
      parameters: z.object({ path }),
      readOnly: true,
      execute: (args) => workspace.read(args.path),
    }),
    defineTool({
      name: 'search',
      description: 'Finds the files that contain a text.',
      parameters: z.object({ text: z.string().min(1) }),
      readOnly: true,
      // It reads every file: one search at a time is enough.
      concurrency: 1,
      timeoutMs: 10_000,
      execute: async ({ text }, { signal }) => {
        const found: string[] = [];
        for (const each of await workspace.list()) {
          if (signal.aborted) break;
          if ((await workspace.read(each)).includes(text)) found.push(each);
        }
        return found;
      },
    }),
    defineTool({
      name: 'write',
      description: 'Writes a file.',
      parameters: z.object({ path, text: z.string() }),
      concurrency: 1,
      execute: async (args, { signal }) => {
        await workspace.write(args.path, args.text, signal);
        return `wrote ${String(args.text.length)} characters`;
      },
    }),
    createBatchTool(),
  ];
}

/** Reading is free, but for secrets. Writing needs a permission that can be taken back at any time. */
export function workspaceGuard(mayWrite: (path: string) => boolean): ToolGuard {
  return ({ input }: GuardedCall, { tool }) => {
    const { path: wanted = '' } = input as { readonly path?: string };
    if (wanted.startsWith('.')) return 'files that begin with a dot are private';
    return tool.readOnly === true || tool.runsTools === true || mayWrite(wanted) || `the user has not allowed writing ${wanted}`;
  };
}

export function workspaceRunner(workspace: Workspace, mayWrite: (path: string) => boolean, options: Partial<ToolRunnerOptions> = {}) {
  return createToolRunner({ tools: workspaceTools(workspace), guard: workspaceGuard(mayWrite), ...options });
}

/** What a model answers: texts, and calls it wants to be made. */
export type ModelBlock = { readonly type: 'text'; readonly text: string } | ({ readonly type: 'tool_use' } & ToolCall);

/** Runs what the model asks for; the message with all results, in the order in which they were asked for; none when it asked for nothing. */
export async function answerTo(runner: ToolRunner, content: readonly ModelBlock[], signal?: AbortSignal) {
  const calls = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []));
  const { results, summary } = await runner.runAllAsync(calls, signal ? { signal } : {});
  return { messages: toToolResults(results, 'anthropic'), summary };
}
