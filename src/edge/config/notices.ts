import { type Finding, type Path, told } from './finding.js';
import type { Config, ConfigFile } from './schema.js';

/** What is right in a file and does not do what its reader may expect. */
export function noticesOf(file: ConfigFile, { stages = [] }: Config): Finding[] {
  const pool: Path = ['concurrency', 'request_level', 'connection_pool'];
  const hasPool = file.concurrency?.request_level?.connection_pool !== undefined;
  const untold = stages.flatMap(({ name, prompt, listLength }, i): Finding[] => {
    if (listLength === undefined || prompt === undefined || prompt.match(/\d+/g)?.includes(String(listLength)) === true) return [];
    const isOwn = file.stages?.[i]?.listLength !== undefined;
    const placeholder = isOwn ? 'listLength' : 'questions_per_batch';
    const path: Path = isOwn ? ['stages', i, 'listLength'] : ['concurrency', 'batch_level', placeholder];
    return [{ path, ...told(`the prompt of \`${name}\` does not say this number to the model`, `Write \`{{${placeholder}}}\` in it.`) }];
  });
  return [
    ...(hasPool ? [{ path: pool, ...told('`connection_pool` has no effect', "Node's `fetch` keeps its own connections.") }] : []),
    ...untold,
  ];
}
