/** Of the page that is served, and of the report. */
export const STYLE = `
:root { color-scheme: light dark; --ink: light-dark(#1a1c20, #e8e8ea); --paper: light-dark(#fff, #16181c); --soft: light-dark(#565b66, #a9afba);
  --line: light-dark(#d6d9df, #3a3f48); --ok: light-dark(#1f7a4d, #4fc48a); --throttled: light-dark(#a15c00, #f0ad4e); --failed: light-dark(#b3261e, #ff8a80);
  --cancelled: light-dark(#6b7280, #9aa1ad); --running: light-dark(#1d5fbf, #7db2ff); }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 75rem; padding: 1rem; color: var(--ink); background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
h1, h2 { line-height: 1.2; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p, summary, dd, bdi { overflow-wrap: anywhere; }
button { font: inherit; padding: .3rem .8rem; color: inherit; background: none; border: 1px solid var(--soft); border-radius: .4rem; cursor: pointer; }
.recording { display: flex; gap: .75rem; align-items: center; } .recording input { flex: 1; }
.note { border-inline-start: 4px solid var(--running); padding: .25rem .75rem; }
.numbers { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: .75rem; margin: 0; }
.numbers div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .75rem; }
.numbers dt { color: var(--soft); font-size: .85rem; } .numbers dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
td, th { white-space: nowrap; } th bdi { white-space: normal; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .75rem; border-bottom: 1px solid var(--line); text-align: end; } th:first-child, td:first-child { text-align: start; }
summary { cursor: pointer; } summary:focus-visible, [tabindex]:focus-visible, button:focus-visible { outline: 2px solid var(--running); outline-offset: 2px; }
details details { margin-inline-start: 1.25rem; } details > p { margin: .25rem 1.25rem; }
svg { display: block; width: 100%; height: 14rem; border: 1px solid var(--line); border-radius: .5rem; }
.ok { fill: var(--ok); } .throttled { fill: var(--throttled); } .failed { fill: var(--failed); } .cancelled { fill: var(--cancelled); } .running { fill: var(--running); }
.legend { display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; list-style: none; } .legend svg { display: inline-block; width: .8rem; height: .8rem; border: 0; }
.quiet { color: var(--soft); }
`;
