import { counted } from '../format.js';

/** What a run says about files that an earlier one left damaged. */
export function skippedNote(lines: number, of: string): string {
  return `${counted(lines, 'damaged line')} of the ${of} ${lines === 1 ? 'was' : 'were'} skipped`;
}

/** The journal has their answers, so nothing is lost. */
export function cutNote(lines: number, output: string): string {
  return `${counted(lines, 'line')} at the end of \`${output}\` that the journal does not know ${lines === 1 ? 'was' : 'were'} cut off: the run writes again what a killed run had written`;
}
