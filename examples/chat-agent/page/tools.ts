import * as z from 'zod';
import { defineTool } from '../../../src/index.js';

/** What the agent may do in the browser. */
export const tools = [
  defineTool({
    name: 'clock',
    description: 'The time where the user is.',
    parameters: z.object({}),
    execute: () => new Date().toLocaleTimeString(),
  }),
  defineTool({
    name: 'dice',
    description: 'Rolls one of the dice.',
    parameters: z.object({ sides: z.int().min(2) }),
    execute: ({ sides }) => `a ${1 + Math.floor(Math.random() * sides)} of ${sides}`,
  }),
];
