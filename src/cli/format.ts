/** Numbers as people read them; the same in every locale. */

export function formatCount(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 call`, `2 calls`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${formatCount(count)} ${Math.round(count) === 1 ? one : several}`;
}

export function formatShare(share: number): string {
  return `${String(Math.round(share * 100))} %`;
}

/** `-` when there is no value. */
export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return '-';
  return ms < 10_000 ? `${formatCount(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Three digits that count. */
export function formatRate(value: number): string {
  if (value === Infinity) return 'any';
  return value >= 1000 ? formatCount(value) : String(Number(value.toPrecision(3)));
}

/** Lines of that length at most, parted between words; what continues a line is indented. A longer word stays whole. */
export function wrapped(text: string, columns: number): string {
  const indent = '  ';
  return text
    .split('\n')
    .flatMap((line) => {
      if (line.length <= columns) return [line];
      const lines: string[] = [];
      const margin = line.length - line.trimStart().length;
      const [first = '', ...words] = line.slice(margin).split(' ');
      let current = line.slice(0, margin) + first;
      for (const word of words) {
        if (current.length + 1 + word.length <= columns) current += ` ${word}`;
        else {
          lines.push(current);
          current = `${indent}${word}`;
        }
      }
      return [...lines, current];
    })
    .join('\n');
}
