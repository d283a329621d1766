/** What a page says of the element itself comes first: `color-scheme`, `color`, and the custom properties. */
export const STYLE = `
:host{display:block;container:sluice/inline-size;color-scheme:light dark;
--bg:Canvas;--fg:CanvasText;--soft:color-mix(in srgb,var(--fg) 65%,var(--bg));--line:color-mix(in srgb,var(--fg) 16%,var(--bg));
--l0:light-dark(#1f6feb,#6ea8ff);--l1:light-dark(#b25e00,#f0a04b);
--l2:light-dark(#7a3fd0,#b993ff);--l3:light-dark(#0b7f86,#4cc4cb);
--ok:light-dark(#157a46,#4fce8a);--bad:light-dark(#c02636,#ff7a85);
background:var(--bg);color:var(--fg);border:1px solid var(--line);border-radius:12px;font:14px/1.4 system-ui;font-variant-numeric:tabular-nums;overflow:hidden;overflow-wrap:anywhere}
*{box-sizing:border-box;margin:0}:host([embedded]) [data-pause]{display:none}
section,.limits{display:grid;grid-template-columns:minmax(0,1fr);gap:12px}section{padding:14px 16px 16px}
header,.limits div{display:flex;flex-wrap:wrap;gap:6px;align-items:center}
h2{font-size:16px}h3{font-size:14px}p,dt,.row,thead{color:var(--soft);font-size:12.5px}header p{flex:1}
button,summary{font:inherit;color:var(--fg);background:var(--bg);border:1px solid var(--line);border-radius:7px;padding:3px 10px;min-height:28px;cursor:pointer}
:focus-visible{outline:2px solid var(--l0);outline-offset:2px}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(105px,1fr));gap:6px}
dd{font-size:18px;font-weight:600}.ok dd{color:var(--ok)}.ok dd:after{content:' ✓'}.held,.bad dd{color:var(--bad)}
.stage{position:relative;display:grid;grid-template:auto auto 1fr/1.15fr .8fr 1.35fr .8fr;gap:2px 14px}
canvas{position:absolute;inset:0;width:100%;height:100%;pointer-events:none}
.col{display:grid;grid-row:span 3;grid-template-rows:subgrid;min-width:0}
.area{min-height:250px;display:flex;flex-direction:column;gap:4px;border-top:1px solid var(--line);padding-top:6px}
.row{flex:1;min-height:40px}.row+.row{border-top:1px dashed var(--line)}.row b{color:var(--fg)}
.row b:before{content:'';display:inline-block;width:8px;height:8px;border-radius:50%;margin-right:5px;background:var(--mark)}
.limits{gap:6px;font-size:13px}.limits:empty,.held:empty{display:none}
details div{overflow-x:auto;padding:6px 2px}svg{font-size:12px;fill:var(--fg)}text{paint-order:stroke;stroke:var(--bg);stroke-width:6px}path{stroke:var(--line);fill:none;stroke-width:1.5}
table{border-collapse:collapse}caption{text-align:left;font-weight:600;padding:4px 0}
th,td{text-align:left;padding:3px 12px 3px 0;border-top:1px solid var(--line);font-weight:400;white-space:nowrap}
@container sluice (max-width:620px){.stage{grid-template:none}.area{min-height:130px}section{padding:12px}}
`;
