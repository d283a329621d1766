/** Everything has a name that a page may set; `--sluice-color-scheme` is `light`, `dark`, or both as the system has it. */
export const STYLE = `
:host{display:block;container:sluice/inline-size;color-scheme:var(--sluice-color-scheme,light dark);
--bg:var(--sluice-background,light-dark(#fbfbfd,#14161c));--fg:var(--sluice-color,light-dark(#1c2230,#e9ecf3));
--soft:light-dark(#525b70,#a4adc0);--line:light-dark(#d9deea,#2e3442);--card:light-dark(#fff,#1b1f28);
--l0:var(--sluice-lane-0,light-dark(#1f6feb,#6ea8ff));--l1:var(--sluice-lane-1,light-dark(#b25e00,#f0a04b));
--l2:var(--sluice-lane-2,light-dark(#7a3fd0,#b993ff));--l3:var(--sluice-lane-3,light-dark(#0b7f86,#4cc4cb));
--ok:var(--sluice-ok,light-dark(#157a46,#4fce8a));--bad:var(--sluice-bad,light-dark(#c02636,#ff7a85));--gone:light-dark(#7b8497,#8d96a9);
background:var(--bg);color:var(--fg);border:1px solid var(--line);border-radius:12px;font:14px/1.4 system-ui,sans-serif;overflow:hidden;overflow-wrap:anywhere}
*{box-sizing:border-box;margin:0}[hidden],:host([embedded]) .play{display:none!important}
section,.limits,.wide{display:grid;grid-template-columns:minmax(0,1fr);gap:12px}section{padding:14px 16px 16px}
header,.bar,.limits div{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:center}.bar{gap:6px}
h2{font-size:16px}h3{font-size:14px}p,dt,.row,thead{color:var(--soft);font-size:12.5px}header p{flex:1;min-width:12em;font-size:14px}
button,summary{font:inherit;font-size:13px;color:var(--fg);background:var(--card);border:1px solid var(--line);border-radius:7px;padding:3px 10px;min-height:28px;cursor:pointer}
:focus-visible{outline:2px solid var(--l0);outline-offset:2px}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(max(105px,16%),1fr));gap:1px;background:var(--line);border:1px solid var(--line);border-radius:9px;overflow:hidden}
dl div{background:var(--card);padding:6px 10px;display:flex;flex-direction:column;justify-content:space-between}
dd{font-size:18px;font-weight:600;font-variant-numeric:tabular-nums}.ok dd{color:var(--ok)}[role=alert],.held,.bad dd{color:var(--bad)}
.stage{position:relative;display:grid;grid-template:auto auto 1fr/1.15fr .8fr 1.35fr .8fr;gap:2px 14px}
canvas{position:absolute;inset:0;width:100%;height:100%;pointer-events:none}
.col{display:grid;grid-row:span 3;grid-template-rows:subgrid;min-width:0}
.area{min-height:250px;display:flex;flex-direction:column;gap:4px;border-top:1px solid var(--line);padding-top:6px}
.row{flex:1;min-height:40px}.row+.row{border-top:1px dashed var(--line)}.row b{color:var(--fg);margin-right:4px}
.row i{display:inline-block;width:8px;height:8px;border-radius:50%;margin-right:5px;background:var(--mark)}
.limits,.wide{gap:6px;font-size:13px}.limits b{min-width:6em}.held:empty{display:none}
.level{display:inline-block;width:110px;height:8px;margin-left:6px;border-radius:4px;background:var(--line);overflow:hidden}
.level i{display:block;height:100%;background:var(--l0);transform-origin:left;transform:scaleX(var(--level))}.low i{background:var(--bad)}
.wide,details div{overflow-x:auto}details div{padding:6px 2px}svg{font-size:12px;fill:var(--fg)}path{stroke:var(--line);fill:none;stroke-width:1.5}
table{border-collapse:collapse}caption{text-align:left;font-weight:600;padding:4px 0}
th,td{text-align:left;padding:3px 12px 3px 0;border-top:1px solid var(--line);font-weight:400;font-variant-numeric:tabular-nums;white-space:nowrap}
input{width:100%;accent-color:var(--l0)}
@container sluice (max-width:620px){.stage{grid-template:none}.area{min-height:130px}section{padding:12px}dd{font-size:15px}dl div{padding:5px 7px}}
`;
