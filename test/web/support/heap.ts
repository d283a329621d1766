import type { CDPSession } from 'playwright-core';

export interface Heap {
  /** Bytes that the page holds itself: its objects, texts and functions. */
  readonly own: number;
  /** Bytes in use, with what the browser compiles: which goes on for minutes, by chance and by how fast the machine is. */
  readonly all: number;
}

interface Snapshot {
  readonly snapshot: { readonly meta: { readonly node_fields: readonly string[]; readonly node_types: readonly [readonly string[]] } };
  readonly nodes: readonly number[];
}

/** Compiled code, and what the browser keeps beside the page: a list of its last long frames, say. */
const OTHERS: readonly (string | undefined)[] = ['code', 'native'];

/** What is in use after a full collection. */
export async function heapOf(devtools: CDPSession): Promise<Heap> {
  let all = Infinity;
  for (let look = 0; look < 3; look++) {
    await devtools.send('HeapProfiler.collectGarbage');
    all = Math.min(all, (await devtools.send('Runtime.getHeapUsage')).usedSize);
  }
  const chunks: string[] = [];
  const take = ({ chunk }: { readonly chunk: string }): void => {
    chunks.push(chunk);
  };
  devtools.on('HeapProfiler.addHeapSnapshotChunk', take);
  await devtools.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
  devtools.off('HeapProfiler.addHeapSnapshotChunk', take);
  const { snapshot, nodes } = JSON.parse(chunks.join('')) as Snapshot;
  const { node_fields: fields, node_types: types } = snapshot.meta;
  const [type, size] = [fields.indexOf('type'), fields.indexOf('self_size')];
  let own = 0;
  for (let i = 0; i < nodes.length; i += fields.length) {
    if (!OTHERS.includes(types[0][nodes[i + type] as number])) own += nodes[i + size] as number;
  }
  return { own, all };
}
