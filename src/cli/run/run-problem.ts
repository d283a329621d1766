import type { ConfigProblem } from '../../edge/config/problems.js';

/** Something that is wrong with a run before it begins. */
export type RunProblem = Omit<ConfigProblem, 'line' | 'column'>;

/** @param repair a whole sentence. */
export function runProblem(path: string, got: string, repair: string, message = `\`${path}\`: ${got}. ${repair}`): RunProblem {
  return { path, expected: repair, got, message };
}
