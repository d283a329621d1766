// Pages for language models, by the convention of llmstxt.org: an index of pages, and all of them as one text.
import { inside, learn, recipes, reference } from './pages.mjs';

export function llmsTxt(texts: ReadonlyMap<string, string>): { readonly index: string; readonly full: string } {
  const sections = [...learn, ...recipes, ...reference].map(({ text, items }) => ({
    heading: text,
    pages: items.map(({ link, text: title }) => ({ title, path: `${link.slice(1)}.md` })),
  }));
  const internal = inside.flatMap(({ items }) => items.map(({ link, text: title }) => ({ title, path: `${link.slice(1)}.md` })));
  const line = ({ title, path }: { title: string; path: string }) => {
    const about = summaryOf(texts.get(path) ?? '');
    return `- [${title}](${path})${about && `: ${about}`}`;
  };
  const index = [
    '# Sluice',
    '',
    '> Flow control for AI agents in TypeScript on RxJS: batches, lanes, limits, retries and cancellation for calls to models and tools.',
    '',
    ...sections.flatMap(({ heading, pages }) => [`## ${heading}`, '', ...pages.map(line), '']),
    '## Optional',
    '',
    ...internal.map(line),
    '',
  ].join('\n');
  const full = sections
    .flatMap(({ pages }) => pages)
    .map(({ path }) => `<!-- ${path} -->\n\n${texts.get(path)?.trim() ?? ''}\n`)
    .join('\n');
  return { index, full };
}

/** The first sentence of a page that is no heading, code, table or picture. */
function summaryOf(text: string): string {
  const prose = text.replace(/^```[^]*?^```$/gm, '').split(/\n{2,}/).find((block) => /^[A-Z`[]/.test(block.trim()) && !block.startsWith('|'));
  const sentence = prose?.replace(/\s+/g, ' ').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').trim().match(/^.*?[.:](?=\s|$)/)?.[0];
  return sentence?.replace(/[.:]$/, '') ?? '';
}
